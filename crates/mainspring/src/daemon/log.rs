//! The log: lines on standard error, which never hold up the loop.

use super::outlet::Outlet;
use crate::settings::{LogFormat, LogLevel, LogSettings};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

/// Bytes that wait when nobody reads the log. Beyond: lines are dropped, and counted.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// Has everything that is logged in this process written to standard error.
///
/// # Errors
/// When there is a log already, or standard error cannot be used.
pub fn install(settings: LogSettings) -> Result<(), super::Error> {
    let outlet = Outlet::to(io::stderr().as_fd()).map_err(|error| super::Error::Log(error.to_string()))?;
    let log = Log(Arc::new(Mutex::new(Sink { outlet, waiting: Vec::new(), dropped: 0 })));
    let colours =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let builder = tracing_subscriber::fmt()
        .with_max_level(level(settings.level))
        .with_target(false)
        .with_ansi(colours)
        .with_writer(log);
    let installed = match settings.format {
        LogFormat::Human => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    installed.map_err(|error| super::Error::Log(error.to_string()))
}

fn level(level: LogLevel) -> Level {
    match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    }
}

/// Where lines go.
#[derive(Clone)]
struct Log(Arc<Mutex<Sink>>);

struct Sink {
    outlet: Outlet,
    /// Lines that could not be written yet; the first may have been written in part.
    waiting: Vec<u8>,
    dropped: u64,
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

impl io::Write for Log {
    /// Takes a whole line, as tracing writes it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn take(&mut self, line: &[u8]) {
        self.drain();
        if self.dropped > 0 && self.waiting.is_empty() {
            let notice = format!("({} lines of the log were dropped: nobody read them)\n", self.dropped);
            self.waiting.extend_from_slice(notice.as_bytes());
            self.dropped = 0;
        }
        if self.waiting.len() + line.len() > WAITING_BYTES_MAX {
            self.dropped += 1;
            return;
        }
        self.waiting.extend_from_slice(line);
        self.drain();
    }

    /// Writes what can be written. If there is nobody to read it any more, it is forgotten.
    fn drain(&mut self) {
        while !self.waiting.is_empty() {
            match self.outlet.write(&self.waiting) {
                Ok(written) => {
                    self.waiting.drain(..written);
                }
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => self.waiting.clear(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink() -> (std::os::fd::OwnedFd, Sink) {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let outlet = Outlet::to(writer.as_fd()).expect("an outlet");
        (reader, Sink { outlet, waiting: Vec::new(), dropped: 0 })
    }

    #[test]
    fn a_log_that_nobody_reads_drops_lines_and_says_so_when_it_is_read_again() {
        let (reader, mut sink) = sink();
        let line = [b'x'; 1024];
        for _ in 0..1024 {
            sink.take(&line);
        }
        assert!(sink.dropped > 0);
        assert!(sink.waiting.len() <= WAITING_BYTES_MAX);
        let mut buffer = vec![0; 1 << 20];
        let mut read = 0;
        while !sink.waiting.is_empty() {
            read += rustix::io::read(&reader, &mut buffer[read..]).expect("the log");
            sink.drain();
        }
        read += rustix::io::read(&reader, &mut buffer[read..]).expect("the log");
        sink.take(b"after\n");
        read += rustix::io::read(&reader, &mut buffer[read..]).expect("the log");
        let text = String::from_utf8_lossy(&buffer[..read]);
        assert!(text.contains("lines of the log were dropped"), "{}", &text[text.len() - 200..]);
        assert!(text.ends_with("after\n"));
    }

    #[test]
    fn a_log_whose_reader_is_gone_is_no_trouble() {
        let (reader, mut sink) = sink();
        drop(reader);
        sink.take(b"into the void\n");
        assert!(sink.waiting.is_empty());
    }
}
