//! The one table of requests: unfinished ones, what is remembered of finished commands, and whose they are. Only the flow of messages
//! opens and ends requests here.

pub(crate) mod answers;
pub(crate) mod handled;
pub(crate) mod peers;
pub(crate) mod window;

use crate::api::ids::{ActorRef, ConnectionId};
use crate::flow::routes::Handler;
use crate::requests::answers::{AnswerPlace, Answers};
use crate::time::wheel::TimerKey;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as HashEntry;
use mainspring_message::{Envelope, Text};
use slab::Slab;

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

    /// The connection that the request came by, and that waits for its outcome.
    pub(crate) fn connection(&self) -> Option<ConnectionId> {
        if let Origin::Connection(connection) = self { Some(*connection) } else { None }
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
    /// A built-in works on it, in slices.
    Served,
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
    Free {
        next: u32,
    },
    Live(Box<Live>),
    /// The answer may be [`AnswerPlace::FORGOTTEN`]: then only that it was given is known.
    Finished {
        answer: AnswerPlace,
        finished_ns: i64,
    },
}

#[derive(Debug)]
pub(crate) struct Entry {
    generation: u32,
    pub(crate) peer: u32,
    pub(crate) handler: Handler,
    /// Hash of the id.
    pub(crate) hash: u64,
    /// Whether an actor was given it.
    delivered: bool,
    /// Whether it stands in the index by capability.
    indexed: bool,
    /// Whether it belongs to a workflow.
    correlated: bool,
    /// The share that its answer will be part of; [`NIL`] if that is not to be remembered.
    share: u32,
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

/// The ends of a list of finished entries, with their number and the bytes of their answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    oldest: u32,
    newest: u32,
    pub(crate) requests: usize,
    pub(crate) bytes: usize,
}

impl Default for Window {
    fn default() -> Window {
        Window { oldest: NIL, newest: NIL, requests: 0, bytes: 0 }
    }
}

/// What is remembered of one peer, in all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerWindow {
    /// The first of its shares.
    shares: u32,
    pub(crate) requests: usize,
    pub(crate) bytes: usize,
}

impl Default for PeerWindow {
    fn default() -> PeerWindow {
        PeerWindow { shares: NIL, requests: 0, bytes: 0 }
    }
}

/// What is remembered of one connection or actor.
#[derive(Debug)]
struct Share {
    /// The connection while it is open, its unfinished commands, and its remembered ones.
    references: u32,
    window: Window,
    /// The oldest entry that has its answer still: those before it have lost theirs.
    answered: u32,
    /// The neighbours among the shares of the same peer.
    previous: u32,
    next: u32,
}

/// What a remembered request counts for beside the bytes of its answer: the place that it takes.
const PLACE_BYTES: usize = 128;

/// The share of a request whose answer is not to be remembered.
pub(crate) const NO_SHARE: u32 = NIL;

impl Entry {
    /// The request's id; nothing if that went with its answer.
    fn id<'a>(&'a self, answers: &'a Answers) -> Option<&'a str> {
        match &self.state {
            State::Live(live) => Some(live.message.id()),
            State::Finished { answer, .. } if !answer.is_forgotten() => Some(answers.id(*answer)),
            State::Finished { .. } | State::Free { .. } => None,
        }
    }

    /// Whether it may have the id, given that the hash is that of the id.
    fn may_have(&self, id: &str, answers: &Answers) -> bool {
        self.id(answers).is_none_or(|own| own == id)
    }

