//! What clients send: checked at once, then accepted into the User lane or refused.

use crate::api::effect::{CloseReason, Effect};
use crate::api::ids::{ConnectionId, Now, Source};
use crate::flow::lanes::{Item, Sender};
use crate::flow::routes::Handler;
use crate::kernel::{Job, Kernel, ns};
use crate::records::dead_letters::Owner;
use crate::requests::{Live, NO_SHARE, Origin, Phase, RequestKey};
use crate::supervision::actors::ActorState;
use crate::time::wheel::deadline_after;
use mainspring_message::{Envelope, ErrorData, Failure, Kind, Rejection, Started};

/// Why a message is refused: it was never accepted, and leaves no trace but the error.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) failure: Failure,
    pub(crate) text: String,
    /// Whether an actor has what was asked: only of a repetition can that be said.
    pub(crate) started: Started,
}

impl Refusal {
    pub(crate) fn new(failure: Failure, text: impl Into<String>) -> Refusal {
        Refusal { failure, text: text.into(), started: Started::No }
    }
}

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

/// A request that asks to be let in.
pub(crate) struct Applicant<'a> {
    pub(crate) message: &'a Envelope,
    pub(crate) origin: Origin,
    pub(crate) peer: u32,
    pub(crate) queue: u32,
    pub(crate) cause: Option<RequestKey>,
}

/// A request that may be let in, with what was found out about it.
struct Ticket {
    handler: Handler,
    hash: u64,
    fingerprint: u64,
    deadline_ns: i64,
    depth: u32,
    /// The share of its sender in what is remembered.
    share: u32,
}

/// What is found out about a request.
enum Examined {
    New(Ticket),
    Known(Admission),
}

/// Types that only the loop itself may speak or serve.
pub(crate) fn is_reserved(type_name: &str) -> bool {
    ["Sys.", "Syscall.", "Timer.", "Kernel."].iter().any(|prefix| type_name.starts_with(prefix))
}

impl Kernel {
    /// A client sent a line (without its line break).
    pub fn ingest(&mut self, connection: ConnectionId, line: &[u8], now: Now) {
        let Some(client) = self.connections.get_mut(&connection) else { return };
        let (peer, queue, share) = (client.peer, client.queue, client.share);
        self.counters.lines_in += 1;
        if line.len() > self.config.limits.line_bytes_max {
            return self.line_too_long(connection, now);
        }
        let message = match Envelope::parse(line) {
            Ok(message) => message,
            Err(rejection) => return self.reject_line(connection, &rejection, now),
        };
        client.bad_lines = 0;
        // Settled with its answer, whichever that is.
        client.owed += usize::from(message.kind().is_request());
        let verdict = match message.kind() {
            Kind::Command | Kind::Query => {
                return self.ingest_request(connection, (peer, queue, share), message, now);
            }
            Kind::Event => self.ingest_event(queue, &message),
            Kind::Reply => Err(Refusal::new(Failure::Forbidden, "kind: a client has nothing to reply to")),
            // An error never produces an error: one that answers nobody ends here.
            Kind::Error => {
                self.bury(
                    Owner::Peer(peer),
                    message.clone(),
                    "an error from a client answers nobody",
                    0,
                    now,
                );
                Ok(())
            }
        };
        if let Err(refusal) = verdict {
            self.refuse(connection, &message, refusal, now);
        }
    }

    /// A client sent a line beyond the limit; the daemon skipped it.
    pub fn line_too_long(&mut self, connection: ConnectionId, now: Now) {
        let rejection = Rejection {
            failure: Failure::TooLarge,
            field: "",
            reason: format!("the line is longer than {} bytes", self.config.limits.line_bytes_max),
            id: None,
            type_name: None,
            kind: None,
        };
        self.reject_line(connection, &rejection, now);
    }

    fn reject_line(&mut self, connection: ConnectionId, rejection: &Rejection, now: Now) {
        self.counters.refused += 1;
        let Some(client) = self.connections.get_mut(&connection) else { return };
        client.bad_lines += 1;
        let too_many = client.bad_lines > self.config.limits.bad_lines_max;
        let mut text = rejection.to_string();
        if too_many {
            text.push_str("; too many lines in a row were no messages, so the connection is closed");
        }
        let mut data = String::new();
        let error = ErrorData {
            failure: rejection.failure,
            message: &text,
            original_id: rejection.id.as_deref(),
            original_type: rejection.type_name.as_deref(),
            started: Started::No,
        };
        error.write(&mut data);
        // An error about a bad error would be an error about an error.
        if rejection.kind != Some(Kind::Error) {
            let type_name = rejection.failure.type_name();
            // An error names its cause; one that could not be read gets a name here.
            let causation = rejection.id.clone().unwrap_or_else(|| self.fresh_ids.make().to_owned());
            let answer = self.loop_message(Kind::Error, type_name, &data, Some(&causation), None, now);
            let _ = self.write(connection, answer, now);
        }
        if too_many {
            self.evict(connection, CloseReason::BadLines, now);
        }
    }

