//! `Sys.Trace`: the messages of one workflow, or of one tree of causes, from the history.

use super::chores::{Slice, Task};
use super::{Answer, Served, append, read};
use crate::api::ids::Now;
use crate::flow::refusal::Refusal;
use crate::flow::work;
use crate::history::{Audience, Author, Record};
use crate::kernel::Kernel;
use crate::out::MS;
use crate::requests::RequestKey;
use hashbrown::HashMap;
use mainspring_message::{Envelope, Failure};
use serde::Deserialize;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Messages in one answer at most: the latest.
const NODES_MAX: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceData {
    correlation: Option<String>,
    id: Option<String>,
}

impl Kernel {
    pub(super) fn trace(&self, request: &Envelope, asked: RequestKey) -> Result<Served, Refusal> {
        let data: TraceData = read(request)?;
        if !self.history.is_on() {
            let text = "there is no history: limits.history_bytes_max is 0";
            return Err(Refusal::new(Failure::Routing, text));
        }
        let wanted = match (data.correlation, data.id) {
            (Some(flow), None) => Wanted::Flow(flow),
            (None, Some(id)) => {
                let mut families = Families::default();
                families.of(self.out.hash_id(&id));
                Wanted::Family(Box::new(families))
            }
            _ => return Err(Refusal::new(Failure::Schema, "data: needs either correlation or id")),
        };
        Ok(Served::In(Task::Trace(Box::new(Trace::new(asked, wanted)))))
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
                Author::Capability(capability) => json!({ "capability": self.actors.id(capability) }),
                Author::Kernel => json!({ "loop": true }),
            },
            "to": match record.to {
                Audience::Capability(capability) => json!({ "capability": self.actors.id(capability) }),
                Audience::Kernel => json!({ "loop": true }),
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
}

/// Where a message of the trace stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NodePlace {
    /// In the history.
    Past(u64),
    /// At this slot of the table of requests.
    Unfinished(u32),
}

/// The messages found so far: the latest, and how many there were.
#[derive(Debug, Default)]
struct Found {
    /// The earliest on top, to make room.
    latest: BinaryHeap<Reverse<(i64, NodePlace)>>,
    count: usize,
}

impl Found {
    fn add(&mut self, accepted_ns: i64, place: NodePlace) {
        self.count += 1;
        self.latest.push(Reverse((accepted_ns, place)));
        if self.latest.len() > NODES_MAX {
            self.latest.pop();
        }
    }
}

/// Which messages are wanted.
#[derive(Debug)]
enum Wanted {
    /// Those of a workflow.
    Flow(String),
    /// Those that the first name caused or was caused by, over any number of others.
    Family(Box<Families>),
}

/// Names (hashes of ids) that belong together, because a message joins them: each family is a tree.
#[derive(Debug, Default)]
struct Families {
    numbers: HashMap<u64, u32, foldhash::fast::FixedState>,
    parents: Vec<u32>,
    /// Every message: the number of one of its names, when it was accepted, where it stands.
    messages: Vec<(u32, i64, NodePlace)>,
    /// How many of them were looked at again.
    sorted: usize,
}

impl Families {
    /// The number of a name.
    fn of(&mut self, name: u64) -> u32 {
        let fresh = self.parents.len() as u32;
        let number = *self.numbers.entry(name).or_insert(fresh);
        if number == fresh {
            self.parents.push(fresh);
        }
        number
    }

    /// The number that stands for a whole family.
    fn head(&mut self, mut number: u32) -> u32 {
        while self.parents[number as usize] != number {
            let above = self.parents[number as usize];
            self.parents[number as usize] = self.parents[above as usize];
            number = above;
        }
        number
    }

    /// The names belong to one family.
    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.head(one), self.head(other));
        // The lower number is the head, so that the wanted name, which came first, always is.
        self.parents[one.max(other) as usize] = one.min(other);
    }
}

/// A trace as far as it was made: first unfinished requests are looked at, then the history, then what was found is
/// told. A request that ends in between is found in the history.
#[derive(Debug)]
pub(crate) struct Trace {
    asked: RequestKey,
    wanted: Wanted,
    found: Found,
    /// The next slot of the table of requests to look at.
    slot: u32,
    /// The next place in the history to look at, and where to stop.
    past: Option<(u64, u64)>,
    /// What is to be told, the first one last, once everything was looked at.
    shown: Option<Vec<NodePlace>>,
    start_ns: i64,
    nodes: usize,
    text: String,
}

