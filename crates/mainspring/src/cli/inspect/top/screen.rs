//! The terminal, taken for a while and always given back.

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::io::{self, Write};

/// Another screen without a cursor, and wrapping off.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// Rows of a terminal that does not say how many it has.
const ROWS_DEFAULT: usize = 24;

/// A screen of our own. Dropping it puts the terminal back as it was.
pub(in crate::cli::inspect::top) struct Screen {
    before: Option<Termios>,
}

impl Screen {
    pub(in crate::cli::inspect::top) fn open() -> io::Result<Screen> {
        let mut screen = Screen { before: None };
        screen.reopen()?;
        Ok(screen)
    }

    /// Takes the terminal again after somebody else had it. A background process that tries is stopped until it is in the
    /// foreground.
    pub(in crate::cli::inspect::top) fn reopen(&mut self) -> io::Result<()> {
        let now = tcgetattr(io::stdin())?;
        let mut quiet = now.clone();
        // Keys come one by one and are not shown; the interrupt key still interrupts.
        quiet.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 0;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &quiet)?;
        // Whoever was stopped without having closed the screen knows already how the terminal was.
        self.before.get_or_insert(now);
        write(ENTER)
    }

    /// Shows a page, cut to what fits.
    pub(in crate::cli::inspect::top) fn show(&mut self, page: &str) -> io::Result<()> {
        // A terminal that does not know its size says 0.
        let rows = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_row));
        let rows = if rows == 0 { ROWS_DEFAULT } else { rows };
        let mut text = String::from(HOME);
        for (number, line) in page.lines().take(rows).enumerate() {
            if number > 0 {
                text.push_str("\r\n");
            }
            text.push_str(line);
            text.push_str(CLEAR_LINE);
        }
        text.push_str(CLEAR_BELOW);
        write(&text)
    }

    /// Whether one of the keys that wait says to end, or nobody will press any more.
    pub(in crate::cli::inspect::top) fn is_quit_pressed(&mut self) -> bool {
        let mut keys = [0; 64];
        match rustix::io::read(io::stdin(), &mut keys) {
            Ok(count) => keys[..count].iter().any(|key| matches!(key, b'q' | b'Q')),
            Err(error) => !matches!(error, rustix::io::Errno::INTR | rustix::io::Errno::AGAIN),
        }
    }

    /// Gives the terminal back, at the end or for a while.
    pub(in crate::cli::inspect::top) fn close(&mut self) {
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

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
