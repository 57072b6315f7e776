//! A small client: it finds the daemon, sends messages and waits for what comes back. It blocks;
//! the commands use it.
//!
//! - `find`: where the daemon is.
//! - `connect`: how a connection begins.
//! - `error`: why there is no answer.
//! - `stream`: the connection itself.
//! - `tls`: the same with encryption.
//! - `lines`: cutting lines out of a stream.
//! - `reply_timeout`: how long the daemon is waited for.

mod connect;
mod error;
mod find;
mod lines;
mod reply_timeout;
mod stream;
mod tls;

pub use error::ClientError;
pub use find::{Address, Flags, TCP_VARIABLE, TLS_CA_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE};
pub use lines::{LINE_BYTES_MAX, Lines};
pub use reply_timeout::{Deadline, GRACE, ReplyTimeout, SILENCE_MAX};
pub use stream::Stream;
pub use tls::TlsTrust;

use mainspring_message::{Draft, Envelope, Failure, Json, Kind};
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

/// How long the last words of a daemon that has hung up may take to come.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether an error is the daemon's own and about a message that it could not name: a line beyond
/// the limit, or one that is no message. Where one request is under way, it is about that one.
#[must_use]
pub fn names_no_message(message: &Envelope) -> bool {
    if message.kind() != Kind::Error || Failure::from_type_name(message.type_name()).is_none() {
        return false;
    }
    let data: serde_json::Value = serde_json::from_str(message.data()).unwrap_or_default();
    data["originalId"].is_null()
}

/// A question that every daemon answers at once.
fn ping() -> Draft {
    Draft::new(Kind::Query, "Syscall.Ping", Json::null())
}

/// An event that was sent.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The event as it was sent.
    pub event: Envelope,
    /// The error with which the daemon refused it, if it did.
    pub refusal: Option<Envelope>,
}

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    lines: Lines,
    scratch: String,
    reply_timeout: ReplyTimeout,
}

impl Client {
    /// Sends a message, under a fresh id unless it has one, and returns it as it was sent.
    ///
    /// # Errors
    /// The message breaks the rules, the connection failed, or the daemon does not read.
    pub fn send(&mut self, draft: &Draft) -> Result<Envelope, ClientError> {
        self.send_to(draft, None)
    }

    /// The same, to the node of the bus that has this name.
    fn send_to(&mut self, draft: &Draft, node: Option<&str>) -> Result<Envelope, ClientError> {
        draft.check().map_err(|(field, reason)| ClientError::BadMessage { field, reason })?;
        let mut message = draft.compose(&fresh_id(), now_ms(), &mut self.scratch);
        if let Some(node) = node {
            message = message.with_metadata_member("to_node", node);
        }
        let mut line = Vec::with_capacity(message.line().len() + 1);
        line.extend_from_slice(message.line().as_bytes());
        line.push(b'\n');
        self.send_lines(&line)?;
        Ok(message)
    }