    fn refuse(&mut self, connection: ConnectionId, message: &Envelope, refusal: Refusal, now: Now) {
        self.counters.refused += 1;
        let answer = self.failure(message, refusal.failure, &refusal.text, refusal.started, now);
        let _ = self.write(connection, answer, now);
    }

    fn ingest_event(&mut self, queue: u32, message: &Envelope) -> Result<(), Refusal> {
        if is_reserved(message.type_name()) {
            let text = format!("type: {} is reserved for the loop", message.type_name());
            return Err(Refusal::new(Failure::Forbidden, text));
        }
        if self.is_ending() {
            return Err(Refusal::new(Failure::ShuttingDown, "the loop is shutting down"));
        }
        self.check_lane(queue)?;
        self.counters.events_accepted += 1;
        self.enqueue(queue, Item::Event(message.clone()), message.line().len());
        Ok(())
    }

    #[inline(always)]
    fn ingest_request(
        &mut self,
        connection: ConnectionId,
        (peer, queue, share): (u32, u32, u32),
        message: Envelope,
        now: Now,
    ) {
        let origin = Origin::Connection(connection);
        match self.examine(&message, &origin, peer, queue, None, now) {
            // A client that has not read what it has gets even an answer that is there when it has read.
            Ok(Examined::Known(Admission::Answered(_))) if self.is_full(connection) => {
                self.defer_repetition(connection, queue, message, now);
            }
            Ok(Examined::Known(Admission::Answered(answer))) => {
                let _ = self.answer(connection, answer, now);
            }
            Ok(Examined::Known(_)) => {}
            Ok(Examined::New(ticket)) => {
                let ticket = Ticket { share, ..ticket };
                self.accept(ticket, message, origin, peer, queue, None, now);
            }
            Err(refusal) => {
                self.settle_debt(connection);
                self.refuse(connection, &message, refusal, now);
            }
        }
    }

    /// Has a repetition wait in its lane.
    #[cold]
    fn defer_repetition(&mut self, connection: ConnectionId, queue: u32, message: Envelope, now: Now) {
        match self.check_lane(queue) {
            Ok(()) => {
                let bytes = message.line().len();
                self.enqueue(queue, Item::Repetition(message), bytes);
            }
            Err(refusal) => {
                self.settle_debt(connection);
                self.refuse(connection, &message, refusal, now);
            }
        }
    }

    /// A repetition has waited in its lane: it is answered, or it is new by now.
    #[cold]
    pub(crate) fn ingest_again(&mut self, connection: ConnectionId, message: Envelope, now: Now) {
        let Some(client) = self.connections.get(&connection) else { return };
        let place = (client.peer, client.queue, client.share);
        self.ingest_request(connection, place, message, now);
    }

    /// Lets a request in, unless it is refused or known.
    pub(crate) fn admit(&mut self, applicant: Applicant<'_>, now: Now) -> Result<Admission, Refusal> {
        let Applicant { message, origin, peer, queue, cause } = applicant;
        match self.examine(message, &origin, peer, queue, cause, now)? {
            Examined::Known(admission) => Ok(admission),
            Examined::New(ticket) => {
                self.accept(ticket, message.clone(), origin, peer, queue, cause, now);
                Ok(Admission::Accepted)
            }
        }
    }

    /// Looks at a request before it is let in: route, schema, limits, repetition.
    fn examine(
        &mut self,
        message: &Envelope,
        origin: &Origin,
        peer: u32,
        queue: u32,
        cause: Option<RequestKey>,
        now: Now,
    ) -> Result<Examined, Refusal> {
        let handler = self.route_request(message)?;
        let hash = self.hash_id(message.id());
        let mut fingerprint = self.fingerprint(message);
        if let (true, Origin::Connection(connection)) = (handler.is_for_one_connection(), origin) {
            // The same words on another connection ask for something else.
            fingerprint ^= self.hash_id(&connection.to_string());
        }
        if let Some(earlier) = self.repetition(hash, peer, message, fingerprint, origin, now)? {
            return Ok(Examined::Known(earlier));
        }
        if self.is_ending() && matches!(origin, Origin::Connection(_)) {
            return Err(Refusal::new(Failure::ShuttingDown, "the loop is shutting down"));
        }
        self.check_lane(queue)?;
        self.check_request_limits(peer)?;
        let (deadline_ns, depth) = self.deadline(message, cause, now)?;
        // What the loop sends for somebody has an id of the loop's own, which nobody sends again.
        let share = if let Origin::Actor(_) = origin { self.peers.get(peer).share } else { NO_SHARE };
        Ok(Examined::New(Ticket { handler, hash, fingerprint, deadline_ns, depth, share }))
    }

