//! The load: so many connections, on each so many requests under way.

use crate::cli::project::bench::progress::Progress;
use crate::cli::support::target::Failure;
use crate::cli::support::text;
use crate::client::{Address, Client, ClientError, Lines, ReplyTimeout, Stream, fresh_id, now_ms};
use hdrhistogram::Histogram;
use mainspring_message::Envelope;
use mainspring_reactor::{Handle, Reactor, Signal, Watcher};
use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Requests under way on one connection at most. All of them fit into the socket's buffers, so that
/// sending never waits for the daemon while the daemon waits for us.
pub(in crate::cli::project::bench) const DEPTH_MAX: i64 = 512;
/// Different keys that are set.
const KEYS: usize = 1000;
/// Bytes of each value.
const VALUE_BYTES: usize = 64;
/// How much of the measured time is run before, to warm up.
const WARM_UP_SHARE: f64 = 0.2;

/// The longest latency that is told apart from longer ones.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Digits of a latency that count.
const LATENCY_DIGITS: u8 = 3;

/// How long the daemon may take to answer what is under way at the end.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::project::bench) struct Case {
    pub(in crate::cli::project::bench) connections: usize,
    pub(in crate::cli::project::bench) depth: usize,
    pub(in crate::cli::project::bench) duration: Duration,
}

/// What came out.
#[derive(Debug)]
pub(in crate::cli::project::bench) struct LoadOutcome {
    pub(in crate::cli::project::bench) case: Case,
    pub(in crate::cli::project::bench) replies: u64,
    pub(in crate::cli::project::bench) errors: u64,
    /// The first of them, as it came.
    pub(in crate::cli::project::bench) first_error: Option<String>,
    pub(in crate::cli::project::bench) elapsed: Duration,
    /// From sending to reading, in nanoseconds.
    pub(in crate::cli::project::bench) latency: Histogram<u64>,
    /// CPU time of the daemon meanwhile, if the system tells.
    pub(in crate::cli::project::bench) server_cpu: Option<Duration>,
}

impl LoadOutcome {
    pub(in crate::cli::project::bench) fn requests_per_s(&self) -> f64 {
        (self.replies + self.errors) as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Where cases are run: a loop that a signal stops.
pub(in crate::cli::project::bench) struct Stage {
    reactor: Reactor,
    /// The signal that came, if one did.
    interrupted: Rc<Cell<Option<Signal>>>,
}

impl Stage {
    /// From here on a signal ends no more than the measurement, so that what was started for it can
    /// be ended too.
    pub(in crate::cli::project::bench) fn new() -> Result<Stage, Failure> {
        let reactor = Reactor::new().map_err(failed)?;
        let interrupted: Rc<Cell<Option<Signal>>> = Rc::default();
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let interrupted = interrupted.clone();
            let stop = move |event: &mainspring_reactor::SignalEvent<'_>| {
                interrupted.set(Some(event.signal()));
                event.reactor().stop();
            };
            reactor.on_signal(signal, stop).map_err(failed)?;
        }
        Ok(Stage { reactor, interrupted })
    }

    /// Runs the loop for a while, and tells ten times a second how far it is.
    fn turn_for(
        &mut self,
        time: Duration,
        tally: &Rc<RefCell<Tally>>,
        tell: impl Fn(f64, &Tally),
    ) -> Result<(), Failure> {
        let start = Instant::now();
        let step = Duration::from_millis(100);
        while start.elapsed() < time && tally.borrow().failure.is_none() {
            let left = time - start.elapsed().min(time);
            self.reactor.after(step.min(left), Handle::stop).map_err(failed)?;
            self.reactor.run().map_err(failed)?;
            if let Some(signal) = self.interrupted.get() {
                return Err(Failure::Interrupted(signal));
            }
            tell(start.elapsed().as_secs_f64() / time.as_secs_f64().max(1e-9), &tally.borrow());
        }
        Ok(())
    }
}

fn failed(error: mainspring_reactor::Error) -> Failure {
    Failure::Client(ClientError::Io(io::Error::other(error)))
}

