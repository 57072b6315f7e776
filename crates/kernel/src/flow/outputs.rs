//! What actors say: checked against the laws of lineage and their own schema before it goes
//! anywhere.

use crate::api::ids::{ActorRef, CapabilityId, Now};
use crate::dead_letters::Owner;
use crate::flow::admission::Applicant;
use crate::flow::lanes::{Completion, Item};
use crate::flow::lineage::{Lineage, with_workflow};
use crate::flow::refusal::{Refusal, is_reserved};
use crate::flow::routes::Handler;
use crate::history::{Audience, Author, Record};
use crate::kernel::{Kernel, with_verbatim};
use crate::out::Cause;
use crate::requests::{Admission, Origin, RequestKey, Workflow};
use mainspring_message::{Draft, Envelope, Failure, Json, Kind, Rejection};

/// Requests in progress among which one is looked for by its message, before it is by its id.
const DELIVERED_LOOKED_AT: usize = 4;

impl Kernel {
    /// An actor said a line.
    pub fn actor_line(&mut self, actor: ActorRef, line: &[u8], now: Now) {
        self.actor_line_as(actor, line, now, || Envelope::parse(line));
    }

    /// An actor said a message, which somebody has read already.
    pub fn actor_envelope(&mut self, actor: ActorRef, message: &Envelope, now: Now) {
        self.actor_line_as(actor, message.line().as_bytes(), now, || Ok(message.clone()));
    }

    #[inline(always)]
    fn actor_line_as(
        &mut self,
        actor: ActorRef,
        line: &[u8],
        now: Now,
        read: impl FnOnce() -> Result<Envelope, Rejection>,
    ) {
        self.out.now = now;
        self.note(now, |pen| pen.actor_line(actor, line));
        if !self.listens_to(actor) {
            return;
        }
        if line.len() > self.config.limits.line_bytes_max {
            return self.said_too_much(actor);
        }
        let said = match read() {
            Ok(message) => {
                self.spoke(actor);
                self.output(actor, message)
            }
            Err(rejection) => Err(no_message(line, &rejection)),
        };
        if let Err(reason) = said {
            self.actors.fault_over(actor, line, reason, &mut self.out);
        }
    }

