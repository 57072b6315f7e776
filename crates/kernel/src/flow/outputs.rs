//! What actors say: checked against the laws of lineage and their own schema before it goes anywhere.

use crate::api::effect::Effect;
use crate::api::ids::{ActorRef, Now};
use crate::flow::ingest::{Admission, Applicant, Refusal, is_reserved};
use crate::flow::lanes::{Completion, Item};
use crate::kernel::{Kernel, Life};
use crate::records::dead_letters::Owner;
use crate::records::history::{Audience, Author, Record};
use crate::requests::{Origin, Phase, RequestKey};
use crate::shared::with_verbatim;
use crate::supervision::actors::ActorState;
use mainspring_message::{Draft, Envelope, Failure, Json, Kind, Rejection, Text};

/// What made an actor speak.
enum Cause {
    /// A request that it has or had.
    Request { key: RequestKey, correlation: Option<Text> },
    /// An event or an outcome that it took.
    Taken { correlation: Option<Text> },
    /// Nothing that the loop knows of.
    Nothing,
}

/// What an actor says of the place of its message among others.
#[derive(Clone, Copy)]
struct Lineage<'a> {
    kind: Kind,
    type_name: &'a str,
    causation: Option<&'a str>,
    correlation: Option<&'a str>,
}

impl<'a> Lineage<'a> {
    fn of(message: &'a Envelope) -> Lineage<'a> {
        let (causation, correlation) = (message.causation(), message.correlation());
        Lineage { kind: message.kind(), type_name: message.type_name(), causation, correlation }
    }

    /// The correlation to restore where it was left out, given that of the cause.
    ///
    /// A different one is a violation: an actor preserves the workflow that it works in.
    fn to_restore<T: AsRef<str>>(self, wanted: Option<T>) -> Result<Option<T>, String> {
        match (wanted, self.correlation) {
            (None, _) => Ok(None),
            (Some(wanted), Some(there)) if wanted.as_ref() == there => Ok(None),
            (Some(wanted), None) => Ok(Some(wanted)),
            (Some(wanted), Some(there)) => {
                Err(format!("{self} with correlation {there:?} instead of {:?}", wanted.as_ref()))
            }
        }
    }
}

impl std::fmt::Display for Lineage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.type_name)
    }
}

impl Kernel {
    /// An actor said a line.
    pub fn actor_line(&mut self, actor: ActorRef, line: &[u8], now: Now) {
        if !self.listens_to(actor) {
            return;
        }
        if line.len() > self.config.limits.line_bytes_max {
            return self.actor_line_too_long(actor, now);
        }
        let said = match Envelope::parse(line) {
            Ok(message) => {
                self.spoke(actor);
                self.output(actor, message, now)
            }
            Err(rejection) => Err(no_message(line, &rejection)),
        };
        if let Err(reason) = said {
            self.fault_over(actor, line, reason);
        }
    }

    /// An actor began a line beyond the limit, whether or not it will ever end: a fault.
    pub fn actor_line_too_long(&mut self, actor: ActorRef, _now: Now) {
        let text = format!("a line longer than {} bytes", self.config.limits.line_bytes_max);
        self.fault(actor, text);
    }

    /// A native actor said a message.
    pub fn actor_message(&mut self, actor: ActorRef, draft: Draft, now: Now) {
        if !self.listens_to(actor) {
            return;
        }
        if let Err((field, reason)) = draft.check() {
            return self.fault(actor, format!("an invalid message: {field}: {reason}"));
        }
        if draft.data.as_str().len() > self.config.limits.line_bytes_max {
            let text = format!("a message longer than {} bytes", self.config.limits.line_bytes_max);
            return self.fault(actor, text);
        }
        self.spoke(actor);
        let message = self.compose(&draft, now);
        let said = self.output(actor, message, now);
        self.blame(actor, said);
    }

    /// A native actor tells an event that `cause` made it tell. If nobody wants it, it is checked and remembered like any
    /// other, but its data is not even made.
    pub fn actor_event(
        &mut self,
        actor: ActorRef,
        cause: &Envelope,
        type_name: &str,
        data: impl FnOnce() -> Json,
        now: Now,
    ) {
        if !self.listens_to(actor) {
            return;
        }
        let outbound = &self.actors[actor.capability as usize].outbound;
        if self.is_wanted(type_name) || outbound.needs_data() {
            let draft = Draft::caused_by(cause, Kind::Event, type_name, data());
            return self.actor_message(actor, draft, now);
        }
        self.spoke(actor);
        let said = self.said_unwanted_event(actor, cause, type_name, now);
        self.blame(actor, said);
    }

