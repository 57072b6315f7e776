//! `Sys.Trace`: the messages of one workflow, or of one tree of causes, from the history.

use crate::api::ids::{ConnectionId, Now};
use crate::api::rights::covers;
use crate::builtins::chores::{Slice, Task};
use crate::builtins::{Answer, Caller, Served, Whole, append, read};
use crate::egress::check_pattern;
use crate::flow::refusal::{Refusal, is_reserved};
use crate::flow::work;
use crate::history::{Audience, Author, KeptData, Record};
use crate::kernel::Kernel;
use crate::out::MS;
use crate::requests::RequestKey;
use crate::taps::{DATA_DEPTH, ends};
use hashbrown::{HashMap, HashSet};
use mainspring_message::{Envelope, Failure, is_too_deep};
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
    latest: Option<Whole>,
    #[serde(rename = "type")]
    type_name: Option<String>,
    capability: Option<String>,
    #[serde(default)]
    failed: bool,
}

impl Kernel {
    pub(in crate::builtins) fn trace(
        &self,
        request: &Envelope,
        asked: RequestKey,
        caller: Caller,
    ) -> Result<Served, Refusal> {
        let data: TraceData = read(request)?;
        if !self.history.is_on() {
            let text = "there is no history: limits.history_bytes_max is 0";
            return Err(Refusal::new(Failure::Routing, text));
        }
        let is_filtered = data.type_name.is_some() || data.capability.is_some() || data.failed;
        let wanted = match (data.correlation, data.id, data.latest) {
            (Some(flow), None, None) if !is_filtered => Wanted::Flow(flow),
            (None, Some(id), None) if !is_filtered => {
                let mut families = Families::default();
                families.of(self.out.hash_id(&id));
                Wanted::Family(Box::new(families))
            }
            (None, None, Some(Whole(latest))) => {
                if let Some(pattern) = &data.type_name {
                    check_pattern(pattern).map_err(|reason| {
                        Refusal::new(Failure::Schema, format!("data.type: {pattern:?}: {reason}"))
                    })?;
                }
                Wanted::Latest(Box::new(Latest {
                    most: latest.clamp(1, NODES_MAX as u64) as usize,
                    type_name: data.type_name,
                    capability: data.capability,
                    failed: data.failed,
                    families: Families::default(),
                    known: HashSet::default(),
                    builtins: HashMap::default(),
                    roots: Vec::new(),
                    sizes: HashMap::default(),
                    names: HashMap::default(),
                }))
            }
            _ => {
                let text = "data: needs either correlation, id, or latest (with type, capability, failed)";
                return Err(Refusal::new(Failure::Schema, text));
            }
        };
        let view = LimitedView::of(self, caller);
        Ok(Served::In(Task::Trace(Box::new(Trace::new(asked, wanted, view)))))
    }

