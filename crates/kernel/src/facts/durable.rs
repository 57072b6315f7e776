//! The durable state: a pure fold of facts, and the facts that stand for it in a snapshot.

use crate::api::fact::{Answer, Ending, Fact, PeerName};
use crate::api::rights::Rights;
use crate::facts::codec::{WholeEnd, read_whole_end};
use crate::facts::remembered::{Ended, RememberedCommands};
use crate::facts::{FactError, fingerprint};
use hashbrown::HashMap;
use mainspring_message::{Envelope, Text};
use std::collections::{BTreeMap, VecDeque};

/// A wall clock that goes back by more than this was set. By less, it is taken to stand still.
const CLOCK_SET_BACK_MS: u64 = 60_000;

/// How much of what is over the durable state keeps. What is not over (unfinished commands,
/// schedules, dead letters, keys) is bounded by whoever records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableBounds {
    /// Remembered commands; beyond, the oldest of the peers that have most go.
    pub answers_max: usize,
    /// Bytes of remembered answers; beyond, the oldest answers of the peers that have most go. That
    /// the commands were done stays known.
    pub answer_bytes_max: usize,
    /// Events; beyond, the oldest go.
    pub events_max: usize,
    /// Bytes of events; beyond, the oldest go.
    pub event_bytes_max: usize,
}

impl Default for DurableBounds {
    fn default() -> DurableBounds {
        DurableBounds {
            answers_max: 65_536,
            answer_bytes_max: 64 << 20,
            events_max: 65_536,
            event_bytes_max: 64 << 20,
        }
    }
}

/// A command that was accepted and has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) peer: PeerName,
    pub(crate) timer_id: Option<Text>,
    pub(crate) accepted_ms: u64,
    pub(crate) deadline_ms: u64,
    /// How often it was delivered, and when last.
    pub(crate) attempts: u32,
    pub(crate) delivered_ms: u64,
    pub(crate) line: Box<str>,
}

/// A message for later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScheduledMessage {
    pub(crate) due_ms: u64,
    pub(crate) repeat_ms: Option<u64>,
    pub(crate) left: Option<u64>,
    pub(crate) fired: u64,
    pub(crate) bytes: u64,
    pub(crate) rights: Option<Rights>,
    pub(crate) line: Box<str>,
}

/// A dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) owner: PeerName,
    pub(crate) attempts: u32,
    pub(crate) unix_ms: u64,
    pub(crate) reason: Text,
    pub(crate) line: Box<str>,
}

/// An event of a capability whose events are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DurableEvent {
    pub(crate) event: u64,
    pub(crate) unix_ms: u64,
    pub(crate) line: Box<str>,
}

/// Values by key: each fact about one looks for it, so it is found without an order.
type Values = HashMap<Box<str>, Box<str>, foldhash::fast::RandomState>;

/// Values in the order of their keys.
fn in_order(values: &Values) -> Vec<(&str, &str)> {
    let mut values: Vec<(&str, &str)> = values.iter().map(|(key, value)| (&**key, &**value)).collect();
    values.sort_unstable();
    values
}

/// Names something of a peer, in an order that is the same everywhere.
type OwnKey = (u8, Box<str>, Box<str>);

fn own_key(peer: PeerName<&str>, name: &str) -> OwnKey {
    match peer {
        PeerName::Client(peer) => (0, peer.into(), name.into()),
        PeerName::Capability(peer) => (1, peer.into(), name.into()),
    }
}

fn peer_of((tag, peer, _): &OwnKey) -> PeerName<&str> {
    if *tag == 0 { PeerName::Client(peer) } else { PeerName::Capability(peer) }
}

