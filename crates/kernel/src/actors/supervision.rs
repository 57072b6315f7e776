//! How actors are kept alive: faults, crashes, restarts with a budget, and the states between them.

use super::last_words::LastFault;
use super::succession::News;
use super::{Actor, Actors};
use crate::api::effect::{Effect, Level};
use crate::api::ids::{ActorRef, CapabilityId, Source};
use crate::api::input::ActorExit;
use crate::api::manifest::{RestartWhen, RetryPolicy};
use crate::lifecycle::Stage;
use crate::out::{Out, doubled, ns};
use crate::time::Job;
use crate::time::wheel::TimerKey;
use mainspring_message::Failure;
use serde_json::json;
use std::collections::VecDeque;

/// A probe's pause doubles up to this many times.
const PROBE_DOUBLINGS_MAX: u32 = 4;

/// Where an actor is between its spawn and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActorState {
    /// Not spawned yet.
    Down,
    /// [`Effect::Spawn`] is out.
    Spawning,
    /// [`Effect::Attach`] is out, or the boot has not come to it.
    Attaching,
    /// Working.
    Up,
    /// It failed; the signal is in the System lane.
    Failing,
    /// Waiting for its restart.
    Backoff(TimerKey),
    /// Failed too often; a probe may be planned.
    Unhealthy(Option<TimerKey>),
    /// Ended as it may, and not to be started again.
    Stopped,
}

impl ActorState {
    pub(super) fn name(self) -> &'static str {
        match self {
            ActorState::Down => "down",
            ActorState::Spawning | ActorState::Attaching => "starting",
            ActorState::Up => "up",
            ActorState::Failing => "failing",
            ActorState::Backoff(_) => "backoff",
            ActorState::Unhealthy(_) => "unhealthy",
            ActorState::Stopped => "stopped",
        }
    }
}

/// What an actor's failures have cost it.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    /// Times of restarts within the window.
    times: VecDeque<i64>,
    /// Started by a probe or after one: the next failure within the window makes it unhealthy
    /// again.
    on_probation: bool,
    /// Rests since it was last healthy.
    probes: u32,
}

impl Restarts {
    /// The failures so far are forgotten.
    pub(super) fn forgive(&mut self) {
        *self = Restarts::default();
    }

    pub(super) fn in_window(&self) -> usize {
        self.times.len()
    }
}

/// What the end of an actor comes to.
#[derive(Debug)]
pub(crate) enum Exited {
    /// Nothing, or its fault is in the System lane.
    Nothing,
    /// The boot failed with it, for this reason.
    InBoot(String),
    /// Its input was ended, so it left as it was asked to; with its failure, if there was one.
    AsAsked(Option<String>),
    /// It ended by itself, and is not to be started again.
    ForGood,
}

impl Actors {
    /// The actor did something invalid: it is ended at once, and handled in the System lane.
    pub(crate) fn fault(&mut self, actor: ActorRef, reason: String, out: &mut Out) {
        if !self.is_up(actor) {
            return;
        }
        out.counters.actor_faults += 1;
        out.push(Effect::Terminate { actor });
        self.give_up(actor, Failure::ActorFault, reason, out);
    }

    /// The same, over a line that is quoted to whoever may see it.
    pub(crate) fn fault_over(&mut self, actor: ActorRef, line: &[u8], reason: String, out: &mut Out) {
        if let Some(it) = self.living(actor) {
            it.last_words.blame(line);
            self.fault(actor, reason, out);
        }
    }

    /// An actor wrote a line to its standard error, or what stands for that.
    pub(crate) fn complained(&mut self, actor: ActorRef, line: &[u8]) {
        let it = self.list.get_mut(actor.capability.index());
        if let Some(it) = it.filter(|it| it.incarnation == actor.incarnation) {
            it.last_words.hear(line);
        }
    }

    /// What an actor wrote before it failed, to be put behind the reason.
    pub(crate) fn last_words(&self, capability: CapabilityId) -> String {
        self.get(capability).last_words.told()
    }

    /// How often a request is given to the capability when its actor fails over it.
    pub(crate) fn retry_policy(&self, capability: CapabilityId) -> RetryPolicy {
        self.get(capability).contract.manifest.retry.clone()
    }

    fn give_up(&mut self, actor: ActorRef, failure: Failure, reason: String, out: &mut Out) {
        let it = self.get_mut(actor.capability);
        it.state = ActorState::Failing;
        it.faults += 1;
        out.system.fault(actor, failure, reason);
    }

