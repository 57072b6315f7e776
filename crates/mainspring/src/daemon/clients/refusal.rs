//! What the daemon tells clients that the kernel does not know.

use mainspring_message::{ErrorData, Failure, Kind, Parts, Started};

/// What an error that is about no message in particular names as its cause.
pub(crate) const CONNECTION: &str = "connection";

/// An error line, with its line break, about no message in particular.
pub(crate) fn line(failure: Failure, text: &str, unix_ms: u64) -> String {
    let mut data = String::new();
    let error =
        ErrorData { failure, message: text, original_id: None, original_type: None, started: Started::No };
    error.write(&mut data);
    let parts = Parts {
        kind: Kind::Error,
        type_name: failure.type_name(),
        data: &data,
        id: "refused",
        timestamp_ms: unix_ms,
        causation: Some(CONNECTION),
        correlation: None,
        traceparent: None,
        timeout_ms: None,
        extra: "",
    };
    format!("{}\n", parts.compose(&mut String::new()).line())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainspring_message::Envelope;

    #[test]
    fn a_refusal_is_a_message_like_any_other() {
        let text = line(Failure::Overloaded, "there are too many connections", 7);
        let message = Envelope::parse(text.trim_end().as_bytes()).expect("a message");
        assert_eq!((message.kind(), message.type_name()), (Kind::Error, "Sys.Overloaded"));
        assert!(message.data().contains("503"));
    }
}