    /// Whether its answer may be remembered.
    pub(crate) fn has_share(&self) -> bool {
        self.share != NO_SHARE
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

/// Adds an entry to a list as its newest; `of` is the place of that list's links.
#[inline(always)]
fn link(
    entries: &mut [Entry],
    window: &mut Window,
    slot: u32,
    bytes: usize,
    of: impl Fn(&mut Entry) -> &mut Link,
) {
    *of(&mut entries[slot as usize]) = Link { older: window.newest, newer: NIL };
    match window.newest {
        NIL => window.oldest = slot,
        newest => of(&mut entries[newest as usize]).newer = slot,
    }
    window.newest = slot;
    window.requests += 1;
    window.bytes += bytes;
}

/// Takes an entry with these links out of a list; its own links stay what they were.
#[inline(always)]
fn unlink(
    entries: &mut [Entry],
    window: &mut Window,
    links: Link,
    bytes: usize,
    of: impl Fn(&mut Entry) -> &mut Link,
) {
    match links.older {
        NIL => window.oldest = links.newer,
        older => of(&mut entries[older as usize]).newer = links.newer,
    }
    match links.newer {
        NIL => window.newest = links.older,
        newer => of(&mut entries[newer as usize]).older = links.older,
    }
    window.requests -= 1;
    window.bytes -= bytes;
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
    /// The next entry of the window whose answer is moved when too much memory lies between answers.
    sweep: u32,
    shares: Slab<Share>,
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
            sweep: NIL,
            shares: Slab::new(),
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

    /// The answer of a finished request, if it is remembered.
    pub(crate) fn answer(&self, slot: u32) -> Option<Envelope> {
        match self.entries[slot as usize].state {
            // It was a message, so it is one.
            State::Finished { answer, .. } if !answer.is_forgotten() => {
                Envelope::parse(self.answers.line(answer).as_bytes()).ok()
            }
            _ => None,
        }
    }

    /// Whether the request has ended, whatever is remembered of it.
    pub(crate) fn is_finished(&self, slot: u32) -> bool {
        matches!(self.entries[slot as usize].state, State::Finished { .. })
    }

    /// The workflow of a request.
    pub(crate) fn correlation(&self, slot: u32) -> Option<Text> {
        match &self.entries[slot as usize].state {
            State::Live(live) => live.message.correlation_text(),
            _ if self.entries[slot as usize].correlated => self.answer(slot)?.correlation_text(),
            _ => None,
        }
    }

    /// Bytes of memory that answers hold beyond their own.
    pub(crate) fn wasted_bytes(&self) -> usize {
        self.answers.wasted_bytes()
    }

    /// The capability that was given a finished request, the hash of the request's id, the time of its end, and whether it
    /// belongs to a workflow.
    #[inline]
    pub(crate) fn handled(&self, slot: u32) -> Option<(u32, u64, i64, bool)> {
        let entry = &self.entries[slot as usize];
        match (entry.handler, &entry.state) {
            (Handler::Capability(capability), State::Finished { finished_ns, .. }) if entry.delivered => {
                Some((capability, entry.hash, *finished_ns, entry.correlated))
            }
            _ => None,
        }
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
            entry.hash == hash && entry.peer == peer && entry.may_have(id, &self.answers)
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
                && entry.may_have(id, &self.answers)
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
            entry.hash == hash && entry.is_with(capability) && entry.may_have(id, &self.answers)
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
        share: u32,
        live: Live,
    ) -> RequestKey {
        let slot = self.take_slot();
        if share != NO_SHARE {
            self.shares[share as usize].references += 1;
        }
        let entry = &mut self.entries[slot as usize];
        entry.share = share;
        entry.correlated = live.message.correlation().is_some();
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
            correlated: false,
            share: NO_SHARE,
            fingerprint: 0,
            state: State::Free { next: NIL },
            all: UNLINKED,
            own: UNLINKED,
        });
        slot
    }

    /// Ends an unfinished request and forgets it; `own` is the window of its peer.
    pub(crate) fn remove_live(&mut self, key: RequestKey, own: &mut PeerWindow) -> Option<Box<Live>> {
        self.get(key)?;
        let state = self.release(key.slot(), own);
        self.live -= 1;
        match state {
            State::Live(live) => Some(live),
            _ => None,
        }
    }

    /// Ends an unfinished request and remembers it as the newest of its share, with its answer if there is one to keep.
    pub(crate) fn finish(
        &mut self,
        key: RequestKey,
        answer: Option<&Envelope>,
        now_ns: i64,
        own: &mut PeerWindow,
    ) -> Option<Box<Live>> {
        self.get(key)?;
        let slot = key.slot();
        let answer = match answer {
            Some(answer) => {
                let id = answer.causation().unwrap_or_default();
                self.answers.keep(answer.line(), id, answer.causation_place())
            }
            None => AnswerPlace::FORGOTTEN,
        };
        let finished = State::Finished { answer, finished_ns: now_ns };
        let state = std::mem::replace(&mut self.entries[slot as usize].state, finished);
        self.live -= 1;
        link(&mut self.entries, &mut self.window, slot, answer.len(), |entry| &mut entry.all);
        let share = &mut self.shares[self.entries[slot as usize].share as usize];
        link(&mut self.entries, &mut share.window, slot, answer.len(), |entry| &mut entry.own);
        if share.answered == NIL && !answer.is_forgotten() {
            share.answered = slot;
        }
        own.requests += 1;
        own.bytes += answer.len();
        if answer.is_forgotten() {
            self.leave_index(slot);
        }
        match state {
            State::Live(live) => Some(live),
            _ => None,
        }
    }

