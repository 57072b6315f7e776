//! The one table of requests: unfinished ones, and the remembered answers of finished ones.
//!
//! Two indexes answer two questions: "did this peer send this id before?", and "which request has this capability, or
//! had it last, under this id?". Either is by both halves of its question, so that thousands of peers may use the same
//! ids. A finished entry stays in the window as the line of its answer, whose causation *is* the request's id; the request
//! itself is let go. There are thousands of those, and each is looked at again when it is forgotten, so they are kept small.

use crate::answers::{AnswerPlace, Answers};
use crate::ids::{ActorRef, ConnectionId};
use crate::routes::Handler;
use crate::wheel::TimerKey;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as HashEntry;
use mainspring_message::{Envelope, Text};

/// Names one request for as long as it is unfinished or remembered. One word, so that handing it on is one move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestKey(u64);

impl RequestKey {
    #[inline]
    fn new(slot: u32, generation: u32) -> RequestKey {
        RequestKey(u64::from(generation) << 32 | u64::from(slot))
    }

    #[inline]
    pub(crate) fn slot(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Who gets the outcome.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// The client on this connection.
    Connection(ConnectionId),
    /// This life of an actor.
    Actor(ActorRef),
    /// Whoever scheduled or requeued it, if it still lives; everybody else by an event. Boxed because it is rare.
    Delegate(Box<Delegate>),
}

impl Origin {
    /// Whether an error that ends the request becomes a dead letter in any case, so that nobody else need keep it.
    pub(crate) fn is_delegate(&self) -> bool {
        matches!(self, Origin::Delegate(_))
    }
}

/// A requester that is not there itself.
#[derive(Clone, Debug)]
pub(crate) struct Delegate {
    pub(crate) to: Recipient,
    /// The schedule that the request came from; nothing for a dead letter put back.
    pub(crate) timer_id: Option<Text>,
}

/// Somebody to whom a message can be handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    Connection(ConnectionId),
    Actor(ActorRef),
}

/// Where an unfinished request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// In the User lane.
    Lane,
    /// In the mailbox of its actor.
    Mailbox,
    /// In the hands of its actor, at this place of the actor's list.
    InFlight(u32),
    /// Between two attempts.
    Retrying(TimerKey),
    /// Its outcome is in the Completions lane.
    Answering,
    /// With the floors below (`Sys.Stats`).
    Outside,
}

/// An unfinished request.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) message: Envelope,
    pub(crate) origin: Origin,
    pub(crate) phase: Phase,
    pub(crate) timer: Option<TimerKey>,
    pub(crate) deadline_ns: i64,
    /// When it was accepted, and when it was last given to an actor.
    pub(crate) accepted_ns: i64,
    pub(crate) delivered_ns: i64,
    pub(crate) attempts: u32,
    /// The request that its sender was working on.
    pub(crate) cause: Option<RequestKey>,
    /// How many requests stand above it in its chain of causes.
    pub(crate) depth: u32,
    /// Further connections that asked the same.
    pub(crate) waiters: Vec<ConnectionId>,
}

#[derive(Debug)]
pub(crate) enum State {
    Free { next: u32 },
    Live(Box<Live>),
    Finished { answer: AnswerPlace, finished_ns: i64 },
}

#[derive(Debug)]
pub(crate) struct Entry {
    generation: u32,
    pub(crate) peer: u32,
    pub(crate) handler: Handler,
    /// Hash of the id.
    hash: u64,
    /// Whether an actor was given it.
    delivered: bool,
    /// Whether it stands in the index by capability.
    indexed: bool,
    /// Hash of what was asked, to tell a repetition from a reused id.
    pub(crate) fingerprint: u64,
    pub(crate) state: State,
    /// The window, oldest to newest, over all peers and over this one.
    all: Link,
    own: Link,
}

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    older: u32,
    newer: u32,
}

const UNLINKED: Link = Link { older: NIL, newer: NIL };

/// The ends of a list of finished entries, with their number and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    oldest: u32,
    newest: u32,
    pub(crate) answers: usize,
    pub(crate) bytes: usize,
}

impl Default for Window {
    fn default() -> Window {
        Window { oldest: NIL, newest: NIL, answers: 0, bytes: 0 }
    }
}

