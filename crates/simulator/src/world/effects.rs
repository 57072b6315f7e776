//! What the kernel wants done, and whether it may want that.

use mainspring_kernel::{
    ActorRef, CloseReason, ConnectionId, ConsoleRefused, Effect, SettingsRefused, Source,
};
use mainspring_message::{Envelope, Failure, Kind};

use crate::world::actor::Presence;
use crate::world::tokens::{Sender, Token, token_of};
use crate::world::{Checked, Question, Violation, World, must};

impl World {
    pub(crate) fn carry_out_one(&mut self, effect: Effect) -> Checked {
        must!(self.ended.is_none(), "an effect after the exit: {effect:?}");
        match effect {
            Effect::Deliver { actor, message } => self.deliver(actor, message),
            Effect::Write { connection, message } => self.write(connection, &message),
            Effect::PauseReading { source } => self.pause(source, true),
            Effect::ResumeReading { source } => self.pause(source, false),
            Effect::Close { connection, reason } => self.close(connection, reason),
            Effect::Spawn { actor } => self.spawn(actor),
            Effect::Attach { actor } => {
                must!(self.is_there(actor), "{actor} is to be attached, but it is not there");
                self.questions.push(Question::Attach(actor));
                Ok(())
            }
            Effect::Stop { actor } => {
                must!(self.is_there(actor), "{actor} is to be stopped, but it is not there");
                self.actors[actor.capability.index()].stopping = true;
                let over_by_ns = self.now.mono_ns + self.scenario.config.drain_ms as i64 * 1_000_000;
                self.ledgers[actor.capability.index()].over_by_ns = Some((actor.incarnation, over_by_ns));
                self.questions.push(Question::Exit(actor));
                Ok(())
            }
            Effect::Terminate { actor } => self.terminate(actor),
            Effect::StartAdapter { adapter } => {
                self.questions.push(Question::Adapter(adapter));
                Ok(())
            }
            Effect::StopAdapter { .. } => {
                self.adapter_stopped = true;
                Ok(())
            }
            Effect::ReadSettings { ticket } => {
                self.kernel.settings_read(ticket, Err(SettingsRefused::Nothing), self.now);
                Ok(())
            }
            Effect::OpenConsole { ticket, .. } => {
                let refused = ConsoleRefused::Nowhere("a simulation has no console".into());
                self.kernel.console_opened(ticket, Err(refused), self.now);
                Ok(())
            }
            Effect::FetchNodeTrace { ticket, .. } => {
                self.kernel.node_trace_fetched(ticket, Err("there is one node".into()), self.now);
                Ok(())
            }
            Effect::CollectStats { ticket } => {
                self.questions.push(Question::Stats(ticket));
                Ok(())
            }
            Effect::Ready { summary } => {
                must!(!self.booted, "booted twice");
                must!(
                    summary.type_name() == "Sys.BootComplete",
                    "the boot summary is a {}",
                    summary.type_name()
                );
                self.booted = true;
                Ok(())
            }
            Effect::BootFailed { report } => {
                must!(!self.booted, "the boot failed after it completed: {report:?}");
                Ok(())
            }
            Effect::Log { .. } => Ok(()),
            Effect::Record(_) | Effect::After { .. } => {
                must!(false, "a kernel without a journal records facts");
                Ok(())
            }
            Effect::Exit { code } => {
                self.ended = Some(code);
                Ok(())
            }
        }
    }

    fn is_there(&self, actor: ActorRef) -> bool {
        self.actors
            .get(actor.capability.index())
            .is_some_and(|it| it.incarnation == actor.incarnation && it.presence != Presence::Absent)
    }

    fn spawn(&mut self, actor: ActorRef) -> Checked {
        self.counts.spawns += 1;
        let restart = &self.scenario.plan.capabilities[actor.capability.index()].restart;
        let it = &mut self.actors[actor.capability.index()];
        must!(actor.incarnation == it.incarnation + 1, "{actor} follows incarnation {}", it.incarnation);
        must!(it.presence == Presence::Absent, "{actor} is spawned while its earlier incarnation goes on");
        let ledger = &mut self.ledgers[actor.capability.index()];
        must!(!ledger.removed, "{actor} is spawned though it was removed");
        if let Some(failed_ns) = it.failed_ns.filter(|_| self.resets_pending == 0 && !ledger.succession) {
            let pause_ns =
                restart.backoff_ms.min(restart.backoff_max_ms).min(restart.probe_ms) as i64 * 1_000_000;
            let rested_ns = self.now.mono_ns - failed_ns;
            must!(
                rested_ns >= pause_ns,
                "{actor} is restarted {rested_ns} ns after a failure, not {pause_ns}"
            );
        }
        it.begin(actor.incarnation);
        ledger.begin(&self.scenario.plan.capabilities[actor.capability.index()]);
        self.questions.push(Question::Spawn(actor));
        Ok(())
    }

