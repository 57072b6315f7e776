//! `Sys.Trace`: the messages of one workflow, or of one tree of causes, from the history.

use super::{Answer, read};
use crate::history::{Audience, Author, End, Record};
use crate::ids::Now;
use crate::ingest::Refusal;
use crate::kernel::{Kernel, MS};
use crate::requests::{Live, Origin, Recipient, RequestKey};
use crate::routes::Handler;
use hashbrown::HashSet;
use mainspring_message::{Envelope, Failure, Kind};
use serde::Deserialize;
use serde_json::{Value, json};

/// Messages in one answer at most: the latest.
const NODES_MAX: usize = 1000;
/// How often the history is searched for relatives of a message at most; each time goes one way through it.
const SEARCHES_MAX: usize = 32;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceData {
    correlation: Option<String>,
    id: Option<String>,
}

impl Kernel {
    /// Remembers a request that ended.
    #[inline]
    pub(crate) fn remember_request(&mut self, handler: Handler, live: &Live, answer: &Envelope, now: Now) {
        if !self.history.is_on() {
            return;
        }
        let code = (answer.kind() == Kind::Error).then(|| code_of(answer.data()));
        let end = End { ended_ns: now.mono_ns, code, outcome_id: answer.id() };
        self.history.push(&record_of(handler, live, Some(end)));
    }

    /// Remembers an event that was told to so many.
    pub(crate) fn remember_event(&mut self, event: &Envelope, from: Author, to: Audience, now: Now) {
        if !self.history.is_on() {
            return;
        }
        self.history.push(&Record {
            kind: event.kind(),
            type_name: event.type_name(),
            id: event.id(),
            causation: event.causation(),
            correlation: event.correlation(),
            from,
            to,
            accepted_ns: now.mono_ns,
            delivered_ns: now.mono_ns,
            attempts: 0,
            end: None,
        });
    }

    pub(super) fn trace(&self, request: &Envelope, asked: RequestKey, now: Now) -> Answer {
        let data: TraceData = read(request)?;
        if !self.history.is_on() {
            let text = "there is no history: limits.history_bytes_max is 0";
            return Err(Refusal::new(Failure::Routing, text));
        }
        let unfinished =
            self.requests.live_keys().into_iter().filter(|key| *key != asked).filter_map(|key| {
                let live = self.requests.get(key)?;
                Some(record_of(self.requests.entry(key.slot()).handler, live, None))
            });
        let all: Vec<Record<'_>> = self.history.records().chain(unfinished).collect();
        let mut found: Vec<&Record<'_>> = match (&data.correlation, &data.id) {
            (Some(flow), None) => all.iter().filter(|it| it.correlation == Some(flow)).collect(),
            (None, Some(id)) => relatives(&all, id),
            _ => {
                return Err(Refusal::new(Failure::Schema, "data: needs either correlation or id"));
            }
        };
        found.sort_by_key(|record| record.accepted_ns);
        let left_out = found.len().saturating_sub(NODES_MAX);
        let shown = &found[left_out..];
        let start_ns = shown.first().map_or(now.mono_ns, |record| record.accepted_ns);
        let nodes: Vec<Value> = shown.iter().map(|record| self.node(record, start_ns, now)).collect();
        let ago_ms = now.mono_ns.saturating_sub(start_ns) / MS;
        Ok(json!({
            "startedAt": now.unix_ms.saturating_sub(ago_ms.max(0) as u64),
            "nodes": nodes,
            "leftOut": left_out,
        })
        .to_string())
    }

    fn node(&self, record: &Record<'_>, start_ns: i64, now: Now) -> Value {
        let us = |from_ns: i64, to_ns: i64| to_ns.saturating_sub(from_ns).max(0) / 1000;
        let mut node = json!({
            "id": record.id,
            "kind": record.kind.as_str(),
            "type": record.type_name,
            "causation": record.causation,
            "correlation": record.correlation,
            "from": match record.from {
                Author::Connection(connection) => json!({ "connection": connection.0 }),
                Author::Capability(capability) => json!({ "capability": self.name_of(capability) }),
                Author::Loop => json!({ "loop": true }),
            },
            "to": match record.to {
                Audience::Capability(capability) => json!({ "capability": self.name_of(capability) }),
                Audience::Loop => json!({ "loop": true }),
                Audience::Subscribers { capabilities, clients } => {
                    json!({ "capabilities": capabilities, "clients": clients })
                }
            },
            "atUs": us(start_ns, record.accepted_ns),
        });
        if record.kind.is_request() {
            let ended_ns = record.end.map_or(now.mono_ns, |end| end.ended_ns);
            let began_ns = if record.attempts > 0 { record.delivered_ns } else { ended_ns };
            node["waitedUs"] = json!(us(record.accepted_ns, began_ns));
            node["tookUs"] = json!(us(record.accepted_ns, ended_ns));
            node["attempts"] = json!(record.attempts);
            node["outcome"] = json!(record.end.map(|end| match end.code {
                Some(code) => json!({ "kind": "error", "id": end.outcome_id, "code": code }),
                None => json!({ "kind": "reply", "id": end.outcome_id }),
            }));
        }
        node
    }

    fn name_of(&self, capability: u32) -> &str {
        self.actors.get(capability as usize).map_or("", |actor| &actor.manifest.id)
    }
}

