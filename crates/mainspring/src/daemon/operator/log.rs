//! The log: lines on standard error, which never hold up the daemon.

use crate::daemon::operator::capability_lines::Human;
use crate::daemon::transport::outgoing::Outgoing;
use crate::daemon::transport::outlet::Outlet;
use crate::settings::{LogFormat, LogLevel, LogSettings};
use crate::text::local_time;
use crate::text::printable::OneLine;
use mainspring_reactor::Handle;
use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tracing::Level;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Bytes that wait when nobody reads the log. Beyond: lines are dropped, and counted.
const WAITING_BYTES_MAX: usize = 256 << 10;
/// Memory that is kept for lines that wait.
const WAITING_BYTES_KEPT: usize = 4 << 10;
/// How long lines wait that could not be written, before that is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How long the last lines may take to be read when the daemon ends.
const LAST_TIMEOUT: Duration = Duration::from_millis(500);

/// The log of this process.
static LOG: OnceLock<Log> = OnceLock::new();
/// Whether lines wait in it.
static IS_WAITING: AtomicBool = AtomicBool::new(false);

/// Has everything that is logged in this process written to standard error, panics included:
/// nothing else writes there, and blocks.
///
/// # Errors
/// When there is a log already, or standard error cannot be used.
pub fn install(settings: &LogSettings) -> Result<(), crate::daemon::Error> {
    let outlet =
        Outlet::to(io::stderr().as_fd()).map_err(|error| crate::daemon::Error::Log(error.to_string()))?;
    let log = Log(Arc::new(Mutex::new(Sink::new(outlet, settings.format))));
    let colours =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let builder = tracing_subscriber::fmt()
        .with_max_level(level(settings.level))
        .with_target(false)
        .with_ansi(colours)
        .with_writer(log.clone());
    // What the client of NATS logs is told by the uplink, in words of our own and once.
    let ours = filter_fn(|about| !about.target().starts_with("async_nats"));
    let installed = match settings.format {
        LogFormat::Human => {
            let others =
                tracing_subscriber::fmt::format().with_target(false).with_ansi(colours).with_timer(LocalTime);
            let form = Human { others, colours };
            let builder = builder.fmt_fields(debug_fn(write_field).delimited(" ")).event_format(form);
            builder.finish().with(ours).try_init()
        }
        LogFormat::Json => builder.json().flatten_event(true).finish().with(ours).try_init(),
    };
    installed.map_err(|error| crate::daemon::Error::Log(error.to_string()))?;
    LOG.get_or_init(|| log);
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(String::new, ToString::to_string);
        tracing::error!("panic at {place}: {}", panic.payload_as_str().unwrap_or("(no message)"));
    }));
    Ok(())
}

/// The time of a line for people, in their own zone. Machines get UTC.
struct LocalTime;

impl FormatTime for LocalTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.write_str(&local_time::log_time())
    }
}

/// Writes one field of a line for people. An event is one line, whatever it tells: no name or text
/// of an actor, a client or a file begins another.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let mut line = OneLine(writer);
    match field.name() {
        "message" => write!(line, "{value:?}"),
        name => write!(line, "{name}={value:?}"),
    }
}

/// Has lines that wait written by and by, also when nothing more is logged. While none wait it does
/// nothing at all.
#[derive(Clone)]
pub(in crate::daemon) struct Keeper {
    reactor: Handle,
    armed: Rc<Cell<bool>>,
}

impl Keeper {
    pub(in crate::daemon) fn new(reactor: &Handle) -> Keeper {
        Keeper { reactor: reactor.clone(), armed: Rc::default() }
    }

    /// To be called once per turn.
    pub(in crate::daemon) fn tend(&self) {
        if !IS_WAITING.load(Ordering::Relaxed) || self.armed.get() {
            return;
        }
        let armed = Rc::clone(&self.armed);
        let timer = self.reactor.after(RETRY, move |_| {
            armed.set(false);
            with_sink(Sink::retry);
        });
        self.armed.set(timer.is_ok());
    }

    /// Writes what waits at the end, and waits a little for whoever reads.
    pub(in crate::daemon) fn end(&self) {
        with_sink(|sink| sink.finish(LAST_TIMEOUT));
    }
}

