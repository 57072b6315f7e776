//! How requests end: exactly once, with a reply or an error.

use crate::api::ids::Now;
use crate::flow::routes::Handler;
use crate::kernel::{Job, Kernel, ns};
use crate::records::dead_letters::Owner;
use crate::requests::{Delegate, Live, Origin, Phase, Recipient, RequestKey};
use crate::shared::with_verbatim;
use crate::supervision::actors::Overdue;
use crate::time::wheel::deadline_after;
use mainspring_message::{Envelope, Failure, Kind, Started};

impl Kernel {
    /// The actor's outcome reaches the requester.
    pub(crate) fn complete(&mut self, key: RequestKey, answer: Envelope, now: Now) {
        if self.requests.get(key).is_none() {
            return;
        }
        let handler = self.requests.entry(key.slot()).handler;
        self.finish(key, answer, true, now);
        if let Handler::Capability(capability) = handler {
            self.pump(capability, now);
        }
    }

    /// The deadline of a request has passed.
    pub(crate) fn time_out(&mut self, key: RequestKey, now: Now) {
        let Some(live) = self.requests.get_mut(key) else { return };
        live.timer = None;
        // The outcome came first, and is behind this in the lane.
        if live.phase == Phase::Answering {
            return;
        }
        self.counters.requests_timed_out += 1;
        let from = match self.requests.entry(key.slot()).handler {
            Handler::Capability(capability) => {
                format!(" from {}", self.actors[capability as usize].manifest.id)
            }
            Handler::Builtin(_) => String::new(),
        };
        self.keep_as_overdue(key, now);
        self.fail(key, Failure::Timeout, &format!("no outcome{from} before the deadline"), now);
    }

    /// A request in an actor's hands stays there past its deadline, until an outcome comes or the actor hangs.
    pub(crate) fn keep_as_overdue(&mut self, key: RequestKey, now: Now) {
        let Some(live) = self.requests.get(key) else { return };
        let Handler::Capability(capability) = self.requests.entry(key.slot()).handler else { return };
        if !matches!(live.phase, Phase::InFlight(_)) {
            return;
        }
        let (id, type_name) = (live.message.id().into(), live.message.type_name().into());
        let correlation = live.message.correlation().map(Into::into);
        self.leave_hands(capability, key);
        let incarnation = self.actors[capability as usize].incarnation;
        let deadline = deadline_after(now.mono_ns, ns(self.config.hang_ms));
        let hang_timer = self.wheel.schedule(deadline, Job::Hang { capability, incarnation });
        self.actors[capability as usize].overdue.push(Overdue { id, type_name, correlation, hang_timer });
    }

    /// Ends a request with an error of the loop's own.
    pub(crate) fn fail(&mut self, key: RequestKey, failure: Failure, text: &str, now: Now) {
        let Some(live) = self.requests.get(key) else { return };
        let started = if live.attempts > 0 { Started::Yes } else { Started::No };
        let (message, attempts) = (live.message.clone(), live.attempts);
        let between_attempts = attempts > 0
            && !live.origin.is_delegate()
            && matches!(live.phase, Phase::Retrying(_) | Phase::Mailbox);
        if let (true, Handler::Capability(capability)) =
            (between_attempts, self.requests.entry(key.slot()).handler)
        {
            let id = &self.actors[capability as usize].manifest.id;
            let reason = format!("{id} failed over the request, and then: {text}");
            self.bury(Owner::Capability(capability), message.clone(), &reason, attempts, now);
        }
        let answer = self.failure(&message, failure, text, started, now);
        // What no actor has seen may be sent again under the same id, so its error is not remembered.
        self.finish(key, answer, started == Started::Yes, now);
    }

    /// Ends a request: its timer, its place, its peer's account; then the answer goes to whoever waits for it.
    pub(crate) fn finish(&mut self, key: RequestKey, answer: Envelope, remember: bool, now: Now) {
        let entry = self.requests.entry(key.slot());
        let (peer, handler, hash) = (entry.peer, entry.handler, entry.hash);
        // What has no share is not worth remembering: a query, or what nobody can send again.
        let remember = remember && entry.has_share();
        let limits = &self.config.limits;
        let bytes = answer.line().len();
        let fits = remember && bytes <= limits.window_peer_bytes_max && bytes <= limits.window_bytes_max;
        let own = &mut self.peers.get_mut(peer).window;
        let ended = match remember {
            true => self.requests.finish(key, fits.then_some(&answer), now.mono_ns, own),
            false => self.requests.remove_live(key, own),
        };
        let Some(live) = ended else { return };
        if let (Handler::Capability(capability), false, 1..) = (handler, fits, live.attempts) {
            self.note_handled(capability, hash, now.mono_ns, live.message.correlation());
        }
        self.release_place(handler, &live, now);
        self.remember_request(handler, &live, &answer, now);
        self.peers.get_mut(peer).requests -= 1;
        match answer.kind() {
            Kind::Reply => self.counters.requests_replied += 1,
            _ => self.counters.requests_failed += 1,
        }
        if remember {
            self.counters.window_evictions += u64::from(!fits);
            self.bound_window(peer, bytes);
        }
        self.peers.release(peer);
        self.deliver_outcome(peer, *live, answer, now);
    }

