//! `mainspring pipe`: messages in, messages out, one a line.

use crate::cli::support::output;
use crate::cli::support::target::{Failure, Target};
use crate::client::{ClientError, Lines, ReplyTimeout, Stream, now_ms};
use crate::text::short_message::completed;
use mainspring_message::{Envelope, Kind};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::io::{self, Write};
use std::net::Shutdown;
use std::process::ExitCode;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};

const EXAMPLES: &str = "\
Examples:
  mainspring pipe < requests.ndjson > answers.ndjson
  echo '{\"kind\":\"query\",\"type\":\"Memory.Get\",\"data\":{\"key\":\"a\"}}' | mainspring pipe | jq .data
  (echo '{\"kind\":\"command\",\"type\":\"Sys.Subscribe\",\"data\":{\"types\":[\"*\"]}}'; cat) | mainspring pipe

A line without `metadata` gets an id and a timestamp, and the timeout if there is one; every other line is sent as it is. Whatever comes back is \
printed as it came, in the order in which it came: `metadata.causation` says what it answers.

It ends when the input has ended and everything is answered. Whoever has subscribed to events stays for them: until the daemon ends, nobody reads the \
output any more, or the time is up. --timeout is the time after the end of the input, and how long the daemon may leave a message unread; without it \
both may take for ever.

Exit code: 0 everything was sent and answered (an error is an answer); 1 the daemon ended the connection first, or the time was up; 2 a line of the \
input is not JSON (what came before it was sent); 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct PipeArguments {
    #[command(flatten)]
    target: Target,
}

pub(in crate::cli) fn run(arguments: &PipeArguments) -> ExitCode {
    pipe(&arguments.target).map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

fn pipe(target: &Target) -> Result<(), Failure> {
    let (mut stream, mut lines) = target.connect()?.into_parts();
    let reply_timeout = target.timeout().map(|_| target.reply_timeout());
    // Without a time, a daemon may hold us back for as long as it has enough to do.
    stream.set_write_timeout(reply_timeout.map(ReplyTimeout::longest)).map_err(ClientError::from)?;
    let mut feeder = Feeder {
        stream: stream.try_clone().map_err(ClientError::from)?,
        reply_timeout,
        timeout_ms: target.timeout_ms(),
        unanswered: Arc::default(),
    };
    let unanswered = Arc::clone(&feeder.unanswered);
    let (done, fed) = mpsc::channel();
    // Sending waits while the daemon does not read, and receiving while nobody reads us: neither
    // may wait for the other.
    std::thread::spawn(move || {
        let fed = feeder.feed();
        // From a daemon that was given up nothing is waited for.
        let end = if matches!(fed, Err(Failure::Client(_))) { Shutdown::Both } else { Shutdown::Write };
        // Told before the daemon learns that nothing more comes, so it is known when the daemon
        // hangs up for that.
        let _ = done.send(fed);
        let _ = feeder.stream.shutdown(end);
        if let Some(reply_timeout) = reply_timeout {
            std::thread::sleep(reply_timeout.longest());
            let _ = done.send(Err(reply_timeout.gave_up().into()));
            let _ = feeder.stream.shutdown(Shutdown::Both);
        }
    });
    output::end_with_reader();
    let answered_bytes = print_answers(&mut stream, &mut lines, &unanswered)?;
    if let (0, error @ ClientError::OfAnotherUser { .. }) = (answered_bytes, ClientError::hung_up(&stream)) {
        return Err(error.into());
    }
    // The daemon hung up. That is as it should be if there was nothing more to send, and it was not
    // we who gave up.
    match fed.try_recv() {
        Ok(outcome) => {
            outcome?;
            fed.try_recv().unwrap_or(Ok(()))?;
        }
        Err(_) => return Err(ClientError::hung_up(&stream).into()),
    }
    match unanswered.load(Ordering::Relaxed) {
        ..=0 => Ok(()),
        _ => Err(ClientError::hung_up(&stream).into()),
    }
}

/// What sends the messages.
struct Feeder {
    stream: Stream,
    /// How long the daemon may leave us waiting, if that was said.
    reply_timeout: Option<ReplyTimeout>,
    /// What messages say about it that have no metadata of their own.
    timeout_ms: Option<u64>,
    /// Lines that the daemon has yet to answer. Whoever repeats itself may be answered early, so it
    /// may be below zero for a while.
    unanswered: Arc<AtomicI64>,
}

impl Feeder {
    /// Sends what comes on standard input until that ends.
    fn feed(&mut self) -> Result<(), Failure> {
        let mut lines = Lines::default();
        let mut stdin = io::stdin().lock();
        let mut outgoing = Vec::new();
        let mut number = 0;
        loop {
            let count = match lines.fill(&mut stdin) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::Usage(format!("cannot read standard input: {error}"))),
                Ok(count) => count,
            };
            let mut outcome = Ok(());
            while let (Ok(()), Some(line)) = (&outcome, lines.next_line()) {
                number += 1;
                outcome = self.take(line, number, &mut outgoing);
            }
            if count == 0 && outcome.is_ok() {
                // The last line may lack its end.
                outcome = lines.rest().map_or(Ok(()), |rest| self.take(rest, number + 1, &mut outgoing));
            }
            self.send(&outgoing)?;
            outgoing.clear();
            if count == 0 || outcome.is_err() {
                return outcome;
            }
        }
    }

    /// Adds a line to what is sent.
    fn take(&self, line: &[u8], number: usize, outgoing: &mut Vec<u8>) -> Result<(), Failure> {
        if take(line, number, self.timeout_ms, outgoing)? {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// All that came with one read is sent with one write.
    fn send(&mut self, lines: &[u8]) -> Result<(), Failure> {
        match (self.stream.write_all(lines), self.reply_timeout) {
            (Err(error), Some(reply_timeout)) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(reply_timeout.gave_up().into())
            }
            // That the daemon is gone is told by whoever reads from it.
            _ => Ok(()),
        }
    }
}

