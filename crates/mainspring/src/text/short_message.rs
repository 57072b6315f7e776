//! Messages without metadata, as people write them by hand: `pipe` and `up --batch` take them
//! alike.

use crate::client::fresh_id;
use mainspring_message::{Draft, Json, Kind};
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A message without the part that nobody wants to write by hand.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShortMessage<'a> {
    kind: &'a str,
    #[serde(rename = "type")]
    type_name: &'a str,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// The message of a line that has no metadata: with a fresh id, a timestamp, and the timeout if it
/// is a request. Any other line is `None`, and stays as it is.
pub(crate) fn completed(line: &[u8], timeout_ms: Option<u64>, unix_ms: u64) -> Option<String> {
    // Mostly there is metadata, and then nothing need be parsed to know it.
    if memmem::find(line, b"\"metadata\"").is_some() {
        return None;
    }
    let short: ShortMessage<'_> = serde_json::from_slice(line).ok()?;
    let data = Json::parse(short.data.map_or("{}", RawValue::get)).ok()?;
    let kind = Kind::from_wire(short.kind)?;
    let mut draft = Draft::new(kind, short.type_name, data);
    draft.timeout_ms = timeout_ms.filter(|_| matches!(kind, Kind::Command | Kind::Query));
    draft.check().ok()?;
    Some(draft.compose(&fresh_id(), unix_ms, &mut String::new()).line().to_owned())
}
