//! Requests that an actor passes on to somebody else: what it has to know of them, and how they end
//! when that somebody is lost.

use crate::api::fact::Fact;
use crate::api::ids::{ActorRef, Now};
use crate::durability::Durably;
use crate::flow::completions::Words;
use crate::kernel::Kernel;
use crate::out::MS;
use mainspring_message::{Envelope, Failure, Started};

/// What whoever passes a request on has to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOn {
    /// Who asked: the name of a client's peer, or `capability:ID`.
    pub peer: String,
    /// How long there is until the deadline.
    pub left_ms: u64,
    /// Whether it survives the daemon.
    pub is_durable: bool,
    /// How often it was delivered, over all runs of the daemon.
    pub attempts: u32,
}

impl Kernel {
    /// What is known of a request that this actor has in progress; nothing if it has none with that
    /// id.
    pub fn passed_on(&mut self, actor: ActorRef, id: &str, now: Now) -> Option<PassedOn> {
        self.out.now = now;
        if !self.actors.is_up(actor) {
            return None;
        }
        let key = self.find_in_progress(actor.capability, id)?;
        let (deadline_ns, attempts, durable) = self.requests.passed_on(key)?;
        let peer = self.requests.caller(key).and_then(|(peer, _)| self.peer_name(peer)).unwrap_or_default();
        let left_ns = deadline_ns.saturating_sub(now.mono_ns).max(0);
        let left_ms = u64::try_from(left_ns / MS).unwrap_or(0);
        Some(PassedOn { peer, left_ms, is_durable: durable != Durably::No, attempts })
    }

    /// An actor that passes requests on could not have this one carried out, or does not know
    /// whether it was: the request ends with this error. One whose deadline has passed is over
    /// already; the actor's place is free again.
    pub fn actor_failed(
        &mut self,
        actor: ActorRef,
        id: &str,
        failure: Failure,
        text: &str,
        started: Started,
        now: Now,
    ) {
        self.out.now = now;
        self.note(now, |pen| pen.actor_failed(actor, id, failure, text, started));
        let capability = actor.capability;
        if !self.actors.is_up(actor) {
            return;
        }
        let Some(key) = self.find_in_progress(capability, id) else {
            if self.actors.take_overdue(capability, id, &mut self.out).is_some() {
                self.deliver_mail(capability);
            }
            return;
        };
        let Some(request) = self.requests.message(key).cloned() else { return };
        let answer = self.out.failure(&request, failure, text, started);
        self.leave_progress(capability, key);
        self.requests.enter_answering(key);
        // What nobody has started may be sent again under the same id, so its error is not
        // remembered.
        self.finish(key, answer, started == Started::Yes, Words::OfHandler);
        self.deliver_mail(capability);
    }

    /// Whoever carries out a request that was passed on tells how far it is: only those who wait
    /// for the request and asked for that hear it. `is_told` says that subscribers hear of the
    /// event in another way; those are left out.
    pub fn actor_progress(&mut self, actor: ActorRef, event: &Envelope, is_told: bool, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.actor_progress(actor, event, is_told));
        if self.actors.is_up(actor)
            && let Some(key) = self.find_in_progress(actor.capability, event.causation().unwrap_or(""))
        {
            self.tell_progress(key, event, is_told);
        }
    }

    /// Keeps a value in the journal under a name that is no capability's, or forgets it. Gives the
    /// number of the fact, 0 if there is no journal.
    pub fn keep_value(&mut self, store: &str, key: &str, value: Option<&str>, now: Now) -> u64 {
        self.out.now = now;
        self.note(now, |pen| pen.keep_value(store, key, value));
        if !self.out.facts.is_on() {
            return 0;
        }
        self.out.record(&match value {
            Some(value) => Fact::Put { store, key, value },
            None => Fact::Deleted { store, key },
        })
    }
}
