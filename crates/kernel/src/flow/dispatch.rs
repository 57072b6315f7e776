//! From the User lane to the mailboxes, and from the mailboxes to the actors.

use crate::actors::NextMail;
use crate::api::effect::Effect;
use crate::api::ids::{ActorRef, CapabilityId, Now};
use crate::flow::lanes::{Item, QueueId, Sender};
use crate::flow::routes::Handler;
use crate::flow::work;
use crate::history::{Audience, Author, Record};
use crate::kernel::Kernel;
use crate::requests::RequestKey;
use mainspring_message::Envelope;

impl Kernel {
    /// Serves one message of the User lane.
    pub(crate) fn serve_user(&mut self) {
        let Some(served) = self.lanes.pop() else { return };
        self.out.counters.user_served += 1;
        if served.resumes {
            self.set_reading(served.sender, false);
        }
        if let (true, Some(queue), Sender::Connection(connection)) =
            (served.has_window, served.queue, served.sender)
        {
            self.mind_window(queue, connection);
        }
        match served.item {
            Item::Request(key) => self.dispatch(key, served.queue),
            Item::Repetition(message) => {
                if let Sender::Connection(connection) = served.sender {
                    self.ingest_again(connection, message);
                }
            }
            Item::Event(event) => {
                let fact = match served.sender {
                    // What a capability says rests on what it did before.
                    Sender::Actor(capability) => self.out.facts.of(capability),
                    _ => 0,
                };
                let rested = self.out.rest_on(fact);
                let to = self.publish(&event);
                self.out.rest_on(rested);
                let from = match served.sender {
                    Sender::Connection(connection) => Author::Connection(connection),
                    Sender::Actor(capability) => Author::Capability(capability),
                    Sender::Kernel => Author::Kernel,
                };
                if self.history.is_on() || !self.taps.is_empty() {
                    self.remember_event(&event, from, to);
                }
            }
        }
    }

    /// An event was told: the history remembers it, and those who tap see it.
    fn remember_event(&mut self, event: &Envelope, from: Author, to: Audience) {
        let record = Record::of_event(event, from, to, self.out.now.mono_ns);
        self.history.push(&record, Some((event.data(), None)));
        if !self.taps.is_empty() {
            self.tap_record(&record, Some(event), None);
        }
    }

    /// Routes one request from the User lane, which came from this queue unless that is gone.
    fn dispatch(&mut self, key: RequestKey, queue: Option<QueueId>) {
        match self.requests.handler(key) {
            // It timed out in the lane.
            None => {}
            Some(Handler::Capability(capability)) => self.post(capability, key),
            Some(Handler::Builtin(builtin)) => self.serve_builtin(builtin, key, queue),
        }
    }

    /// Puts a request into a mailbox, or ends it when that is closed or full.
    pub(crate) fn post(&mut self, capability: CapabilityId, key: RequestKey) {
        let Some(message) = self.requests.message(key) else { return };
        let bytes = message.line().len();
        if let Err((failure, text)) = self.actors.post_request(capability, key, bytes) {
            return self.fail(key, failure, &text);
        }
        self.requests.enter_mailbox(key);
        self.deliver_mail(capability);
        let requests = &self.requests;
        self.actors.tidy_mailbox(capability, |key| requests.waits_in_mailbox(key));
    }

    /// Delivers from the mailbox, in order, for as long as the actor takes what is next.
    pub(crate) fn deliver_mail(&mut self, capability: CapabilityId) {
        // Once the actors' inputs are ended, nothing is delivered any more.
        if self.lifecycle.is_flushing() {
            return;
        }
        while let Some(next) = self.actors.next_mail(capability) {
            match next {
                NextMail::Event => self.actors.deliver_event(capability, &mut self.out),
                // It ended in the mailbox.
                NextMail::Request(key) if !self.requests.waits_in_mailbox(key) => {
                    self.actors.drop_first(capability);
                }
                NextMail::Request(key) => {
                    if !self.actors.has_room(capability) || self.is_same_id_in_progress(capability, key) {
                        return;
                    }
                    self.deliver(capability, key);
                }
            }
        }
    }

    /// Gives an actor the request that is first in its mailbox.
    fn deliver(&mut self, capability: CapabilityId, key: RequestKey) {
        let Some((actor, place)) = self.actors.take_request(capability) else { return };
        let Some(message) = self.requests.deliver(key, place, &mut self.out) else { return };
        self.out.counters.deliveries += 1;
        self.out.work += message.line().len() as u64 / work::BYTES_PER_WORK;
        let fact = self.record_delivered(key);
        self.out.push_after(fact, Effect::Deliver { actor, message });
    }

    /// Whether the actor has a request with the same id from another peer: its outcome could not be
    /// told apart.
    fn is_same_id_in_progress(&mut self, capability: CapabilityId, key: RequestKey) -> bool {
        if self.actors.has_no_request(capability) {
            return false;
        }
        let Some(id) = self.requests.id(key) else { return false };
        self.actors.is_overdue(capability, &id) || self.find_in_progress(capability, &id).is_some()
    }

    /// The request with this id that the actor has in progress.
    #[inline]
    pub(crate) fn find_in_progress(&mut self, capability: CapabilityId, id: &str) -> Option<RequestKey> {
        let in_progress = self.actors.in_progress(capability);
        self.requests.find_in_progress(capability, in_progress, id, &self.out)
    }

    /// A request is no longer in progress; call it before it is anywhere else.
    pub(crate) fn leave_progress(&mut self, capability: CapabilityId, key: RequestKey) {
        let Some(place) = self.requests.place(key) else { return };
        if let Some(moved) = self.actors.leave(capability, place) {
            self.requests.moved(moved, place);
        }
    }

    /// An actor takes no more for now (its pipe is full): nothing is delivered until
    /// [`Kernel::actor_ready`].
    pub fn actor_blocked(&mut self, actor: ActorRef, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.actor_blocked(actor));
        self.actors.block(actor);
    }

    /// A blocked actor takes messages again.
    pub fn actor_ready(&mut self, actor: ActorRef, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.actor_ready(actor));
        let Some(answers) = self.actors.unblock(actor) else { return };
        let rested = self.out.rest_on(self.out.facts.of_any());
        for answer in answers {
            self.deliver_answer(actor, answer);
        }
        self.out.rest_on(rested);
        self.deliver_mail(actor.capability);
    }
}
