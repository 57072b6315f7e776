//! The slots of the table, and the two ways in which a request is found: by peer and id, by
//! capability and id.

use super::Requests;
use super::answers::{AnswerPlace, Answers};
use super::causes::Workflow;
use super::live::{Live, Phase, RequestKey};
use super::peers::PeerId;
use super::shares::ShareId;
use super::window::{Link, UNLINKED};
use crate::api::ids::CapabilityId;
use crate::flow::routes::Handler;
use crate::out::Out;
use hashbrown::hash_table::Entry as HashEntry;
use mainspring_message::Envelope;

/// "No slot" and "no share".
pub(super) const NIL: u32 = u32::MAX;

/// Up to so many requests in progress, looking at each is faster than a hash table.
const SCANNED_MAX: usize = 8;

/// What is in a slot.
#[derive(Debug)]
pub(super) enum SlotState {
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

/// One request, unfinished or remembered.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) generation: u32,
    pub(super) peer: PeerId,
    pub(super) handler: Handler,
    /// Hash of the id.
    pub(super) hash: u64,
    /// Whether an actor was given it.
    pub(super) delivered: bool,
    /// Whether it stands in the index by capability.
    indexed: bool,
    /// Whether it belongs to a workflow, or to a span of another system.
    pub(super) has_workflow: bool,
    /// Whether it ended in an earlier run, so that its fingerprint is the one that stands in the
    /// journal.
    pub(super) restored: bool,
    /// The share that its answer will be part of; none if that is not to be remembered.
    pub(super) share: Option<ShareId>,
    /// Hash of what was asked, to tell a repetition from a reused id.
    pub(super) fingerprint: u64,
    pub(super) state: SlotState,
    /// Its place in the window, oldest to newest, over all peers and over its share.
    pub(super) all: Link,
    pub(super) own: Link,
}

impl Slot {
    /// The request's id; nothing if that went with its answer.
    fn id<'a>(&'a self, answers: &'a Answers) -> Option<&'a str> {
        match &self.state {
            SlotState::Live(live) => Some(live.message.id()),
            SlotState::Finished { answer, .. } if !answer.is_forgotten() => Some(answers.id(*answer)),
            SlotState::Finished { .. } | SlotState::Free { .. } => None,
        }
    }

    /// Whether it may have the id, given that the hash is that of the id.
    fn may_have(&self, id: &str, answers: &Answers) -> bool {
        self.id(answers).is_none_or(|own| own == id)
    }

    fn is_with(&self, capability: CapabilityId) -> bool {
        self.handler == Handler::Capability(capability)
    }

    fn hash_by_capability(&self) -> u64 {
        match self.handler {
            Handler::Capability(capability) => combined(self.hash, capability.0),
            Handler::Builtin(_) => self.hash,
        }
    }
}

/// The hash of an id together with the peer that sent it or the capability that handles it.
#[inline]
fn combined(hash: u64, number: u32) -> u64 {
    // Neighbouring numbers differ in the lowest and in the highest bits, and a hash table looks at
    // both.
    hash ^ u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Whether a message belongs to a workflow, or to a span of another system.
#[inline]
pub(super) fn has_workflow(message: &Envelope) -> bool {
    message.correlation().is_some() || message.has_traceparent()
}

/// What a new request is entered under.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewSlot {
    pub(super) hash: u64,
    pub(super) peer: PeerId,
    pub(super) handler: Handler,
    pub(super) fingerprint: u64,
    pub(super) share: Option<ShareId>,
}

impl Requests {
    pub(super) fn key(&self, slot: u32) -> RequestKey {
        RequestKey::new(slot, self.slots[slot as usize].generation)
    }

