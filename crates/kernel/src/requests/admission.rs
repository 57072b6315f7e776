//! How a request comes in: whether it is a repetition, whether there is room, when it must have
//! ended.

use super::Requests;
use super::live::{Live, Origin, Phase, RequestKey};
use super::peers::PeerId;
use super::shares::ShareId;
use super::table::{NewSlot, SlotState};
use crate::durability::Durably;
use crate::flow::refusal::Refusal;
use crate::flow::routes::Handler;
use crate::out::{Out, ns};
use crate::time::Job;
use crate::time::wheel::deadline_after;
use mainspring_message::{Envelope, Failure, Kind, Started};

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It is new and has its place in the table.
    Accepted,
    /// The same request is being worked on; its one answer goes to this sender too.
    Joined,
    /// The same request was answered before, with this.
    Answered(Envelope),
}

/// A request that may be let in, with what was found out about it.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) handler: Handler,
    pub(crate) peer: PeerId,
    /// Hash of the id, and of what is asked.
    pub(crate) hash: u64,
    pub(crate) fingerprint: u64,
    /// The request that its sender was working on.
    pub(crate) cause: Option<RequestKey>,
    /// When it must have ended, and how deep it stands in its chain of causes.
    pub(crate) deadline_ns: i64,
    pub(crate) depth: u32,
    /// The share of its sender in what is remembered; none if nobody can send it again.
    pub(crate) share: Option<ShareId>,
    /// How it is to survive the process.
    pub(crate) durable: Durably,
}

impl Requests {
    /// What is known of the same id from the same peer; a repetition joins its request. `hash` and
    /// `fingerprint` are those of the id and of what is asked.
    pub(crate) fn repetition(
        &mut self,
        message: &Envelope,
        origin: &Origin,
        peer: PeerId,
        (hash, fingerprint): (u64, u64),
        out: &mut Out,
    ) -> Result<Option<Admission>, Refusal> {
        self.forget_old(out.now.mono_ns);
        match self.find_by_peer(hash, peer, message.id()) {
            None => Ok(None),
            Some(slot) => {
                let fingerprint = self.known_fingerprint(slot, message, fingerprint);
                self.join(slot, origin, fingerprint, out).map(Some)
            }
        }
    }

    /// The fingerprint of a repetition, as that of the first request was made: one of an earlier
    /// run has another.
    #[inline]
    fn known_fingerprint(&self, slot: u32, message: &Envelope, fingerprint: u64) -> u64 {
        if self.slots[slot as usize].restored { crate::facts::fingerprint(message) } else { fingerprint }
    }

    fn join(
        &mut self,
        slot: u32,
        origin: &Origin,
        fingerprint: u64,
        out: &mut Out,
    ) -> Result<Admission, Refusal> {
        if self.slots[slot as usize].fingerprint != fingerprint {
            let text = "metadata.id: the same id came before with another kind, type or data";
            return Err(Refusal::new(Failure::Conflict, text));
        }
        out.counters.duplicates += 1;
        if let Some(answer) = self.answer(slot) {
            return Ok(Admission::Answered(answer));
        }
        let duplicates_max = self.bounds.duplicates;
        let live = match &mut self.slots[slot as usize].state {
            SlotState::Live(live) => live,
            SlotState::Finished { .. } => {
                let text =
                    "metadata.id: this request was done before, and its answer is no longer remembered";
                return Err(Refusal { started: Started::Yes, ..Refusal::new(Failure::Conflict, text) });
            }
            SlotState::Free { .. } => return Ok(Admission::Joined),
        };
        match origin {
            Origin::Connection(connection) if live.waiters.len() < duplicates_max => {
                live.waiters.push(*connection);
            }
            Origin::Connection(_) => {
                let text = format!("metadata.id: more than {duplicates_max} repetitions wait for one answer");
                return Err(Refusal {
                    started: live.started(),
                    ..Refusal::new(Failure::LimitExceeded, text)
                });
            }
            // An actor is told once, however often it asked: it listens to one place. That is its
            // latest incarnation.
            Origin::Actor(_) => live.origin = origin.clone(),
            Origin::Delegate(_) => {}
        }
        Ok(Admission::Joined)
    }

    /// Whether there is room for one more request of a peer.
    #[inline(always)]
    pub(crate) fn check_room(&self, peer: PeerId) -> Result<(), Refusal> {
        let bounds = &self.bounds;
        if self.peers.get(peer).requests >= bounds.peer_requests {
            let text = format!(
                "more than {} unfinished requests of one peer (limits.peer_requests_max)",
                bounds.peer_requests
            );
            return Err(Refusal::new(Failure::LimitExceeded, text));
        }
        if self.live >= bounds.requests {
            let text =
                format!("more than {} unfinished requests in all (limits.requests_max)", bounds.requests);
            return Err(Refusal::new(Failure::Overloaded, text));
        }
        Ok(())
    }

    /// When a request must have ended, and how deep it stands in its chain of causes.
    ///
    /// A request made on behalf of another ends no later than that one.
    #[inline]
    pub(crate) fn deadline(
        &self,
        message: &Envelope,
        cause: Option<RequestKey>,
        out: &Out,
    ) -> Result<(i64, u32), Refusal> {
        let timeout_ms = message.timeout_ms().unwrap_or(self.bounds.default_timeout_ms);
        if timeout_ms > self.bounds.timeout_ms_max {
            let text =
                format!("metadata.timeout: must be at most {} milliseconds", self.bounds.timeout_ms_max);
            return Err(Refusal::new(Failure::Schema, text));
        }
        let deadline_ns = deadline_after(out.now.mono_ns, ns(timeout_ms));
        let Some(cause) = cause.and_then(|cause| self.get(cause)) else {
            return Ok((deadline_ns, 0));
        };
        let depth = cause.depth + 1;
        if depth > self.bounds.chain {
            let text = format!("more than {} requests cause each other", self.bounds.chain);
            return Err(Refusal::new(Failure::Deadlock, text));
        }
        Ok((deadline_ns.min(cause.deadline_ns), depth))
    }

    /// The share of an actor in what is remembered of it.
    pub(crate) fn share_of_actor(&self, peer: PeerId) -> Option<ShareId> {
        self.peers.get(peer).share
    }

    /// Lets a request in: its place in the table, and its deadline. It is in the User lane then.
    #[inline]
    pub(crate) fn accept(
        &mut self,
        ticket: Ticket,
        message: Envelope,
        origin: Origin,
        out: &mut Out,
    ) -> RequestKey {
        let Ticket { handler, peer, hash, fingerprint, cause, deadline_ns, depth, share, durable } = ticket;
        // A query has no effects, so its answer is shared while it is under way and not remembered
        // afterwards.
        let share = if message.kind() == Kind::Command { share } else { None };
        let now_ns = out.now.mono_ns;
        let live = Live {
            message,
            origin,
            phase: Phase::Lane,
            timer: None,
            deadline_ns,
            accepted_ns: now_ns,
            delivered_ns: now_ns,
            attempts: 0,
            cause,
            depth,
            waiters: Vec::new(),
            durable,
            fact: 0,
        };
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
}
