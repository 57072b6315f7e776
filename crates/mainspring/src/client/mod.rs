//! A small client: it finds the daemon, sends messages and waits for what comes back. It blocks; the commands use it.
//!
//! - `find`: where the daemon is.
//! - `lines`: cutting lines out of a stream.

mod find;
mod lines;

pub use find::find_socket;
pub use lines::{LINE_BYTES_MAX, Lines};

use mainspring_message::{Draft, Envelope, Kind};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Why a client could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens there.
    #[error(
        "no daemon listens at {path} ({reason}); start one with `mainspring up`, or say where it is with --socket"
    )]
    NoDaemon {
        /// The path of the socket.
        path: PathBuf,
        /// What the operating system says.
        reason: io::Error,
    },
    /// The daemon closed the connection before it had answered.
    #[error("the daemon closed the connection before it had answered")]
    Closed,
    /// The daemon has not answered in time.
    #[error("the daemon has not answered within {0:?}")]
    Silent(Duration),
    /// What came is not a message.
    #[error("the daemon wrote something that is not a message: {0}")]
    NotAMessage(String),
    /// The message to send breaks the rules of messages.
    #[error("{field} {reason}")]
    BadMessage {
        /// Which part of it.
        field: &'static str,
        /// Which rule.
        reason: &'static str,
    },
    /// The connection failed.
    #[error("the connection to the daemon failed: {0}")]
    Io(#[from] io::Error),
}

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    lines: Lines,
    scratch: String,
}

impl Client {
    /// Connects to the daemon behind a socket.
    ///
    /// # Errors
    /// [`ClientError::NoDaemon`].
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        let stream = UnixStream::connect(path)
            .map_err(|reason| ClientError::NoDaemon { path: path.to_path_buf(), reason })?;
        Ok(Client { stream, lines: Lines::default(), scratch: String::new() })
    }

    /// Sends a message, under a fresh id unless it has one, and returns it as it was sent.
    ///
    /// # Errors
    /// The message breaks the rules, or the connection failed.
    pub fn send(&mut self, draft: &Draft) -> Result<Envelope, ClientError> {
        draft.check().map_err(|(field, reason)| ClientError::BadMessage { field, reason })?;
        let message = draft.compose(&fresh_id(), now_ms(), &mut self.scratch);
        let mut line = Vec::with_capacity(message.line().len() + 1);
        line.extend_from_slice(message.line().as_bytes());
        line.push(b'\n');
        self.send_lines(&line)?;
        Ok(message)
    }

    /// Sends lines as they are.
    ///
    /// # Errors
    /// The connection failed.
    pub fn send_lines(&mut self, lines: &[u8]) -> Result<(), ClientError> {
        self.stream.write_all(lines).map_err(closed)
    }

    /// The next message. `None`: the daemon closed the connection.
    ///
    /// # Errors
    /// The deadline came first, the connection failed, or what came is not a message.
    pub fn receive(&mut self, deadline: Option<Deadline>) -> Result<Option<Envelope>, ClientError> {
        loop {
            if let Some(line) = self.lines.next_line() {
                let text = |line: &[u8]| String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
                return Envelope::parse(line).map(Some).map_err(|_| ClientError::NotAMessage(text(line)));
            }
            self.stream.set_read_timeout(deadline.map(Deadline::left).transpose()?)?;
            match self.lines.fill(&mut self.stream) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A read that timed out: the loop finds the deadline passed.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && deadline.is_some() => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends a request and waits for its outcome: a reply or an error. Whatever else comes meanwhile is left out.
    ///
    /// # Errors
    /// There is no outcome.
    pub fn request(&mut self, draft: &Draft, deadline: Option<Deadline>) -> Result<Envelope, ClientError> {
        let sent = self.send(draft)?;
        loop {
            let message = self.receive(deadline)?.ok_or(ClientError::Closed)?;
            if message.kind().is_outcome() && message.causation() == Some(sent.id()) {
                return Ok(message);
            }
        }
    }

    /// Sends an event and makes sure that the daemon took it. The error with which it was refused, if it was.
    ///
    /// An event has no outcome, but a refusal is written at once: so whatever is answered after it shows that it was taken.
    ///
    /// # Errors
    /// The connection failed before that was known.
    pub fn emit(
        &mut self,
        draft: &Draft,
        deadline: Option<Deadline>,
    ) -> Result<Option<Envelope>, ClientError> {
        let event = self.send(draft)?;
        let ping = self.send(&Draft::new(Kind::Query, "Syscall.Ping", mainspring_message::Json::null()))?;
        let mut refusal = None;
        loop {
            let message = self.receive(deadline)?.ok_or(ClientError::Closed)?;
            match message.causation() {
                Some(cause) if cause == event.id() && message.kind() == Kind::Error => {
                    refusal = Some(message)
                }
                Some(cause) if cause == ping.id() && message.kind().is_outcome() => return Ok(refusal),
                _ => {}
            }
        }
    }

    /// The stream, and what was read from it and not yet taken.
    #[must_use]
    pub fn into_parts(self) -> (UnixStream, Lines) {
        (self.stream, self.lines)
    }
}

/// A write to a daemon that is gone says so in its own words.
fn closed(error: io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ClientError::Closed,
        _ => error.into(),
    }
}

/// When waiting ends.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
    within: Duration,
}

impl Deadline {
    /// So long from now.
    #[must_use]
    pub fn after(within: Duration) -> Deadline {
        let now = Instant::now();
        // A century is as good as for ever, and can be added to any time.
        Deadline { at: now + within.min(Duration::from_secs(100 * 365 * 86_400)), within }
    }

    fn left(self) -> Result<Duration, ClientError> {
        let left = self.at.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ClientError::Silent(self.within)) } else { Ok(left) }
    }
}

/// An id that nobody else has: 128 random bits.
#[must_use]
pub fn fresh_id() -> String {
    let mut bytes = [0_u8; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if filled != Ok(bytes.len()) {
        // Only ancient kernels, right after their start: time and process tell two ids apart as well.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        return format!("{:x}-{:x}", now.as_nanos(), std::process::id());
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The time in milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