/// Runs one case against a daemon.
pub(in crate::cli::project::bench) fn run(
    stage: &mut Stage,
    address: &Address,
    case: Case,
    progress: &Progress,
) -> Result<LoadOutcome, Failure> {
    let tally = Rc::new(RefCell::new(Tally::new()));
    let (mut server, mut watchers) = (None, Vec::new());
    for _ in 0..case.connections {
        let (stream, lines) = Client::connect(address, ReplyTimeout::new(None))?.into_parts();
        server = server.or_else(|| server_of(&stream));
        let connection = Connection::new(stream, lines, case.depth)?;
        tally.borrow_mut().under_way += case.depth;
        watchers.push(connection.start(&stage.reactor, &tally).map_err(failed)?);
    }
    stage.turn_for(case.duration.mul_f64(WARM_UP_SHARE), &tally, |_, _| {})?;
    tally.borrow_mut().reset();
    let cpu_before = server.and_then(cpu_of);
    let start = Instant::now();
    stage.turn_for(case.duration, &tally, |share, tally| {
        progress.show(share, tally.replies as f64 / start.elapsed().as_secs_f64().max(1e-9));
    })?;
    let elapsed = start.elapsed();
    let cpu_after = server.and_then(cpu_of);
    let outcome = outcome(case, elapsed, cpu_before.zip(cpu_after), &mut tally.borrow_mut())?;
    finish(stage, &tally)?;
    for watcher in watchers {
        stage.reactor.unwatch(watcher);
    }
    Ok(outcome)
}

/// Waits for what is under way: left behind, it would count as this peer's in the next case.
fn finish(stage: &mut Stage, tally: &Rc<RefCell<Tally>>) -> Result<(), Failure> {
    tally.borrow_mut().is_ending = true;
    let start = Instant::now();
    while tally.borrow().under_way > 0 {
        if start.elapsed() > SILENCE_MAX {
            return Err(ClientError::Silent { within: SILENCE_MAX, grace: Duration::ZERO }.into());
        }
        stage.turn_for(Duration::from_millis(10), tally, |_, _| {})?;
        if let Some(failure) = tally.borrow_mut().failure.take() {
            return Err(failure);
        }
    }
    Ok(())
}

fn outcome(
    case: Case,
    elapsed: Duration,
    cpu: Option<(Duration, Duration)>,
    tally: &mut Tally,
) -> Result<LoadOutcome, Failure> {
    if let Some(failure) = tally.failure.take() {
        return Err(failure);
    }
    Ok(LoadOutcome {
        case,
        replies: tally.replies,
        errors: tally.errors,
        first_error: tally.first_error.take(),
        elapsed,
        latency: tally.latency.clone(),
        server_cpu: cpu.map(|(before, after)| after.saturating_sub(before)),
    })
}

/// What was counted.
struct Tally {
    replies: u64,
    errors: u64,
    first_error: Option<String>,
    under_way: usize,
    /// Nothing more is sent.
    is_ending: bool,
    latency: Histogram<u64>,
    failure: Option<Failure>,
}

impl Tally {
    fn new() -> Tally {
        let bounds = Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS);
        let latency = bounds.unwrap_or_else(|_| unreachable!("the bounds are in order"));
        Tally {
            replies: 0,
            errors: 0,
            first_error: None,
            under_way: 0,
            is_ending: false,
            latency,
            failure: None,
        }
    }

    /// What it means that reading or writing failed.
    fn failed(&self, error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.hung_up(),
            _ => ClientError::from(error).into(),
        }
    }

    /// Why the daemon ended a connection: for what it complained about before, if it did.
    fn hung_up(&self) -> Failure {
        let error = self.first_error.as_deref().and_then(|line| Envelope::parse(line.as_bytes()).ok());
        error.map_or(ClientError::Closed.into(), |error| Failure::Refused(text::error_line(&error)))
    }

    fn reset(&mut self) {
        (self.replies, self.errors, self.first_error) = (0, 0, None);
        self.latency.reset();
    }
}

/// One connection with its requests under way.
struct Connection {
    /// What its ids begin with. The same id again would be a repetition, which costs the daemon
    /// next to nothing.
    prefix: String,
    stream: Stream,
    lines: Lines,
    /// When each request under way was sent, by its number modulo the depth.
    sent: Vec<Instant>,
    next: usize,
    value: String,
}