    /// Whether this is the living incarnation; what others say is ignored.
    fn listens_to(&mut self, actor: ActorRef) -> bool {
        let lives = self
            .actors
            .get(actor.capability as usize)
            .is_some_and(|it| it.incarnation == actor.incarnation && it.state == ActorState::Up);
        if !lives {
            self.counters.stale_outputs += 1;
        }
        lives
    }

    /// What an actor said goes where it belongs, or it is at fault.
    fn output(&mut self, actor: ActorRef, message: Envelope, now: Now) -> Result<(), String> {
        match message.kind() {
            Kind::Reply | Kind::Error => self.outcome(actor, message, now),
            Kind::Event => self.said_event(actor, message),
            Kind::Command | Kind::Query => self.said_request(actor, &message, now),
        }
    }

    fn blame(&mut self, actor: ActorRef, said: Result<(), String>) {
        if let Err(reason) = said {
            self.fault(actor, reason);
        }
    }

    /// An actor speaks, so it did not die of the events that it took before.
    fn spoke(&mut self, actor: ActorRef) {
        self.counters.actor_outputs += 1;
        self.actors[actor.capability as usize].nothing_at_risk();
    }

    /// A reply or error: matched by causation with a request in this actor's hands.
    fn outcome(&mut self, actor: ActorRef, answer: Envelope, now: Now) -> Result<(), String> {
        let capability = actor.capability;
        let causation = answer.causation().unwrap_or("");
        let Some(key) = self.find_in_hands(capability, causation) else {
            return self.unmatched_outcome(actor, &answer, now);
        };
        self.check_outbound(capability, &answer)?;
        let Some(live) = self.requests.get(key) else { return Ok(()) };
        if answer.type_name() != live.message.type_name() {
            let (kind, wanted) = (answer.kind(), live.message.type_name());
            return Err(format!("{kind} {} to a request of type {wanted}", answer.type_name()));
        }
        let correlation = Lineage::of(&answer).to_restore(live.message.correlation_text())?;
        let answer = with_correlation(answer, correlation);
        self.leave_hands(capability, key);
        if let Some(live) = self.requests.get_mut(key) {
            live.phase = Phase::Answering;
        }
        self.actors[capability as usize].handled += 1;
        self.lanes.completions.push_back(Completion::Outcome(key, answer));
        Ok(())
    }

    /// An outcome for nothing in hand: late (an event), or second or invented (a fault).
    fn unmatched_outcome(&mut self, actor: ActorRef, answer: &Envelope, now: Now) -> Result<(), String> {
        let causation = answer.causation().unwrap_or("");
        let it = &mut self.actors[actor.capability as usize];
        if let Some(at) = it.overdue.iter().position(|overdue| &*overdue.id == causation) {
            let overdue = it.overdue.remove(at);
            let id = it.manifest.id.clone();
            self.wheel.cancel(overdue.hang_timer);
            self.counters.late_outcomes += 1;
            let data = serde_json::json!({
                "capabilityId": id,
                "originalId": causation,
                "originalType": &*overdue.type_name,
                "kind": answer.kind().as_str(),
                "type": answer.type_name(),
            });
            self.announce("Sys.LateReply", with_verbatim(&data, "data", answer.data()), now);
            self.pump(actor.capability, now);
            return Ok(());
        }
        let hash = self.hash_id(causation);
        let was_given = self.requests.find_handled(hash, actor.capability, causation).is_some()
            || self.actors[actor.capability as usize].had.find(hash).is_some();
        let what = if was_given { "a second outcome" } else { "an outcome" };
        Err(format!("{what} for {causation:?}, which is not in its hands"))
    }

    fn said_event(&mut self, actor: ActorRef, message: Envelope) -> Result<(), String> {
        let (correlation, _) = self.check_lineage(actor, Lineage::of(&message))?;
        let message = with_correlation(message, correlation);
        if is_reserved(message.type_name()) {
            return Err(format!("the event {}, whose type is reserved for the loop", message.type_name()));
        }
        self.check_outbound(actor.capability, &message)?;
        let hash = self.hash_id(message.id());
        if !self.actors[actor.capability as usize].said.is_new(hash) {
            let (id, last) = (message.id(), crate::supervision::actors::SAID_IDS);
            let type_name = message.type_name();
            return Err(format!("event {type_name} with the id {id:?} of one of its last {last} events"));
        }
        let queue = self.actors[actor.capability as usize].queue;
        self.check_lane(queue).map_err(|refusal| format!("a flood: {}", refusal.text))?;
        self.counters.events_accepted += 1;
        let bytes = message.line().len();
        self.enqueue(queue, Item::Event(message), bytes);
        Ok(())
    }

