//! From records of the tap to spans, as OTLP writes them in JSON.

use super::lineage::{Clues, LineagePlace, Places, TraceParent, named};
use serde::Deserialize;
use serde_json::{Value, json};

/// `SpanKind` of the protocol.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const PRODUCER: u8 = 4;
/// `StatusCode` of the protocol: an error.
const STATUS_ERROR: u8 = 2;

/// The data of `Sys.Tapped`.
#[derive(Deserialize)]
pub(super) struct Tapped {
    pub(super) records: Vec<Record>,
    /// Records that were not made, beyond the limit of a second.
    #[serde(default)]
    pub(super) skipped: u64,
}

/// One message, as a tap with `trace` tells it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    kind: String,
    #[serde(rename = "type")]
    type_name: String,
    id: String,
    causation: Option<String>,
    correlation: Option<String>,
    from: Party,
    to: Party,
    accepted_ns: i64,
    root: Option<String>,
    traceparent: Option<String>,
    #[serde(default)]
    own_span: bool,
    #[serde(default)]
    waited_us: u64,
    took_us: Option<u64>,
    #[serde(default)]
    attempts: u64,
    outcome: Option<Outcome>,
}

/// Who sent or got it.
#[derive(Deserialize)]
struct Party {
    capability: Option<String>,
    peer: Option<String>,
    connection: Option<u64>,
}

#[derive(Deserialize)]
struct Outcome {
    id: String,
    code: Option<u16>,
}

/// Spans of a record: the request or event, and the time that a capability worked on it. Nothing if
/// whoever asked does not want its requests recorded.
pub(super) fn of_record(record: &Record, epoch_ns: i128, places: &mut Places) -> Vec<Value> {
    let traceparent = record.traceparent.as_deref().and_then(TraceParent::read);
    let place = places.find(&Clues {
        id: &record.id,
        causation: record.causation.as_deref(),
        correlation: record.correlation.as_deref(),
        root: record.root.as_deref(),
        traceparent,
        // What a client names is its own.
        is_own_span: record.own_span || record.from.capability.is_none(),
        outcome_id: record.outcome.as_ref().map(|outcome| outcome.id.as_str()),
    });
    if !place.is_sampled {
        return Vec::new();
    }
    let at = |ns: i64| (epoch_ns + i128::from(ns)).max(0).to_string();
    let us = |us: u64| i64::try_from(us).unwrap_or(i64::MAX).saturating_mul(1000);
    let ended = record.accepted_ns.saturating_add(us(record.took_us.unwrap_or(0)));
    let kind = if record.took_us.is_some() { SERVER } else { PRODUCER };
    let mut span = json!({
        "traceId": hex(&place.trace),
        "spanId": hex(&place.span),
        "name": record.type_name,
        "kind": kind,
        "startTimeUnixNano": at(record.accepted_ns),
        "endTimeUnixNano": at(ended),
        "attributes": attributes(record),
    });
    if let Some(parent) = place.parent {
        span["parentSpanId"] = json!(hex(&parent));
    }
    if let Some(code) = record.outcome.as_ref().and_then(|outcome| outcome.code) {
        span["status"] = json!({ "code": STATUS_ERROR, "message": code.to_string() });
    }
    let began = record.accepted_ns.saturating_add(us(record.waited_us));
    let work = record.to.capability.as_deref().filter(|_| record.attempts > 0);
    let work = work.map(|capability| working(record, &place, capability, at(began), at(ended)));
    [Some(span), work].into_iter().flatten().collect()
}

/// The time that a capability had the request, last.
fn working(record: &Record, place: &LineagePlace, capability: &str, began: String, ended: String) -> Value {
    json!({
        "traceId": hex(&place.trace),
        "spanId": hex(&named::<8>("work", &record.id)),
        "parentSpanId": hex(&place.span),
        "name": format!("{} in {capability}", record.type_name),
        "kind": INTERNAL,
        "startTimeUnixNano": began,
        "endTimeUnixNano": ended,
        "attributes": [text("mainspring.capability", capability)],
    })
}

fn attributes(record: &Record) -> Vec<Value> {
    let mut all = vec![
        text("messaging.system", "mainspring"),
        text("messaging.destination.name", &record.type_name),
        text("messaging.message.id", &record.id),
        text("mainspring.kind", &record.kind),
    ];
    let optional = [
        ("messaging.message.conversation_id", &record.correlation),
        ("mainspring.from", &record.from.capability),
        ("mainspring.peer", &record.from.peer),
        ("mainspring.to", &record.to.capability),
    ];
    all.extend(optional.iter().filter_map(|(name, value)| Some(text(name, value.as_deref()?))));
    if let Some(connection) = record.from.connection {
        all.push(text("mainspring.connection", &connection.to_string()));
    }
    if record.attempts > 1 {
        all.push(number("mainspring.attempts", record.attempts));
    }
    if let Some(code) = record.outcome.as_ref().and_then(|outcome| outcome.code) {
        all.push(text("error.type", &code.to_string()));
    }
    all
}

pub(super) fn text(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}

/// Whole numbers of 64 bits are text in JSON.
fn number(name: &str, value: u64) -> Value {
    json!({ "key": name, "value": { "intValue": value.to_string() } })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
