//! How a request ends: exactly once, with a reply or an error; or is tried again.

use super::Requests;
use super::causes::Workflow;
use super::live::{Delegate, Live, Origin, OverdueRequest, Phase, RequestKey};
use super::peers::PeerId;
use crate::api::ids::{ActorRef, CapabilityId, ConnectionId};
use crate::api::manifest::RetryPolicy;
use crate::flow::routes::Handler;
use crate::history::{End, Record};
use crate::out::{Out, doubled};
use crate::time::Job;
use mainspring_message::{Envelope, Kind, Started};
use serde::Deserialize;

/// A request that is about to be ended by an error of the kernel's own.
#[derive(Debug)]
pub(crate) struct Doomed {
    pub(crate) message: Envelope,
    /// Whether an actor had it.
    pub(crate) started: Started,
    /// How often.
    pub(crate) attempts: u32,
    /// The capability that failed over it, if it ends between two attempts and nobody else keeps
    /// it.
    pub(crate) failed_before: Option<CapabilityId>,
}

/// What becomes of a request whose actor failed.
#[derive(Debug)]
pub(crate) enum Settled {
    /// It has ended already.
    Gone,
    /// It is tried again later.
    Retrying,
    /// It is not: it is to be ended with an error.
    GivenUp {
        message: Envelope,
        attempts: u32,
        /// Whether it becomes a dead letter in any case.
        kept_anyway: bool,
        /// The connection that the request came by, and that waits for its outcome.
        connection: Option<ConnectionId>,
    },
}

/// A request that has ended: what the other parts have to know of it.
#[derive(Debug)]
pub(crate) struct Ended {
    live: Box<Live>,
    handler: Handler,
    peer: PeerId,
    /// By which repetitions were told from other requests of its id.
    fingerprint: u64,
    /// Whether that it was done is remembered, and whether its answer is.
    is_known: bool,
    is_remembered: bool,
}

impl Ended {
    /// One that is over without an outcome.
    pub(super) fn left(live: Box<Live>, handler: Handler, peer: PeerId, fingerprint: u64) -> Ended {
        Ended { live, handler, peer, fingerprint, is_known: false, is_remembered: false }
    }

    #[inline]
    pub(super) fn live(&self) -> &Live {
        &self.live
    }

    /// Who handled it.
    #[inline]
    pub(crate) fn handler(&self) -> Handler {
        self.handler
    }

    /// By which repetitions were told from other requests of its id, see
    /// [`Out::fingerprint`](crate::out::Out::fingerprint).
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Whether that it was done is remembered, with its answer or without.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether its answer is remembered.
    pub(crate) fn is_remembered(&self) -> bool {
        self.is_remembered
    }

    /// The capability that it was for.
    #[inline]
    pub(crate) fn capability(&self) -> Option<CapabilityId> {
        match self.handler {
            Handler::Capability(capability) => Some(capability),
            Handler::Builtin(_) => None,
        }
    }

    /// Its bytes, if it ended in a mailbox.
    #[inline]
    pub(crate) fn mailbox_bytes(&self) -> Option<usize> {
        (self.live.phase == Phase::Mailbox).then(|| self.live.message.line().len())
    }

    /// How long it took, if an actor had it: what no actor was given says nothing about how fast it
    /// is.
    #[inline]
    pub(crate) fn took_ns(&self, now_ns: i64) -> Option<i64> {
        (self.live.attempts > 0).then(|| now_ns.saturating_sub(self.live.accepted_ns))
    }

    /// What the history remembers of it.
    #[inline]
    pub(crate) fn record<'a>(&'a self, answer: &'a Envelope, now_ns: i64) -> Record<'a> {
        let code = (answer.kind() == Kind::Error).then(|| code_of(answer.data()));
        let end = End { ended_ns: now_ns, code, outcome_id: answer.id() };
        self.live.record(self.handler, Some(end))
    }

    /// What was asked.
    #[inline]
    pub(crate) fn message(&self) -> &Envelope {
        &self.live.message
    }

    /// Whose request it was.
    pub(crate) fn peer(&self) -> PeerId {
        self.peer
    }

    /// Takes out the connections that asked the same in the meantime.
    #[inline]
    pub(crate) fn take_waiters(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.live.waiters)
    }

    /// Who gets the outcome first of all.
    #[inline]
    pub(crate) fn into_requester(self) -> Requester {
        match self.live.origin {
            Origin::Connection(connection) => Requester::Connection(connection),
            Origin::Actor(actor) => Requester::Actor(actor),
            Origin::Delegate(delegate) => {
                Requester::Delegate { delegate, message: self.live.message, attempts: self.live.attempts }
            }
        }
    }
}

/// Who gets the outcome of an ended request.
#[derive(Debug)]
pub(crate) enum Requester {
    Connection(ConnectionId),
    Actor(ActorRef),
    /// Somebody for whom the kernel sent this message.
    Delegate {
        delegate: Box<Delegate>,
        message: Envelope,
        attempts: u32,
    },
}

