//! What becomes of the work of an actor that failed, left or will not come back soon.

use crate::actors::{Exited, Mail, UnfinishedWork};
use crate::api::effect::Level;
use crate::api::ids::{ActorRef, CapabilityId, Now};
use crate::api::input::ActorExit;
use crate::dead_letters::Owner;
use crate::kernel::Kernel;
use crate::requests::{RequestKey, Settled};
use mainspring_message::{Envelope, Failure};
use serde_json::json;

impl Kernel {
    /// An actor wrote a line to its standard error, or what stands for that. It is kept for a
    /// while: if the actor fails, the operator is told of its last lines.
    ///
    /// Returns whether the kernel has something to do for it: somebody wants to hear it.
    pub fn actor_complained(&mut self, actor: ActorRef, line: &[u8], now: Now) -> bool {
        self.out.now = now;
        self.note(now, |pen| pen.actor_complained(actor, line));
        self.actors.complained(actor, line);
        self.keep_log_line(actor, line)
    }

    /// An actor ended.
    pub fn actor_exited(&mut self, actor: ActorRef, exit: ActorExit, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.actor_exited(actor, &exit));
        let capability = actor.capability;
        match self.actors.exited(actor, exit, self.lifecycle.stage(), &mut self.out) {
            Exited::Nothing => {}
            Exited::InBoot(text) => self.boot_failed_in_phase(&text),
            Exited::AsAsked(failure) => {
                self.actors.retired(capability, failure.as_deref(), &mut self.out);
                let reason = failure.as_deref().unwrap_or("it ended");
                self.settle_work(capability, Failure::ActorCrash, reason);
                self.next_incarnation(capability);
            }
            Exited::ForGood => {
                self.settle_work(capability, Failure::ActorCrash, "it ended by itself");
                self.empty_mailbox(capability);
            }
        }
    }

    /// Answers [`Effect::Spawn`](crate::Effect::Spawn).
    pub fn actor_spawned(&mut self, actor: ActorRef, result: Result<(), String>, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.actor_spawned(actor, &result));
        match self.lifecycle.is_booting() {
            true => self.boot_spawned(actor, result),
            false => self.actors.spawned(actor, result, &mut self.out),
        }
    }

    /// Answers [`Effect::Attach`](crate::Effect::Attach).
    pub fn actor_attached(&mut self, actor: ActorRef, result: Result<(), String>, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.actor_attached(actor, &result));
        if self.lifecycle.is_booting() {
            return self.boot_attached(actor, result);
        }
        if self.actors.attached(actor, result, &mut self.out) {
            self.actor_up(actor);
        }
    }

    /// An actor is up and takes what waits for it.
    pub(crate) fn actor_up(&mut self, actor: ActorRef) {
        let (_, queue) = self.actors.sender(actor.capability);
        let is_paused = self.lanes.is_paused(queue) || self.waits_for_disk(actor.capability);
        self.actors.up(actor, self.lifecycle.is_booting(), is_paused, &mut self.out);
        self.deliver_mail(actor.capability);
    }

    /// An actor kept a request long after its deadline. One from which nothing is read for now may
    /// have answered it.
    pub(crate) fn hung(&mut self, actor: ActorRef) {
        match self.actors.is_up(actor) && self.waits_for_disk(actor.capability) {
            true => self.actors.postpone_hang(actor, &mut self.out),
            false => self.actors.hung(actor, &mut self.out),
        }
    }

    /// Handles a fault from the System lane: answers, dead letters, then a restart or a rest.
    pub(crate) fn handle_fault(&mut self, actor: ActorRef, failure: Failure, reason: &str) {
        if !self.actors.tell_fault(actor, failure, reason, &mut self.out) {
            return;
        }
        let capability = actor.capability;
        self.settle_work(capability, failure, reason);
        if self.actors.is_retiring(capability) {
            return self.next_incarnation(capability);
        }
        if self.actors.plan_restart(capability, self.lifecycle.stage(), &mut self.out) {
            self.empty_mailbox(capability);
        }
    }

    /// What the failed actor had in progress is retried or answered; events it took since its last
    /// output are dead.
    fn settle_work(&mut self, capability: CapabilityId, failure: Failure, reason: &str) {
        let UnfinishedWork { requests, events, answers } =
            self.actors.take_unfinished(capability, &mut self.out);
        for key in requests {
            self.settle_request(capability, key, failure, reason);
        }
        let owner = Owner::Capability(capability);
        for event in events {
            let reason = format!("{} failed after it took the event: {reason}", self.actors.id(capability));
            self.dead_letters.bury(owner, event, &reason, 1, &mut self.out);
        }
        for answer in answers {
            self.unclaimed(owner, answer);
        }
    }

    fn settle_request(&mut self, capability: CapabilityId, key: RequestKey, failure: Failure, reason: &str) {
        let Some(message) = self.requests.message(key) else { return };
        let may_retry = self.next_incarnation_takes(capability, message) && !self.lifecycle.is_flushing();
        let policy = may_retry.then(|| self.actors.retry_policy(capability));
        let settled = self.requests.settle(key, policy.as_ref(), &mut self.out);
        let Settled::GivenUp { message, attempts, kept_anyway, connection } = settled else { return };
        let mut words = format!("{} failed over the request: {reason}", self.actors.id(capability));
        // Whoever puts a letter back may pass it on, so letters quote nothing.
        if !kept_anyway {
            let owner = Owner::Capability(capability);
            self.dead_letters.bury(owner, message, &words, attempts, &mut self.out);
        }
        if connection.is_some_and(|connection| self.connections.is_operator(connection)) {
            words += &self.actors.last_words(capability);
        }
        self.fail(key, failure, &words);
    }

    /// Answers what waits in the mailbox of an actor that will not come back soon.
    pub(crate) fn empty_mailbox(&mut self, capability: CapabilityId) {
        let (failure, text) = match self.lifecycle.is_flushing() {
            true => (Failure::Unhealthy, "the daemon is shutting down".to_owned()),
            false => self.actors.trouble(capability),
        };
        for mail in self.actors.take_mail(capability) {
            self.end_mail(capability, mail, failure, &text);
        }
    }

    /// Ends a message that waited in a mailbox: a request with this error, an event as a dead
    /// letter.
    pub(super) fn end_mail(&mut self, capability: CapabilityId, mail: Mail, failure: Failure, text: &str) {
        match mail {
            Mail::Request(key, _) if self.requests.waits_in_mailbox(key) => self.fail(key, failure, text),
            Mail::Request(..) => {}
            Mail::Event(event) => self.bury_mail(capability, event, text),
        }
    }

    /// An event that waited in a mailbox is a dead letter.
    pub(super) fn bury_mail(&mut self, capability: CapabilityId, event: Envelope, reason: &str) {
        self.actors.forget_mail(capability, event.line().len());
        self.dead_letters.bury(Owner::Capability(capability), event, reason, 0, &mut self.out);
    }

    /// A retiring incarnation took too long.
    pub(crate) fn retirement_overdue(&mut self, actor: ActorRef) {
        // What it says is not read because of the disk: it has its time after that.
        if self.waits_for_disk(actor.capability) {
            return self.actors.postpone_retirement(actor, &mut self.out);
        }
        if self.actors.retirement_overdue(actor, &mut self.out) {
            let reason = "it did not end when its input did";
            self.settle_work(actor.capability, Failure::ActorCrash, reason);
            self.next_incarnation(actor.capability);
        }
    }

    /// Ends the input of every retiring incarnation that has finished what it had.
    pub(crate) fn advance_retirements(&mut self) {
        if self.actors.retiring() == 0 || !self.lifecycle.is_at_work() {
            return;
        }
        let requests = &self.requests;
        let unfinished =
            |capability, peer| (requests.unfinished_for(capability), requests.unfinished_of(peer));
        self.actors.end_inputs(unfinished, &mut self.out);
    }

    /// The retired incarnation is gone: the next one is spawned, or the capability is removed.
    pub(super) fn next_incarnation(&mut self, capability: CapabilityId) {
        self.actors.end_retirement(capability, &mut self.out);
        match self.actors.is_removed(capability) {
            true => self.depart(capability),
            false => self.actors.spawn(capability, &mut self.out),
        }
    }

    /// A removed capability is gone.
    fn depart(&mut self, capability: CapabilityId) {
        self.actors.depart(capability);
        self.empty_mailbox(capability);
        let (peer, _) = self.actors.sender(capability);
        for timer_id in self.schedules.durable_names(peer) {
            self.record_cancelled(peer, &timer_id);
        }
        let given_up = self.schedules.cancel_all_of(peer, &mut self.out);
        let text = match given_up.len() {
            0 => String::new(),
            count => format!("; scheduled messages of it that are given up: {count}"),
        };
        for gone in given_up {
            self.schedule_gone(gone);
        }
        let id = self.actors.id(capability);
        self.out.log_about(id, Level::Info, format!("{id} was removed{text}"));
        self.out.announce("Sys.CapabilityRemoved", json!({ "capabilityId": id }));
    }
}
