//! How requests end: exactly once, with a reply or an error.

use crate::api::ids::ConnectionId;
use crate::dead_letters::Owner;
use crate::durability::NOBODY;
use crate::flow::routes::Handler;
use crate::kernel::Kernel;
use crate::requests::{Ended, PeerId, RequestKey, Requester};
use mainspring_message::{Envelope, Failure, Kind, Started};

/// What is said of an actor from which nothing has come at all: most programs keep what they write
/// until it is much, unless they are told otherwise.
const MUTE: &str = "; it has said nothing since it began: does it flush what it writes?";

/// Whose words an outcome tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// Those of the capability or built-in that handles the request.
    OfHandler,
    /// The kernel's own: a deadline has passed, or somebody asked for the end.
    OfKernel,
}

impl Kernel {
    /// The actor's outcome reaches the requester.
    pub(crate) fn complete(&mut self, key: RequestKey, answer: Envelope) {
        let Some(handler) = self.requests.handler(key) else { return };
        self.finish(key, answer, true, Words::OfHandler);
        if let Handler::Capability(capability) = handler {
            self.deliver_mail(capability);
        }
    }

    /// The deadline of a request has passed.
    pub(crate) fn time_out(&mut self, key: RequestKey) {
        let text = match self.requests.time_out(key, &mut self.out) {
            None => return,
            Some(Handler::Capability(capability)) => {
                let was_delivered = self.requests.delivery(key).is_some_and(|(_, attempts, _)| attempts > 0);
                let is_mute = was_delivered && !self.actors.has_spoken(capability);
                let hint = if is_mute { MUTE } else { "" };
                format!("no outcome from {} before the deadline{hint}", self.actors.id(capability))
            }
            Some(Handler::Builtin(_)) => "no outcome before the deadline".to_owned(),
        };
        self.keep_as_overdue(key);
        self.fail(key, Failure::Timeout, &text);
    }

    /// A request in progress stays with its actor past its deadline, until an outcome comes or the
    /// actor hangs.
    pub(crate) fn keep_as_overdue(&mut self, key: RequestKey) {
        let Some((capability, overdue)) = self.requests.overdue(key) else { return };
        self.leave_progress(capability, key);
        self.actors.add_overdue(capability, overdue, &mut self.out);
    }

    /// Ends a request with an error of the kernel's own.
    pub(crate) fn fail(&mut self, key: RequestKey, failure: Failure, text: &str) {
        let Some(doomed) = self.requests.doom(key) else { return };
        if let Some(capability) = doomed.failed_before {
            let id = self.actors.id(capability);
            let reason = format!("{id} failed over the request, and then: {text}");
            let (owner, message) = (Owner::Capability(capability), doomed.message.clone());
            self.dead_letters.bury(owner, message, &reason, doomed.attempts, &mut self.out);
        }
        let answer = self.out.failure(&doomed.message, failure, text, doomed.started);
        // What no actor has seen may be sent again under the same id, so its error is not
        // remembered.
        let words = match failure {
            // What is told of a fault may quote what the actor said.
            Failure::ActorFault | Failure::ActorCrash => Words::OfHandler,
            _ => Words::OfKernel,
        };
        self.finish(key, answer, doomed.started == Started::Yes, words);
    }

    /// Ends a request: first in the table, then with its actor and in the history; then the answer
    /// goes to whoever waits for it.
    pub(crate) fn finish(&mut self, key: RequestKey, answer: Envelope, remember: bool, words: Words) {
        let Some(ended) = self.requests.end(key, &answer, remember, &mut self.out) else { return };
        if let Some(capability) = ended.capability() {
            if let Some(took_ns) = ended.took_ns(self.out.now.mono_ns) {
                self.actors.record_latency(capability, took_ns, &self.out);
            }
            if let Some(bytes) = ended.mailbox_bytes() {
                self.actors.forget_mail(capability, bytes);
            }
        }
        if self.history.is_on() || !self.taps.is_empty() {
            self.remember(&ended, &answer);
        }
        let fact = self.record_ended(key, &ended, &answer, words);
        let rested = self.out.rest_on(fact);
        self.deliver_outcome(ended, answer);
        self.out.rest_on(rested);
    }

    /// A request has ended: the history remembers it, and those who tap see it.
    #[inline]
    fn remember(&mut self, ended: &Ended, answer: &Envelope) {
        let record = ended.record(answer, self.out.now.mono_ns);
        self.history.push(&record, Some((ended.message().data(), Some(answer.data()))));
        if !self.taps.is_empty() {
            self.tap_record(&record, Some(ended.message()), Some(answer));
        }
    }

    #[inline]
    fn deliver_outcome(&mut self, mut ended: Ended, answer: Envelope) {
        let peer = ended.peer();
        if ended.is_nobodys() {
            return self.keep_for_nobody(&ended, &answer);
        }
        for waiter in ended.take_waiters() {
            self.answer_client(waiter, peer, answer.clone());
        }
        match ended.into_requester() {
            Requester::Connection(NOBODY) => {}
            Requester::Connection(connection) => self.answer_client(connection, peer, answer),
            Requester::Actor(actor) => self.deliver_answer(actor, answer),
            Requester::Delegate { delegate, message, attempts } => {
                self.deliver_delegated(peer, &delegate, &message, attempts, answer);
            }
        }
    }

    /// Whoever asked did so in an earlier run: the answer is remembered for the same id; what
    /// failed is a dead letter.
    #[cold]
    fn keep_for_nobody(&mut self, ended: &Ended, answer: &Envelope) {
        self.out.counters.unclaimed += 1;
        if answer.kind() == Kind::Error {
            let reason = format!("ended in an error: {}", answer.data());
            let (owner, message) = (Owner::Peer(ended.peer()), ended.message().clone());
            self.dead_letters.bury(owner, message, &reason, ended.attempts(), &mut self.out);
        }
    }

    #[inline]
    fn answer_client(&mut self, connection: ConnectionId, peer: PeerId, answer: Envelope) {
        if let Err(answer) = self.answer(connection, answer) {
            self.unclaimed(Owner::Peer(peer), answer);
        }
    }

    /// Nobody is there for an outcome. A reply is remembered for the same id; an error becomes a
    /// dead letter.
    pub(crate) fn unclaimed(&mut self, owner: Owner, answer: Envelope) {
        self.out.counters.unclaimed += 1;
        if answer.kind() == Kind::Error {
            self.dead_letters.bury(owner, answer, "its requester is gone", 0, &mut self.out);
        }
    }

    /// The pause between two attempts is over.
    pub(crate) fn retry(&mut self, key: RequestKey) {
        if let Some(Handler::Capability(capability)) = self.requests.handler(key) {
            self.post(capability, key);
        }
    }
}
