//! A message about to be sent, and JSON that is known to be JSON.

use crate::codes::{ErrorData, Failure, Started};
use crate::envelope::Envelope;
use crate::kind::Kind;
use crate::scan;
use crate::text::Text;
use serde::Serialize;
use std::fmt;

/// JSON text that can be spliced into a line.
///
/// One made from a value may nest more deeply than a message can; [`Draft::check`] finds that.
#[derive(Clone, PartialEq, Eq)]
pub struct Json {
    text: Text,
    too_deep: bool,
}

/// The text is not JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJson {
    /// Byte offset of the first byte that does not fit.
    pub at: usize,
    /// What would have fitted.
    pub expected: &'static str,
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not JSON at byte {}: expected {}", self.at, self.expected)
    }
}

impl std::error::Error for NotJson {}

impl Json {
    /// Checks `text`. Line breaks between tokens become spaces.
    ///
    /// # Errors
    /// When `text` is not exactly one JSON value, or nests so deeply that a message around it would
    /// go beyond [`DEPTH_MAX`](crate::DEPTH_MAX).
    pub fn parse(text: &str) -> Result<Json, NotJson> {
        match scan::check(text, 1) {
            Ok(false) => Ok(Json::from_checked(Text::from(text))),
            Ok(true) => Ok(Json::from_checked(Text::from(text.replace(['\n', '\r'], " ")))),
            Err(syntax) => Err(NotJson { at: syntax.at, expected: syntax.expected }),
        }
    }

    /// Writes `value` as JSON.
    ///
    /// # Errors
    /// When the value cannot be written (a map with keys that are no strings, for one).
    pub fn from_value(value: &impl Serialize) -> serde_json::Result<Json> {
        Ok(Json::from_written(serde_json::to_string(value)?))
    }

    /// Whether a message around it would nest beyond [`DEPTH_MAX`](crate::DEPTH_MAX).
    #[inline]
    pub fn is_too_deep(&self) -> bool {
        self.too_deep
    }

    /// JSON that nobody has measured yet.
    fn from_written(text: String) -> Json {
        let too_deep = scan::is_too_deep(&text, 1);
        Json { text: Text::from(text), too_deep }
    }

    /// JSON that was written down as it is, and is read by the build that wrote it.
    #[doc(hidden)]
    #[must_use]
    pub fn from_tape(text: &str) -> Json {
        Json::from_written(text.to_owned())
    }

    #[inline]
    pub(crate) fn from_checked(text: Text) -> Json {
        Json { text, too_deep: false }
    }

    /// `null`.
    pub fn null() -> Json {
        Json::from_checked(Text::from("null"))
    }

    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Json {
        Json::from_written(value.to_string())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A message as its author states it; whoever sends it adds the timestamp, and the id when there is
/// none.
///
/// ```
/// use mainspring_message::{Draft, Envelope, Json};
///
/// let line = br#"{"kind":"query","type":"Echo.Say","data":{"text":"hi"},"metadata":{"id":"q-1","timestamp":1}}"#;
/// let query = Envelope::parse(line)?;
/// let reply = Draft::reply(&query, query.data_json());
/// let sent = reply.compose("r-1", 2, &mut String::new());
/// assert_eq!(sent.causation(), Some("q-1"));
/// assert_eq!(sent.data(), r#"{"text":"hi"}"#);
/// # Ok::<(), mainspring_message::Rejection>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The kind.
    pub kind: Kind,
    /// The type.
    pub type_name: Text,
    /// The data.
    pub data: Json,
    /// The id; made up by the sender when absent.
    pub id: Option<Text>,
    /// The id of the message that caused this one.
    pub causation: Option<Text>,
    /// The workflow that it belongs to.
    pub correlation: Option<Text>,
    /// The span of another system that asks for it, as W3C writes it (`traceparent`).
    pub traceparent: Option<Text>,
    /// How long to wait for the outcome of a request.
    pub timeout_ms: Option<u64>,
}

impl Draft {
    /// A message of this kind and type that nothing caused.
    #[inline]
    pub fn new(kind: Kind, type_name: impl Into<Text>, data: Json) -> Draft {
        Draft {
            kind,
            type_name: type_name.into(),
            data,
            id: None,
            causation: None,
            correlation: None,
            traceparent: None,
            timeout_ms: None,
        }
    }

