//! How actors are kept alive: faults, crashes, restarts with a budget, and what becomes of the work.

use crate::api::effect::{Effect, Level};
use crate::api::ids::{ActorRef, Now};
use crate::api::input::ActorExit;
use crate::api::manifest::RestartWhen;
use crate::flow::lanes::Signal;
use crate::kernel::{Job, Kernel, Life, ns};
use crate::records::dead_letters::Owner;
use crate::requests::{Phase, RequestKey};
use crate::supervision::actors::{Actor, ActorState, Mail, SaidIds};
use crate::time::wheel::deadline_after;
use mainspring_message::Failure;

/// A probe's pause doubles up to this many times.
const PROBE_DOUBLINGS_MAX: u32 = 4;

impl Kernel {
    /// The actor, if this is its living incarnation.
    pub(crate) fn living(&mut self, actor: ActorRef) -> Option<&mut Actor> {
        let it = self.actors.get_mut(actor.capability as usize)?;
        (it.incarnation == actor.incarnation && it.state == ActorState::Up).then_some(it)
    }

    /// The actor did something invalid: it is ended at once, and handled in the System lane.
    pub(crate) fn fault(&mut self, actor: ActorRef, reason: String) {
        if self.living(actor).is_none() {
            return;
        }
        self.counters.actor_faults += 1;
        self.effects.push(Effect::Terminate { actor });
        self.give_up(actor, Failure::ActorFault, reason);
    }

    /// The same, over a line that is quoted to whoever may see it.
    pub(crate) fn fault_over(&mut self, actor: ActorRef, line: &[u8], reason: String) {
        if let Some(it) = self.living(actor) {
            it.last_words.blame(line);
            self.fault(actor, reason);
        }
    }

    /// An actor wrote a line to its standard error, or what stands for that. It is kept for a while: if the actor fails,
    /// the operator is told of its last lines.
    pub fn actor_complained(&mut self, actor: ActorRef, line: &[u8], _now: Now) {
        let it = self.actors.get_mut(actor.capability as usize);
        if let Some(it) = it.filter(|it| it.incarnation == actor.incarnation) {
            it.last_words.hear(line);
        }
    }

    fn give_up(&mut self, actor: ActorRef, failure: Failure, reason: String) {
        let it = &mut self.actors[actor.capability as usize];
        it.state = ActorState::Failing;
        it.faults += 1;
        let ActorRef { capability, incarnation } = actor;
        self.lanes.system.push_back(Signal::Fault { capability, incarnation, failure, reason });
    }

    /// An actor ended.
    pub fn actor_exited(&mut self, actor: ActorRef, exit: ActorExit, now: Now) {
        let Some(it) = self.actors.get_mut(actor.capability as usize) else { return };
        if it.incarnation != actor.incarnation {
            return;
        }
        match it.state {
            ActorState::Spawning | ActorState::Attaching if self.life == Life::Booting => {
                let text = format!("{} ended during the boot: {exit}", it.manifest.id);
                return self.boot_failed_in_phase(&text, now);
            }
            ActorState::Spawning | ActorState::Attaching | ActorState::Up => {}
            _ => return,
        }
        if self.life == Life::Flushing {
            it.state = ActorState::Stopped;
            return;
        }
        if it.state == ActorState::Up && it.succession.input_ended() {
            let failure = if let ActorExit::Failed(reason) = exit { Some(reason) } else { None };
            return self.retired(actor.capability, failure.as_deref(), now);
        }
        let retiring = it.succession.retiring.is_some();
        let idle = it.in_flight.is_empty() && it.at_risk == 0;
        if exit == ActorExit::Done && it.manifest.restart.when == RestartWhen::OnFailure && idle && !retiring
        {
            it.state = ActorState::Stopped;
            let text = format!("{} ended and is not to be restarted", it.manifest.id);
            self.log_about(actor.capability, Level::Info, text);
            self.settle_hands(actor.capability, Failure::ActorCrash, "it ended by itself", now);
            return self.empty_mailbox(actor.capability, now);
        }
        self.counters.actor_crashes += 1;
        self.give_up(actor, Failure::ActorCrash, exit.to_string());
    }