    fn terminate(&mut self, actor: ActorRef) -> Checked {
        let now_ns = self.now.mono_ns;
        let it = &mut self.actors[actor.capability.index()];
        if it.incarnation == actor.incarnation && it.presence != Presence::Absent {
            it.failed_ns = Some(now_ns);
            it.end();
        }
        // Whether the floors below have answered for it or not, nobody waits for the answer.
        self.questions.retain(|question| match question {
            Question::Spawn(other) | Question::Attach(other) | Question::Exit(other) => *other != actor,
            Question::Adapter(_) | Question::Stats(_) => true,
        });
        Ok(())
    }

    fn pause(&mut self, source: Source, pause: bool) -> Checked {
        let paused = match source {
            Source::Connection(connection) => {
                let Some(client) = self.clients.iter_mut().find(|client| client.connection == connection)
                else {
                    return Err(Violation(format!("{connection} is gone, but its reading is to change")));
                };
                &mut client.paused
            }
            Source::Actor(actor) => {
                let it = &mut self.actors[actor.capability.index()];
                if it.incarnation != actor.incarnation || it.presence == Presence::Absent {
                    return Ok(());
                }
                &mut it.paused
            }
        };
        must!(*paused != pause, "{source:?} is {} twice", if pause { "paused" } else { "resumed" });
        *paused = pause;
        Ok(())
    }

    fn close(&mut self, connection: ConnectionId, reason: CloseReason) -> Checked {
        let Some(at) = self.clients.iter().position(|client| client.connection == connection) else {
            return Err(Violation(format!("{connection} is closed, but it is gone")));
        };
        if reason == CloseReason::Shutdown {
            let owed = crate::world::check::owed_to(&self.clients[at]);
            must!(owed == 0, "{connection} is closed by the shutdown while {owed} outcomes are owed to it");
        }
        self.clients.remove(at);
        Ok(())
    }

    fn deliver(&mut self, actor: ActorRef, message: Envelope) -> Checked {
        self.counts.deliveries += 1;
        let capability = actor.capability.index();
        let it = &self.actors[capability];
        must!(
            self.is_there(actor) && it.presence == Presence::Up,
            "delivered to {actor}, which is not up: {message:?}"
        );
        must!(!it.blocked, "delivered to {actor}, which takes no more: {message:?}");
        must!(!it.stopping, "delivered to {actor}, whose input was ended: {message:?}");
        let held =
            self.ledgers[capability].held.is_some_and(|(incarnation, _)| incarnation == actor.incarnation);
        must!(
            !held || message.kind().is_outcome(),
            "delivered to {actor}, which is to be replaced: {message:?}"
        );
        match message.kind() {
            Kind::Command | Kind::Query => self.deliver_request(capability, message),
            Kind::Event => self.deliver_event(capability, message),
            Kind::Reply | Kind::Error => self.deliver_outcome(capability, message),
        }
    }

    fn deliver_request(&mut self, capability: usize, message: Envelope) -> Checked {
        let ledger = &self.ledgers[capability];
        let expected = format!("Cap{capability}.");
        must!(
            message.type_name().starts_with(&expected),
            "cap{capability} got {message:?}, which is not its own"
        );
        let concurrency = ledger.contract.limits.concurrency as usize;
        let attempts = ledger.attempts_max;
        let it = &mut self.actors[capability];
        let same_id = it.in_progress.iter().any(|held| held.id() == message.id());
        must!(
            !same_id,
            "cap{capability} has two requests with the id {}: whose is the answer?",
            message.id()
        );
        it.in_progress.push(message.clone());
        let held = it.in_progress.len();
        must!(held <= concurrency, "cap{capability} has {held} requests in progress, of {concurrency}");
        self.check_delivery(capability, &message, attempts)
    }

    fn deliver_event(&mut self, capability: usize, message: Envelope) -> Checked {
        let manifest = &self.scenario.plan.capabilities[capability];
        let wanted = manifest.subscribes.iter().any(|wanted| wanted == message.type_name());
        must!(wanted, "cap{capability} got an event that it does not want: {message:?}");
        self.actors[capability].taken = Some(message.clone());
        self.check_delivery(capability, &message, 1)
    }