    /// Whether anybody wants events of this type now.
    fn is_wanted(&self, type_name: &str) -> bool {
        !self.routes.subscribers(type_name).is_empty() || self.subscribers.wants(type_name)
    }

    fn said_unwanted_event(
        &mut self,
        actor: ActorRef,
        cause: &Envelope,
        type_name: &str,
        now: Now,
    ) -> Result<(), String> {
        let (kind, causation, correlation) = (Kind::Event, Some(cause.id()), cause.correlation());
        let lineage = Lineage { kind, type_name, causation, correlation };
        self.check_lineage(actor, lineage)?;
        self.actors[actor.capability as usize]
            .outbound
            .check_pair(kind, type_name)
            .map_err(|violation| format!("{lineage}: {violation}"))?;
        if is_reserved(type_name) {
            return Err(format!("the {lineage}, whose type is reserved for the loop"));
        }
        self.counters.events_accepted += 1;
        self.counters.events_unheard += 1;
        self.history.push(&Record {
            kind,
            type_name,
            id: self.fresh_ids.make(),
            causation,
            correlation,
            from: Author::Capability(actor.capability),
            to: Audience::Subscribers { capabilities: 0, clients: 0 },
            accepted_ns: now.mono_ns,
            delivered_ns: now.mono_ns,
            attempts: 0,
            end: None,
        });
        Ok(())
    }

    fn said_request(&mut self, actor: ActorRef, message: &Envelope, now: Now) -> Result<(), String> {
        let (correlation, cause) = self.check_lineage(actor, Lineage::of(message))?;
        let message = with_correlation(message.clone(), correlation);
        self.check_outbound(actor.capability, &message)?;
        let it = &self.actors[actor.capability as usize];
        let (peer, queue) = (it.peer, it.queue);
        self.check_lane(queue).map_err(|refusal| format!("a flood: {}", refusal.text))?;
        let admission = match self.find_deadlock(&message, cause) {
            Some(refusal) => Err(refusal),
            None if self.life == Life::Flushing || self.giving_up.is_some() => {
                Err(Refusal::new(Failure::ShuttingDown, "the loop is shutting down"))
            }
            None => {
                let origin = Origin::Actor(actor);
                self.admit(Applicant { message: &message, origin, peer, queue, cause }, now)
            }
        };
        match admission {
            Ok(Admission::Accepted | Admission::Joined) => {}
            Ok(Admission::Answered(answer)) => self.hand_answer(actor, answer, now),
            Err(refusal) => {
                self.counters.refused += 1;
                let answer = self.failure(&message, refusal.failure, &refusal.text, refusal.started, now);
                self.hand_answer(actor, answer, now);
            }
        }
        Ok(())
    }

    /// Whether the request would wait for an actor that waits for this very request.
    fn find_deadlock(&self, message: &Envelope, cause: Option<RequestKey>) -> Option<Refusal> {
        let handler = self.routes.route(message.kind(), message.type_name())?.handler;
        let crate::flow::routes::Handler::Capability(wanted) = handler else { return None };
        let it = &self.actors[wanted as usize];
        // One that is to be replaced takes nothing new, however much it could work on at once.
        let is_replaced = it.succession.holds_mail();
        let places = if is_replaced { 1 } else { it.manifest.limits.concurrency };
        let (mut above, mut held) = (cause, 0);
        while let Some(key) = above {
            let live = self.requests.get(key)?;
            let in_flight = matches!(live.phase, Phase::InFlight(_));
            held += u32::from(in_flight && self.requests.entry(key.slot()).handler == handler);
            if held >= places {
                let id = &it.manifest.id;
                let waits = match (is_replaced, places) {
                    (true, _) => "is being replaced, and is waiting for this one".to_owned(),
                    (false, 1) => "works on one request at a time, and is waiting for this one".to_owned(),
                    _ => format!("works on {places} requests at a time, and all of them wait for this one"),
                };
                return Some(Refusal::new(Failure::Deadlock, format!("{id} {waits}")));
            }
            above = live.cause;
        }
        None
    }

    fn check_outbound(&self, capability: u32, message: &Envelope) -> Result<(), String> {
        let verdict = self.actors[capability as usize].outbound.check(message);
        verdict.map_err(|violation| format!("{} {}: {violation}", message.kind(), message.type_name()))
    }