    /// An actor ended.
    pub(crate) fn exited(&mut self, actor: ActorRef, exit: ActorExit, stage: Stage, out: &mut Out) -> Exited {
        let Some(it) = self.list.get_mut(actor.capability.index()) else { return Exited::Nothing };
        if it.incarnation != actor.incarnation {
            return Exited::Nothing;
        }
        match it.state {
            ActorState::Spawning | ActorState::Attaching if stage == Stage::Booting => {
                return Exited::InBoot(format!("{} ended during the boot: {exit}", it.id()));
            }
            ActorState::Spawning | ActorState::Attaching | ActorState::Up => {}
            _ => return Exited::Nothing,
        }
        if stage == Stage::Flushing {
            it.state = ActorState::Stopped;
            return Exited::Nothing;
        }
        if it.state == ActorState::Up && it.succession.input_ended() {
            return Exited::AsAsked(if let ActorExit::Failed(reason) = exit { Some(reason) } else { None });
        }
        let is_idle = it.progress.len() == 0 && it.causes.has_nothing_at_risk();
        let may_end = it.contract.manifest.restart.when == RestartWhen::OnFailure;
        if exit == ActorExit::Done && may_end && is_idle && !it.succession.is_retiring() {
            it.state = ActorState::Stopped;
            let text = format!("{} ended and is not to be restarted", it.id());
            out.log_about(it.id(), Level::Info, text);
            return Exited::ForGood;
        }
        out.counters.actor_crashes += 1;
        self.give_up(actor, Failure::ActorCrash, exit.to_string(), out);
        Exited::Nothing
    }

    /// An actor kept a request long after its deadline.
    pub(crate) fn hung(&mut self, actor: ActorRef, out: &mut Out) {
        let hang_ms = self.bounds.hang_ms;
        if self.living(actor).is_some_and(|it| it.progress.overdue_len() > 0) {
            let text = format!("no outcome within {hang_ms} ms after the deadline of a request");
            self.fault(actor, text, out);
        }
    }

    /// Tells of a fault whose signal was served; returns whether there is one to handle.
    pub(crate) fn tell_fault(
        &mut self,
        actor: ActorRef,
        failure: Failure,
        reason: &str,
        out: &mut Out,
    ) -> bool {
        let it = self.get_mut(actor.capability);
        if it.incarnation != actor.incarnation || it.state != ActorState::Failing {
            return false;
        }
        let quote = it.last_words.quote();
        it.last_fault = Some(LastFault {
            unix_ms: out.now.unix_ms,
            message: format!("{}: {reason}{quote}", failure.type_name()),
            words: it.last_words.lines(),
        });
        let text = format!("{}: {}: {reason}{quote}", it.id(), failure.type_name());
        out.log_about(it.id(), Level::Warn, text);
        let data = json!({
            "capabilityId": it.id(),
            "incarnation": actor.incarnation,
            "code": failure.code(),
            "message": reason,
        });
        out.announce(failure.type_name(), data);
        true
    }

    /// Plans a restart within the budget; beyond it, the actor rests until a probe. Returns whether
    /// it rests, so that nothing should wait for it.
    pub(crate) fn plan_restart(&mut self, capability: CapabilityId, stage: Stage, out: &mut Out) -> bool {
        let it = self.get_mut(capability);
        if matches!(stage, Stage::Flushing | Stage::Ended) {
            it.state = ActorState::Stopped;
            return false;
        }
        let policy = &it.contract.manifest.restart;
        let (window_ns, now_ns) = (ns(policy.window_ms), out.now.mono_ns);
        if now_ns.saturating_sub(it.since_ns) >= window_ns {
            it.restarts.on_probation = false;
            it.restarts.probes = 0;
        }
        let times = &mut it.restarts.times;
        while times.front().is_some_and(|at| at.saturating_add(window_ns) <= now_ns) {
            times.pop_front();
        }
        let spent = times.len() as u32;
        if policy.when == RestartWhen::Never || it.restarts.on_probation || spent >= policy.max_restarts {
            it.rest(capability, out);
            return true;
        }
        let pause_ms = doubled(policy.backoff_ms, spent).min(policy.backoff_max_ms);
        it.state = ActorState::Backoff(out.schedule_in(pause_ms, Job::Restart(capability)));
        false
    }

    /// The pause before a restart or probe is over.
    pub(crate) fn respawn(&mut self, capability: CapabilityId, out: &mut Out) {
        let it = self.get_mut(capability);
        match it.state {
            ActorState::Backoff(_) => it.restarts.times.push_back(out.now.mono_ns),
            ActorState::Unhealthy(_) => it.restarts.on_probation = true,
            _ => return,
        }
        out.counters.actor_restarts += 1;
        self.spawn(capability, out);
    }

    /// Asks for the next incarnation of an actor.
    pub(crate) fn spawn(&mut self, capability: CapabilityId, out: &mut Out) {
        let it = self.get_mut(capability);
        if let Some(next) = it.succession.take_next() {
            it.contract = *next;
        }
        it.incarnation += 1;
        it.causes.forget_said();
        it.last_words.forget();
        it.state = ActorState::Spawning;
        it.since_ns = out.now.mono_ns;
        out.push(Effect::Spawn { actor: it.reference(capability) });
    }