    /// The oldest remembered answer of all, with its peer and the time it was given.
    pub(crate) fn oldest(&self) -> Option<(u32, u32, i64)> {
        let entry = self.entries.get(self.window.oldest as usize)?;
        match entry.state {
            State::Finished { finished_ns, .. } => Some((self.window.oldest, entry.peer, finished_ns)),
            _ => None,
        }
    }

    /// Forgets a remembered request; `own` is the window of its peer.
    pub(crate) fn forget(&mut self, slot: u32, own: &mut PeerWindow) {
        let entry = &self.entries[slot as usize];
        let State::Finished { answer, .. } = entry.state else { return };
        let (share, all, of_share) = (entry.share as usize, entry.all, entry.own);
        if self.sweep == slot {
            self.sweep = all.newer;
        }
        if !answer.is_forgotten() {
            self.answers.forget(answer);
            self.note_answer_gone(share, slot, of_share.newer);
        }
        unlink(&mut self.entries, &mut self.window, all, answer.len(), |entry| &mut entry.all);
        let window = &mut self.shares[share].window;
        unlink(&mut self.entries, window, of_share, answer.len(), |entry| &mut entry.own);
        own.requests -= 1;
        own.bytes -= answer.len();
        self.release(slot, own);
    }

    /// Forgets the answer of a remembered request, which stays known.
    pub(crate) fn forget_answer(&mut self, slot: u32, own: &mut PeerWindow) {
        self.leave_index(slot);
        let entry = &mut self.entries[slot as usize];
        let (share, newer) = (entry.share as usize, entry.own.newer);
        let State::Finished { answer: place, .. } = &mut entry.state else { return };
        let answer = std::mem::replace(place, AnswerPlace::FORGOTTEN);
        if answer.is_forgotten() {
            return;
        }
        self.answers.forget(answer);
        self.note_answer_gone(share, slot, newer);
        self.shares[share].window.bytes -= answer.len();
        self.window.bytes -= answer.len();
        own.bytes -= answer.len();
    }

    /// Finds the oldest answer of a share anew when the one of `slot`, which stands before `newer`, is gone.
    #[inline]
    fn note_answer_gone(&mut self, share: usize, slot: u32, mut newer: u32) {
        if self.shares[share].answered != slot {
            return;
        }
        // One that was too large to be kept may stand in between.
        while newer != NIL && self.has_lost_answer(newer) {
            newer = self.entries[newer as usize].own.newer;
        }
        self.shares[share].answered = newer;
    }

    fn has_lost_answer(&self, slot: u32) -> bool {
        matches!(&self.entries[slot as usize].state, State::Finished { answer, .. } if answer.is_forgotten())
    }

