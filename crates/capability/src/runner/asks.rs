//! Requests that a capability makes itself: their drafts, and what their answers mean.

use crate::ask::{Ask, AskError, Reply};
use crate::runner::line;
use mainspring_message::{Draft, Envelope, Kind, Started, check_type_name};

/// What an [`Ask`] ends with.
pub type Answer = Result<Reply, AskError>;

/// The line of a request that a message caused, without its end.
///
/// # Errors
/// The daemon would not take it.
pub fn ask_line(cause: &Envelope, ask: &Ask, id: &str, now_ms: u64) -> Result<String, AskError> {
    let refused = |words: String| unanswered(&ask.type_name, words, Some(Started::No));
    check_type_name(&ask.type_name).map_err(|reason| refused(reason.to_owned()))?;
    let data = ask.data.clone().map_err(&refused)?;
    let mut draft = Draft::caused_by(cause, ask.kind, ask.type_name.as_str(), data);
    draft.timeout_ms = ask.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1));
    draft.check().map_err(|(field, reason)| refused(format!("{field}: {reason}")))?;
    line(&draft, id, now_ms).map_err(|failure| refused(failure.secret.unwrap_or_default()))
}

/// What the reply or error to a request of a type means.
pub fn answer(type_name: &str, message: Envelope) -> Answer {
    match message.kind() {
        Kind::Reply => Ok(Reply(message)),
        _ => Err(AskError::of(&message, type_name)),
    }
}

/// A request of a type that has no answer.
#[must_use]
pub fn unanswered(type_name: &str, words: String, started: Option<Started>) -> AskError {
    AskError::unanswered(type_name, words, started)
}

/// A request that will not be answered, because the input has ended.
#[must_use]
pub fn cut_off(type_name: &str) -> AskError {
    unanswered(type_name, format!("the input ended before {type_name} was answered"), None)
}