    /// Lets a request in: its place in the table, its timer, its place in the lane.
    #[expect(clippy::too_many_arguments, reason = "they are the parts of what becomes one entry")]
    fn accept(
        &mut self,
        ticket: Ticket,
        message: Envelope,
        origin: Origin,
        peer: u32,
        queue: u32,
        cause: Option<RequestKey>,
        now: Now,
    ) {
        let Ticket { handler, hash, fingerprint, deadline_ns, depth, share } = ticket;
        let bytes = message.line().len();
        // A query has no effects, so its answer is shared while it is under way and not remembered afterwards.
        let share = if message.kind() == Kind::Command { share } else { NO_SHARE };
        let live = Live {
            message,
            origin,
            phase: Phase::Lane,
            timer: None,
            deadline_ns,
            accepted_ns: now.mono_ns,
            delivered_ns: now.mono_ns,
            attempts: 0,
            cause,
            depth,
            waiters: Vec::new(),
        };
        let key = self.requests.insert(hash, peer, handler, fingerprint, share, live);
        let timer = self.wheel.schedule(deadline_ns, Job::Timeout(key));
        if let Some(live) = self.requests.get_mut(key) {
            live.timer = Some(timer);
        }
        self.peers.get_mut(peer).requests += 1;
        if let Handler::Capability(capability) = handler {
            self.actors[capability as usize].pending += 1;
        }
        self.counters.requests_accepted += 1;
        self.enqueue(queue, Item::Request(key), bytes);
    }

    /// The handler of a request whose data fits its schema.
    pub(crate) fn route_request(&self, message: &Envelope) -> Result<Handler, Refusal> {
        let Some(route) = self.routes.route(message.kind(), message.type_name()) else {
            let (kind, name) = (message.kind(), message.type_name());
            let other = if kind == Kind::Command { Kind::Query } else { Kind::Command };
            let hint = match self.routes.route(other, name) {
                Some(_) => format!("; it is a {other}"),
                None => String::new(),
            };
            let text = format!("type: no capability handles {kind} {name}{hint}");
            return Err(Refusal::new(Failure::Routing, text));
        };
        if let Some(validator) = &route.inbound {
            validator
                .check(message.data(), message.metadata())
                .map_err(|violation| Refusal::new(Failure::Schema, violation.to_string()))?;
        }
        Ok(route.handler)
    }

    /// What is known of the same id from the same peer.
    fn repetition(
        &mut self,
        hash: u64,
        peer: u32,
        message: &Envelope,
        fingerprint: u64,
        origin: &Origin,
        now: Now,
    ) -> Result<Option<Admission>, Refusal> {
        self.forget_old_answers(now);
        let Some(slot) = self.requests.find_by_peer(hash, peer, message.id()) else { return Ok(None) };
        let key = self.requests.key(slot);
        let entry = self.requests.entry(slot);
        if entry.fingerprint != fingerprint {
            let text = "metadata.id: the same id came before with another kind, type or data";
            return Err(Refusal::new(Failure::Conflict, text));
        }
        self.counters.duplicates += 1;
        if let Some(answer) = self.requests.answer(slot) {
            return Ok(Some(Admission::Answered(answer)));
        }
        if self.requests.is_finished(slot) {
            let text = "metadata.id: this request was done before, and its answer is no longer remembered";
            return Err(Refusal { started: Started::Yes, ..Refusal::new(Failure::Conflict, text) });
        }
        let duplicates_max = self.config.limits.duplicates_max;
        let Some(live) = self.requests.get_mut(key) else { return Ok(Some(Admission::Joined)) };
        match origin {
            Origin::Connection(connection) if live.waiters.len() < duplicates_max => {
                live.waiters.push(*connection);
            }
            Origin::Connection(_) => {
                let text = format!("metadata.id: more than {duplicates_max} repetitions wait for one answer");
                let started = if live.attempts > 0 { Started::Yes } else { Started::No };
                return Err(Refusal { started, ..Refusal::new(Failure::LimitExceeded, text) });
            }
            // An actor is told once, however often it asked: it listens to one place. That is its latest life.
            Origin::Actor(_) => live.origin = origin.clone(),
            Origin::Delegate(_) => {}
        }
        Ok(Some(Admission::Joined))
    }