/// The state that a daemon takes up at its start: what its facts come to.
///
/// Folding all facts, or a snapshot of the first of them and then the rest, gives the same state.
/// Facts must come in order and each once; one that names what is not there changes nothing.
///
/// # Examples
///
/// ```
/// use mainspring_kernel::{Durable, Fact};
///
/// let mut durable = Durable::default();
/// durable.apply(Fact::<&str>::Put { store: "memory".into(), key: "a".into(), value: "1".into() });
/// let mut copy = Durable::default();
/// for fact in durable.facts() {
///     copy.apply(fact);
/// }
/// assert_eq!(durable, copy);
/// assert_eq!(durable.values("memory").collect::<Vec<_>>(), [("a", "1")]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durable {
    bounds: DurableBounds,
    pub(crate) pending: BTreeMap<u64, Pending>,
    pub(crate) remembered: RememberedCommands,
    schedules: BTreeMap<OwnKey, ScheduledMessage>,
    pub(crate) letters: BTreeMap<u64, Letter>,
    /// Oldest first, numbers ascending.
    pub(crate) events: VecDeque<DurableEvent>,
    event_bytes: usize,
    cursors: BTreeMap<OwnKey, u64>,
    /// By store, then by key.
    values: BTreeMap<Box<str>, Values>,
    pub(crate) last_request: u64,
    pub(crate) last_letter: u64,
    pub(crate) last_event: u64,
    starts: u64,
    /// The time, as facts told it: the latest since the wall clock was last set back.
    unix_ms: u64,
}

impl Durable {
    /// The state before any fact.
    pub fn new(bounds: DurableBounds) -> Durable {
        Durable { bounds, ..Durable::default() }
    }

    /// How much of what is over it keeps.
    pub(crate) fn bounds(&self) -> DurableBounds {
        self.bounds
    }

    /// Reads a fact from a record and applies it.
    ///
    /// # Errors
    /// [`FactError`] for a record that this build cannot read; nothing has changed then.
    pub fn apply_record(&mut self, kind: u8, version: u8, bytes: &[u8]) -> Result<(), FactError> {
        match read_whole_end(kind, version, bytes)? {
            // Nearly all ends are such, and their answers are kept as they stand there.
            Some(WholeEnd { peer, command }) => {
                self.note_time(command.ended_ms);
                self.remember(peer, command);
            }
            None => self.apply(Fact::read(kind, version, bytes)?),
        }
        Ok(())
    }

    /// Applies the next fact.
    pub fn apply(&mut self, fact: Fact<&str>) {
        match fact {
            Fact::Started { unix_ms, .. } => {
                self.starts += 1;
                self.note_time(unix_ms);
            }
            Fact::Stopped { unix_ms } => self.note_time(unix_ms),
            Fact::Accepted { request, peer, timer_id, deadline_ms, unix_ms, message } => {
                let pending = Pending {
                    peer: peer.to_owned(),
                    timer_id: timer_id.map(Text::from),
                    accepted_ms: unix_ms,
                    deadline_ms,
                    attempts: 0,
                    delivered_ms: 0,
                    line: message.into(),
                };
                self.pending.insert(request, pending);
                self.last_request = self.last_request.max(request);
            }
            Fact::Delivered { request, attempt, unix_ms } => {
                if let Some(pending) = self.pending.get_mut(&request) {
                    (pending.attempts, pending.delivered_ms) = (attempt, unix_ms);
                }
            }
            Fact::Ended { which, unix_ms, until_ms, answer } => {
                self.note_time(unix_ms);
                self.end(which, unix_ms, until_ms, answer);
            }
            Fact::Scheduled { peer, timer_id, due_ms, repeat_ms, left, fired, bytes, rights, message } => {
                let line = message.into();
                let schedule = ScheduledMessage { due_ms, repeat_ms, left, fired, bytes, rights, line };
                self.schedules.insert(own_key(peer, timer_id), schedule);
            }
            Fact::Fired { peer, timer_id, fired, left, next_ms } => {
                self.fire(&own_key(peer, timer_id), fired, left, next_ms);
            }
            Fact::Cancelled { peer, timer_id } => {
                self.schedules.remove(&own_key(peer, timer_id));
            }
            Fact::DeadLettered { letter, owner, attempts, unix_ms, reason, message } => {
                let (owner, reason) = (owner.to_owned(), reason.into());
                self.letters
                    .insert(letter, Letter { owner, attempts, unix_ms, reason, line: message.into() });
                self.last_letter = self.last_letter.max(letter);
            }
            Fact::Requeued { letter } => {
                self.letters.remove(&letter);
            }
            Fact::Dropped { first, last } => {
                while let Some((&letter, _)) = self.letters.range(first..=last.max(first)).next() {
                    self.letters.remove(&letter);
                }
            }
            Fact::Emitted { event, unix_ms, message } => self.emit(event, unix_ms, message),
            Fact::CursorMoved { peer, name, event } => {
                self.cursors.insert(own_key(peer, name), event);
            }
            Fact::CursorForgotten { peer, name } => {
                self.cursors.remove(&own_key(peer, name));
            }
            Fact::Put { store, key, value } => {
                let values = match self.values.get_mut(store) {
                    Some(values) => values,
                    None => self.values.entry(store.into()).or_default(),
                };
                // Nearly always it is there, and needs no memory for its key.
                match values.get_mut(key) {
                    Some(old) => *old = value.into(),
                    None => drop(values.insert(key.into(), value.into())),
                }
            }
            Fact::Deleted { store, key } => {
                if let Some(values) = self.values.get_mut(store) {
                    values.remove(key);
                    if values.is_empty() {
                        self.values.remove(store);
                    }
                }
            }
            Fact::Numbered { request, letter, event, starts, unix_ms } => {
                self.last_request = self.last_request.max(request);
                self.last_letter = self.last_letter.max(letter);
                self.last_event = self.last_event.max(event);
                self.starts = self.starts.max(starts);
                self.note_time(unix_ms);
            }
        }
    }