    /// The daemon has spawned an actor, or could not; the boot has a word of its own for that.
    pub(crate) fn spawned(&mut self, actor: ActorRef, result: Result<(), String>, out: &mut Out) {
        if !self.is_in_state(actor, ActorState::Spawning) {
            return;
        }
        match result {
            Ok(()) => {
                self.get_mut(actor.capability).state = ActorState::Attaching;
                out.push(Effect::Attach { actor });
            }
            Err(reason) => self.start_failed(actor, &reason, out),
        }
    }

    /// The daemon listens to an actor, or could not; returns whether it is up.
    pub(crate) fn attached(&mut self, actor: ActorRef, result: Result<(), String>, out: &mut Out) -> bool {
        if !self.is_in_state(actor, ActorState::Attaching) {
            return false;
        }
        match result {
            Ok(()) => true,
            Err(reason) => {
                out.push(Effect::Terminate { actor });
                self.start_failed(actor, &reason, out);
                false
            }
        }
    }

    fn start_failed(&mut self, actor: ActorRef, reason: &str, out: &mut Out) {
        out.counters.actor_crashes += 1;
        self.give_up(actor, Failure::ActorCrash, format!("it could not be started: {reason}"), out);
    }

    /// An actor is up. Everybody is told, but for the boot, which tells of all at once; and the
    /// daemon, which knows nothing of earlier incarnations, if nothing is to be read from it for
    /// now.
    pub(crate) fn up(&mut self, actor: ActorRef, is_boot: bool, is_paused: bool, out: &mut Out) {
        let it = self.get_mut(actor.capability);
        it.state = ActorState::Up;
        it.since_ns = out.now.mono_ns;
        if !is_boot {
            it.announce(actor, out);
        }
        if is_paused {
            out.push(Effect::PauseReading { source: Source::Actor(actor) });
        }
    }

    pub(super) fn is_in_state(&self, actor: ActorRef, state: ActorState) -> bool {
        let it = self.list.get(actor.capability.index());
        it.is_some_and(|it| it.incarnation == actor.incarnation && it.state == state)
    }

    /// Forgets the failures of an actor.
    pub(crate) fn forgive(&mut self, capability: CapabilityId) {
        self.get_mut(capability).restarts.forgive();
    }

    /// Forgets the failures of an actor, and starts it at once if it does not run.
    pub(crate) fn reset(&mut self, capability: CapabilityId, out: &mut Out) {
        let it = self.get_mut(capability);
        it.restarts.forgive();
        match it.state {
            ActorState::Backoff(timer) | ActorState::Unhealthy(Some(timer)) => {
                out.wheel.cancel(timer);
            }
            ActorState::Unhealthy(None) | ActorState::Stopped => {}
            _ => return,
        }
        out.counters.actor_restarts += 1;
        self.spawn(capability, out);
    }
}

impl Actor {
    /// The capability is unhealthy: a probe is planned, unless it is never to be restarted.
    fn rest(&mut self, capability: CapabilityId, out: &mut Out) {
        let policy = &self.contract.manifest.restart;
        let probe = (policy.when != RestartWhen::Never).then(|| {
            let pause_ms = doubled(policy.probe_ms, self.restarts.probes.min(PROBE_DOUBLINGS_MAX));
            (pause_ms, out.schedule_in(pause_ms, Job::Restart(capability)))
        });
        self.probe_ns = probe.map(|(pause_ms, _)| out.now.mono_ns.saturating_add(ns(pause_ms)));
        self.state = ActorState::Unhealthy(probe.map(|(_, timer)| timer));
        self.restarts.probes += 1;
        let next = match probe {
            Some((pause_ms, _)) => format!("it is tried again in {} s", pause_ms.div_ceil(1000)),
            None => "it is not tried again".to_owned(),
        };
        let text = format!("{} is unhealthy; {next}, or at once with Sys.ResetActor", self.id());
        out.log_about(self.id(), Level::Error, text);
        let data = json!({ "capabilityId": self.id(), "probeInMs": probe.map(|(pause_ms, _)| pause_ms) });
        out.announce("Sys.ActorUnhealthy", data);
    }

    /// Tells that an incarnation is up: after a reload, or after a restart.
    fn announce(&mut self, actor: ActorRef, out: &mut Out) {
        let mut data = json!({ "capabilityId": self.id(), "incarnation": actor.incarnation });
        let (type_name, what) = match self.succession.take_news() {
            Some(News::Added) => ("Sys.CapabilityAdded", "was added"),
            Some(news) => {
                data["newManifest"] = json!(news == News::Replaced);
                ("Sys.CapabilityReloaded", "was replaced")
            }
            None => ("Sys.ActorRestarted", "runs again"),
        };
        out.log_about(self.id(), Level::Info, format!("{} {what}", self.id()));
        out.announce(type_name, data);
    }
}
