//! The terminal, taken for a while and always given back.

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::{Frame, Terminal};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::io::{self, Stdout, Write};

/// Another screen without a cursor, and wrapping off.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The size of a terminal that does not say how large it is.
const COLUMNS_DEFAULT: u16 = 80;
const ROWS_DEFAULT: u16 = 24;

/// A screen of our own. Dropping it puts the terminal back as it was.
pub(super) struct Screen {
    before: Option<Termios>,
    terminal: Terminal<Output>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Screen> {
        let terminal = Terminal::new(Output(CrosstermBackend::new(io::stdout())))?;
        let mut screen = Screen { before: None, terminal };
        screen.reopen()?;
        Ok(screen)
    }

    /// Takes the terminal again after somebody else had it. A background process that tries is
    /// stopped until it is in the foreground.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        let now = tcgetattr(io::stdin())?;
        let mut quiet = now.clone();
        // Keys come one by one and are not shown; the interrupt key still interrupts.
        quiet.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 0;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &quiet)?;
        // Whoever was stopped without having closed the screen knows already how the terminal was.
        self.before.get_or_insert(now);
        write(ENTER)?;
        // What was drawn before is gone.
        self.resize()
    }

    /// Takes the size that the terminal has now, and draws everything anew.
    pub(super) fn resize(&mut self) -> io::Result<()> {
        let area = ratatui::layout::Rect::from((Position::ORIGIN, size()));
        self.terminal.resize(area)
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw)?;
        Ok(())
    }

    /// What was typed; nothing if nobody will type any more.
    pub(super) fn read(&mut self) -> Option<Vec<u8>> {
        let mut bytes = [0; 256];
        match rustix::io::read(io::stdin(), &mut bytes) {
            Ok(count) => Some(bytes[..count].to_vec()),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Some(Vec::new()),
            Err(_) => None,
        }
    }

    /// Gives the terminal back, at the end or for a while.
    pub(super) fn close(&mut self) {
        if let Some(before) = self.before.take() {
            let _ = write(LEAVE);
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.close();
    }
}

/// Where cells go. The cursor is hidden with the screen and shown with it, so nobody else need do
/// that, or ask where it is.
struct Output(CrosstermBackend<Stdout>);

impl Backend for Output {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        self.0.draw(content)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.0.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.0.clear()
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.0.clear_region(region)
    }

    fn size(&self) -> io::Result<Size> {
        Ok(size())
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: size(), pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.0)
    }
}

/// How large the terminal is; one that does not know its size says 0.
fn size() -> Size {
    let (columns, rows) = tcgetwinsize(io::stdout()).map_or((0, 0), |size| (size.ws_col, size.ws_row));
    let or = |length: u16, default: u16| if length == 0 { default } else { length };
    Size::new(or(columns, COLUMNS_DEFAULT), or(rows, ROWS_DEFAULT))
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
