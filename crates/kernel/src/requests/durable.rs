//! What of the table survives the process, and what is entered again after a start.

use super::Requests;
use super::ending::Ended;
use super::live::{Live, Origin, Phase, RequestKey};
use super::peers::PeerId;
use super::shares::ShareId;
use super::table::{NewSlot, SlotState, has_workflow};
use crate::api::ids::{CapabilityId, ConnectionId};
use crate::durability::{Durably, NOBODY};
use crate::flow::routes::Handler;
use crate::out::Out;
use crate::time::Job;
use mainspring_message::{Envelope, Text};

/// A command that was accepted just now, as the fact about it tells it.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) peer: PeerId,
    pub(crate) message: Envelope,
    pub(crate) deadline_ns: i64,
    /// The schedule that it came from, if it came from one.
    pub(crate) timer_id: Option<Text>,
    /// The connection that it came by.
    pub(crate) connection: Option<ConnectionId>,
}

/// A request of an earlier run.
#[derive(Debug)]
pub(crate) struct RestoredRequest {
    pub(crate) peer: PeerId,
    pub(crate) handler: Handler,
    /// Hash of the id, and of what is asked.
    pub(crate) hash: u64,
    pub(crate) fingerprint: u64,
    pub(crate) share: Option<ShareId>,
    pub(crate) origin: Origin,
    pub(crate) durable: Durably,
    pub(crate) attempts: u32,
    pub(crate) deadline_ns: i64,
}

/// What became of a request, for whoever asks by its id.
#[derive(Debug)]
pub(crate) enum Found {
    /// It has not ended, and was delivered so often.
    Unfinished(u32),
    /// It ended, with this answer if that is remembered.
    Ended(Option<Envelope>),
}

impl Live {
    fn restored(request: &RestoredRequest, message: Envelope, now_ns: i64) -> Live {
        Live {
            message,
            origin: request.origin.clone(),
            phase: Phase::Answering,
            timer: None,
            deadline_ns: request.deadline_ns,
            accepted_ns: now_ns,
            delivered_ns: now_ns,
            attempts: request.attempts,
            cause: None,
            depth: 0,
            waiters: Vec::new(),
            durable: request.durable,
            fact: 0,
        }
    }
}

impl Requests {
    /// What the fact about a command that was accepted just now tells.
    pub(crate) fn accepted(&self, key: RequestKey) -> Option<Accepted> {
        let live = self.get(key)?;
        let (timer_id, connection) = match &live.origin {
            Origin::Delegate(delegate) => (delegate.timer_id.clone(), None),
            Origin::Connection(connection) => (None, Some(*connection)),
            Origin::Actor(_) => (None, None),
        };
        Some(Accepted {
            peer: self.slots[key.slot() as usize].peer,
            message: live.message.clone(),
            deadline_ns: live.deadline_ns,
            timer_id,
            connection,
        })
    }

    /// How an unfinished request survives, and the last fact about it.
    pub(crate) fn durably(&self, key: RequestKey) -> Option<(Durably, u64)> {
        self.get(key).map(|live| (live.durable, live.fact))
    }

    /// The deadline of an unfinished request, how often it was delivered, and how it survives.
    pub(crate) fn passed_on(&self, key: RequestKey) -> Option<(i64, u32, Durably)> {
        self.get(key).map(|live| (live.deadline_ns, live.attempts, live.durable))
    }

    pub(crate) fn set_durably(&mut self, key: RequestKey, durable: Durably, fact: u64) {
        if let Some(live) = self.get_mut(key) {
            (live.durable, live.fact) = (durable, fact);
        }
    }

    /// How a request survives, how often it was delivered, and the capability that asked, if one
    /// did.
    #[inline]
    pub(crate) fn delivery(&self, key: RequestKey) -> Option<(Durably, u32, Option<CapabilityId>)> {
        let live = self.get(key)?;
        let by = if let Origin::Actor(actor) = live.origin { Some(actor.capability) } else { None };
        Some((live.durable, live.attempts, by))
    }

    /// It is not known whether an actor had it, and it does not survive for sure.
    pub(crate) fn may_have_started(&mut self, key: RequestKey) {
        if let Some(live) = self.get_mut(key) {
            live.durable = Durably::No;
            live.attempts = live.attempts.max(1);
        }
    }

    /// Forgets the answer of a command that ended just now; that it was done stays known.
    pub(crate) fn forget_answer_of(&mut self, key: RequestKey) {
        let slot = key.slot();
        if self.slots.get(slot as usize).is_some() && self.key(slot) == key {
            self.forget_answer(slot);
        }
    }