/// The `code` of an error's data; what has none counts as 500.
fn code_of(data: &str) -> u16 {
    #[derive(Deserialize)]
    struct Code {
        code: u16,
    }
    serde_json::from_str(data).map_or(500, |error: Code| error.code)
}

impl Requests {
    /// The deadline of a request has passed; returns who handles it, unless it has ended or its
    /// outcome came first.
    pub(crate) fn time_out(&mut self, key: RequestKey, out: &mut Out) -> Option<Handler> {
        let live = self.get_mut(key)?;
        live.timer = None;
        // The outcome came first, and is behind this in the lane.
        if live.phase == Phase::Answering {
            return None;
        }
        out.counters.requests_timed_out += 1;
        Some(self.slots[key.slot() as usize].handler)
    }

    /// What an actor keeps of a request in progress that is over for everybody else.
    pub(crate) fn overdue(&self, key: RequestKey) -> Option<(CapabilityId, OverdueRequest)> {
        let live = self.get(key)?;
        let Handler::Capability(capability) = self.slots[key.slot() as usize].handler else { return None };
        if !matches!(live.phase, Phase::InProgress(_)) {
            return None;
        }
        let overdue = OverdueRequest {
            id: live.message.id().into(),
            type_name: live.message.type_name().into(),
            workflow: Workflow::of(&live.message),
        };
        Some((capability, overdue))
    }

    /// What has to be known of a request before it is ended by an error of the kernel's own.
    pub(crate) fn doom(&self, key: RequestKey) -> Option<Doomed> {
        let live = self.get(key)?;
        let between_attempts = live.attempts > 0
            && !live.origin.is_delegate()
            && matches!(live.phase, Phase::Retrying(_) | Phase::Mailbox);
        let failed_before = match self.slots[key.slot() as usize].handler {
            Handler::Capability(capability) if between_attempts => Some(capability),
            _ => None,
        };
        Some(Doomed {
            message: live.message.clone(),
            started: live.started(),
            attempts: live.attempts,
            failed_before,
        })
    }

    /// The actor of a request failed: it is tried again within the policy, if there is one.
    pub(crate) fn settle(&mut self, key: RequestKey, retry: Option<&RetryPolicy>, out: &mut Out) -> Settled {
        let Some(live) = self.get_mut(key) else { return Settled::Gone };
        if let Some(policy) = retry
            && live.attempts < policy.attempts
        {
            let pause_ms = doubled(policy.backoff_ms, live.attempts - 1);
            live.phase = Phase::Retrying(out.schedule_in(pause_ms, Job::Retry(key)));
            return Settled::Retrying;
        }
        live.phase = Phase::Answering;
        Settled::GivenUp {
            message: live.message.clone(),
            attempts: live.attempts,
            kept_anyway: live.origin.is_delegate(),
            connection: match live.origin {
                Origin::Connection(connection) => Some(connection),
                _ => None,
            },
        }
    }

    /// Ends a request: its deadline, its peer's account, what is remembered of it. Nothing if it
    /// has ended already.
    #[inline]
    pub(crate) fn end(
        &mut self,
        key: RequestKey,
        answer: &Envelope,
        remember: bool,
        out: &mut Out,
    ) -> Option<Ended> {
        let slot = &self.slots[key.slot() as usize];
        let (peer, handler, hash, fingerprint) = (slot.peer, slot.handler, slot.hash, slot.fingerprint);
        // What has no share is not worth remembering: a query, or what nobody can send again.
        let share = slot.share.filter(|_| remember);
        let bytes = answer.line().len();
        let fits =
            share.is_some() && bytes <= self.bounds.window_peer_bytes && bytes <= self.bounds.window_bytes;
        let live = match share {
            Some(share) => self.remember(key, share, fits.then_some(answer), out.now.mono_ns),
            None => self.remove_live(key),
        }?;
        if let Handler::Capability(capability) = handler {
            self.capabilities[capability.index()].unfinished -= 1;
            if !fits && live.attempts > 0 {
                self.note_handled(capability, hash, out.now.mono_ns, &Workflow::of(&live.message), out);
            }
        }
        if let Some(timer) = live.timer {
            out.wheel.cancel(timer);
        }
        if let Phase::Retrying(timer) = live.phase {
            out.wheel.cancel(timer);
        }
        self.peers.get_mut(peer).requests -= 1;
        match answer.kind() {
            Kind::Reply => out.counters.requests_replied += 1,
            _ => out.counters.requests_failed += 1,
        }
        if share.is_some() {
            out.counters.window_evictions += u64::from(!fits);
            self.bound_window(peer, bytes, out);
        }
        self.peers.release(peer);
        Some(Ended { live, handler, peer, fingerprint, is_known: share.is_some(), is_remembered: fits })
    }
}
