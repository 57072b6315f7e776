//! `mainspring pipe`: messages in, messages out, one a line.

use super::output;
use super::target::{Failure, Target};
use crate::client::{ClientError, Lines, Stream, fresh_id, now_ms};
use mainspring_message::{Draft, Json, Kind};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::io::{self, Write};
use std::net::Shutdown;
use std::process::ExitCode;
use std::sync::mpsc;

const EXAMPLES: &str = "\
Examples:
  mainspring pipe < requests.ndjson > answers.ndjson
  echo '{\"kind\":\"query\",\"type\":\"Memory.Get\",\"data\":{\"key\":\"a\"}}' | mainspring pipe | jq .data
  (echo '{\"kind\":\"command\",\"type\":\"Sys.Subscribe\",\"data\":{\"types\":[\"*\"]}}'; cat) | mainspring pipe

A line without `metadata` gets an id and a timestamp; every other line is sent as it is. Whatever comes back is printed as it came, in the order in
which it came: `metadata.causation` says what it answers. It ends when the input has ended and everything is answered.

Exit code: 0 everything was sent and answered (an error is an answer); 1 the daemon ended the connection first; 2 a line of the input is not JSON (what
came before it was sent); 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    pipe(&arguments.target).map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}

fn pipe(target: &Target) -> Result<(), Failure> {
    let (mut stream, mut lines) = target.connect()?.into_parts();
    let sending = stream.try_clone().map_err(ClientError::from)?;
    let (done, fed) = mpsc::channel();
    // Sending waits while the daemon does not read, and receiving while nobody reads us: neither may wait for the other.
    std::thread::spawn(move || {
        let mut sending = sending;
        // Told before the daemon learns that nothing more comes, so it is known when the daemon hangs up for that.
        let _ = done.send(feed(&mut sending));
        let _ = sending.shutdown(Shutdown::Write);
    });
    output::end_with_reader();
    print_answers(&mut stream, &mut lines)?;
    // The daemon hung up. That is as it should be if there was nothing more to send.
    match fed.try_recv() {
        Ok(outcome) => outcome,
        Err(_) => Err(ClientError::Closed.into()),
    }
}

/// Sends what comes on standard input until that ends.
fn feed(stream: &mut Stream) -> Result<(), Failure> {
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
            outcome = take(line, number, &mut outgoing);
        }
        if count == 0 && outcome.is_ok() {
            // The last line may lack its end.
            outcome = lines.rest().map_or(Ok(()), |rest| take(rest, number + 1, &mut outgoing));
        }
        // All that came with one read is sent with one write. That the daemon is gone is told by whoever reads from it.
        let _ = stream.write_all(&outgoing);
        outgoing.clear();
        if count == 0 || outcome.is_err() {
            return outcome;
        }
    }
}

/// A message without the part that nobody wants to write by hand.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Short<'a> {
    kind: &'a str,
    #[serde(rename = "type")]
    type_name: &'a str,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Adds a line to what is sent.
fn take(line: &[u8], number: usize, outgoing: &mut Vec<u8>) -> Result<(), Failure> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    match completed(line) {
        Some(message) => outgoing.extend_from_slice(message.as_bytes()),
        // Only what could not even be answered is refused here: the daemon's words about everything else are better.
        None if serde_json::from_slice::<&RawValue>(line).is_err() => {
            return Err(Failure::Usage(format!("line {number} of the input is not JSON")));
        }
        None => outgoing.extend_from_slice(line),
    }
    outgoing.push(b'\n');
    Ok(())
}

/// The message of a line that has no metadata.
fn completed(line: &[u8]) -> Option<String> {
    let short: Short<'_> = serde_json::from_slice(line).ok()?;
    let data = Json::parse(short.data.map_or("{}", RawValue::get)).ok()?;
    let draft = Draft::new(Kind::from_wire(short.kind)?, short.type_name, data);
    draft.check().ok()?;
    Some(draft.compose(&fresh_id(), now_ms(), &mut String::new()).line().to_owned())
}

fn print_answers(stream: &mut Stream, lines: &mut Lines) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    loop {
        match lines.fill(stream) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(ClientError::from(error).into()),
        }
        let mut text = Vec::new();
        while let Some(line) = lines.next_line() {
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
        take(line.as_bytes(), 1, &mut outgoing).map(|()| String::from_utf8(outgoing).unwrap())
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