    /// An actor kept a request long after its deadline.
    pub(crate) fn hung(&mut self, capability: u32, incarnation: u32) {
        let actor = ActorRef { capability, incarnation };
        let hang_ms = self.config.hang_ms;
        if self.living(actor).is_some_and(|it| !it.overdue.is_empty()) {
            self.fault(actor, format!("no outcome within {hang_ms} ms after the deadline of a request"));
        }
    }

    /// Handles a fault from the System lane: answers, dead letters, then a restart or a rest.
    pub(crate) fn handle_fault(
        &mut self,
        capability: u32,
        incarnation: u32,
        failure: Failure,
        reason: &str,
        now: Now,
    ) {
        let it = &self.actors[capability as usize];
        if it.incarnation != incarnation || it.state != ActorState::Failing {
            return;
        }
        let id = it.manifest.id.clone();
        let quote = it.last_words.quote();
        self.log_about(capability, Level::Warn, format!("{id}: {}: {reason}{quote}", failure.type_name()));
        let data = serde_json::json!({
            "capabilityId": id,
            "incarnation": incarnation,
            "code": failure.code(),
            "message": reason,
        });
        self.announce(failure.type_name(), data, now);
        self.settle_hands(capability, failure, reason, now);
        if self.actors[capability as usize].succession.retiring.is_some() {
            return self.next_life(capability, now);
        }
        self.plan_restart(capability, now);
    }

    /// What was in the failed actor's hands is retried or answered; events it took since its last output are dead.
    pub(crate) fn settle_hands(&mut self, capability: u32, failure: Failure, reason: &str, now: Now) {
        let it = &mut self.actors[capability as usize];
        let in_flight = std::mem::take(&mut it.in_flight);
        let overdue = std::mem::take(&mut it.overdue);
        let recent = std::mem::take(&mut it.recent);
        it.recent_bytes = 0;
        let answers = std::mem::take(&mut it.answers);
        let id = it.manifest.id.clone();
        it.answers_bytes = 0;
        it.at_risk = 0;
        it.blocked = false;
        for request in overdue {
            self.wheel.cancel(request.hang_timer);
        }
        for key in in_flight {
            self.settle_request(capability, key, failure, reason, now);
        }
        for taken in recent.into_iter().filter(|taken| taken.at_risk) {
            let reason = format!("{id} failed after it took the event: {reason}");
            self.bury(Owner::Capability(capability), taken.message, &reason, 1, now);
        }
        for answer in answers {
            self.unclaimed(Owner::Capability(capability), answer, now);
        }
    }

    fn settle_request(&mut self, capability: u32, key: RequestKey, failure: Failure, reason: &str, now: Now) {
        let policy = self.actors[capability as usize].manifest.retry.clone();
        let Some(live) = self.requests.get(key) else { return };
        let takes = self.next_life_takes(capability, &live.message);
        let Some(live) = self.requests.get_mut(key) else { return };
        if live.attempts < policy.attempts && takes && self.life != Life::Flushing {
            let pause_ms = doubled(policy.backoff_ms, live.attempts - 1);
            let deadline = deadline_after(now.mono_ns, ns(pause_ms));
            live.phase = Phase::Retrying(self.wheel.schedule(deadline, Job::Retry(key)));
            return;
        }
        let (message, attempts) = (live.message.clone(), live.attempts);
        let kept_anyway = live.origin.is_delegate();
        live.phase = Phase::Answering;
        let connection = live.origin.connection();
        let it = &self.actors[capability as usize];
        let mut words = format!("{} failed over the request: {reason}", it.manifest.id);
        // Anybody may look at dead letters, so those quote nothing.
        if !kept_anyway {
            self.bury(Owner::Capability(capability), message, &words, attempts, now);
        }
        if connection.and_then(|id| self.connections.get(&id)).is_some_and(|client| client.is_operator) {
            words += &self.actors[capability as usize].last_words.told();
        }
        self.fail(key, failure, &words, now);
    }