    /// Checks causation and correlation of an event or request; returns a correlation that was left out, and the request
    /// behind it.
    fn check_lineage(
        &mut self,
        actor: ActorRef,
        lineage: Lineage<'_>,
    ) -> Result<(Option<Text>, Option<RequestKey>), String> {
        let Some(causation) = lineage.causation else {
            if self.actors[actor.capability as usize].manifest.uncaused {
                return Ok((None, None));
            }
            return Err(format!(
                "{lineage} without metadata.causation (the manifest's `uncaused` would allow it)"
            ));
        };
        let (correlation, key) = match self.find_cause(actor.capability, causation) {
            Cause::Request { key, correlation } => (correlation, Some(key)),
            Cause::Taken { correlation } => (correlation, None),
            Cause::Nothing => {
                return Err(format!("{lineage} caused by {causation:?}, which it was never given"));
            }
        };
        Ok((lineage.to_restore(correlation)?, key))
    }

    /// The message with that id which the actor has or had.
    fn find_cause(&mut self, capability: u32, id: &str) -> Cause {
        // Mostly it is what the actor works on just now.
        if let Some(key) = self.find_in_hands(capability, id) {
            return self.caused_by_request(key.slot());
        }
        let hash = self.hash_id(id);
        if let Some(slot) = self.requests.find_handled(hash, capability, id) {
            return self.caused_by_request(slot);
        }
        let it = &self.actors[capability as usize];
        if let Some(taken) = it.recent.iter().rev().find(|taken| taken.message.id() == id) {
            return Cause::Taken { correlation: taken.message.correlation_text() };
        }
        if let Some(overdue) = it.overdue.iter().find(|overdue| &*overdue.id == id) {
            return Cause::Taken { correlation: overdue.correlation.as_deref().map(Into::into) };
        }
        if let Some(correlation) = it.had.find(hash) {
            return Cause::Taken { correlation };
        }
        match self.requests.find_handled_earlier(hash, capability, id) {
            Some(slot) => self.caused_by_request(slot),
            None => Cause::Nothing,
        }
    }

    fn caused_by_request(&self, slot: u32) -> Cause {
        let correlation = self.requests.correlation(slot);
        Cause::Request { key: self.requests.key(slot), correlation }
    }

    /// Hands an actor the outcome of a request that it made: past its concurrency, and past its mailbox.
    pub(crate) fn hand_answer(&mut self, actor: ActorRef, answer: Envelope, now: Now) {
        let recent_max = self.config.limits.recent_events_max;
        let it = &mut self.actors[actor.capability as usize];
        if it.incarnation != actor.incarnation
            || it.state != ActorState::Up
            || it.succession.input_ended()
            || self.life == Life::Flushing
        {
            return self.unclaimed(Owner::Capability(actor.capability), answer, now);
        }
        if it.blocked {
            return self.keep_answer(actor, answer, now);
        }
        it.remember(&answer, false, recent_max);
        self.counters.deliveries += 1;
        self.effects.push(Effect::Deliver { actor, message: answer });
    }

    /// Keeps an outcome for an actor that takes nothing for now. One that goes on asking without ever taking the
    /// answers is at fault.
    fn keep_answer(&mut self, actor: ActorRef, answer: Envelope, now: Now) {
        let answers_max = self.config.limits.peer_requests_max;
        let it = &mut self.actors[actor.capability as usize];
        let bytes = it.answers_bytes.saturating_add(answer.line().len());
        if it.answers.len() >= answers_max || bytes > it.manifest.limits.mailbox_bytes {
            self.unclaimed(Owner::Capability(actor.capability), answer, now);
            return self.fault(actor, "it asks and does not take the answers".to_owned());
        }
        it.answers_bytes = bytes;
        it.answers.push_back(answer);
    }
}

/// Why a line is no message. Whoever prints what is no JSON object has most likely forgotten what standard output is for.
#[cold]
fn no_message(line: &[u8], rejection: &Rejection) -> String {
    let is_object = line.trim_ascii_start().starts_with(b"{");
    let advice = if is_object { "" } else { "; standard output is for messages: print to standard error" };
    format!("an invalid message: {rejection}{advice}")
}

/// The message with the correlation of its cause, if that was left out.
fn with_correlation(message: Envelope, left_out: Option<Text>) -> Envelope {
    match left_out {
        Some(correlation) => message.with_metadata_member("correlation", &correlation),
        None => message,
    }
}