    /// Sends lines as they are.
    ///
    /// # Errors
    /// The connection failed, or the daemon does not read.
    pub fn send_lines(&mut self, lines: &[u8]) -> Result<(), ClientError> {
        self.stream.set_write_timeout(Some(self.reply_timeout.longest()))?;
        match self.stream.write_all(lines) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                Err(self.last_words())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(self.reply_timeout.gave_up()),
            written => Ok(written?),
        }
    }

    /// Why a daemon that does not read any more is gone: it may have said so before.
    fn last_words(&mut self) -> ClientError {
        let deadline = Deadline::after(LAST_WORDS_TIMEOUT);
        loop {
            match self.receive(Some(deadline)) {
                Ok(Some(_)) => {}
                Err(error @ ClientError::TurnedAway { .. }) => return error,
                Ok(None) | Err(_) => return ClientError::hung_up(&self.stream),
            }
        }
    }

    /// The next message. `None`: the daemon closed the connection.
    ///
    /// # Errors
    /// The deadline came first, the connection failed or was refused, or what came is not a
    /// message.
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
                // A read that timed out: the caller finds the deadline passed.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && deadline.is_some() => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next message that is wanted; whatever else comes is left out. Waits for as long as the
    /// timeout says.
    fn wait_for(&mut self, mut is_wanted: impl FnMut(&Envelope) -> bool) -> Result<Envelope, ClientError> {
        let mut deadline = self.reply_timeout.deadline();
        let mut probe: Option<Envelope> = None;
        loop {
            match self.receive(Some(deadline)) {
                Ok(None) => return Err(ClientError::hung_up(&self.stream)),
                Ok(Some(message)) if is_wanted(&message) => return Ok(message),
                Ok(Some(message)) => {
                    if probe.as_ref().is_some_and(|ping| message.causation() == Some(ping.id())) {
                        // It is there, and sees to it itself that every request has an end.
                        probe = None;
                        deadline = self.reply_timeout.deadline();
                    }
                }
                Err(error @ ClientError::Silent { .. }) => match self.reply_timeout.ping_deadline() {
                    Some(later) if probe.is_none() => {
                        probe = Some(self.send(&ping())?);
                        deadline = later;
                    }
                    _ => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a request and waits for its outcome: a reply or an error. Whatever else comes
    /// meanwhile is left out.
    ///
    /// One request is under way at a time, so an error about a message that the daemon could not
    /// name is this one's.
    ///
    /// # Errors
    /// There is no outcome.
    pub fn request(&mut self, draft: &Draft) -> Result<Envelope, ClientError> {
        self.request_at(draft, None)
    }

    /// The same, of the node of the bus that has this name if one is named. A type that this node
    /// serves itself goes to no other.
    ///
    /// # Errors
    /// There is no outcome.
    pub fn request_at(&mut self, draft: &Draft, node: Option<&str>) -> Result<Envelope, ClientError> {
        let sent = self.send_to(draft, node)?;
        self.wait_for(|message| {
            let is_answer = message.kind().is_outcome() && message.causation() == Some(sent.id());
            is_answer || names_no_message(message)
        })
    }

    /// Sends an event and makes sure that the daemon took it.
    ///
    /// An event has no outcome, but a refusal is written at once: so whatever is answered after it
    /// shows that it was taken.
    ///
    /// # Errors
    /// The connection failed before that was known.
    pub fn emit(&mut self, draft: &Draft) -> Result<Emitted, ClientError> {
        let event = self.send(draft)?;
        let ping = self.send(&ping())?;
        let is_refusal = |message: &Envelope| {
            let is_answer = message.kind() == Kind::Error && message.causation() == Some(event.id());
            is_answer || names_no_message(message)
        };
        let is_pong =
            |message: &Envelope| message.kind().is_outcome() && message.causation() == Some(ping.id());
        let told = self.wait_for(|message| is_refusal(message) || is_pong(message))?;
        let refusal = is_refusal(&told).then_some(told);
        Ok(Emitted { event, refusal })
    }

    /// The stream, and what was read from it and not yet taken.
    #[must_use]
    pub fn into_parts(self) -> (Stream, Lines) {
        (self.stream, self.lines)
    }
}

/// An id that nobody else has: 128 random bits.
#[must_use]
pub fn fresh_id() -> String {
    let mut bytes = [0_u8; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if filled != Ok(bytes.len()) {
        // Only ancient kernels, right after their start: time and process tell two ids apart as
        // well.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;

    fn answer(request: &str, data: &str) -> String {
        let request = Envelope::parse(request.trim_end().as_bytes()).unwrap();
        let (id, name) = (request.id(), request.type_name());
        format!(
            "{{\"kind\":\"reply\",\"type\":\"{name}\",\"data\":{data},\"metadata\":{{\"id\":\"r\",\"timestamp\":1,\"causation\":\"{id}\"}}}}\n"
        )
    }

    #[test]
    fn without_a_time_a_daemon_is_waited_for_while_it_answers_pings_and_no_longer() {
        let (stream, peer) = UnixStream::pair().unwrap();
        let mut client = Client::new(Stream::Unix(stream), ReplyTimeout::short());
        let daemon = std::thread::spawn(move || {
            let mut lines = BufReader::new(peer.try_clone().unwrap());
            let mut next = || {
                let mut line = String::new();
                lines.read_line(&mut line).unwrap();
                line
            };
            let request = next();
            for _ in 0..2 {
                let ping = next();
                assert!(ping.contains("Syscall.Ping"), "{ping}");
                (&peer).write_all(answer(&ping, "null").as_bytes()).unwrap();
            }
            (&peer).write_all(answer(&request, "7").as_bytes()).unwrap();
            // Silent from here on, until the client has gone.
            while !next().is_empty() {}
        });
        let draft = Draft::new(Kind::Query, "App.Slow", Json::null());
        assert_eq!(client.request(&draft).unwrap().data(), "7");
        let error = client.request(&draft).unwrap_err();
        assert_eq!(error.to_string(), "the daemon has not answered within 20ms, nor 1s later");
        drop(client);
        daemon.join().unwrap();
    }

    #[test]
    fn a_daemon_that_takes_no_bytes_is_given_up_too() {
        let (stream, _peer) = UnixStream::pair().unwrap();
        let mut client = Client::new(Stream::Unix(stream), ReplyTimeout::short());
        let error = client.send_lines(&vec![b'x'; 16 << 20]).unwrap_err();
        assert!(matches!(error, ClientError::Silent { .. }), "{error}");
    }
}