    /// Restarts within the budget; beyond it, rests until a probe.
    fn plan_restart(&mut self, capability: u32, now: Now) {
        if self.is_ending() && self.life != Life::Draining {
            self.actors[capability as usize].state = ActorState::Stopped;
            return;
        }
        let it = &mut self.actors[capability as usize];
        let policy = &it.manifest.restart;
        let window_ns = ns(policy.window_ms);
        if now.mono_ns.saturating_sub(it.since_ns) >= window_ns {
            it.on_probation = false;
            it.probes = 0;
        }
        while it.restarts.front().is_some_and(|at| at.saturating_add(window_ns) <= now.mono_ns) {
            it.restarts.pop_front();
        }
        let spent = it.restarts.len() as u32;
        if policy.when == RestartWhen::Never || it.on_probation || spent >= policy.max_restarts {
            return self.rest(capability, now);
        }
        let pause_ms = doubled(policy.backoff_ms, spent).min(policy.backoff_max_ms);
        let deadline = deadline_after(now.mono_ns, ns(pause_ms));
        it.state = ActorState::Backoff(self.wheel.schedule(deadline, Job::Restart(capability)));
    }

    /// The capability is unhealthy: what waits is answered, and a probe is planned.
    fn rest(&mut self, capability: u32, now: Now) {
        let it = &mut self.actors[capability as usize];
        let policy = &it.manifest.restart;
        let probe = (policy.when != RestartWhen::Never).then(|| {
            let pause_ms = doubled(policy.probe_ms, it.probes.min(PROBE_DOUBLINGS_MAX));
            let deadline = deadline_after(now.mono_ns, ns(pause_ms));
            (pause_ms, self.wheel.schedule(deadline, Job::Restart(capability)))
        });
        it.state = ActorState::Unhealthy(probe.map(|(_, timer)| timer));
        it.probes += 1;
        let id = it.manifest.id.clone();
        let next = match probe {
            Some((pause_ms, _)) => format!("it is tried again in {} s", pause_ms.div_ceil(1000)),
            None => "it is not tried again".to_owned(),
        };
        let text = format!("{id} is unhealthy; {next}, or at once with Sys.ResetActor");
        self.log_about(capability, Level::Error, text);
        let data =
            serde_json::json!({ "capabilityId": id, "probeInMs": probe.map(|(pause_ms, _)| pause_ms) });
        self.announce("Sys.ActorUnhealthy", data, now);
        self.empty_mailbox(capability, now);
    }

    /// Answers what waits in the mailbox of an actor that will not come back soon.
    pub(crate) fn empty_mailbox(&mut self, capability: u32, now: Now) {
        let it = &mut self.actors[capability as usize];
        let (failure, text) = match self.life {
            Life::Flushing => (Failure::Unhealthy, "the loop is shutting down".to_owned()),
            _ => it.trouble(),
        };
        let mailbox = std::mem::take(&mut it.mailbox);
        for mail in mailbox {
            match mail {
                Mail::Request(key)
                    if self.requests.get(key).is_some_and(|live| live.phase == Phase::Mailbox) =>
                {
                    self.fail(key, failure, &text, now);
                }
                Mail::Request(_) => {}
                Mail::Event(event) => {
                    let it = &mut self.actors[capability as usize];
                    it.mail_len -= 1;
                    it.mail_bytes -= event.line().len();
                    self.bury(Owner::Capability(capability), event, &text, 0, now);
                }
            }
        }
    }

