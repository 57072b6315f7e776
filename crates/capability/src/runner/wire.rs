//! The lines that a capability writes, and what it reads from those that it gets.

use crate::failure::Failure;
use mainspring_message::{Draft, Envelope, Json, Kind, check_type_name};
use serde::Serialize;
use std::time::{Duration, SystemTime};

/// The longest line that a daemon takes, as shipped (`limits.line_bytes_max`).
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// How much of an error's words is told if all of them are too long.
const WORDS_BYTES_MAX: usize = 4096;
const CANCELLED: &str = "Sys.RequestCancelled";

/// How a request ended: its line, and what the log is told.
#[derive(Debug)]
pub struct Told {
    /// The line of the reply or error, without its end; `None` if not even the error can be
    /// written.
    pub line: Option<String>,
    /// Words for the log.
    pub log: Option<String>,
}

/// The line of a message, without its end, if the daemon would take it.
///
/// # Errors
/// It is too long, or nests too deeply.
pub fn line(draft: &Draft, id: &str, now_ms: u64) -> Result<String, Failure> {
    let fault = |words: String| Failure::fault(format_args!("{} {words}", draft.type_name.as_str()));
    if draft.data.is_too_deep() {
        return Err(fault("nests more than 128 levels deep with the message around it".to_owned()));
    }
    let mut line = String::with_capacity(draft.data.as_str().len() + 256);
    draft.parts(id, now_ms).append_to(&mut line);
    if line.len() > LINE_BYTES_MAX {
        return Err(fault(format!("is {} bytes long, and a line has at most {LINE_BYTES_MAX}", line.len())));
    }
    Ok(line)
}

/// The line of an event that a message caused, without its end.
///
/// # Errors
/// The type is none, the data cannot be written as JSON, or the daemon would not take the line.
pub fn event_line(
    cause: &Envelope,
    type_name: &str,
    data: &impl Serialize,
    id: &str,
    now_ms: u64,
) -> Result<String, Failure> {
    let fault = |words: &dyn std::fmt::Display| Failure::fault(format_args!("{type_name}: {words}"));
    check_type_name(type_name).map_err(|reason| fault(&reason))?;
    let data = Json::from_value(data)
        .map_err(|error| fault(&format_args!("the data cannot be written as JSON: {error}")))?;
    line(&Draft::caused_by(cause, Kind::Event, type_name, data), id, now_ms)
}

/// How a request ends, by what its handler returned. What an unexpected error says is for the log:
/// it may be about others' requests.
pub fn outcome(
    request: &Envelope,
    returned: Result<Json, Failure>,
    is_cancelled: bool,
    id: &str,
    now_ms: u64,
) -> Told {
    let written = returned.and_then(|data| line(&Draft::reply(request, data), id, now_ms));
    let failure = match written {
        Ok(line) => return Told { line: Some(line), log: None },
        Err(failure) => failure,
    };
    let type_name = request.type_name();
    let (code, words, log) = match failure.secret {
        None => (failure.code, failure.message, None),
        Some(_) if is_cancelled => (499, "cancelled".to_owned(), None),
        Some(secret) => {
            let words = format!("the handler of {type_name} failed; the capability's log says more");
            (failure.code, words, Some(format!("the handler of {type_name} failed: {secret}")))
        }
    };
    let error = |words: &str| line(&Draft::error(request, code, words), id, now_ms);
    let short = words.get(..WORDS_BYTES_MAX).unwrap_or("the error's own words are too long to be told");
    Told { line: error(&words).or_else(|_| error(short)).ok(), log }
}

/// The id of the request that a message says is cancelled; `None` if it says something else.
#[must_use]
pub fn cancelled_request(message: &Envelope) -> Option<String> {
    if message.kind() != Kind::Event || message.type_name() != CANCELLED {
        return None;
    }
    let data: serde_json::Value = serde_json::from_str(message.data()).unwrap_or_default();
    Some(message.causation().or(data["id"].as_str()).unwrap_or_default().to_owned())
}

/// The time until whoever sent a message gives up, given how long it has been here; `None` if that
/// is not known.
#[must_use]
pub fn time_left(message: &Envelope, here: Duration, now: SystemTime) -> Option<Duration> {
    let timeout = Duration::from_millis(message.timeout_ms()?);
    let sent = SystemTime::UNIX_EPOCH + Duration::from_millis(message.timestamp_ms());
    // Time in the mailbox counts as well. A clock that makes no sense is not believed.
    let age = now.duration_since(sent).ok().and_then(|age| age.checked_sub(here));
    let waited = age.filter(|age| *age < timeout).unwrap_or_default();
    Some(timeout.saturating_sub(waited + here))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Envelope {
        let line =
            r#"{"kind":"query","type":"A.B","data":{},"metadata":{"id":"q","timestamp":1000,"timeout":500}}"#;
        Envelope::parse(line.as_bytes()).unwrap()
    }

    fn told(returned: Result<Json, Failure>, is_cancelled: bool) -> (String, serde_json::Value, String) {
        let told = outcome(&request(), returned, is_cancelled, "1", 0);
        let message: serde_json::Value = serde_json::from_str(&told.line.unwrap()).unwrap();
        (message["kind"].as_str().unwrap().to_owned(), message["data"].clone(), told.log.unwrap_or_default())
    }

    #[test]
    fn the_words_of_a_fault_are_for_the_log_and_those_of_a_failure_for_whoever_asked() {
        let (kind, data, log) = told(Err(Failure::new(404, "no such note")), false);
        assert_eq!(
            (kind.as_str(), &data["code"], &data["message"]),
            ("error", &404.into(), &"no such note".into())
        );
        assert_eq!(log, "");
        let (_, data, log) = told(Err(Failure::fault("the secret")), false);
        assert!(!data.to_string().contains("secret") && log.contains("the secret"), "{data} {log}");
        let (_, data, log) = told(Err(Failure::fault("the secret")), true);
        assert_eq!((&data["code"], log.as_str()), (&499.into(), ""));
    }

    #[test]
    fn an_answer_that_no_line_holds_ends_its_request_with_an_error() {
        let long = Json::from_value(&"x".repeat(LINE_BYTES_MAX)).unwrap();
        let (kind, data, log) = told(Ok(long), false);
        assert_eq!((kind.as_str(), &data["code"]), ("error", &500.into()));
        assert!(log.contains("bytes long"), "{log}");
        let (_, data, _) = told(Err(Failure::new(409, "y".repeat(2 * LINE_BYTES_MAX))), false);
        assert_eq!(data["code"], 409);
    }

    #[test]
    fn time_in_the_mailbox_counts_and_a_clock_that_makes_no_sense_does_not() {
        let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let left =
            |here, now| time_left(&request(), Duration::from_millis(here), at(now)).unwrap().as_millis();
        assert_eq!(left(0, 1000), 500);
        assert_eq!(left(100, 1300), 200);
        assert_eq!(left(100, 900), 400, "sent in the future");
        assert_eq!(left(600, 1600), 0);
    }
}