    /// A message of this kind and type that `cause` caused, in its workflow.
    #[inline]
    pub fn caused_by(cause: &Envelope, kind: Kind, type_name: impl Into<Text>, data: Json) -> Draft {
        Draft {
            causation: Some(cause.id_text()),
            correlation: cause.correlation_text(),
            traceparent: cause.traceparent_text(),
            ..Draft::new(kind, type_name, data)
        }
    }

    /// The reply to `request`.
    #[inline]
    pub fn reply(request: &Envelope, data: Json) -> Draft {
        Draft::caused_by(request, Kind::Reply, request.type_text(), data)
    }

    /// The error that ends `request`, with the request's own type. `code` is 400 to 599.
    pub fn error(request: &Envelope, code: u16, message: &str) -> Draft {
        let data = serde_json::json!({ "code": code, "message": message });
        Draft::caused_by(request, Kind::Error, request.type_text(), data.into())
    }

    /// The error by which the loop itself ends `request`.
    pub fn failure(request: &Envelope, failure: Failure, message: &str, started: Started) -> Draft {
        let mut data = String::new();
        let error = ErrorData {
            failure,
            message,
            original_id: Some(request.id()),
            original_type: Some(request.type_name()),
            started,
        };
        error.write(&mut data);
        Draft::caused_by(request, Kind::Error, failure.type_name(), Json::from_checked(Text::from(data)))
    }

    /// The message as a line, with `id` unless the draft has one of its own.
    pub fn compose(&self, id: &str, timestamp_ms: u64, scratch: &mut String) -> Envelope {
        self.parts(id, timestamp_ms).compose(scratch)
    }

    /// The parts of that line.
    #[inline]
    pub fn parts<'a>(&'a self, id: &'a str, timestamp_ms: u64) -> crate::Parts<'a> {
        crate::Parts {
            kind: self.kind,
            type_name: &self.type_name,
            data: self.data.as_str(),
            id: self.id.as_deref().unwrap_or(id),
            timestamp_ms,
            causation: self.causation.as_deref(),
            correlation: self.correlation.as_deref(),
            traceparent: self.traceparent.as_deref(),
            timeout_ms: self.timeout_ms,
            extra: "",
        }
    }

    /// Checks the rules that a line would be checked for.
    ///
    /// # Errors
    /// With the field at fault, as [`Envelope::parse`] would.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        crate::check_type_name(&self.type_name).map_err(|reason| ("type", reason))?;
        check_name("metadata.id", &self.id)?;
        check_name("metadata.causation", &self.causation)?;
        check_name("metadata.correlation", &self.correlation)?;
        check_name("metadata.traceparent", &self.traceparent)?;
        if self.timeout_ms.is_some_and(|timeout| timeout == 0 || timeout > crate::INTEGER_MAX) {
            return Err(("metadata.timeout", "must be between 1 and 2^53 milliseconds"));
        }
        if self.data.is_too_deep() {
            return Err(("data", "nests more than 128 levels deep with the message around it"));
        }
        if self.kind.is_outcome() && self.causation.is_none() {
            return Err(("metadata.causation", "is missing: a reply or error names its request"));
        }
        Ok(())
    }
}

fn check_name(field: &'static str, text: &Option<Text>) -> Result<(), (&'static str, &'static str)> {
    match text.as_deref().map_or(1, str::len) {
        0 => Err((field, "must not be empty")),
        1..=crate::NAME_BYTES_MAX => Ok(()),
        _ => Err((field, "must be at most 256 bytes long")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DEPTH_MAX;
    use serde_json::Value;

    fn nested(levels: u32) -> Json {
        (1..levels).fold(Value::Array(vec![]), |inner, _| Value::Array(vec![inner])).into()
    }

    #[test]
    fn a_draft_is_as_deep_as_the_line_that_is_made_of_it_may_be() {
        let draft = |data| Draft::new(Kind::Event, "Test.Deep", data);
        let deepest = draft(nested(DEPTH_MAX - 1));
        assert_eq!(deepest.check(), Ok(()));
        assert!(Envelope::parse(deepest.compose("e-1", 1, &mut String::new()).line().as_bytes()).is_ok());
        let deeper = draft(nested(DEPTH_MAX));
        assert_eq!(deeper.check().unwrap_err().0, "data");
        assert!(Envelope::parse(deeper.compose("e-1", 1, &mut String::new()).line().as_bytes()).is_err());
        let wide = Value::Array(vec![Value::Array(vec![]); 1000]);
        assert_eq!(draft(wide.into()).check(), Ok(()), "wide is not deep");
    }
}