    /// Time goes on, and what has been remembered for long enough goes. Only facts that stand in no
    /// snapshot tell the time, and those about remembered commands, which stand there in order.
    fn note_time(&mut self, unix_ms: u64) {
        if unix_ms.saturating_add(CLOCK_SET_BACK_MS) < self.unix_ms {
            // It was ahead, and what is remembered must not outlive that.
            self.remembered.follow_clock_back(unix_ms);
            self.unix_ms = unix_ms;
        }
        self.unix_ms = self.unix_ms.max(unix_ms);
        self.remembered.forget_until(self.unix_ms);
    }

    /// A command ended. Of one that was accepted nothing is remembered without its answer; of one
    /// whose end is all that was recorded, that it was done.
    fn end(&mut self, which: Ending<&str>, ended_ms: u64, until_ms: u64, answer: Option<Answer<&str>>) {
        let keep = |durable: &mut Durable, peer: PeerName<&str>, id: &str, fingerprint| {
            let answer = answer.as_ref().map(|answer| durable.remembered.keep(answer, id));
            durable.remember(peer, Ended { id, fingerprint, ended_ms, until_ms, answer });
        };
        match which {
            Ending::Whole { peer, id, fingerprint } => keep(self, peer, id, fingerprint),
            Ending::Accepted(request) => {
                let pending = self.pending.remove(&request).filter(|_| answer.is_some());
                // It was a message when it was recorded.
                if let Some(pending) = pending
                    && let Ok(message) = Envelope::parse(pending.line.as_bytes())
                {
                    keep(self, pending.peer.as_ref(), message.id(), fingerprint(&message));
                }
            }
        }
    }

    fn remember(&mut self, peer: PeerName<&str>, command: Ended<'_>) {
        self.remembered.add(peer, command, &self.bounds);
        self.remembered.forget_until(self.unix_ms);
    }

    fn fire(&mut self, key: &OwnKey, fired: u64, left: Option<u64>, next_ms: Option<u64>) {
        match (self.schedules.get_mut(key), next_ms) {
            (Some(schedule), Some(due_ms)) => {
                (schedule.fired, schedule.left, schedule.due_ms) = (fired, left, due_ms);
            }
            (Some(_), None) => {
                self.schedules.remove(key);
            }
            (None, _) => {}
        }
    }

    fn emit(&mut self, event: u64, unix_ms: u64, line: &str) {
        self.last_event = self.last_event.max(event);
        self.event_bytes += line.len();
        self.events.push_back(DurableEvent { event, unix_ms, line: line.into() });
        while self.events.len() > self.bounds.events_max || self.event_bytes > self.bounds.event_bytes_max {
            let Some(oldest) = self.events.pop_front() else { break };
            self.event_bytes -= oldest.line.len();
        }
    }