fn record_of<'a>(handler: Handler, live: &'a Live, end: Option<End<'a>>) -> Record<'a> {
    let message = &live.message;
    let from = match &live.origin {
        Origin::Connection(connection) => Author::Connection(*connection),
        Origin::Actor(actor) => Author::Capability(actor.capability),
        Origin::Delegate(delegate) => match (&delegate.timer_id, delegate.to) {
            (None, Recipient::Connection(connection)) => Author::Connection(connection),
            _ => Author::Loop,
        },
    };
    Record {
        kind: message.kind(),
        type_name: message.type_name(),
        id: message.id(),
        causation: message.causation(),
        correlation: message.correlation(),
        from,
        to: match handler {
            Handler::Capability(capability) => Audience::Capability(capability),
            Handler::Builtin(_) => Audience::Loop,
        },
        accepted_ns: live.accepted_ns,
        delivered_ns: live.delivered_ns,
        attempts: live.attempts,
        end,
    }
}

/// The messages that the one with this id caused or was caused by, over any number of others.
fn relatives<'a>(all: &'a [Record<'a>], id: &'a str) -> Vec<&'a Record<'a>> {
    let mut family: HashSet<&str, foldhash::fast::FixedState> = HashSet::default();
    family.insert(id);
    let mut found = vec![false; all.len()];
    for search in 0..SEARCHES_MAX {
        let mut any = false;
        let mut look = |at: usize, record: &Record<'a>| {
            let outcome_id = record.end.map(|end| end.outcome_id);
            let names = [Some(record.id), record.causation, outcome_id];
            if !found[at] && names.iter().flatten().any(|name| family.contains(name)) {
                found[at] = true;
                any = true;
                family.extend(names.into_iter().flatten());
            }
        };
        // A request ends before the one that caused it and after the one that came before it: both ways are needed.
        if search % 2 == 0 {
            all.iter().enumerate().for_each(|(at, record)| look(at, record));
        } else {
            all.iter().enumerate().rev().for_each(|(at, record)| look(at, record));
        }
        if !any {
            break;
        }
    }
    all.iter().zip(found).filter_map(|(record, found)| found.then_some(record)).collect()
}

/// The `code` of an error's data; what has none counts as 500.
fn code_of(data: &str) -> u16 {
    #[derive(Deserialize)]
    struct Code {
        code: u16,
    }
    serde_json::from_str(data).map_or(500, |error: Code| error.code)
}