impl Trace {
    fn new(asked: RequestKey, wanted: Wanted) -> Trace {
        Trace {
            asked,
            wanted,
            found: Found::default(),
            slot: 0,
            past: None,
            shown: None,
            start_ns: 0,
            nodes: 0,
            text: String::new(),
        }
    }

    pub(super) fn step(&mut self, kernel: &Kernel, slice: &mut Slice) -> Option<Answer> {
        let now = kernel.out.now;
        if self.shown.is_none() {
            self.look_at_requests(kernel, slice);
            self.look_at_history(kernel, slice);
            self.choose_family(slice);
            if slice.is_over() {
                return None;
            }
            let mut latest = std::mem::take(&mut self.found.latest).into_vec();
            // Told from the end, the earliest first.
            latest.sort_unstable();
            self.start_ns = latest.last().map_or(now.mono_ns, |Reverse((accepted_ns, _))| *accepted_ns);
            self.shown = Some(latest.into_iter().map(|Reverse((_, place))| place).collect());
        }
        let shown = self.shown.as_mut()?;
        while let Some(place) = shown.pop() {
            let before = self.text.len();
            // What is not there any more was forgotten, or has ended and is in the history as well.
            if let Some(record) = record_at(kernel, place) {
                append(&mut self.text, &kernel.node(&record, self.start_ns, now));
                self.nodes += 1;
            }
            slice.spend(2 * work::ITEM + (self.text.len() - before) as u64);
            if slice.is_over() {
                return None;
            }
        }
        let ago_ms = now.mono_ns.saturating_sub(self.start_ns) / MS;
        let started_at = now.unix_ms.saturating_sub(ago_ms.max(0) as u64);
        let (nodes, left_out) = (&self.text, self.found.count.saturating_sub(self.nodes));
        Some(Ok(format!("{{\"startedAt\":{started_at},\"nodes\":[{nodes}],\"leftOut\":{left_out}}}")))
    }

    fn look_at_requests(&mut self, kernel: &Kernel, slice: &mut Slice) {
        while self.slot < kernel.requests.slots() && !slice.is_over() {
            let place = NodePlace::Unfinished(self.slot);
            self.slot += 1;
            slice.spend(work::LOOK);
            if let Some((key, record)) = kernel.requests.record_at(self.slot - 1)
                && key != self.asked
            {
                slice.spend(self.look_at(kernel, &record, place));
            }
        }
    }

    fn look_at_history(&mut self, kernel: &Kernel, slice: &mut Slice) {
        if slice.is_over() {
            return;
        }
        let (mut place, end) = self.past.unwrap_or((kernel.history.begin(), kernel.history.end()));
        // What was forgotten since the last slice is passed over.
        place = place.max(kernel.history.begin());
        while place < end && !slice.is_over() {
            let Some((record, next)) = kernel.history.at(place) else { break };
            slice.spend(work::LOOK + self.look_at(kernel, &record, NodePlace::Past(place)));
            place = next;
        }
        self.past = Some((place, end));
    }

    /// Looks at one message; returns the work.
    fn look_at(&mut self, kernel: &Kernel, record: &Record<'_>, place: NodePlace) -> u64 {
        match &mut self.wanted {
            Wanted::Flow(flow) => {
                if record.correlation == Some(flow) {
                    self.found.add(record.accepted_ns, place);
                }
                work::LOOK
            }
            Wanted::Family(families) => {
                let own = families.of(kernel.out.hash_id(record.id));
                let outcome_id = record.end.map(|end| end.outcome_id);
                for name in [record.causation, outcome_id].into_iter().flatten() {
                    let name = families.of(kernel.out.hash_id(name));
                    families.join(own, name);
                }
                families.messages.push((own, record.accepted_ns, place));
                6 * work::LOOK
            }
        }
    }

    /// Finds the messages of the wanted name's family, once all families are known.
    fn choose_family(&mut self, slice: &mut Slice) {
        let Wanted::Family(families) = &mut self.wanted else { return };
        while let Some((name, accepted_ns, place)) = families.messages.get(families.sorted).copied() {
            if slice.is_over() {
                return;
            }
            slice.spend(work::LOOK);
            families.sorted += 1;
            if families.head(name) == 0 {
                self.found.add(accepted_ns, place);
            }
        }
    }
}

/// The message at a place, if it is still there.
fn record_at(kernel: &Kernel, place: NodePlace) -> Option<Record<'_>> {
    match place {
        NodePlace::Past(place) => Some(kernel.history.at(place)?.0),
        NodePlace::Unfinished(slot) => Some(kernel.requests.record_at(slot)?.1),
    }
}