    /// The unfinished request of that name.
    #[inline]
    pub(super) fn get(&self, key: RequestKey) -> Option<&Live> {
        match self.slots.get(key.slot() as usize) {
            Some(Slot { generation, state: SlotState::Live(live), .. })
                if *generation == key.generation() =>
            {
                Some(live)
            }
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: RequestKey) -> Option<&mut Live> {
        match self.slots.get_mut(key.slot() as usize) {
            Some(Slot { generation, state: SlotState::Live(live), .. })
                if *generation == key.generation() =>
            {
                Some(live)
            }
            _ => None,
        }
    }

    /// The answer of a finished request, if it is remembered.
    pub(super) fn answer(&self, slot: u32) -> Option<Envelope> {
        match self.slots[slot as usize].state {
            // It was a message, so it is one.
            SlotState::Finished { answer, .. } if !answer.is_forgotten() => {
                Envelope::parse(self.answers.line(answer).as_bytes()).ok()
            }
            _ => None,
        }
    }

    /// The workflow of a request.
    pub(super) fn workflow(&self, slot: u32) -> Workflow {
        match &self.slots[slot as usize].state {
            SlotState::Live(live) => Workflow::of(&live.message),
            // Its answer was given what it left out.
            _ if self.slots[slot as usize].has_workflow => {
                self.answer(slot).map_or_else(Workflow::default, |answer| Workflow::of(&answer))
            }
            _ => Workflow::default(),
        }
    }

    /// The slot under which `peer` sent `id` before. `hash` is the hash of the id, here and below.
    #[inline]
    pub(super) fn find_by_peer(&self, hash: u64, peer: PeerId, id: &str) -> Option<u32> {
        let fits = |slot: &u32| {
            let slot = &self.slots[*slot as usize];
            slot.hash == hash && slot.peer == peer && slot.may_have(id, &self.answers)
        };
        self.by_peer.find(combined(hash, peer.number()), fits).copied()
    }

    /// The request with this id among those that an actor of the capability has in progress.
    #[inline]
    pub(crate) fn find_in_progress(
        &mut self,
        capability: CapabilityId,
        in_progress: &[RequestKey],
        id: &str,
        out: &Out,
    ) -> Option<RequestKey> {
        if in_progress.len() > SCANNED_MAX {
            let slot = self.find_handled(out.hash_id(id), capability, id)?;
            let is_in_progress = |live: &Live| matches!(live.phase, Phase::InProgress(_));
            let key = self.key(slot);
            return self.get(key).is_some_and(is_in_progress).then_some(key);
        }
        let fits = |key: &&RequestKey| self.get(**key).is_some_and(|live| live.message.id() == id);
        in_progress.iter().find(fits).copied()
    }

    /// An earlier one than [`Requests::find_handled`] finds, of another peer, after the latest was
    /// forgotten.
    ///
    /// Nothing is kept for this: it looks at every request. That is rare, and mostly the last thing
    /// before a fault.
    pub(super) fn find_handled_earlier(&self, hash: u64, capability: CapabilityId, id: &str) -> Option<u32> {
        let fits = |slot: &Slot| {
            slot.hash == hash
                && slot.is_with(capability)
                && slot.delivered
                && slot.may_have(id, &self.answers)
        };
        self.slots.iter().position(fits).map(|slot| slot as u32)
    }

    /// The request with this id that `capability` has, or had last.
    pub(super) fn find_handled(&mut self, hash: u64, capability: CapabilityId, id: &str) -> Option<u32> {
        if !std::mem::replace(&mut self.is_indexed, true) {
            (0..self.slots.len() as u32).for_each(|slot| self.index(slot));
        }
        let fits = |slot: &u32| {
            let slot = &self.slots[*slot as usize];
            slot.hash == hash && slot.is_with(capability) && slot.may_have(id, &self.answers)
        };
        self.by_capability.find(combined(hash, capability.0), fits).copied()
    }

    /// An actor of its capability is given the request.
    #[inline]
    pub(super) fn note_delivery(&mut self, key: RequestKey) {
        self.slots[key.slot() as usize].delivered = true;
        if self.is_indexed {
            self.index(key.slot());
        }
    }

    /// Enters a request into the index by capability, in place of an earlier one of the same id.
    fn index(&mut self, slot: u32) {
        let (slots, answers) = (&self.slots, &self.answers);
        let own = &slots[slot as usize];
        let Handler::Capability(capability) = own.handler else { return };
        if !own.delivered {
            return;
        }
        let same = |slot: &u32| {
            let slot = &slots[*slot as usize];
            slot.hash == own.hash && slot.is_with(capability) && slot.id(answers) == own.id(answers)
        };
        let rehash = |slot: &u32| slots[*slot as usize].hash_by_capability();
        match self.by_capability.entry(combined(own.hash, capability.0), same, rehash) {
            HashEntry::Occupied(mut there) => *there.get_mut() = slot,
            HashEntry::Vacant(place) => {
                place.insert(slot);
            }
        }
        self.slots[slot as usize].indexed = true;
    }

    pub(super) fn leave_index(&mut self, slot: u32) {
        let it = &mut self.slots[slot as usize];
        it.delivered = false;
        if !std::mem::take(&mut it.indexed) {
            return;
        }
        let hash = it.hash_by_capability();
        if let Ok(found) = self.by_capability.find_entry(hash, |&other| other == slot) {
            found.remove();
        }
    }

    #[inline]
    pub(super) fn insert(&mut self, new: NewSlot, live: Live) -> RequestKey {
        let slot = self.take_slot();
        self.occupy(slot, new, has_workflow(&live.message));
        self.slots[slot as usize].state = SlotState::Live(Box::new(live));
        self.live += 1;
        self.key(slot)
    }

    /// Enters what a request is found under. The caller says what is in the slot.
    #[inline]
    pub(super) fn occupy(&mut self, slot: u32, new: NewSlot, has_workflow: bool) {
        let NewSlot { hash, peer, handler, fingerprint, share } = new;
        if let Some(share) = share {
            self.join_share(share);
        }
        let it = &mut self.slots[slot as usize];
        it.share = share;
        it.restored = false;
        it.has_workflow = has_workflow;
        it.peer = peer;
        it.handler = handler;
        it.hash = hash;
        it.fingerprint = fingerprint;
        let slots = &self.slots;
        let rehash = |slot: &u32| {
            let slot = &slots[*slot as usize];
            combined(slot.hash, slot.peer.number())
        };
        self.by_peer.insert_unique(combined(hash, peer.number()), slot, rehash);
    }

    pub(super) fn take_slot(&mut self) -> u32 {
        if self.free != NIL {
            let slot = self.free;
            if let SlotState::Free { next } = self.slots[slot as usize].state {
                self.free = next;
            }
            return slot;
        }
        let slot = self.slots.len() as u32;
        self.slots.push(Slot {
            generation: 0,
            peer: PeerId::NOBODY,
            handler: Handler::Capability(CapabilityId(0)),
            hash: 0,
            delivered: false,
            indexed: false,
            has_workflow: false,
            restored: false,
            share: None,
            fingerprint: 0,
            state: SlotState::Free { next: NIL },
            all: UNLINKED,
            own: UNLINKED,
        });
        slot
    }

    /// Empties a slot; returns what was in it.
    #[inline(always)]
    pub(super) fn release(&mut self, slot: u32) -> SlotState {
        self.leave_index(slot);
        let it = &self.slots[slot as usize];
        let hash = combined(it.hash, it.peer.number());
        if let Ok(found) = self.by_peer.find_entry(hash, |&other| other == slot) {
            found.remove();
        }
        let it = &mut self.slots[slot as usize];
        it.generation = it.generation.wrapping_add(1);
        let (share, peer) = (it.share, it.peer);
        let state = std::mem::replace(&mut it.state, SlotState::Free { next: self.free });
        self.free = slot;
        if let Some(share) = share {
            self.leave_share(share, peer);
        }
        state
    }
}