impl Entry {
    /// The request's id.
    fn id<'a>(&'a self, answers: &'a Answers) -> &'a str {
        match &self.state {
            State::Live(live) => live.message.id(),
            State::Finished { answer, .. } => answers.id(*answer),
            State::Free { .. } => "",
        }
    }

    fn is_with(&self, capability: u32) -> bool {
        self.handler == Handler::Capability(capability)
    }

    fn hash_by_capability(&self) -> u64 {
        match self.handler {
            Handler::Capability(capability) => combined(self.hash, capability),
            Handler::Builtin(_) => self.hash,
        }
    }
}

/// The hash of an id together with the peer that sent it or the capability that handles it.
#[inline]
fn combined(hash: u64, number: u32) -> u64 {
    // Neighbouring numbers differ in the lowest and in the highest bits, and a hash table looks at both.
    hash ^ u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[derive(Debug)]
pub(crate) struct Requests {
    entries: Vec<Entry>,
    free: u32,
    by_peer: HashTable<u32>,
    /// For each id that a capability was given: the request under which that was, the latest if there were several. An
    /// actor never has two of them in its hands at once.
    by_capability: HashTable<u32>,
    /// Whether that index is kept. Where actors only answer what is in their hands nothing is ever looked for there, so
    /// it is made when something is for the first time.
    is_indexed: bool,
    live: usize,
    pub(crate) window: Window,
    answers: Answers,
}

impl Requests {
    pub(crate) fn new() -> Requests {
        Requests {
            entries: Vec::new(),
            free: NIL,
            by_peer: HashTable::new(),
            by_capability: HashTable::new(),
            is_indexed: false,
            live: 0,
            window: Window::default(),
            answers: Answers::default(),
        }
    }

    /// Unfinished requests.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    pub(crate) fn key(&self, slot: u32) -> RequestKey {
        RequestKey::new(slot, self.entries[slot as usize].generation)
    }

    pub(crate) fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }

    /// The answer of a finished request.
    pub(crate) fn answer(&self, slot: u32) -> Option<Envelope> {
        match self.entries[slot as usize].state {
            // It was a message, so it is one.
            State::Finished { answer, .. } => Envelope::parse(self.answers.line(answer).as_bytes()).ok(),
            _ => None,
        }
    }

    /// The workflow of a request.
    pub(crate) fn correlation(&self, slot: u32) -> Option<Text> {
        match &self.entries[slot as usize].state {
            State::Live(live) => live.message.correlation_text(),
            _ => self.answer(slot)?.correlation_text(),
        }
    }

    /// Bytes of memory that answers hold beyond their own.
    pub(crate) fn wasted_bytes(&self) -> usize {
        self.answers.wasted_bytes()
    }

    /// Makes another capability the handler of an unfinished request that no actor has in its hands.
    pub(crate) fn hand_over(&mut self, key: RequestKey, to: u32) {
        self.leave_index(key.slot());
        self.entries[key.slot() as usize].handler = Handler::Capability(to);
    }

    /// The unfinished request of that name.
    pub(crate) fn get(&self, key: RequestKey) -> Option<&Live> {
        match self.entries.get(key.slot() as usize) {
            Some(Entry { generation, state: State::Live(live), .. }) if *generation == key.generation() => {
                Some(live)
            }
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: RequestKey) -> Option<&mut Live> {
        match self.entries.get_mut(key.slot() as usize) {
            Some(Entry { generation, state: State::Live(live), .. }) if *generation == key.generation() => {
                Some(live)
            }
            _ => None,
        }
    }

    /// The entry under which `peer` sent `id` before. `hash` is the hash of the id, here and below.
    pub(crate) fn find_by_peer(&self, hash: u64, peer: u32, id: &str) -> Option<u32> {
        let fits = |slot: &u32| {
            let entry = &self.entries[*slot as usize];
            entry.hash == hash && entry.peer == peer && entry.id(&self.answers) == id
        };
        self.by_peer.find(combined(hash, peer), fits).copied()
    }

    /// The request with this id that is in the hands of `capability`.
    pub(crate) fn find_in_flight(&mut self, hash: u64, capability: u32, id: &str) -> Option<u32> {
        let slot = self.find_handled(hash, capability, id)?;
        let in_flight = |live: &Live| matches!(live.phase, Phase::InFlight(_));
        matches!(&self.entries[slot as usize].state, State::Live(live) if in_flight(live)).then_some(slot)
    }

    /// An earlier one than [`Requests::find_handled`] finds, of another peer, after the latest was forgotten.
    ///
    /// Nothing is kept for this: it looks at every request. That is rare, and mostly the last thing before a fault.
    pub(crate) fn find_handled_earlier(&self, hash: u64, capability: u32, id: &str) -> Option<u32> {
        let fits = |entry: &Entry| {
            entry.hash == hash
                && entry.is_with(capability)
                && entry.delivered
                && entry.id(&self.answers) == id
        };
        self.entries.iter().position(fits).map(|slot| slot as u32)
    }

    /// The request with this id that `capability` has, or had last.
    pub(crate) fn find_handled(&mut self, hash: u64, capability: u32, id: &str) -> Option<u32> {
        if !std::mem::replace(&mut self.is_indexed, true) {
            (0..self.entries.len() as u32).for_each(|slot| self.index(slot));
        }
        let fits = |slot: &u32| {
            let entry = &self.entries[*slot as usize];
            entry.hash == hash && entry.is_with(capability) && entry.id(&self.answers) == id
        };
        self.by_capability.find(combined(hash, capability), fits).copied()
    }

    /// An actor of its capability is given the request.
    pub(crate) fn note_delivery(&mut self, key: RequestKey) {
        self.entries[key.slot() as usize].delivered = true;
        if self.is_indexed {
            self.index(key.slot());
        }
    }

    /// Enters a request into the index by capability, in place of an earlier one of the same id.
    fn index(&mut self, slot: u32) {
        let (entries, answers) = (&self.entries, &self.answers);
        let own = &entries[slot as usize];
        let Handler::Capability(capability) = own.handler else { return };
        if !own.delivered {
            return;
        }
        let same = |slot: &u32| {
            let entry = &entries[*slot as usize];
            entry.hash == own.hash && entry.is_with(capability) && entry.id(answers) == own.id(answers)
        };
        let rehash = |slot: &u32| entries[*slot as usize].hash_by_capability();
        match self.by_capability.entry(combined(own.hash, capability), same, rehash) {
            HashEntry::Occupied(mut there) => *there.get_mut() = slot,
            HashEntry::Vacant(place) => {
                place.insert(slot);
            }
        }
        self.entries[slot as usize].indexed = true;
    }

    fn leave_index(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.delivered = false;
        if !std::mem::take(&mut entry.indexed) {
            return;
        }
        let hash = entry.hash_by_capability();
        if let Ok(found) = self.by_capability.find_entry(hash, |&other| other == slot) {
            found.remove();
        }
    }

    pub(crate) fn insert(
        &mut self,
        hash: u64,
        peer: u32,
        handler: Handler,
        fingerprint: u64,
        live: Live,
    ) -> RequestKey {
        let slot = self.take_slot();
        let entry = &mut self.entries[slot as usize];
        entry.peer = peer;
        entry.handler = handler;
        entry.hash = hash;
        entry.fingerprint = fingerprint;
        entry.state = State::Live(Box::new(live));
        let generation = entry.generation;
        let entries = &self.entries;
        let rehash = |slot: &u32| {
            let entry = &entries[*slot as usize];
            combined(entry.hash, entry.peer)
        };
        self.by_peer.insert_unique(combined(hash, peer), slot, rehash);
        self.live += 1;
        RequestKey::new(slot, generation)
    }

    fn take_slot(&mut self) -> u32 {
        if self.free != NIL {
            let slot = self.free;
            if let State::Free { next } = self.entries[slot as usize].state {
                self.free = next;
            }
            return slot;
        }
        let slot = self.entries.len() as u32;
        self.entries.push(Entry {
            generation: 0,
            peer: 0,
            handler: Handler::Capability(0),
            hash: 0,
            delivered: false,
            indexed: false,
            fingerprint: 0,
            state: State::Free { next: NIL },
            all: UNLINKED,
            own: UNLINKED,
        });
        slot
    }

    /// Ends an unfinished request and forgets it.
    pub(crate) fn remove_live(&mut self, key: RequestKey) -> Option<Box<Live>> {
        self.get(key)?;
        let state = self.release(key.slot());
        self.live -= 1;
        match state {
            State::Live(live) => Some(live),
            _ => None,
        }
    }

    /// Ends an unfinished request and remembers its answer as the newest of `own`, the window of its peer.
    pub(crate) fn finish(
        &mut self,
        key: RequestKey,
        answer: &Envelope,
        now_ns: i64,
        own: &mut Window,
    ) -> Option<Box<Live>> {
        self.get(key)?;
        let bytes = answer.line().len();
        let id = answer.causation().unwrap_or_default();
        let answer = self.answers.keep(answer.line(), id, answer.causation_place());
        let finished = State::Finished { answer, finished_ns: now_ns };
        let state = std::mem::replace(&mut self.entries[key.slot() as usize].state, finished);
        self.live -= 1;
        let mut all = self.window;
        self.link(&mut all, key.slot(), bytes, |entry| &mut entry.all);
        self.window = all;
        self.link(own, key.slot(), bytes, |entry| &mut entry.own);
        match state {
            State::Live(live) => Some(live),
            _ => None,
        }
    }

    fn link(&mut self, window: &mut Window, slot: u32, bytes: usize, of: fn(&mut Entry) -> &mut Link) {
        *of(&mut self.entries[slot as usize]) = Link { older: window.newest, newer: NIL };
        match window.newest {
            NIL => window.oldest = slot,
            newest => of(&mut self.entries[newest as usize]).newer = slot,
        }
        window.newest = slot;
        window.answers += 1;
        window.bytes += bytes;
    }

    fn unlink(&mut self, window: &mut Window, slot: u32, bytes: usize, of: fn(&mut Entry) -> &mut Link) {
        let link = *of(&mut self.entries[slot as usize]);
        match link.older {
            NIL => window.oldest = link.newer,
            older => of(&mut self.entries[older as usize]).newer = link.newer,
        }
        match link.newer {
            NIL => window.newest = link.older,
            newer => of(&mut self.entries[newer as usize]).older = link.older,
        }
        window.answers -= 1;
        window.bytes -= bytes;
    }

    /// The oldest remembered answer of all, with its peer and the time it was given.
    pub(crate) fn oldest(&self) -> Option<(u32, u32, i64)> {
        let entry = self.entries.get(self.window.oldest as usize)?;
        match entry.state {
            State::Finished { finished_ns, .. } => Some((self.window.oldest, entry.peer, finished_ns)),
            _ => None,
        }
    }

    /// The oldest remembered answer of one peer.
    pub(crate) fn oldest_of(&self, own: &Window) -> Option<u32> {
        (own.oldest != NIL).then_some(own.oldest)
    }

    /// Forgets a remembered answer; `own` is the window of its peer.
    pub(crate) fn forget(&mut self, slot: u32, own: &mut Window) {
        let State::Finished { answer, .. } = self.entries[slot as usize].state else { return };
        let bytes = answer.len();
        self.answers.forget(answer);
        let mut all = self.window;
        self.unlink(&mut all, slot, bytes, |entry| &mut entry.all);
        self.window = all;
        self.unlink(own, slot, bytes, |entry| &mut entry.own);
        self.release(slot);
    }

    fn release(&mut self, slot: u32) -> State {
        self.leave_index(slot);
        let entry = &self.entries[slot as usize];
        if let Ok(found) = self.by_peer.find_entry(combined(entry.hash, entry.peer), |&other| other == slot) {
            found.remove();
        }
        let entry = &mut self.entries[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        let state = std::mem::replace(&mut entry.state, State::Free { next: self.free });
        self.free = slot;
        state
    }

    /// All unfinished requests, in the order of their slots.
    pub(crate) fn live_keys(&self) -> Vec<RequestKey> {
        let live = self.entries.iter().enumerate().filter(|(_, entry)| matches!(entry.state, State::Live(_)));
        live.map(|(slot, entry)| RequestKey::new(slot as u32, entry.generation)).collect()
    }
}