    fn deliver_outcome(&mut self, capability: usize, message: Envelope) -> Checked {
        let causation = message.causation().unwrap_or("").to_owned();
        let it = &mut self.actors[capability];
        let Some(answers) = it.asked.get_mut(&causation) else {
            return Err(Violation(format!(
                "cap{capability} got an outcome of something it did not ask: {message:?}"
            )));
        };
        *answers += 1;
        must!(*answers == 1, "cap{capability} got {answers} outcomes of {causation}");
        it.taken = Some(message);
        Ok(())
    }

    /// Checks where a message comes from, when, how often and in which order.
    fn check_delivery(&mut self, capability: usize, message: &Envelope, attempts: u32) -> Checked {
        let Some(number) = token_of(message) else {
            return Err(Violation(format!("nobody sent {message:?}")));
        };
        let (now_ns, requeues) = (self.now.mono_ns, self.counts.requeues as u32);
        let Some(token) = self.tokens.get_mut(number) else {
            return Err(Violation(format!("nobody sent {message:?}")));
        };
        let deliveries = token.deliveries.entry(capability).or_default();
        *deliveries += 1;
        let count = *deliveries;
        let earliest_ns = match token.period_ns {
            // A firing may be delivered `attempts` times, so only the first of them must wait for
            // its tick.
            Some(period_ns) if requeues == 0 && attempts == 1 => {
                token.due_ns + period_ns * i64::from(count - 1)
            }
            _ => token.due_ns,
        };
        must!(now_ns >= earliest_ns, "{} ns early: {message:?}", earliest_ns - now_ns);
        let most =
            if token.period_ns.is_some() { u32::MAX } else { token.sends * attempts + requeues * attempts };
        must!(count <= most, "delivered {count} times to cap{capability}, of {most}: {message:?}");
        self.check_once(number, message)?;
        self.check_lineage(number, message)?;
        self.check_order(number, capability, message)
    }

    /// A command that was answered is not done again within the window, unless the kernel says that
    /// it forgot some.
    fn check_once(&self, number: u64, message: &Envelope) -> Checked {
        let replied =
            self.tokens.get(number).filter(|token| token.id == message.id()).and_then(|it| it.replied);
        let Some((replied_ns, forgotten)) = replied else { return Ok(()) };
        let window_ns = self.scenario.config.window_ms as i64 * 1_000_000;
        must!(
            self.now.mono_ns >= replied_ns.saturating_add(window_ns)
                || self.kernel.counters().window_forgotten > forgotten,
            "done again {} ns after it was answered: {message:?}",
            self.now.mono_ns - replied_ns
        );
        Ok(())
    }

    fn check_lineage(&self, number: u64, message: &Envelope) -> Checked {
        let Some(token) = self.tokens.get(number) else { return Ok(()) };
        let (expected, found) = (token.correlation.as_deref(), message.correlation());
        // A dead letter put back without a workflow joins that of the request which does so.
        let joined = expected.is_none() && self.counts.requeues > 0 && message.id() != token.id;
        must!(
            joined || expected == found,
            "the correlation became {found:?} instead of {expected:?}: {message:?}"
        );
        must!(
            token.sender != Sender::Schedule
                || self.counts.requeues > 0
                || message.causation() == Some(&token.id),
            "a scheduled message does not name its schedule {}: {message:?}",
            token.id
        );
        Ok(())
    }

    /// First in, first out, for what one sender sent to one actor once.
    fn check_order(&mut self, number: u64, capability: usize, message: &Envelope) -> Checked {
        let Some(Token { sender, sends, deliveries, id, .. }) = self.tokens.get(number) else {
            return Ok(());
        };
        let first_time = *sends == 1 && deliveries[&capability] == 1 && message.id() == id;
        if *sender == Sender::Schedule || !first_time || self.counts.requeues > 0 {
            return Ok(());
        }
        let sender = *sender;
        if let Some(before) = self.tokens.follow(sender, capability, number) {
            must!(
                before < number,
                "cap{capability} got {number} after {before} from {sender:?}: {message:?}"
            );
        }
        Ok(())
    }

    fn write(&mut self, connection: ConnectionId, message: &Envelope) -> Checked {
        let Some(at) = self.clients.iter().position(|client| client.connection == connection) else {
            return Err(Violation(format!("written to {connection}, which is gone: {message:?}")));
        };
        let client = &mut self.clients[at];
        client.written_ns = self.now.mono_ns;
        if client.unread_bytes <= self.scenario.config.limits.egress_bytes_max {
            client.moved_ns = self.now.mono_ns;
        }
        client.unread_bytes += message.line().len() + 1;
        self.check_lane(message)?;
        let client = &self.clients[at];
        match message.kind() {
            Kind::Command | Kind::Query => Err(Violation(format!("a client was asked: {message:?}"))),
            Kind::Event => {
                let told = message.type_name() == "Sys.EventsDropped";
                let wanted = client.hears(message.type_name());
                must!(told || wanted, "{connection} got an event that it does not want: {message:?}");
                match token_of(message) {
                    Some(number) if !message.type_name().starts_with("Sys.") => {
                        self.check_lineage(number, message)
                    }
                    _ => Ok(()),
                }
            }
            Kind::Reply | Kind::Error => self.outcome(at, message),
        }
    }