impl Connection {
    fn new(stream: Stream, lines: Lines, depth: usize) -> Result<Connection, ClientError> {
        let value = "x".repeat(VALUE_BYTES);
        let mut connection = Connection {
            prefix: fresh_id(),
            stream,
            lines,
            sent: vec![Instant::now(); depth],
            next: 0,
            value,
        };
        connection.send(depth)?;
        Ok(connection)
    }

    fn start(self, reactor: &Reactor, tally: &Rc<RefCell<Tally>>) -> mainspring_reactor::Result<Watcher> {
        let tally = tally.clone();
        let mut this = self;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&this.stream);
        let read = move |(): &mut (), event: &mainspring_reactor::Event<'_>| {
            let mut tally = tally.borrow_mut();
            if let Err(failure) = this.read(&mut tally) {
                tally.failure.get_or_insert(failure);
                event.reactor().stop();
            }
        };
        reactor.watch_raw(fd, ()).on_read(read).start()
    }

    /// Takes the answers that came, and sends as many requests.
    fn read(&mut self, tally: &mut Tally) -> Result<(), Failure> {
        if self.lines.fill(&mut self.stream).map_err(|error| tally.failed(error))? == 0 {
            return Err(tally.hung_up());
        }
        let now = Instant::now();
        let mut answered = 0;
        while let Some(line) = self.lines.next_line() {
            // Answers are small and of one form: looking for two words is enough, and leaves the
            // core to the daemon.
            let Some(number) = request_number(line) else {
                return Err(no_answer(line).into());
            };
            answered += 1;
            let sent = self.sent[number % self.sent.len()];
            let nanoseconds = now.saturating_duration_since(sent).as_nanos();
            tally.latency.saturating_record(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
            if line.starts_with(b"{\"kind\":\"reply\"") {
                tally.replies += 1;
            } else {
                tally.errors += 1;
                tally.first_error.get_or_insert_with(|| String::from_utf8_lossy(line).into_owned());
            }
        }
        tally.under_way -= answered;
        if tally.is_ending {
            return Ok(());
        }
        tally.under_way += answered;
        self.send(answered).map_err(|error| tally.failed(error))
    }

    fn send(&mut self, count: usize) -> io::Result<()> {
        let mut text = String::with_capacity(count * 256);
        let timestamp = now_ms();
        let now = Instant::now();
        for number in self.next..self.next + count {
            let depth = self.sent.len();
            self.sent[number % depth] = now;
            let (key, value, prefix) = (number % KEYS, &self.value, &self.prefix);
            text.push_str(&format!(
                "{{\"kind\":\"command\",\"type\":\"Memory.Set\",\"data\":{{\"key\":\"bench-{key}\",\"value\":\"{value}\"}},\"metadata\":{{\"id\":\"{prefix}-{number}\",\"timestamp\":{timestamp}}}}}\n"
            ));
        }
        self.next += count;
        self.stream.write_all(text.as_bytes())
    }
}

/// What a line says that answers no request.
fn no_answer(line: &[u8]) -> ClientError {
    let refusal = Envelope::parse(line).ok().and_then(|message| ClientError::turned_away(&message));
    refusal.unwrap_or_else(|| ClientError::NotAMessage(String::from_utf8_lossy(line).into_owned()))
}

/// The number in the id of the request that a line answers.
fn request_number(line: &[u8]) -> Option<usize> {
    const WORD: &[u8] = b"\"causation\":\"";
    let start = memchr::memmem::rfind(line, WORD)? + WORD.len();
    let end = start + memchr::memchr(b'"', &line[start..])?;
    std::str::from_utf8(&line[start..end]).ok()?.rsplit('-').next()?.parse().ok()
}

/// The process at the other end, which TCP does not tell.
fn server_of(stream: &Stream) -> Option<i32> {
    let Stream::Unix(stream) = stream else { return None };
    rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.pid.as_raw_nonzero().get())
}

/// The CPU time of a process's first thread, which is the daemon's loop.
fn cpu_of(process: i32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_cause() {
        let line = br#"{"kind":"reply","type":"Memory.Set","data":{"causation":"x-1"},"metadata":{"id":"a","timestamp":1,"causation":"b7-3-4096"}}"#;
        assert_eq!(request_number(line), Some(4096));
        assert_eq!(request_number(b"{}"), None);
        assert_eq!(request_number(b"{\"causation\":\"b-x\"}"), None);
    }
}