    #[inline(always)]
    fn release(&mut self, slot: u32, own: &mut PeerWindow) -> State {
        self.leave_index(slot);
        let entry = &self.entries[slot as usize];
        if let Ok(found) = self.by_peer.find_entry(combined(entry.hash, entry.peer), |&other| other == slot) {
            found.remove();
        }
        let entry = &mut self.entries[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        let share = entry.share;
        let state = std::mem::replace(&mut entry.state, State::Free { next: self.free });
        self.free = slot;
        if share != NO_SHARE {
            self.leave_share(share, own);
        }
        state
    }

    /// A share for a connection or actor of the peer whose window is `own`.
    pub(crate) fn open_share(&mut self, own: &mut PeerWindow) -> u32 {
        let share = Share {
            references: 1,
            window: Window::default(),
            answered: NIL,
            previous: NIL,
            next: own.shares,
        };
        let share = self.shares.insert(share) as u32;
        if own.shares != NIL {
            self.shares[own.shares as usize].previous = share;
        }
        own.shares = share;
        share
    }

    /// One thing less refers to a share. It goes with the last one.
    #[inline]
    pub(crate) fn leave_share(&mut self, share: u32, own: &mut PeerWindow) {
        let it = &mut self.shares[share as usize];
        it.references -= 1;
        if it.references == 0 {
            self.close_share(share, own);
        }
    }

    #[cold]
    fn close_share(&mut self, share: u32, own: &mut PeerWindow) {
        let Share { previous, next, .. } = self.shares.remove(share as usize);
        match previous {
            NIL => own.shares = next,
            previous => self.shares[previous as usize].next = next,
        }
        if next != NIL {
            self.shares[next as usize].previous = previous;
        }
    }

    /// The shares of a peer that hold something, each with what it counts for.
    pub(crate) fn shares_of(&self, own: &PeerWindow) -> impl Iterator<Item = (usize, u32)> {
        let next = |share: &u32| Some(self.shares[*share as usize].next).filter(|next| *next != NIL);
        let all = std::iter::successors(Some(own.shares).filter(|first| *first != NIL), next);
        all.map(|share| (self.weight(share), share)).filter(|(weight, _)| *weight > 0)
    }

    /// What a share counts for: the bytes of its answers, and the places of all that is remembered. Nothing if it is gone.
    pub(crate) fn weight(&self, share: u32) -> usize {
        let window = self.shares.get(share as usize).map(|share| &share.window);
        window.map_or(0, |window| window.bytes + window.requests * PLACE_BYTES)
    }

    /// The oldest remembered request of a share.
    pub(crate) fn oldest_of(&self, share: u32) -> Option<u32> {
        self.shares.get(share as usize).map(|share| share.window.oldest).filter(|slot| *slot != NIL)
    }

    /// The oldest remembered request of a share whose answer is remembered too.
    pub(crate) fn oldest_answer_of(&self, share: u32) -> Option<u32> {
        self.shares.get(share as usize).map(|share| share.answered).filter(|slot| *slot != NIL)
    }

    /// Moves a few answers together when more than half of `wasted_max` lies between them, after one of so many bytes came.
    ///
    /// Whoever's answers stay while those of others around them are forgotten would hold large pieces of memory by them.
    /// Moving four bytes for one that comes, a round through the window ends before a quarter of its bytes came, so that
    /// never more than the bound is wasted.
    pub(crate) fn tidy(&mut self, wasted_max: usize, bytes: usize) {
        if self.answers.wasted_bytes() > wasted_max / 2 {
            self.move_answers(4 * (bytes + PLACE_BYTES));
        }
    }

    #[cold]
    fn move_answers(&mut self, bytes: usize) {
        let mut moved = 0;
        while moved < bytes {
            if self.sweep == NIL {
                self.sweep = self.window.oldest;
            }
            let slot = self.sweep;
            let Some(entry) = self.entries.get_mut(slot as usize) else { return };
            self.sweep = entry.all.newer;
            moved += PLACE_BYTES;
            if let State::Finished { answer, .. } = &mut entry.state
                && !answer.is_forgotten()
            {
                moved += answer.len();
                *answer = self.answers.move_to_end(*answer);
            }
        }
    }

    /// Whether the shares agree with the windows of the peers that they are parts of; for [`Kernel::audit`].
    ///
    /// [`Kernel::audit`]: crate::Kernel::audit
    pub(crate) fn agrees_with(&self, own: &PeerWindow) -> Result<(), String> {
        let next = |share: &u32| Some(self.shares[*share as usize].next).filter(|next| *next != NIL);
        let all = std::iter::successors(Some(own.shares).filter(|first| *first != NIL), next);
        let (mut requests, mut bytes) = (0, 0);
        for share in all {
            let window = &self.shares[share as usize].window;
            (requests, bytes) = (requests + window.requests, bytes + window.bytes);
            let newer = |slot: &u32| Some(self.entries[*slot as usize].own.newer).filter(|slot| *slot != NIL);
            let slots = std::iter::successors(Some(window.oldest).filter(|slot| *slot != NIL), newer);
            let answer = |slot: u32| match self.entries[slot as usize].state {
                State::Finished { answer, .. } => answer.len(),
                _ => 0,
            };
            let (mut count, mut kept, mut first) = (0, 0, NIL);
            for slot in slots {
                (count, kept) = (count + 1, kept + answer(slot));
                if first == NIL && self.answer(slot).is_some() {
                    first = slot;
                }
            }
            let it = &self.shares[share as usize];
            if (count, kept, first) != (window.requests, window.bytes, it.answered) {
                return Err(format!("share {share} is wrong about {:?}", (count, kept, first)));
            }
        }
        if (requests, bytes) == (own.requests, own.bytes) {
            return Ok(());
        }
        Err(format!("shares hold {requests} requests and {bytes} bytes, their peer {own:?}"))
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> u32 {
        self.entries.len() as u32
    }

    /// The unfinished request at a slot.
    pub(crate) fn live_at(&self, slot: u32) -> Option<RequestKey> {
        let entry = self.entries.get(slot as usize)?;
        matches!(entry.state, State::Live(_)).then(|| RequestKey::new(slot, entry.generation))
    }

    /// All unfinished requests, in the order of their slots.
    pub(crate) fn live_keys(&self) -> Vec<RequestKey> {
        let live = self.entries.iter().enumerate().filter(|(_, entry)| matches!(entry.state, State::Live(_)));
        live.map(|(slot, entry)| RequestKey::new(slot as u32, entry.generation)).collect()
    }
}
