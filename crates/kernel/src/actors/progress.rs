//! What an actor has in progress: requests within its concurrency, those that are overdue, and
//! outcomes for itself.

use super::supervision::ActorState;
use super::{Actor, Actors};
use crate::api::effect::Effect;
use crate::api::ids::{ActorRef, CapabilityId};
use crate::out::Out;
use crate::requests::{OverdueRequest, RequestKey};
use crate::time::Job;
use crate::time::wheel::TimerKey;
use mainspring_message::Envelope;
use std::collections::VecDeque;

/// What one actor has in progress.
#[derive(Debug, Default)]
pub(super) struct Progress {
    requests: Vec<RequestKey>,
    /// Requests that timed out and that the actor has not answered, each with the time when it
    /// counts as hung.
    overdue: Vec<(OverdueRequest, TimerKey)>,
    /// Outcomes of requests that the actor made, which pass its concurrency, while it takes
    /// nothing. Beyond as many as a peer may have requests, or the bytes of a mailbox, the actor is
    /// at fault.
    answers: VecDeque<Envelope>,
    answers_bytes: usize,
    /// Requests that it answered, in all incarnations.
    pub(super) handled: u64,
}

impl Progress {
    #[inline]
    pub(super) fn begin(&mut self, key: RequestKey) -> u32 {
        self.requests.push(key);
        (self.requests.len() - 1) as u32
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn overdue_len(&self) -> usize {
        self.overdue.len()
    }

    pub(super) fn answers_bytes(&self) -> usize {
        self.answers_bytes
    }

    /// Whether it has nothing and nothing waits for it.
    pub(super) fn is_finished(&self) -> bool {
        self.requests.is_empty() && self.overdue.is_empty() && self.answers.is_empty()
    }

    pub(super) fn find_overdue(&self, id: &str) -> Option<&OverdueRequest> {
        self.overdue.iter().map(|(overdue, _)| overdue).find(|overdue| &*overdue.id == id)
    }
}

impl Actor {
    /// Whether another request may be in progress.
    #[inline]
    fn has_room(&self) -> bool {
        self.progress.requests.len() + self.progress.overdue.len()
            < self.contract.manifest.limits.concurrency as usize
    }
}

/// What an incarnation that is over has not finished.
#[derive(Debug)]
pub(crate) struct UnfinishedWork {
    pub(crate) requests: Vec<RequestKey>,
    /// Events that it took since its last output.
    pub(crate) events: Vec<Envelope>,
    /// Outcomes of its own requests that it did not take.
    pub(crate) answers: VecDeque<Envelope>,
}

impl Actors {
    /// The requests that an actor has in progress.
    #[inline]
    pub(crate) fn in_progress(&self, capability: CapabilityId) -> &[RequestKey] {
        &self.get(capability).progress.requests
    }

    /// Whether another request may be in progress.
    #[inline]
    pub(crate) fn has_room(&self, capability: CapabilityId) -> bool {
        self.get(capability).has_room()
    }

    /// Whether it has no request, not even an overdue one.
    #[inline]
    pub(crate) fn has_no_request(&self, capability: CapabilityId) -> bool {
        let progress = &self.get(capability).progress;
        progress.requests.is_empty() && progress.overdue.is_empty()
    }

    /// Whether it has an overdue request with this id.
    pub(crate) fn is_overdue(&self, capability: CapabilityId, id: &str) -> bool {
        self.get(capability).progress.find_overdue(id).is_some()
    }

    /// How many requests wait for each other at most before nothing moves, and whether that is
    /// because the actor is being replaced: then it takes nothing new, however much it could work
    /// on at once.
    pub(crate) fn places(&self, capability: CapabilityId) -> (u32, bool) {
        let it = self.get(capability);
        let is_replaced = it.succession.holds_mail();
        (if is_replaced { 1 } else { it.contract.manifest.limits.concurrency }, is_replaced)
    }

    /// The request at a place is no longer in progress; returns the one that has its place now, if
    /// another does.
    #[inline]
    pub(crate) fn leave(&mut self, capability: CapabilityId, place: u32) -> Option<RequestKey> {
        let requests = &mut self.get_mut(capability).progress.requests;
        requests.swap_remove(place as usize);
        requests.get(place as usize).copied()
    }

    /// The actor has answered a request.
    #[inline]
    pub(crate) fn note_handled(&mut self, capability: CapabilityId) {
        self.get_mut(capability).progress.handled += 1;
    }