    /// The facts that stand for this state, in the order in which they are to be applied.
    pub fn facts(&self) -> impl Iterator<Item = Fact<&str>> {
        let numbered = Fact::Numbered {
            request: self.last_request,
            letter: self.last_letter,
            event: self.last_event,
            starts: self.starts,
            unix_ms: self.unix_ms,
        };
        // The time comes last: it is that of the last fact, not of those that stand here.
        let remembered = self.remembered.facts();
        remembered
            .chain(self.pending.iter().flat_map(|(request, pending)| pending.facts(*request)))
            .chain(self.schedules.iter().map(|(key, schedule)| schedule.fact(key)))
            .chain(self.letters.iter().map(|(number, letter)| letter.fact(*number)))
            .chain(self.events.iter().map(|event| Fact::Emitted {
                event: event.event,
                unix_ms: event.unix_ms,
                message: &*event.line,
            }))
            .chain(self.cursors.iter().map(|(key, event)| Fact::CursorMoved {
                peer: peer_of(key),
                name: &*key.2,
                event: *event,
            }))
            .chain(self.values.iter().flat_map(|(store, values)| {
                in_order(values).into_iter().map(|(key, value)| Fact::Put { store: &**store, key, value })
            }))
            .chain(std::iter::once(numbered))
    }

    /// What a capability of the daemon's own keeps, by key.
    pub fn values(&self, store: &str) -> impl Iterator<Item = (&str, &str)> {
        self.values.get(store).into_iter().flat_map(in_order)
    }

    /// Takes what capabilities of the daemon's own keep out of it, by their ids.
    pub fn take_all_values(&mut self) -> BTreeMap<Box<str>, BTreeMap<Box<str>, Box<str>>> {
        let values = std::mem::take(&mut self.values);
        values.into_iter().map(|(store, values)| (store, values.into_iter().collect())).collect()
    }

    /// The scheduled messages, each with whose it is and its name.
    pub(crate) fn schedules(&self) -> impl Iterator<Item = (PeerName<&str>, &str, &ScheduledMessage)> {
        self.schedules.iter().map(|(key, schedule)| (peer_of(key), &*key.2, schedule))
    }

    /// The cursors, each with whose it is, its name, and the last event that was acknowledged.
    pub(crate) fn cursors(&self) -> impl Iterator<Item = (PeerName<&str>, &str, u64)> {
        self.cursors.iter().map(|(key, event)| (peer_of(key), &*key.2, *event))
    }

    /// Commands that have not ended, remembered answers, schedules, dead letters, events, keys: how
    /// many there are, for people.
    pub fn counts(&self) -> [(&'static str, usize); 6] {
        [
            ("commands", self.pending.len()),
            ("answers", self.remembered.len()),
            ("schedules", self.schedules.len()),
            ("dead letters", self.letters.len()),
            ("events", self.events.len()),
            ("keys", self.values.values().map(HashMap::len).sum()),
        ]
    }

    /// How often a daemon started on these facts.
    pub fn starts(&self) -> u64 {
        self.starts
    }
}

impl Pending {
    fn facts(&self, request: u64) -> impl Iterator<Item = Fact<&str>> {
        let accepted = Fact::Accepted {
            request,
            peer: self.peer.as_ref(),
            timer_id: self.timer_id.as_deref(),
            deadline_ms: self.deadline_ms,
            unix_ms: self.accepted_ms,
            message: &*self.line,
        };
        let delivered = (self.attempts > 0).then_some(Fact::Delivered {
            request,
            attempt: self.attempts,
            unix_ms: self.delivered_ms,
        });
        std::iter::once(accepted).chain(delivered)
    }
}

impl ScheduledMessage {
    fn fact<'a>(&'a self, key: &'a OwnKey) -> Fact<&'a str> {
        Fact::Scheduled {
            peer: peer_of(key),
            timer_id: &*key.2,
            due_ms: self.due_ms,
            repeat_ms: self.repeat_ms,
            left: self.left,
            fired: self.fired,
            bytes: self.bytes,
            rights: self.rights.clone(),
            message: &*self.line,
        }
    }
}

impl Letter {
    fn fact(&self, letter: u64) -> Fact<&str> {
        Fact::DeadLettered {
            letter,
            owner: self.owner.as_ref(),
            attempts: self.attempts,
            unix_ms: self.unix_ms,
            reason: &*self.reason,
            message: &*self.line,
        }
    }
}
