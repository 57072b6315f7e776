//! Standard input, output and error.

use crate::error::io_error;
use crate::io::handle::{Direction, Handle};
use crate::runtime::executor;
use crate::zi::{self, ErrorCode};
use mainspring_message::lines::{Line, LineBuffer};
use mainspring_zcl::abi::{STDERR, STDIN, STDOUT};
use std::fmt;
use std::io;
use std::task::{Poll, Waker};

/// The longest line that [`Lines`] accepts unless told otherwise.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;
/// How much of standard input is asked for at once; a batch of messages should fit.
pub(crate) const READ_BYTES: usize = 16 * 1024;

macro_rules! standard_stream {
    ($(#[$documentation:meta])* $name:ident, $function:ident, $number:expr) => {
        $(#[$documentation])*
        #[derive(Debug)]
        pub struct $name {
            handle: Handle,
        }

        $(#[$documentation])*
        #[must_use]
        pub fn $function() -> $name {
            $name { handle: Handle::standard($number) }
        }

    };
}

standard_stream! {
    /// Standard input.
    Stdin, stdin, STDIN
}
standard_stream! {
    /// Standard output. Not buffered: what is written is handed to the host.
    Stdout, stdout, STDOUT
}
standard_stream! {
    /// Standard error. Not buffered.
    Stderr, stderr, STDERR
}

impl Stdin {
    /// Reads what is there, waiting if nothing is; 0 is the end.
    ///
    /// # Errors
    ///
    /// What failed.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.handle.read(buffer).await
    }

    /// Waits first after a read that got less than it asked for; see [`Handle::poll_read_watched`].
    #[cfg(feature = "capability")]
    pub(crate) async fn read_watched(&self, buffer: &mut [u8]) -> io::Result<usize> {
        std::future::poll_fn(|context| self.handle.poll_read_watched(context, buffer)).await
    }

    #[cfg(any(feature = "tokio", feature = "futures-io"))]
    pub(crate) fn poll_read(
        &self,
        context: &mut std::task::Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.handle.poll_read(context, buffer)
    }

    /// Its lines.
    #[must_use]
    pub fn lines(self) -> Lines {
        Lines { stdin: self, buffer: LineBuffer::new(READ_BYTES, LINE_BYTES_MAX), ended: false }
    }
}

impl Stdout {
    #[cfg(any(feature = "tokio", feature = "futures-io", feature = "capability"))]
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    ///
    /// What failed.
    pub async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.handle.write_all(bytes).await
    }
}

impl Stderr {
    #[cfg(any(feature = "tokio", feature = "futures-io"))]
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    ///
    /// What failed.
    pub async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.handle.write_all(bytes).await
    }
}

/// The lines of standard input, without their ends.
#[derive(Debug)]
pub struct Lines {
    stdin: Stdin,
    buffer: LineBuffer,
    ended: bool,
}

impl Lines {
    /// Accepts lines up to this length.
    #[must_use]
    pub fn line_bytes_max(mut self, bytes: usize) -> Lines {
        self.buffer.set_line_bytes_max(bytes);
        self
    }

    /// The next line; `None` at the end of the input. A last line without an end counts.
    ///
    /// # Errors
    ///
    /// `InvalidData` for a line that is too long or not UTF-8 (the lines after it can be read), and
    /// whatever reading fails with.
    pub async fn next_line(&mut self) -> io::Result<Option<String>> {
        let line_bytes_max = self.buffer.line_bytes_max();
        loop {
            if let Some(line) = self.buffer.next_line() {
                return finish(line, line_bytes_max).map(Some);
            }
            if self.ended {
                return self.buffer.finish().map(|line| finish(line, line_bytes_max)).transpose();
            }
            let count = self.stdin.read(self.buffer.room()).await?;
            self.buffer.filled(count);
            self.ended = count == 0;
        }
    }
}

fn finish(line: Line<'_>, line_bytes_max: usize) -> io::Result<String> {
    let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    match line {
        Line::Whole(line) => {
            String::from_utf8(line.to_vec()).map_err(|_| wrong("a line is not UTF-8".into()))
        }
        Line::TooLong => Err(wrong(format!("a line is longer than {line_bytes_max} bytes"))),
    }
}

/// Writes all of `bytes` to a standard stream. If the stream cannot take them, the whole guest
/// waits; use [`Stdout`] in tasks that should not hold up the others.
fn write_blocking(number: i32, mut bytes: &[u8]) -> io::Result<()> {
    let handle = Handle::standard(number);
    let mut context = std::task::Context::from_waker(Waker::noop());
    while !bytes.is_empty() {
        let attempt = || zi::write(number, bytes);
        match handle.poll_with(&mut context, Direction::Write, attempt) {
            Poll::Ready(Ok(0)) => return Err(io_error(ErrorCode::Io)),
            Poll::Ready(Ok(count)) => bytes = &bytes[count..],
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Pending => executor::park_all(),
        }
    }
    Ok(())
}

/// What [`print!`](crate::print) and [`println!`](crate::println) call.
#[doc(hidden)]
pub fn print_to_stdout(text: fmt::Arguments<'_>) {
    // As with std, nobody can be told; unlike std, that is no reason to stop.
    let _ = write_blocking(STDOUT, text.to_string().as_bytes());
}

/// What [`eprintln!`](crate::eprintln) calls.
#[doc(hidden)]
pub fn print_to_stderr(text: fmt::Arguments<'_>) {
    let _ = write_blocking(STDERR, text.to_string().as_bytes());
}

/// Prints to standard output, where `std`'s macro of this name does nothing on bare WebAssembly. If
/// the stream is full, the whole guest waits.
#[macro_export]
macro_rules! print {
    ($($argument:tt)*) => { $crate::print_to_stdout(::core::format_args!($($argument)*)) };
}

/// Prints a line to standard output.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($argument:tt)*) => { $crate::print!("{}\n", ::core::format_args!($($argument)*)) };
}

/// Prints a line to standard error.
#[macro_export]
macro_rules! eprintln {
    ($($argument:tt)*) => { $crate::print_to_stderr(::core::format_args!("{}\n", ::core::format_args!($($argument)*))) };
}
