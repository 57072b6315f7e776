//! CloudEvents 1.0, structured and binary, in and out.

use crate::problem::Problem;
use hyper::{HeaderMap, StatusCode};
use mainspring_message::{Envelope, Json, NAME_BYTES_MAX, write_json_string};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// An event as somebody else sent it.
#[derive(Debug, PartialEq)]
pub(crate) struct CloudEvent {
    pub(crate) id: String,
    pub(crate) type_name: String,
    pub(crate) data: String,
    pub(crate) correlation: Option<String>,
    pub(crate) traceparent: Option<String>,
    /// More members of the metadata, each after a comma.
    pub(crate) extra: String,
}

#[derive(Deserialize)]
struct Structured<'a> {
    specversion: String,
    id: String,
    source: String,
    #[serde(rename = "type")]
    type_name: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    data_base64: Option<Value>,
    correlationid: Option<String>,
    traceparent: Option<String>,
}

fn bad(text: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, text)
}

/// `Content-Type: application/cloudevents+json`: everything is in the body.
pub(crate) fn read_structured(body: &[u8]) -> Result<CloudEvent, Problem> {
    let event: Structured<'_> =
        serde_json::from_slice(body).map_err(|error| bad(format!("not a CloudEvent: {error}")))?;
    if event.data_base64.is_some() {
        return Err(bad("data_base64: events carry JSON here"));
    }
    let data = event.data.map_or("null", RawValue::get);
    checked(
        &event.specversion,
        event.id,
        event.type_name,
        data,
        &event.source,
        event.correlationid,
        event.traceparent,
    )
}

/// `ce-*` headers: the body is the data.
pub(crate) fn read_binary(headers: &HeaderMap, body: &[u8]) -> Result<CloudEvent, Problem> {
    let optional = |name: &str| {
        let value = headers.get(format!("ce-{name}"))?.to_str().ok()?;
        Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
    };
    let needed = |name: &str| {
        optional(name).ok_or_else(|| {
            bad(format!("there is no ce-{name} header, and the body is not application/cloudevents+json"))
        })
    };
    let text = std::str::from_utf8(body).map_err(|error| bad(format!("the body is not UTF-8: {error}")))?;
    let text = if text.trim_ascii().is_empty() { "null" } else { text };
    let (version, id, type_name) = (needed("specversion")?, needed("id")?, needed("type")?);
    let source = needed("source")?;
    checked(&version, id, type_name, text, &source, optional("correlationid"), optional("traceparent"))
}

fn checked(
    version: &str,
    id: String,
    type_name: String,
    data: &str,
    source: &str,
    correlation: Option<String>,
    traceparent: Option<String>,
) -> Result<CloudEvent, Problem> {
    if version != "1.0" {
        return Err(bad(format!("specversion {version:?}: 1.0 is spoken here")));
    }
    for (name, value) in [("id", &id), ("source", &source.to_owned()), ("type", &type_name)] {
        if value.is_empty() {
            return Err(bad(format!("{name}: is empty")));
        }
    }
    if id.len() > NAME_BYTES_MAX {
        return Err(bad("id: must be at most 256 bytes long"));
    }
    let data = Json::parse(data).map_err(|error| bad(format!("the data is {error}")))?;
    let mut extra = String::from(",\"source\":");
    write_json_string(source, &mut extra);
    let traceparent = traceparent.filter(|text| (1..=NAME_BYTES_MAX).contains(&text.len()));
    Ok(CloudEvent { id, type_name, data: data.as_str().to_owned(), correlation, traceparent, extra })
}

/// What the standard says of an event besides its data.
pub(crate) fn attributes(event: &Envelope) -> Vec<(&'static str, String)> {
    let metadata: Value = serde_json::from_str(event.metadata()).unwrap_or_default();
    let source = metadata.get("source").and_then(Value::as_str).unwrap_or("/mainspring");
    let mut all = vec![
        ("specversion", "1.0".to_owned()),
        ("id", event.id().to_owned()),
        ("type", event.type_name().to_owned()),
        ("source", source.to_owned()),
        ("time", rfc3339(event.timestamp_ms())),
    ];
    let optional = [
        ("correlationid", event.correlation()),
        ("causationid", event.causation()),
        ("traceparent", event.traceparent()),
    ];
    all.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?.to_owned()))));
    all
}

/// An attribute as a header has it.
pub(crate) fn header_value(value: &str) -> String {
    /// What the standard has encoded, besides everything that is not ASCII.
    const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');
    utf8_percent_encode(value, ENCODED).to_string()
}

/// An event of ours as a CloudEvent, structured.
pub(crate) fn write(event: &Envelope) -> String {
    let mut object = Map::new();
    for (name, value) in attributes(event) {
        object.insert(name.to_owned(), json!(value));
    }
    object.insert("datacontenttype".to_owned(), json!("application/json"));
    let mut text = Value::Object(object).to_string();
    // The data as it was written: numbers stay as they are.
    text.pop();
    text.push_str(",\"data\":");
    text.push_str(event.data());
    text.push('}');
    text
}

/// A time as RFC 3339 writes it, in UTC.
fn rfc3339(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    format!("{:.3}", time.unwrap_or(jiff::Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structured_event_keeps_its_data_as_it_was_written() {
        let body = br#"{"specversion":"1.0","id":"1","source":"/s","type":"Order.Placed","data":{"n":1.50}}"#;
        let event = read_structured(body).unwrap();
        assert_eq!((event.data.as_str(), event.type_name.as_str()), (r#"{"n":1.50}"#, "Order.Placed"));
        for bad in [
            "",
            "{}",
            "[]",
            r#"{"specversion":"0.3","id":"1","source":"s","type":"A.B"}"#,
            r#"{"specversion":"1.0","id":"","source":"s","type":"A.B"}"#,
            r#"{"specversion":"1.0","id":"1","source":"","type":"A.B"}"#,
        ] {
            assert!(read_structured(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_written_as_rfc_3339() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_001), "2000-02-29T00:00:00.001Z");
        assert_eq!(rfc3339(1_767_910_000_000), "2026-01-08T22:06:40.000Z");
        assert_eq!(rfc3339(4_102_444_799_999), "2099-12-31T23:59:59.999Z");
    }
}