    /// A request that an actor has is over for everybody else: it counts as hung unless an outcome
    /// comes.
    pub(crate) fn add_overdue(&mut self, capability: CapabilityId, overdue: OverdueRequest, out: &mut Out) {
        let hang_ms = self.bounds.hang_ms;
        let it = self.get_mut(capability);
        let timer = out.schedule_in(hang_ms, Job::Hang(it.reference(capability)));
        it.progress.overdue.push((overdue, timer));
    }

    /// Nothing is read from an actor for now, so what it has counts as hung no earlier than if it
    /// had become overdue now.
    pub(crate) fn postpone_hang(&mut self, actor: ActorRef, out: &mut Out) {
        let hang_ms = self.bounds.hang_ms;
        for (_, timer) in &mut self.get_mut(actor.capability).progress.overdue {
            out.wheel.cancel(*timer);
            *timer = out.schedule_in(hang_ms, Job::Hang(actor));
        }
    }

    /// The outcome of an overdue request has come.
    pub(crate) fn take_overdue(
        &mut self,
        capability: CapabilityId,
        id: &str,
        out: &mut Out,
    ) -> Option<OverdueRequest> {
        let all = &mut self.get_mut(capability).progress.overdue;
        let at = all.iter().position(|(overdue, _)| &*overdue.id == id)?;
        let (overdue, timer) = all.remove(at);
        out.wheel.cancel(timer);
        Some(overdue)
    }

    /// Delivers the outcome of a request that an actor made: past its concurrency, and past its
    /// mailbox. It is given back if the actor does not take it. One that goes on asking without
    /// ever taking the answers is at fault.
    pub(crate) fn deliver_answer(
        &mut self,
        actor: ActorRef,
        answer: Envelope,
        out: &mut Out,
    ) -> Result<(), Envelope> {
        let (recent_max, answers_max) = (self.bounds.recent, self.bounds.answers);
        let it = match self.living(actor) {
            Some(it) if !it.succession.input_ended() => it,
            _ => return Err(answer),
        };
        if !it.blocked {
            it.causes.remember(&answer, false, recent_max);
            out.counters.deliveries += 1;
            out.push_resting(Effect::Deliver { actor, message: answer });
            return Ok(());
        }
        let bytes = it.progress.answers_bytes.saturating_add(answer.line().len());
        if it.progress.answers.len() >= answers_max || bytes > it.contract.manifest.limits.mailbox_bytes {
            self.fault(actor, "it asks and does not take the answers".to_owned(), out);
            return Err(answer);
        }
        it.progress.answers_bytes = bytes;
        it.progress.answers.push_back(answer);
        Ok(())
    }

    /// Tells an actor something of the kernel's own, past its mailbox. One that takes nothing for
    /// now is not told.
    pub(crate) fn deliver_notice(&mut self, capability: CapabilityId, event: Envelope, out: &mut Out) {
        let recent_max = self.bounds.recent;
        let it = self.get_mut(capability);
        if it.state != ActorState::Up || it.blocked || it.succession.input_ended() {
            return;
        }
        it.causes.remember(&event, false, recent_max);
        out.counters.deliveries += 1;
        out.push(Effect::Deliver { actor: it.reference(capability), message: event });
    }

    /// An actor takes nothing for now.
    pub(crate) fn block(&mut self, actor: ActorRef) {
        if let Some(it) = self.living(actor) {
            it.blocked = true;
        }
    }

    /// An actor takes messages again, and first the outcomes that were kept for it.
    pub(crate) fn unblock(&mut self, actor: ActorRef) -> Option<VecDeque<Envelope>> {
        let it = self.living(actor)?;
        it.blocked = false;
        it.progress.answers_bytes = 0;
        Some(std::mem::take(&mut it.progress.answers))
    }

    /// An incarnation is over: what it had is taken from it.
    pub(crate) fn take_unfinished(&mut self, capability: CapabilityId, out: &mut Out) -> UnfinishedWork {
        let it = self.get_mut(capability);
        it.blocked = false;
        for (_, timer) in std::mem::take(&mut it.progress.overdue) {
            out.wheel.cancel(timer);
        }
        it.progress.answers_bytes = 0;
        UnfinishedWork {
            requests: std::mem::take(&mut it.progress.requests),
            events: it.causes.take_at_risk(),
            answers: std::mem::take(&mut it.progress.answers),
        }
    }

    /// A request that an actor had took so long.
    #[inline]
    pub(crate) fn record_latency(&mut self, capability: CapabilityId, took_ns: i64, out: &Out) {
        self.get_mut(capability).latency.record(took_ns, out.now.mono_ns);
    }
}
