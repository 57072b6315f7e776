//! A record as JSON, written without anything in between: a tap at full load is made of these.

use crate::api::ids::Now;
use crate::history::{Audience, Author, Record};
use crate::out::MS;
use mainspring_message::{Envelope, is_too_deep, write_json_string};
use std::fmt::Write;

/// What the data of a message stands in, where a tap or a trace tells of it: the message that
/// tells, its data, their list, and the object for the one. That of an outcome stands one deeper.
pub(crate) const DATA_DEPTH: u32 = 4;

/// The names in a record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Named<'a> {
    /// The capability that it is from.
    pub(crate) from: Option<&'a str>,
    /// The capability that it is to.
    pub(crate) to: Option<&'a str>,
    /// The peer of the connection that it is from.
    pub(crate) peer: Option<&'a str>,
    /// The first of its causes that is unfinished; looked for only if somebody wants to know.
    pub(crate) root: Option<&'a str>,
    /// Whether its author named a span other than the one that asked for it.
    pub(crate) is_own_span: bool,
}

/// Appends a record. `shown` is the message and its answer, and how long data is shown at most.
pub(super) fn write(
    record: &Record<'_>,
    named: &Named<'_>,
    shown: Option<(&Envelope, Option<&Envelope>, usize)>,
    now: Now,
    out: &mut String,
) {
    let us = |from_ns: i64, to_ns: i64| to_ns.saturating_sub(from_ns).max(0) / 1000;
    let ago_ms = now.mono_ns.saturating_sub(record.accepted_ns).max(0) / MS;
    let at_ms = now.unix_ms.saturating_sub(ago_ms as u64);
    let _ = write!(out, "{{\"at\":{at_ms},\"kind\":\"{}\",\"type\":", record.kind.as_str());
    write_json_string(record.type_name, out);
    out.push_str(",\"id\":");
    write_json_string(record.id, out);
    optional(",\"causation\":", record.causation, out);
    optional(",\"correlation\":", record.correlation, out);
    out.push_str(",\"from\":");
    match (record.from, named.from) {
        (Author::Connection(connection), _) => {
            let _ = write!(out, "{{\"connection\":{}", connection.0);
            if named.peer.is_some() {
                optional(",\"peer\":", named.peer, out);
            }
            out.push('}');
        }
        (Author::Capability(_), name) => capability(name.unwrap_or_default(), out),
        (Author::Kernel, _) => out.push_str("{\"loop\":true}"),
    }
    out.push_str(",\"to\":");
    match (record.to, named.to) {
        (Audience::Capability(_), name) => capability(name.unwrap_or_default(), out),
        (Audience::Kernel, _) => out.push_str("{\"loop\":true}"),
        (Audience::Subscribers { capabilities, clients }, _) => {
            let _ = write!(out, "{{\"capabilities\":{capabilities},\"clients\":{clients}}}");
        }
    }
    if let Some((message, _, bytes_max)) = shown {
        data(message.data(), DATA_DEPTH, bytes_max, out);
    }
    if let Some(end) = record.end {
        let began_ns = if record.attempts > 0 { record.delivered_ns } else { end.ended_ns };
        let (waited, took) = (us(record.accepted_ns, began_ns), us(record.accepted_ns, end.ended_ns));
        let _ = write!(out, ",\"waitedUs\":{waited},\"tookUs\":{took},\"attempts\":{}", record.attempts);
        let kind = if end.code.is_some() { "error" } else { "reply" };
        let _ = write!(out, ",\"outcome\":{{\"kind\":\"{kind}\",\"id\":");
        write_json_string(end.outcome_id, out);
        if let Some(code) = end.code {
            let _ = write!(out, ",\"code\":{code}");
        }
        if let Some((_, Some(answer), bytes_max)) = shown {
            data(answer.data(), DATA_DEPTH + 1, bytes_max, out);
        }
        out.push('}');
    }
    out.push('}');
}

/// Adds what spans are made of to the record that was written last.
pub(super) fn add_trace(record: &Record<'_>, named: &Named<'_>, message: &Envelope, out: &mut String) {
    out.pop();
    let _ = write!(out, ",\"acceptedNs\":{}", record.accepted_ns);
    if named.root.is_some() {
        optional(",\"root\":", named.root, out);
    }
    if let Some(traceparent) = message.traceparent() {
        optional(",\"traceparent\":", Some(traceparent), out);
        if named.is_own_span {
            out.push_str(",\"ownSpan\":true");
        }
    }
    out.push('}');
}

fn optional(name: &str, value: Option<&str>, out: &mut String) {
    out.push_str(name);
    match value {
        Some(value) => write_json_string(value, out),
        None => out.push_str("null"),
    }
}

fn capability(name: &str, out: &mut String) {
    out.push_str("{\"capability\":");
    write_json_string(name, out);
    out.push('}');
}

/// Data as it was written, as a string if it nests too deeply for that, or how long it is.
fn data(text: &str, depth: u32, bytes_max: usize, out: &mut String) {
    if text.len() > bytes_max {
        let _ = write!(out, ",\"dataBytes\":{}", text.len());
    } else if is_too_deep(text, depth) {
        out.push_str(",\"data\":");
        write_json_string(text, out);
    } else {
        let _ = write!(out, ",\"data\":{text}");
    }
}
