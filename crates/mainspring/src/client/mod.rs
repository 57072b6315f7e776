//! A small client: it finds the daemon, sends messages and waits for what comes back. It blocks; the commands use it.
//!
//! - `find`: where the daemon is.
//! - `connect`: how a connection begins.
//! - `stream`: the connection itself.
//! - `lines`: cutting lines out of a stream.

mod connect;
mod find;
mod lines;
mod stream;

pub use find::{Address, Flags, TCP_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE};
pub use lines::{LINE_BYTES_MAX, Lines};
pub use stream::Stream;

use crate::daemon::CONNECTION;
use mainspring_message::{Draft, Envelope, Kind};
use std::io::{self, Write};
use std::time::{Duration, Instant, SystemTime};

/// How long the last words of a daemon that has hung up may take to come.
const LAST_WORDS_PATIENCE: Duration = Duration::from_secs(1);

/// Why a client could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens there.
    #[error(
        "no daemon listens at {address} ({reason}); start one with `mainspring up`, or say where it is with --socket or --tcp"
    )]
    NoDaemon {
        /// Where.
        address: Address,
        /// What the operating system says.
        reason: io::Error,
    },
    /// Whoever listens on a TCP port does not speak like a daemon.
    #[error("what listens at {place} does not answer like a daemon")]
    NotADaemon {
        /// The host and port.
        place: String,
    },
    /// That is no place to connect to.
    #[error("{place}: {reason}")]
    BadPlace {
        /// What was asked for.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A TCP door opens to a token, and there is none.
    #[error(
        "the daemon at {place} opens to a token: name a file with --token-file or {TOKEN_FILE_VARIABLE}, or put it into {TOKEN_VARIABLE}"
    )]
    NoToken {
        /// The host and port.
        place: String,
    },
    /// The token cannot be had.
    #[error("the token: {0}")]
    BadToken(String),
    /// A token was given for a door that needs none.
    #[error("--token-file is for --tcp (or {TCP_VARIABLE}); a Unix socket knows its clients by their user")]
    TokenWithoutTcp,
    /// A variable of the environment that must be text is not.
    #[error("the variable {0} is not UTF-8 text")]
    NotText(&'static str),
    /// The daemon does not know the token.
    #[error("the daemon at {place} does not take this token")]
    WrongToken {
        /// The host and port.
        place: String,
    },
    /// The daemon closed the connection as a whole, and said why.
    #[error("the daemon refused the connection ({code}): {message}")]
    TurnedAway {
        /// The code of its error.
        code: u64,
        /// Its words.
        message: String,
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

impl ClientError {
    /// What an error says that is about the connection as a whole, and so the last thing that comes.
    #[must_use]
    pub fn turned_away(message: &Envelope) -> Option<ClientError> {
        if message.kind() != Kind::Error || message.causation() != Some(CONNECTION) {
            return None;
        }
        let data: serde_json::Value = serde_json::from_str(message.data()).unwrap_or_default();
        let words = data["message"].as_str().unwrap_or("it does not say why").to_owned();
        Some(ClientError::TurnedAway { code: data["code"].as_u64().unwrap_or(0), message: words })
    }
}

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    lines: Lines,
    scratch: String,
}

impl Client {
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
        match self.stream.write_all(lines) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                Err(self.last_words())
            }
            written => Ok(written?),
        }
    }

    /// Why a daemon that does not read any more is gone: it may have said so before.
    fn last_words(&mut self) -> ClientError {
        let deadline = Deadline::after(LAST_WORDS_PATIENCE);
        loop {
            match self.receive(Some(deadline)) {
                Ok(Some(_)) => {}
                Err(error @ ClientError::TurnedAway { .. }) => return error,
                Ok(None) | Err(_) => return ClientError::Closed,
            }
        }
    }

    /// The next message. `None`: the daemon closed the connection.
    ///
    /// # Errors
    /// The deadline came first, the connection failed or was refused, or what came is not a message.
    pub fn receive(&mut self, deadline: Option<Deadline>) -> Result<Option<Envelope>, ClientError> {
        loop {
            if let Some(line) = self.lines.next_line() {
                let text = |line: &[u8]| String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
                let message = Envelope::parse(line).map_err(|_| ClientError::NotAMessage(text(line)))?;
                return ClientError::turned_away(&message).map_or(Ok(Some(message)), Err);
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
    pub fn into_parts(self) -> (Stream, Lines) {
        (self.stream, self.lines)
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
