//! `Sys.Tap`: messages as they pass.

use crate::builtins::{Answer, Caller, Whole, client, read};
use crate::egress::check_pattern;
use crate::flow::refusal::Refusal;
use crate::history::{Author, Record};
use crate::kernel::Kernel;
use crate::out::Cause;
use crate::requests::KnownCause;
use crate::taps::{Named, TapFilter, TapPace, ends};
use crate::time::Job;
use mainspring_message::{Envelope, Failure, Kind};
use serde::Deserialize;
use serde_json::json;

/// Patterns, capabilities and kinds that a tap may name.
const NAMES_MAX: usize = 256;
/// How long records may gather, in milliseconds.
const GATHER_MS_MAX: u64 = 10_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TapData {
    #[serde(default)]
    types: Vec<String>,
    #[serde(default)]
    capabilities: Vec<String>,
    #[serde(default)]
    kinds: Vec<String>,
    correlation: Option<String>,
    #[serde(default)]
    failed: bool,
    #[serde(default)]
    data: bool,
    #[serde(default)]
    trace: bool,
    per_second: Option<Whole>,
    gather_ms: Option<Whole>,
    #[serde(default)]
    off: bool,
}

/// What a span is told of where its message comes from.
#[derive(Default)]
struct TapOrigin {
    /// The id of the first request in the chain that led to it, if that is unfinished.
    root: Option<String>,
    /// Whether its author named a span other than the one that asked.
    is_own_span: bool,
}

impl Kernel {
    pub(in crate::builtins) fn tap(&mut self, request: &Envelope, caller: Caller) -> Answer {
        let connection = client(caller)?;
        let data: TapData = read(request)?;
        if data.off {
            self.taps.close(connection);
            return Ok(json!({ "tapping": false }).to_string());
        }
        let wrong = |text: String| Refusal::new(Failure::Schema, text);
        if [&data.types, &data.capabilities, &data.kinds].iter().any(|list| list.len() > NAMES_MAX) {
            return Err(Refusal::new(Failure::LimitExceeded, format!("data: more than {NAMES_MAX} names")));
        }
        for pattern in &data.types {
            check_pattern(pattern).map_err(|reason| wrong(format!("data.types: {pattern:?}: {reason}")))?;
        }
        let kinds = data.kinds.iter().map(|name| {
            let kind = Kind::from_wire(name).filter(|kind| !kind.is_outcome());
            kind.ok_or_else(|| wrong(format!("data.kinds: {name:?} is not command, query or event")))
        });
        let filter = TapFilter {
            kinds: kinds.collect::<Result<_, _>>()?,
            types: data.types,
            capabilities: data.capabilities,
            correlation: data.correlation,
            failed: data.failed,
            data: data.data,
            trace: data.trace,
        };
        let per_second = data.per_second.map(|Whole(records)| records.min(self.taps.per_second()));
        let gather_ms = data.gather_ms.map_or(0, |Whole(ms)| ms);
        if per_second == Some(0) || gather_ms > GATHER_MS_MAX {
            let text = format!("data: perSecond is at least 1, gatherMs at most {GATHER_MS_MAX}");
            return Err(wrong(text));
        }
        let rights = self.connections.rights(connection).cloned().unwrap_or_default();
        self.taps.open(connection, filter, TapPace { per_second, gather_ms }, &rights);
        let records = per_second.unwrap_or(self.taps.per_second());
        Ok(json!({ "tapping": true, "recordsPerSecond": records }).to_string())
    }

    /// A message passed: those who tap get a record of it.
    #[cold]
    pub(crate) fn tap_record(
        &mut self,
        record: &Record<'_>,
        message: Option<&Envelope>,
        answer: Option<&Envelope>,
    ) {
        let origin = match message {
            Some(message) if self.taps.want_traces() => self.origin_of(record, message),
            _ => TapOrigin::default(),
        };
        let (actors, connections, requests) = (&self.actors, &self.connections, &self.requests);
        let named = || {
            let (from, to) = ends(record);
            let place = match record.from {
                Author::Connection(connection) => connections.place(connection),
                _ => None,
            };
            Named {
                from: from.map(|capability| actors.id(capability)),
                to: to.map(|capability| actors.id(capability)),
                peer: place.and_then(|place| requests.peer_name(place.peer)),
                root: origin.root.as_deref(),
                is_own_span: origin.is_own_span,
            }
        };
        self.taps.record(record, named, message, answer, &self.out);
        if let Some(deadline_ns) = self.taps.new_alarm(self.out.now.mono_ns) {
            self.out.wheel.schedule(deadline_ns, Job::Tap);
        }
    }

    /// Where a message of a capability comes from, as far as that is known.
    fn origin_of(&mut self, record: &Record<'_>, message: &Envelope) -> TapOrigin {
        let (Author::Capability(capability), Some(causation)) = (record.from, record.causation) else {
            return TapOrigin::default();
        };
        let Some(KnownCause { key, workflow }) = self.find_cause(capability, causation) else {
            return TapOrigin::default();
        };
        let root = key.and_then(|key| self.requests.root_id(key)).map(str::to_owned);
        TapOrigin { root, is_own_span: message.traceparent() != workflow.traceparent.as_deref() }
    }

    /// Writes the records that wait to those who tap: at once if nobody else wants anything, else
    /// when there are many.
    #[cold]
    pub(crate) fn flush_taps(&mut self) {
        let (is_busy, now_ns) = (self.lanes.is_ready(), self.out.now.mono_ns);
        while let Some((connection, data)) = self.taps.next_event(is_busy, now_ns) {
            let event = self.out.message(Kind::Event, "Sys.Tapped", &data, Cause::NONE);
            self.write_event(connection, &event);
        }
    }
}