    /// Adds the data of a message and of its answer to its node, or how long they are.
    fn add_data(&self, node: &mut Value, data: &str, answer: Option<&str>) {
        let bytes_max = self.config.limits.tap_data_bytes_max;
        let add = |into: &mut Value, text: &str, depth| match text.len() <= bytes_max {
            true if is_too_deep(text, depth) => into["data"] = json!(text),
            true => into["data"] = serde_json::from_str(text).unwrap_or_default(),
            false => into["dataBytes"] = json!(text.len()),
        };
        add(node, data, DATA_DEPTH);
        if let (Some(answer), Some(outcome)) =
            (answer, node.get_mut("outcome").filter(|outcome| outcome.is_object()))
        {
            add(outcome, answer, DATA_DEPTH + 1);
        }
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
                Author::Connection(connection) => {
                    let place = self.connections.place(connection);
                    match place.and_then(|place| self.requests.peer_name(place.peer)) {
                        Some(peer) => json!({ "connection": connection.0, "peer": peer }),
                        None => json!({ "connection": connection.0 }),
                    }
                }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum NodePlace {
    /// In the history.
    Past(u64),
    /// At this slot of the table of requests.
    Unfinished(u32),
}

/// The messages found so far: the latest, and how many there were.
#[derive(Debug, Default)]
struct FoundNodes {
    /// The earliest on top, to make room.
    latest: BinaryHeap<Reverse<(i64, NodePlace)>>,
    count: usize,
}

impl FoundNodes {
    fn add(&mut self, accepted_ns: i64, place: NodePlace, most: usize) {
        self.count += 1;
        self.latest.push(Reverse((accepted_ns, place)));
        if self.latest.len() > most {
            self.latest.pop();
        }
    }
}

/// What somebody may see who may not see everything: messages of its types, and unless it is an
/// operator only what its own open connections sent, and what that caused.
#[derive(Debug)]
struct LimitedView {
    /// Its own; nothing if it sees those of everybody.
    connections: Option<Vec<ConnectionId>>,
    caller: Caller,
    /// Hashes of the ids of what was seen, and of their answers.
    seen: HashSet<u64, foldhash::fast::FixedState>,
    /// Hashes of the ids of what connections of others sent. An id is its sender's choice, so what
    /// names one of these as its cause may be about theirs.
    others: HashSet<u64, foldhash::fast::FixedState>,
}

impl LimitedView {
    /// Nothing for whoever may see everything.
    fn of(kernel: &Kernel, caller: Caller) -> Option<LimitedView> {
        let connections = match kernel.is_operator(caller.recipient) {
            true if kernel.is_limited_operator(caller.recipient) => None,
            true => return None,
            false => Some(kernel.connections.of_peer(caller.peer)),
        };
        Some(LimitedView { connections, caller, seen: HashSet::default(), others: HashSet::default() })
    }

    /// Whether the data of a message may be seen. What the kernel serves itself may carry messages
    /// of any type.
    fn shows_data(&self, record: &Record<'_>) -> bool {
        self.connections.is_some() || !is_reserved(record.type_name)
    }

    /// Looks at all messages before any is told: a message may stand before what caused it, if both
    /// came at once.
    fn learn(&mut self, kernel: &Kernel, places: &[NodePlace]) {
        if let Some(own) = &self.connections {
            for record in places.iter().filter_map(|place| record_at(kernel, *place)) {
                if matches!(record.from, Author::Connection(connection) if !own.contains(&connection)) {
                    self.others.insert(kernel.out.hash_id(record.id));
                }
            }
        }
        for place in places.iter().chain(places.iter().rev()) {
            if let Some(record) = record_at(kernel, *place) {
                self.shows(kernel, &record);
            }
        }
    }

    /// Whether a message may be seen. Those that caused it must have been asked about before.
    fn shows(&mut self, kernel: &Kernel, record: &Record<'_>) -> bool {
        let is_own = match (&self.connections, record.from) {
            (None, _) => true,
            (Some(own), Author::Connection(connection)) => own.contains(&connection),
            (Some(_), Author::Capability(_) | Author::Kernel) => {
                let cause = record.causation.map(|cause| kernel.out.hash_id(cause));
                cause.is_some_and(|cause| self.seen.contains(&cause) && !self.others.contains(&cause))
            }
        };
        if is_own && self.connections.is_some() {
            self.seen.insert(kernel.out.hash_id(record.id));
            self.seen.extend(record.end.map(|end| kernel.out.hash_id(end.outcome_id)));
        }
        is_own && (is_reserved(record.type_name) || kernel.may_see(self.caller.recipient, record.type_name))
    }
}

/// The latest messages that nothing remembered has caused. A built-in message that is not listed
/// itself is no cause: what somebody scheduled would be nowhere otherwise.
#[derive(Debug)]
struct Latest {
    most: usize,
    type_name: Option<String>,
    capability: Option<String>,
    failed: bool,
    families: Families,
    /// Hashes of all ids, and of those of answers.
    known: HashSet<u64, foldhash::fast::FixedState>,
    /// Built-in messages that are not listed, by the hash of their id: the hash of their own cause,
    /// and where they stand if no other has that id.
    builtins: HashMap<u64, (Option<u64>, Option<NodePlace>), foldhash::fast::FixedState>,
    /// Messages that are wanted if nothing known has caused them: number of the name, hash of the
    /// cause, when, where.
    roots: Vec<(u32, Option<u64>, i64, NodePlace)>,
    /// How many messages belong to each family, by its head.
    sizes: HashMap<u32, u32, foldhash::fast::FixedState>,
    /// The number of the name of each message that is told.
    names: HashMap<NodePlace, u32, foldhash::fast::FixedState>,
}

impl Latest {
    /// Whether messages of a type are listed. Built-in ones are on request only.
    fn lists(&self, type_name: &str) -> bool {
        match &self.type_name {
            Some(pattern) => covers(pattern, type_name),
            None => !is_reserved(type_name),
        }
    }

    fn fits(&self, kernel: &Kernel, record: &Record<'_>) -> bool {
        let is_type = self.lists(record.type_name);
        let ends = ends(record);
        let is_capability = self.capability.as_ref().is_none_or(|id| {
            [ends.0, ends.1].into_iter().flatten().any(|capability| kernel.actors.id(capability) == id)
        });
        is_type && is_capability && (!self.failed || record.end.is_some_and(|end| end.code.is_some()))
    }

    fn look_at(&mut self, kernel: &Kernel, record: &Record<'_>, place: NodePlace) {
        let hash = kernel.out.hash_id(record.id);
        let own = self.families.of(hash);
        self.known.insert(hash);
        if let Some(end) = record.end {
            let outcome = kernel.out.hash_id(end.outcome_id);
            self.known.insert(outcome);
            let outcome = self.families.of(outcome);
            self.families.join(own, outcome);
        }
        let cause = record.causation.map(|cause| kernel.out.hash_id(cause));
        if let Some(cause) = cause {
            let cause = self.families.of(cause);
            self.families.join(own, cause);
        }
        self.families.messages.push((own, record.accepted_ns, place));
        if self.fits(kernel, record) {
            self.roots.push((own, cause, record.accepted_ns, place));
        }
        if is_reserved(record.type_name) && !self.lists(record.type_name) {
            let known = self.builtins.insert(hash, (cause, Some(place)));
            if known.is_some() {
                self.builtins.insert(hash, (cause, None));
            }
        }
    }

    /// Where the built-in messages stand that caused these.
    fn unlisted_causes(&self, kernel: &Kernel, places: &[NodePlace]) -> Vec<NodePlace> {
        let cause = |place: &NodePlace| {
            let cause = kernel.out.hash_id(record_at(kernel, *place)?.causation?);
            self.builtins.get(&cause)?.1
        };
        places.iter().filter_map(cause).collect()
    }

    /// What keeps a message with this cause from being a root, if anything does. Of built-in
    /// messages one step is looked at: chains of causes that clients make up may be circles.
    fn above(&self, cause: Option<u64>) -> Option<u64> {
        let cause = match self.builtins.get(&cause?) {
            Some((above, _)) => (*above)?,
            None => cause?,
        };
        self.known.contains(&cause).then_some(cause)
    }
}

/// Which messages are wanted.
#[derive(Debug)]
enum Wanted {
    /// Those of a workflow.
    Flow(String),
    /// Those that the first name caused or was caused by, over any number of others.
    Family(Box<Families>),
    /// The latest that nothing caused.
    Latest(Box<Latest>),
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

/// A trace as far as it was made: first unfinished requests are looked at, then the history, then
/// what was found is told. A request that ends in between is found in the history.
#[derive(Debug)]
pub(crate) struct Trace {
    asked: RequestKey,
    wanted: Wanted,
    /// What may be seen, if that is not everything.
    view: Option<LimitedView>,
    found: FoundNodes,
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
    fn new(asked: RequestKey, wanted: Wanted, view: Option<LimitedView>) -> Trace {
        Trace {
            asked,
            wanted,
            view,
            found: FoundNodes::default(),
            slot: 0,
            past: None,
            shown: None,
            start_ns: 0,
            nodes: 0,
            text: String::new(),
        }
    }

    pub(in crate::builtins) fn step(&mut self, kernel: &Kernel, slice: &mut Slice) -> Option<Answer> {
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
            if matches!(self.wanted, Wanted::Latest(_)) {
                latest.reverse();
            }
            let shown: Vec<NodePlace> = latest.into_iter().map(|Reverse((_, place))| place).collect();
            if let Some(view) = &mut self.view {
                if let Wanted::Latest(latest) = &self.wanted {
                    view.learn(kernel, &latest.unlisted_causes(kernel, &shown));
                }
                view.learn(kernel, &shown);
            }
            self.shown = Some(shown);
        }
        let shown = self.shown.as_mut()?;
        while let Some(place) = shown.pop() {
            let before = self.text.len();
            // What is not there any more was forgotten, or has ended and is in the history as well.
            if let Some(record) = record_at(kernel, place)
                && self.view.as_mut().is_none_or(|view| view.shows(kernel, &record))
            {
                let mut node = kernel.node(&record, self.start_ns, now);
                if kernel.history.keeps_data()
                    && self.view.as_ref().is_none_or(|view| view.shows_data(&record))
                    && let Some((data, answer)) = data_at(kernel, place)
                {
                    kernel.add_data(&mut node, data, answer);
                }
                if let Wanted::Latest(latest) = &mut self.wanted {
                    let name = latest.names.get(&place).copied().unwrap_or_default();
                    let head = latest.families.head(name);
                    node["messages"] = json!(latest.sizes.get(&head));
                }
                append(&mut self.text, &node);
                self.nodes += 1;
            }
            slice.spend(2 * work::ITEM + (self.text.len() - before) as u64);
            if slice.is_over() {
                return None;
            }
        }
        let ago_ms = now.mono_ns.saturating_sub(self.start_ns) / MS;
        let started_at = now.unix_ms.saturating_sub(ago_ms.max(0) as u64);
        // How much there is of others is nobody else's business.
        let left_out = if self.view.is_some() { 0 } else { self.found.count.saturating_sub(self.nodes) };
        let nodes = &self.text;
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
                    self.found.add(record.accepted_ns, place, NODES_MAX);
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
            Wanted::Latest(latest) => {
                latest.look_at(kernel, record, place);
                8 * work::LOOK
            }
        }
    }

    /// Finds the messages of the wanted name's family, once all families are known.
    fn choose_family(&mut self, slice: &mut Slice) {
        if let Wanted::Latest(latest) = &mut self.wanted {
            return Trace::choose_latest(latest, &mut self.found, slice);
        }
        let Wanted::Family(families) = &mut self.wanted else { return };
        while let Some((name, accepted_ns, place)) = families.messages.get(families.sorted).copied() {
            if slice.is_over() {
                return;
            }
            slice.spend(work::LOOK);
            families.sorted += 1;
            if families.head(name) == 0 {
                self.found.add(accepted_ns, place, NODES_MAX);
            }
        }
    }

    /// Counts the families, and finds the latest messages that nothing known has caused.
    fn choose_latest(latest: &mut Latest, found: &mut FoundNodes, slice: &mut Slice) {
        while let Some((name, ..)) = latest.families.messages.get(latest.families.sorted).copied() {
            if slice.is_over() {
                return;
            }
            slice.spend(work::LOOK);
            latest.families.sorted += 1;
            let head = latest.families.head(name);
            *latest.sizes.entry(head).or_default() += 1;
        }
        while !slice.is_over()
            && let Some((name, cause, accepted_ns, place)) = latest.roots.pop()
        {
            slice.spend(work::LOOK);
            if latest.above(cause).is_none() {
                latest.names.insert(place, name);
                found.add(accepted_ns, place, latest.most);
            }
        }
    }
}

/// The data of the message at a place and of its answer, if they are kept.
fn data_at(kernel: &Kernel, place: NodePlace) -> Option<KeptData<'_>> {
    match place {
        NodePlace::Past(place) => kernel.history.data_at(place),
        NodePlace::Unfinished(slot) => {
            let (key, _) = kernel.requests.record_at(slot)?;
            Some((kernel.requests.message(key)?.data(), None))
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