    /// The name of a peer: nothing for an actor. Nothing at all if nothing refers to the peer.
    pub(crate) fn identity(&self, peer: PeerId) -> Option<Option<&str>> {
        self.peers.name(peer)
    }

    /// Enters a request of an earlier run, with its deadline.
    pub(crate) fn restore(
        &mut self,
        request: RestoredRequest,
        message: Envelope,
        out: &mut Out,
    ) -> RequestKey {
        let live = Live::restored(&request, message, out.now.mono_ns);
        let RestoredRequest { peer, handler, hash, fingerprint, share, deadline_ns, .. } = request;
        let key = self.insert(NewSlot { hash, peer, handler, fingerprint, share }, live);
        let timer = out.wheel.schedule(deadline_ns, Job::Timeout(key));
        if let Some(live) = self.get_mut(key) {
            live.timer = Some(timer);
        }
        self.peers.get_mut(peer).requests += 1;
        if let Handler::Capability(capability) = handler {
            self.capabilities[capability.index()].unfinished += 1;
        }
        out.counters.requests_accepted += 1;
        key
    }

    /// Enters a command of this id that ended in an earlier run, with its answer if that is known.
    /// Its fingerprint is the one that stands in the journal.
    pub(crate) fn restore_answer(
        &mut self,
        request: RestoredRequest,
        id: &str,
        answer: Option<&Envelope>,
        ended_ns: i64,
        out: &mut Out,
    ) {
        let RestoredRequest { peer, handler, hash, fingerprint, share, .. } = request;
        let Some(share) = share else { return };
        // What was forgotten early and done again is in the journal twice, and the last one counts.
        if let Some(slot) = self.find_by_peer(hash, peer, id) {
            self.forget(slot);
        }
        let has_workflow = answer.is_some_and(has_workflow);
        let slot = self.take_slot();
        self.occupy(slot, NewSlot { hash, peer, handler, fingerprint, share: Some(share) }, has_workflow);
        self.slots[slot as usize].restored = true;
        self.enter_window(slot, share, answer, ended_ns);
        self.bound_window(peer, answer.map_or(0, |answer| answer.line().len()), out);
    }

    /// What became of the request that a peer sent under this id; `hash` is that of the id.
    pub(crate) fn find(
        &mut self,
        peer: PeerId,
        hash: u64,
        id: &str,
        out: &Out,
    ) -> Option<(RequestKey, Found)> {
        self.forget_old(out.now.mono_ns);
        let slot = self.find_by_peer(hash, peer, id)?;
        let found = match &self.slots[slot as usize].state {
            SlotState::Live(live) => Found::Unfinished(live.attempts),
            _ => Found::Ended(self.answer(slot)),
        };
        Some((self.key(slot), found))
    }

    /// Takes an unfinished request out of the table without an outcome: the next run has it.
    pub(crate) fn leave_to_next_run(&mut self, key: RequestKey, out: &mut Out) -> Option<Ended> {
        self.get(key)?;
        let slot = &self.slots[key.slot() as usize];
        let (peer, handler, fingerprint) = (slot.peer, slot.handler, slot.fingerprint);
        let live = self.remove_live(key)?;
        if let Handler::Capability(capability) = handler {
            self.capabilities[capability.index()].unfinished -= 1;
        }
        if let Some(timer) = live.timer {
            out.wheel.cancel(timer);
        }
        if let Phase::Retrying(timer) = live.phase {
            out.wheel.cancel(timer);
        }
        self.peers.get_mut(peer).requests -= 1;
        self.peers.release(peer);
        Some(Ended::left(live, handler, peer, fingerprint))
    }
}

impl Ended {
    /// How it survived.
    #[inline]
    pub(crate) fn durable(&self) -> Durably {
        self.live().durable
    }

    /// How often it was delivered.
    pub(crate) fn attempts(&self) -> u32 {
        self.live().attempts
    }

    /// The connection that it came by.
    #[inline]
    pub(crate) fn connection(&self) -> Option<ConnectionId> {
        if let Origin::Connection(connection) = self.live().origin { Some(connection) } else { None }
    }

    /// Whether whoever asked did so in an earlier run, and nobody asked the same in this one.
    #[inline]
    pub(crate) fn is_nobodys(&self) -> bool {
        self.connection() == Some(NOBODY) && self.live().waiters.is_empty()
    }
}