    /// Cancels the timers of an ended request and corrects the accounts of its handler.
    fn release_place(&mut self, handler: Handler, live: &Live, now: Now) {
        if let Some(timer) = live.timer {
            self.wheel.cancel(timer);
        }
        if let Phase::Retrying(timer) = live.phase {
            self.wheel.cancel(timer);
        }
        if let Handler::Capability(capability) = handler {
            let actor = &mut self.actors[capability as usize];
            actor.pending -= 1;
            // What no actor was given says nothing about how fast it is.
            if live.attempts > 0 {
                actor.latency.record(now.mono_ns.saturating_sub(live.accepted_ns), now.mono_ns);
            }
            if live.phase == Phase::Mailbox {
                actor.mail_len -= 1;
                actor.mail_bytes -= live.message.line().len();
            }
        }
    }

    fn deliver_outcome(&mut self, peer: u32, live: Live, answer: Envelope, now: Now) {
        for waiter in live.waiters {
            if let Err(answer) = self.answer(waiter, answer.clone(), now) {
                self.unclaimed(Owner::Peer(peer), answer, now);
            }
        }
        match live.origin {
            Origin::Connection(connection) => {
                if let Err(answer) = self.answer(connection, answer, now) {
                    self.unclaimed(Owner::Peer(peer), answer, now);
                }
            }
            Origin::Actor(actor) => self.hand_answer(actor, answer, now),
            Origin::Delegate(delegate) => {
                let attempts = live.attempts;
                self.deliver_delegated(peer, &delegate, &live.message, attempts, answer, now);
            }
        }
    }

    /// The outcome of a scheduled or requeued request: to whoever asked for it if it lives, else an event. An error is
    /// a dead letter as well.
    pub(crate) fn deliver_delegated(
        &mut self,
        peer: u32,
        delegate: &Delegate,
        message: &Envelope,
        attempts: u32,
        answer: Envelope,
        now: Now,
    ) {
        let timer_id = delegate.timer_id.as_deref();
        if answer.kind() == Kind::Error {
            let reason = format!("ended in an error: {}", answer.data());
            self.bury(Owner::Peer(peer), message.clone(), &reason, attempts, now);
        }
        let answer = match timer_id {
            Some(timer_id) if !answer.metadata().contains("\"timerId\"") => {
                answer.with_metadata_member("timerId", timer_id)
            }
            _ => answer,
        };
        let answer = match delegate.to {
            Recipient::Connection(connection) => match self.write(connection, answer, now) {
                Ok(()) => return,
                Err(answer) => answer,
            },
            Recipient::Actor(actor) if self.living(actor).is_some() => {
                return self.hand_answer(actor, answer, now);
            }
            Recipient::Actor(_) => answer,
        };
        let data = serde_json::json!({
            "timerId": timer_id,
            "originalId": answer.causation(),
            "kind": answer.kind().as_str(),
            "type": answer.type_name(),
        });
        self.announce("Sys.TimerOutcome", with_verbatim(&data, "data", answer.data()), now);
    }

    /// Nobody is there for an outcome. A reply is remembered for the same id; an error becomes a dead letter.
    pub(crate) fn unclaimed(&mut self, owner: Owner, answer: Envelope, now: Now) {
        self.counters.unclaimed += 1;
        if answer.kind() == Kind::Error {
            self.bury(owner, answer, "its requester is gone", 0, now);
        }
    }

    /// The pause between two attempts is over.
    pub(crate) fn retry(&mut self, key: RequestKey, now: Now) {
        if self.requests.get(key).is_none() {
            return;
        }
        if let Handler::Capability(capability) = self.requests.entry(key.slot()).handler {
            self.post(capability, key, now);
        }
    }
}