fn with_sink(call: impl FnOnce(&mut Sink)) {
    if let Some(log) = LOG.get() {
        let mut sink = log.0.lock().unwrap_or_else(PoisonError::into_inner);
        call(&mut sink);
        IS_WAITING.store(sink.is_waiting(), Ordering::Relaxed);
    }
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
    format: LogFormat,
    /// Lines that could not be written yet; the first may have been written in part.
    waiting: Outgoing,
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
        let mut sink = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sink.take(line);
        IS_WAITING.store(sink.is_waiting(), Ordering::Relaxed);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn new(outlet: Outlet, format: LogFormat) -> Sink {
        Sink { outlet, format, waiting: Outgoing::default(), dropped: 0 }
    }

    fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || self.dropped > 0
    }

    fn take(&mut self, line: &[u8]) {
        self.retry();
        if self.waiting.len() + line.len() > WAITING_BYTES_MAX {
            self.dropped += 1;
            return;
        }
        self.waiting.push_lines(line);
        self.drain();
    }

    /// Writes what waits, as far as it goes; behind that, how many lines are missing there.
    fn retry(&mut self) {
        self.drain();
        if self.dropped > 0 && self.waiting.is_empty() {
            let notice = notice(std::mem::take(&mut self.dropped), self.format);
            self.waiting.push_lines(notice.as_bytes());
            self.drain();
        }
    }

    /// Writes what waits, and gives whoever reads it so much time for that.
    fn finish(&mut self, timeout: Duration) {
        let deadline = std::time::Instant::now() + timeout;
        self.retry();
        while self.is_waiting() && self.outlet.wait_for_room(deadline) {
            self.retry();
        }
    }

    /// Writes what can be written. If there is nobody to read it any more, it is forgotten.
    fn drain(&mut self) {
        match self.waiting.drain(|bytes| self.outlet.write(bytes)) {
            Ok(_) => self.waiting.trim(WAITING_BYTES_KEPT),
            Err(_) => self.waiting.clear(),
        }
    }
}

/// A line about lines that are missing, in the form of the others.
fn notice(dropped: u64, format: LogFormat) -> String {
    let text = format!("{dropped} lines of the log were dropped: nobody read them");
    match format {
        LogFormat::Human => format!("{}  WARN {text}\n", local_time::log_time()),
        LogFormat::Json => {
            let mut time = String::new();
            let _ = SystemTime.format_time(&mut Writer::new(&mut time));
            format!("{}\n", serde_json::json!({ "timestamp": time, "level": "WARN", "message": text }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink() -> (std::os::fd::OwnedFd, Sink) {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let outlet = Outlet::to(writer.as_fd()).expect("an outlet");
        (reader, Sink::new(outlet, LogFormat::Json))
    }

    /// Has lines dropped, and then reads everything that is in the pipe and waits.
    fn overwhelm(reader: &std::os::fd::OwnedFd, sink: &mut Sink) -> Vec<u8> {
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        for _ in 0..1024 {
            sink.take(&line);
        }
        assert!(sink.dropped > 0 && sink.waiting.len() <= WAITING_BYTES_MAX);
        let (mut text, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
        while !sink.waiting.is_empty() {
            let count = rustix::io::read(reader, &mut buffer).expect("the log");
            text.extend_from_slice(&buffer[..count]);
            sink.drain();
        }
        let count = rustix::io::read(reader, &mut buffer).expect("the log");
        text.extend_from_slice(&buffer[..count]);
        text
    }

    #[test]
    fn a_log_that_nobody_reads_drops_lines_and_says_so_when_it_is_read_again() {
        let (reader, mut sink) = sink();
        let mut text = overwhelm(&reader, &mut sink);
        sink.take(b"after\n");
        let mut buffer = vec![0; 1 << 20];
        let count = rustix::io::read(&reader, &mut buffer).expect("the log");
        text.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8(text).expect("text");
        assert!(text.contains("lines of the log were dropped"), "{}", &text[text.len() - 200..]);
        assert!(text.ends_with("after\n"));
        assert!(!sink.is_waiting());
    }

    #[test]
    fn lines_that_wait_are_written_without_another_line_and_every_line_has_its_form() {
        let (reader, mut sink) = sink();
        let mut text = overwhelm(&reader, &mut sink);
        assert!(sink.is_waiting(), "nobody was told of what was dropped");
        sink.retry();
        assert!(!sink.is_waiting());
        let mut buffer = vec![0; 1 << 20];
        let count = rustix::io::read(&reader, &mut buffer).expect("the log");
        text.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8(text).expect("text");
        let last: serde_json::Value =
            serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
        assert_eq!((&last["level"], last["timestamp"].is_string()), (&"WARN".into(), true));
    }

    #[test]
    fn the_end_waits_for_whoever_reads_but_not_for_long() {
        let (reader, mut sink) = sink();
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        for _ in 0..128 {
            sink.take(&line);
        }
        sink.finish(Duration::from_millis(1));
        assert!(sink.is_waiting(), "nobody reads");
        let reading = std::thread::spawn(move || {
            let mut file = std::fs::File::from(reader);
            let mut text = Vec::new();
            io::Read::read_to_end(&mut file, &mut text).expect("the log");
            text.len()
        });
        sink.finish(Duration::from_secs(60));
        assert!(!sink.is_waiting());
        drop(sink);
        assert_eq!(reading.join().expect("the reader"), 128 * 1024);
    }

    #[test]
    fn a_log_whose_reader_is_gone_is_no_trouble() {
        let (reader, mut sink) = sink();
        drop(reader);
        sink.take(b"into the void\n");
        assert!(sink.waiting.is_empty());
    }
}