/// Any message, as far as it matters who answers it.
#[derive(Deserialize)]
struct NamedMessage<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

/// Adds a line to what is sent; says whether it will be answered.
fn take(
    line: &[u8],
    number: usize,
    timeout_ms: Option<u64>,
    outgoing: &mut Vec<u8>,
) -> Result<bool, Failure> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(false);
    }
    match completed(line, timeout_ms, now_ms()) {
        Some(message) => outgoing.extend_from_slice(message.as_bytes()),
        // Only what could not even be answered is refused here: the daemon's words about everything
        // else are better.
        None if serde_json::from_slice::<&RawValue>(line).is_err() => {
            return Err(Failure::Usage(format!("line {number} of the input is not JSON")));
        }
        None => outgoing.extend_from_slice(line),
    }
    outgoing.push(b'\n');
    // Nobody answers an event or an error; whatever is no message at all is answered with an error.
    let is_silent = |kind: &str| matches!(Kind::from_wire(kind), Some(Kind::Event | Kind::Error));
    Ok(!serde_json::from_slice::<NamedMessage<'_>>(line).is_ok_and(|named| is_silent(&named.kind)))
}

/// Prints what comes back until the daemon hangs up, and says how many bytes that was.
fn print_answers(stream: &mut Stream, lines: &mut Lines, unanswered: &AtomicI64) -> Result<usize, Failure> {
    let mut stdout = io::stdout().lock();
    let mut bytes = 0;
    loop {
        match lines.fill(stream) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(bytes),
            Err(error) => return Err(ClientError::from(error).into()),
        }
        let mut text = Vec::new();
        while let Some(line) = lines.next_line() {
            if Envelope::parse(line).is_ok_and(|message| message.kind().is_outcome()) {
                unanswered.fetch_sub(1, Ordering::Relaxed);
            }
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        stdout.write_all(&text)?;
        stdout.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(line: &str) -> Result<String, Failure> {
        let mut outgoing = Vec::new();
        take(line.as_bytes(), 1, None, &mut outgoing).map(|_| String::from_utf8(outgoing).unwrap())
    }

    #[test]
    fn what_will_be_answered_is_known() {
        let is_answered = |line: &str| take(line.as_bytes(), 1, None, &mut Vec::new()).unwrap();
        for line in [r#"{"kind":"query","type":"A.B"}"#, r#"{"kind":1}"#, "7", r#"{"kind":"reply"}"#] {
            assert!(is_answered(line), "{line}");
        }
        for line in ["  ", r#"{"kind":"event","type":"A.B"}"#, r#"{"type":"A.B","kind":"error"}"#] {
            assert!(!is_answered(line), "{line}");
        }
    }

    #[test]
    fn a_line_without_metadata_becomes_a_message_and_every_other_line_stays() {
        let short = taken(r#"{"kind":"query","type":"A.B","data":{"x": 1.0}}"#).unwrap();
        let message: serde_json::Value = serde_json::from_str(&short).unwrap();
        assert!(short.contains(r#""data":{"x": 1.0}"#) && message["metadata"]["id"].is_string());
        assert!(taken(r#"{"kind":"query","type":"A.B"}"#).unwrap().contains(r#""data":{}"#));
        for same in [
            r#"{"kind":"query","type":"A.B","data":1,"metadata":{"id":"a","timestamp":1}}"#,
            r#"{"kind":"noise"}"#,
            "[]",
        ] {
            assert_eq!(taken(same).unwrap(), format!("{same}\n"));
        }
        assert_eq!(taken("  ").unwrap(), "");
        assert!(matches!(taken("{"), Err(Failure::Usage(text)) if text.contains("line 1")));
    }
}