    /// An actor began a line beyond the limit, whether or not it will ever end: a fault.
    pub fn actor_line_too_long(&mut self, actor: ActorRef, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.actor_line_too_long(actor));
        self.said_too_much(actor);
    }

    fn said_too_much(&mut self, actor: ActorRef) {
        let text = format!("a line longer than {} bytes", self.config.limits.line_bytes_max);
        self.actors.fault(actor, text, &mut self.out);
    }

    /// A native actor said a message.
    pub fn actor_message(&mut self, actor: ActorRef, draft: Draft, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.actor_message(actor, &draft));
        self.said(actor, &draft);
    }

    /// A native actor replies to a request that it was given. The same as
    /// [`Kernel::actor_message`] with [`Draft::reply`], but the request is known already: nothing
    /// of it is copied, checked or looked up once more.
    pub fn actor_reply(&mut self, actor: ActorRef, request: &Envelope, data: &Json, now: Now) {
        let is_plain = self.tape.is_none()
            && !data.is_too_deep()
            && data.as_str().len() <= self.config.limits.line_bytes_max;
        let Some(key) = self.find_delivered(actor, request).filter(|_| is_plain) else {
            return self.actor_message(actor, Draft::reply(request, data.clone()), now);
        };
        self.out.now = now;
        self.spoke(actor);
        let (type_name, cause) = (request.type_name(), Cause::of(request));
        let answer = self.out.message(Kind::Reply, type_name, data.as_str(), cause);
        let said = self.actors.check_outbound(actor.capability, &answer);
        match said {
            Ok(()) => self.settle(actor.capability, key, answer),
            Err(reason) => self.actors.fault(actor, reason, &mut self.out),
        }
    }

    /// The request that this very message is, if the actor works and has it in progress. Only the
    /// latest are looked at: a native actor mostly speaks of what it was just given.
    #[inline]
    fn find_delivered(&self, actor: ActorRef, message: &Envelope) -> Option<RequestKey> {
        if !self.actors.is_up(actor) {
            return None;
        }
        let is_it =
            |key: &&RequestKey| self.requests.message(**key).is_some_and(|request| request.is_same(message));
        self.actors.in_progress(actor.capability).iter().rev().take(DELIVERED_LOOKED_AT).find(is_it).copied()
    }

    fn said(&mut self, actor: ActorRef, draft: &Draft) {
        if !self.listens_to(actor) {
            return;
        }
        if let Err((field, reason)) = draft.check() {
            return self.blame(actor, Err(format!("an invalid message: {field}: {reason}")));
        }
        if draft.data.as_str().len() > self.config.limits.line_bytes_max {
            let text = format!("a message longer than {} bytes", self.config.limits.line_bytes_max);
            return self.blame(actor, Err(text));
        }
        self.spoke(actor);
        let message = self.out.compose(draft);
        let said = self.output(actor, message);
        self.blame(actor, said);
    }

    /// A native actor says an event that `cause` made it say. If nobody wants it, it is checked and
    /// remembered like any other, but its data is not even made.
    pub fn actor_event(
        &mut self,
        actor: ActorRef,
        cause: &Envelope,
        type_name: &str,
        data: impl FnOnce() -> Json,
        now: Now,
    ) {
        self.out.now = now;
        if self.tape.is_some() {
            let data = data();
            self.note(now, |pen| pen.actor_event(actor, cause, type_name, &data));
            self.said_by_cause(actor, cause, type_name, || data);
        } else {
            self.said_by_cause(actor, cause, type_name, data);
        }
    }

    fn said_by_cause(
        &mut self,
        actor: ActorRef,
        cause: &Envelope,
        type_name: &str,
        data: impl FnOnce() -> Json,
    ) {
        if !self.listens_to(actor) {
            return;
        }
        let is_tapped = !self.taps.is_empty() && self.taps.take_event(type_name, self.out.now.mono_ns);
        let is_seen = self.is_wanted(type_name) || is_tapped || type_name.ends_with(".Progress");
        let is_kept = self.out.facts.is_on() && self.actors.manifest(actor.capability).durable_events;
        if is_seen || is_kept || self.actors.needs_data(actor.capability) {
            let draft = Draft::caused_by(cause, Kind::Event, type_name, data());
            return self.said(actor, &draft);
        }
        self.spoke(actor);
        let said = self.said_unwanted_event(actor, cause, type_name);
        self.blame(actor, said);
    }

    /// Whether this incarnation is working; what others say is ignored.
    #[inline]
    fn listens_to(&mut self, actor: ActorRef) -> bool {
        let is_up = self.actors.is_up(actor);
        if !is_up {
            self.out.counters.stale_outputs += 1;
        }
        is_up
    }

    /// What an actor said goes where it belongs, or it is at fault.
    fn output(&mut self, actor: ActorRef, message: Envelope) -> Result<(), String> {
        match message.kind() {
            Kind::Reply | Kind::Error => self.outcome(actor, message),
            Kind::Event => self.said_event(actor, message),
            Kind::Command | Kind::Query => self.said_request(actor, &message),
        }
    }

    #[inline]
    fn blame(&mut self, actor: ActorRef, said: Result<(), String>) {
        if let Err(reason) = said {
            self.actors.fault(actor, reason, &mut self.out);
        }
    }

    #[inline]
    fn spoke(&mut self, actor: ActorRef) {
        self.out.counters.actor_outputs += 1;
        self.actors.spoke(actor.capability);
    }

    /// A reply or error: matched by causation with a request that this actor has in progress.
    fn outcome(&mut self, actor: ActorRef, answer: Envelope) -> Result<(), String> {
        let capability = actor.capability;
        let causation = answer.causation().unwrap_or("");
        let Some(key) = self.find_in_progress(capability, causation) else {
            return self.unmatched_outcome(actor, &answer);
        };
        self.actors.check_outbound(capability, &answer)?;
        let Some(request) = self.requests.message(key) else { return Ok(()) };
        if answer.type_name() != request.type_name() {
            let (kind, wanted) = (answer.kind(), request.type_name());
            return Err(format!("{kind} {} to a request of type {wanted}", answer.type_name()));
        }
        let left_out = Lineage::of(&answer).to_restore(Workflow::of(request))?;
        let answer = with_workflow(answer, left_out);
        self.settle(capability, key, answer);
        Ok(())
    }

    /// An outcome that fits its request in every way is on its way to the requester.
    fn settle(&mut self, capability: CapabilityId, key: RequestKey, answer: Envelope) {
        self.leave_progress(capability, key);
        self.requests.enter_answering(key);
        self.actors.note_handled(capability);
        self.lanes.complete(Completion::Outcome(key, answer));
    }

    /// An outcome for nothing in progress: late (an event), or second or invented (a fault).
    #[cold]
    fn unmatched_outcome(&mut self, actor: ActorRef, answer: &Envelope) -> Result<(), String> {
        let (capability, causation) = (actor.capability, answer.causation().unwrap_or(""));
        if let Some(overdue) = self.actors.take_overdue(capability, causation, &mut self.out) {
            self.out.counters.late_outcomes += 1;
            let data = serde_json::json!({
                "capabilityId": self.actors.id(capability),
                "originalId": causation,
                "originalType": &*overdue.type_name,
                "kind": answer.kind().as_str(),
                "type": answer.type_name(),
            });
            self.out.announce_to_operators("Sys.LateReply", with_verbatim(&data, "data", answer.data()));
            self.deliver_mail(capability);
            return Ok(());
        }
        let was_given = self.requests.was_given(capability, self.out.hash_id(causation), causation);
        let what = if was_given { "a second outcome" } else { "an outcome" };
        Err(format!("{what} for {causation:?}, which it does not have in progress"))
    }

    fn said_event(&mut self, actor: ActorRef, message: Envelope) -> Result<(), String> {
        let (left_out, _) = self.check_lineage(actor, Lineage::of(&message))?;
        let message = with_workflow(message, left_out);
        if is_reserved(message.type_name()) {
            return Err(format!("the event {}, whose type is reserved for the kernel", message.type_name()));
        }
        self.actors.check_outbound(actor.capability, &message)?;
        self.actors.note_said(actor.capability, &message, self.out.hash_id(message.id()))?;
        let (_, queue) = self.actors.sender(actor.capability);
        self.lanes.check(queue).map_err(|refusal| format!("a flood: {}", refusal.text))?;
        self.record_event(actor.capability, &message)?;
        self.out.counters.events_accepted += 1;
        if message.type_name().ends_with(".Progress")
            && let Some(key) = self.find_in_progress(actor.capability, message.causation().unwrap_or(""))
        {
            self.tell_progress(key, &message, true);
        }
        let bytes = message.line().len();
        self.enqueue(queue, Item::Event(message), bytes);
        Ok(())
    }

    /// Whether anybody wants events of this type now.
    #[inline]
    fn is_wanted(&self, type_name: &str) -> bool {
        !self.routes.subscribers(type_name).is_empty() || self.connections.is_wanted(type_name)
    }

    fn said_unwanted_event(
        &mut self,
        actor: ActorRef,
        cause: &Envelope,
        type_name: &str,
    ) -> Result<(), String> {
        let (kind, causation, correlation) = (Kind::Event, Some(cause.id()), cause.correlation());
        let lineage = Lineage { kind, type_name, causation, correlation, is_traced: true };
        // An event that is caused by what the actor was just given is in the workflow of that.
        if self.find_delivered(actor, cause).is_none() {
            self.check_lineage(actor, lineage)?;
        }
        self.actors.check_outbound_pair(actor.capability, kind, type_name)?;
        if is_reserved(type_name) {
            return Err(format!("the {lineage}, whose type is reserved for the kernel"));
        }
        self.out.counters.events_accepted += 1;
        self.out.counters.events_unheard += 1;
        let now_ns = self.out.now.mono_ns;
        let record = Record {
            kind,
            type_name,
            id: "",
            causation,
            correlation,
            from: Author::Capability(actor.capability),
            to: Audience::Subscribers { capabilities: 0, clients: 0 },
            accepted_ns: now_ns,
            delivered_ns: now_ns,
            attempts: 0,
            end: None,
        };
        if !self.taps.is_empty() {
            self.tap_record(&record, None, None);
        }
        self.history.push(&Record { id: self.out.fresh_id(), ..record }, None);
        Ok(())
    }

    fn said_request(&mut self, actor: ActorRef, message: &Envelope) -> Result<(), String> {
        let (left_out, cause) = self.check_lineage(actor, Lineage::of(message))?;
        let message = with_workflow(message.clone(), left_out);
        self.actors.check_outbound(actor.capability, &message)?;
        let (peer, queue) = self.actors.sender(actor.capability);
        self.lanes.check(queue).map_err(|refusal| format!("a flood: {}", refusal.text))?;
        let admission = match self.find_deadlock(&message, cause) {
            Some(refusal) => Err(refusal),
            None if !self.lifecycle.takes_inner_requests() => Err(Refusal::shutting_down()),
            None => self.check_actor_rights(actor, &message).and_then(|()| {
                let origin = Origin::Actor(actor);
                self.admit(Applicant { message: &message, origin, peer, queue, cause })
            }),
        };
        match admission {
            Ok(Admission::Accepted | Admission::Joined) => {}
            Ok(Admission::Answered(answer)) => {
                let rested = self.out.rest_on(self.out.facts.of_any());
                self.deliver_answer(actor, answer);
                self.out.rest_on(rested);
            }
            Err(refusal) => {
                self.out.counters.refused += 1;
                let answer = self.out.failure(&message, refusal.failure, &refusal.text, refusal.started);
                self.deliver_answer(actor, answer);
            }
        }
        Ok(())
    }

    /// Whether the request would wait for an actor that waits for this very request.
    fn find_deadlock(&self, message: &Envelope, cause: Option<RequestKey>) -> Option<Refusal> {
        let handler = self.routes.handler(message.kind(), message.type_name())?;
        let Handler::Capability(wanted) = handler else { return None };
        let (places, is_replaced) = self.actors.places(wanted);
        if !self.requests.is_chain_in_progress(wanted, cause, places) {
            return None;
        }
        let waits = match (is_replaced, places) {
            (true, _) => "is being replaced, and is waiting for this one".to_owned(),
            (false, 1) => "works on one request at a time, and is waiting for this one".to_owned(),
            _ => format!("works on {places} requests at a time, and all of them wait for this one"),
        };
        Some(Refusal::new(Failure::Deadlock, format!("{} {waits}", self.actors.id(wanted))))
    }

    /// Delivers to an actor the outcome of a request that it made.
    pub(crate) fn deliver_answer(&mut self, actor: ActorRef, answer: Envelope) {
        let delivered = match self.lifecycle.is_flushing() {
            true => Err(answer),
            false => self.actors.deliver_answer(actor, answer, &mut self.out),
        };
        if let Err(answer) = delivered {
            self.unclaimed(Owner::Capability(actor.capability), answer);
        }
    }
}

/// Why a line is no message. Whoever prints what is no JSON object has most likely forgotten what
/// standard output is for.
#[cold]
fn no_message(line: &[u8], rejection: &Rejection) -> String {
    let is_object = line.trim_ascii_start().starts_with(b"{");
    let advice = if is_object { "" } else { "; standard output is for messages: print to standard error" };
    format!("an invalid message: {rejection}{advice}")
}