    fn check_request_limits(&self, peer: u32) -> Result<(), Refusal> {
        let limits = &self.config.limits;
        if self.peers.get(peer).requests >= limits.peer_requests_max {
            let text = format!(
                "more than {} unfinished requests of one peer (limits.peer_requests_max)",
                limits.peer_requests_max
            );
            return Err(Refusal::new(Failure::LimitExceeded, text));
        }
        if self.requests.live() >= limits.requests_max {
            let text =
                format!("more than {} unfinished requests in all (limits.requests_max)", limits.requests_max);
            return Err(Refusal::new(Failure::Overloaded, text));
        }
        Ok(())
    }

    /// When a request must have ended, and how deep it stands in its chain of causes.
    ///
    /// A request made on behalf of another ends no later than that one.
    fn deadline(
        &self,
        message: &Envelope,
        cause: Option<RequestKey>,
        now: Now,
    ) -> Result<(i64, u32), Refusal> {
        let timeout_ms = message.timeout_ms().unwrap_or(self.config.default_timeout_ms);
        if timeout_ms > self.config.timeout_ms_max {
            let text =
                format!("metadata.timeout: must be at most {} milliseconds", self.config.timeout_ms_max);
            return Err(Refusal::new(Failure::Schema, text));
        }
        let deadline_ns = deadline_after(now.mono_ns, ns(timeout_ms));
        let Some(cause) = cause.and_then(|cause| self.requests.get(cause)) else {
            return Ok((deadline_ns, 0));
        };
        let depth = cause.depth + 1;
        if depth > self.config.limits.chain_max {
            let text = format!("more than {} requests cause each other", self.config.limits.chain_max);
            return Err(Refusal::new(Failure::Deadlock, text));
        }
        Ok((deadline_ns.min(cause.deadline_ns), depth))
    }

    /// Refuses what would go beyond twice the bound of a sender's queue.
    pub(crate) fn check_lane(&self, queue: u32) -> Result<(), Refusal> {
        let (queue, limits) = (self.lanes.queue(queue), &self.config.limits);
        if queue.len() >= limits.lane_messages_max.saturating_mul(2)
            || queue.bytes() >= limits.lane_bytes_max.saturating_mul(2)
        {
            let text = format!(
                "{} messages of this sender are waiting already (limits.lane_messages_max, limits.lane_bytes_max)",
                queue.len()
            );
            return Err(Refusal::new(Failure::LimitExceeded, text));
        }
        Ok(())
    }

    /// Puts a message into the User lane, and pauses its sender at the bound.
    pub(crate) fn enqueue(&mut self, queue: u32, item: Item, bytes: usize) {
        self.lanes.push(queue, item, bytes);
        let limits = &self.config.limits;
        let it = self.lanes.queue_mut(queue);
        if it.paused || (it.len() <= limits.lane_messages_max && it.bytes() <= limits.lane_bytes_max) {
            return;
        }
        it.paused = true;
        self.tell_paused(queue);
    }

    /// Resumes reading from a sender whose queue has shrunk to half its bound.
    pub(crate) fn relieve(&mut self, queue: u32) {
        let limits = &self.config.limits;
        let it = self.lanes.queue_mut(queue);
        if it.paused && it.len() <= limits.lane_messages_max / 2 && it.bytes() <= limits.lane_bytes_max / 2 {
            it.paused = false;
            self.tell_paused(queue);
        }
        if self.lanes.queue(queue).window.is_some() {
            self.mind_window(queue);
        }
    }

    fn tell_paused(&mut self, queue: u32) {
        let (sender, paused) = (self.lanes.queue(queue).sender, self.lanes.queue(queue).paused);
        match sender {
            Sender::Connection(connection) => self.update_reading(connection),
            // An actor on its way up is told when it is there: the daemon knows nothing of earlier lives.
            Sender::Actor(capability) if self.actors[capability as usize].state != ActorState::Up => {}
            Sender::Actor(capability) => {
                let source = Source::Actor(self.actors[capability as usize].reference(capability));
                self.effects.push(if paused {
                    Effect::PauseReading { source }
                } else {
                    Effect::ResumeReading { source }
                });
            }
            Sender::Loop => {}
        }
    }
}