    /// The pause before a restart or probe is over.
    pub(crate) fn respawn(&mut self, capability: u32, now: Now) {
        let it = &mut self.actors[capability as usize];
        match it.state {
            ActorState::Backoff(_) => it.restarts.push_back(now.mono_ns),
            ActorState::Unhealthy(_) => it.on_probation = true,
            _ => return,
        }
        self.counters.actor_restarts += 1;
        self.spawn(capability, now);
    }

    /// Asks for the next life of an actor.
    pub(crate) fn spawn(&mut self, capability: u32, now: Now) {
        let it = &mut self.actors[capability as usize];
        if let Some(next) = it.succession.next.take() {
            it.adopt(*next);
        }
        it.incarnation += 1;
        it.said = SaidIds::default();
        it.last_words.forget();
        it.state = ActorState::Spawning;
        it.since_ns = now.mono_ns;
        let actor = it.reference(capability);
        self.effects.push(Effect::Spawn { actor });
    }

    /// Answers [`Effect::Spawn`].
    pub fn actor_spawned(&mut self, actor: ActorRef, result: Result<(), String>, now: Now) {
        if self.life == Life::Booting {
            return self.boot_spawned(actor, result, now);
        }
        if !self.is_in_state(actor, ActorState::Spawning) {
            return;
        }
        match result {
            Ok(()) => {
                self.actors[actor.capability as usize].state = ActorState::Attaching;
                self.effects.push(Effect::Attach { actor });
            }
            Err(reason) => self.start_failed(actor, &reason),
        }
    }

    /// Answers [`Effect::Attach`].
    pub fn actor_attached(&mut self, actor: ActorRef, result: Result<(), String>, now: Now) {
        if self.life == Life::Booting {
            return self.boot_attached(actor, result, now);
        }
        if !self.is_in_state(actor, ActorState::Attaching) {
            return;
        }
        match result {
            Ok(()) => self.actor_up(actor, now),
            Err(reason) => {
                self.effects.push(Effect::Terminate { actor });
                self.start_failed(actor, &reason);
            }
        }
    }

    fn start_failed(&mut self, actor: ActorRef, reason: &str) {
        self.counters.actor_crashes += 1;
        self.give_up(actor, Failure::ActorCrash, format!("it could not be started: {reason}"));
    }

    pub(crate) fn actor_up(&mut self, actor: ActorRef, now: Now) {
        let it = &mut self.actors[actor.capability as usize];
        it.state = ActorState::Up;
        it.since_ns = now.mono_ns;
        let paused = self.lanes.queue(it.queue).paused;
        if self.life != Life::Booting {
            self.announce_life(actor, now);
        }
        if paused {
            // The daemon knows nothing of earlier lives.
            self.effects.push(Effect::PauseReading { source: crate::api::ids::Source::Actor(actor) });
        }
        self.pump(actor.capability, now);
    }

    pub(crate) fn is_in_state(&self, actor: ActorRef, state: ActorState) -> bool {
        self.actors
            .get(actor.capability as usize)
            .is_some_and(|it| it.incarnation == actor.incarnation && it.state == state)
    }

    /// Forgets the failures of a capability and starts it at once if it does not run.
    pub(crate) fn reset_actor(&mut self, capability: u32, now: Now) {
        let it = &mut self.actors[capability as usize];
        it.restarts.clear();
        it.on_probation = false;
        it.probes = 0;
        match it.state {
            ActorState::Backoff(timer) | ActorState::Unhealthy(Some(timer)) => {
                self.wheel.cancel(timer);
            }
            ActorState::Unhealthy(None) | ActorState::Stopped => {}
            _ => return,
        }
        self.counters.actor_restarts += 1;
        self.spawn(capability, now);
    }
}

/// `ms`, doubled so many times.
fn doubled(ms: u64, times: u32) -> u64 {
    // No pause stays none, however often it is doubled.
    if ms == 0 {
        return 0;
    }
    1u64.checked_shl(times).and_then(|factor| ms.checked_mul(factor)).unwrap_or(u64::MAX >> 1)
}
