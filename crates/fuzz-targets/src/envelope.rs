//! A line that should be a message: whatever is accepted is JSON to everybody else too, and says
//! the same.

use mainspring_message::Envelope;
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) fn run(bytes: &[u8]) {
    let Ok(message) = Envelope::parse(bytes) else { return };
    let line = serde_json::from_str::<&RawValue>(message.line()).expect("an accepted line is JSON");
    let again = Envelope::parse(message.line().as_bytes()).expect("an accepted line is accepted again");
    assert_eq!(again.line(), message.line());
    // Half a character in `\u` and a number beyond every range are JSON, but no value.
    let Ok(value) = serde_json::from_str::<Value>(line.get()) else { return };
    assert_eq!(value["kind"], message.kind().to_string());
    assert_eq!(value["type"], message.type_name());
    assert_eq!(value["metadata"]["id"], message.id());
    assert_eq!(value["metadata"]["causation"].as_str(), message.causation());
    assert_eq!(value["metadata"]["correlation"].as_str(), message.correlation());
    let data: Value = serde_json::from_str(message.data()).expect("data is JSON");
    assert_eq!(value["data"], data);
    // What the kernel adds on the way leaves a message that is one.
    let marked = message.with_metadata_number("attempt", 2);
    let value: Value = serde_json::from_str(marked.line()).expect("a marked line is JSON");
    assert_eq!(value["metadata"]["attempt"], 2);
    assert_eq!((marked.id(), marked.data()), (message.id(), message.data()));
}