    fn outcome(&mut self, at: usize, message: &Envelope) -> Checked {
        self.counts.outcomes += 1;
        let refused = message.data().contains("\"originalType\":\"Sys.ResetActor\"");
        let about_reset =
            message.type_name() == "Sys.ResetActor" || (message.kind() == Kind::Error && refused);
        self.resets_pending -= u64::from(about_reset);
        let client = &mut self.clients[at];
        // An error about a line whose id could not be read names none.
        let nameless = message.kind() == Kind::Error && message.data().contains("\"originalId\":null");
        let Some(causation) = message.causation().filter(|_| !nameless) else {
            must!(
                client.unreadable > 0,
                "an error about nothing that {} sent: {message:?}",
                client.connection
            );
            client.unreadable -= 1;
            return Ok(());
        };
        let Some(debt) = client.debts.get_mut(causation) else {
            must!(
                client.has_delegates,
                "{} got an outcome that it is not owed: {message:?}",
                client.connection
            );
            return self.delegated_outcome(at, message);
        };
        debt.answers += 1;
        let (answers, most) = (debt.answers, debt.requests + debt.others);
        must!(answers <= most, "{answers} outcomes for {most} messages with the id {causation}: {message:?}");
        must!(
            debt.requests > 0 || message.kind() == Kind::Error,
            "a reply to what is no request: {message:?}"
        );
        if answers == most {
            client.debts.remove(causation);
        }
        let peer = client.peer;
        let expected = crate::world::sending::correlation_of(causation);
        let readable = message.kind() == Kind::Reply || message.type_name() != Failure::Schema.type_name();
        must!(
            !readable || expected.is_none() || message.correlation() == expected.as_deref(),
            "the correlation became {:?} instead of {expected:?}: {message:?}",
            message.correlation()
        );
        must!(
            !readable || expected.is_none() || message.traceparent() == Some(crate::world::sending::SPAN),
            "the span that asked is lost: {message:?}"
        );
        if message.type_name() == Failure::Timeout.type_name() {
            let earliest_ns = self.timeouts.get(&(peer, causation.to_owned())).copied().unwrap_or(i64::MIN);
            must!(
                self.now.mono_ns >= earliest_ns,
                "timed out {} ns early: {message:?}",
                earliest_ns - self.now.mono_ns
            );
        }
        if let (Kind::Reply, Some(number)) = (message.kind(), token_of(message)) {
            let Some(token) = self.tokens.get(number) else {
                return Err(Violation(format!("a reply to nothing: {message:?}")));
            };
            let own = token.id == causation && token.peer == Some(peer);
            must!(own, "the answer to {token:?} went to {}: {message:?}", self.clients[at].connection);
            return self.note_reply(number, message);
        }
        Ok(())
    }

    /// Notes when a command was answered; and that the answer to a query is not given again later.
    fn note_reply(&mut self, number: u64, message: &Envelope) -> Checked {
        let turn = self.counts.turns;
        // At a bound of one or two it may go in the very turn in which it was answered.
        let forgotten = self.forgotten;
        if message.type_name().ends_with(".Ask") {
            let told = *self.query_replies.entry(message.id().to_owned()).or_insert(turn);
            must!(told == turn, "the answer to a query was remembered: {message:?}");
        } else if let Some(token) = self.tokens.get_mut(number)
            && token.replied.is_none()
        {
            token.replied = Some((token.answered_ns, forgotten));
        }
        Ok(())
    }

    /// The outcome of a schedule or of a dead letter put back, under an id that only the kernel
    /// knows.
    fn delegated_outcome(&self, at: usize, message: &Envelope) -> Checked {
        if message.kind() == Kind::Reply
            && let Some(token) = token_of(message).and_then(|number| self.tokens.get(number))
            && token.sender == Sender::Schedule
        {
            let own = token.peer == Some(self.clients[at].peer);
            must!(
                own || self.counts.requeues > 0,
                "the outcome of {token:?} went to somebody else: {message:?}"
            );
        }
        Ok(())
    }
}
