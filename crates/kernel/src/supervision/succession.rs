//! How a running capability passes to its next manifest or program: without losing a message.
//!
//! The life that runs is *retired*: it is given nothing new, finishes what it has in its hands, has its input ended and
//! leaves; then the next life is spawned and given the mailbox. Routes and schemas change at once, the contract that a
//! life is held to (its outbound schema, its limits) changes with the life.

use crate::api::effect::{Effect, Level};
use crate::api::ids::{ActorRef, Now};
use crate::api::manifest::Manifest;
use crate::kernel::{Job, Kernel, Life, ns};
use crate::supervision::actors::{Actor, ActorState};
use crate::supervision::candidate::Contract;
use crate::time::wheel::{TimerKey, deadline_after};
use mainspring_message::Failure;
use serde_json::json;

/// What a capability is passing to.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    /// It was taken out of the loop: nothing new comes to it, and it has no next life.
    pub(crate) removed: bool,
    /// The life that runs is to end.
    pub(crate) retiring: Option<Retiring>,
    /// What the next life is held to, if not to the same.
    pub(crate) next: Option<Box<Contract>>,
    /// What is told when the next life is up, instead of a restart.
    pub(crate) news: Option<News>,
}

/// A life that is to end.
#[derive(Debug)]
pub(crate) struct Retiring {
    /// Whether it was told that nothing more comes.
    pub(crate) input_ended: bool,
    /// When it is terminated; nothing when it has failed already.
    timer: Option<TimerKey>,
}

/// What became of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Added,
    /// It has another manifest.
    Replaced,
    /// It has the same manifest, and perhaps another program.
    Restarted,
}

impl Succession {
    /// Whether mail is kept from the life that runs. One that is being removed takes what was meant for it.
    #[inline]
    pub(crate) fn holds_mail(&self) -> bool {
        let Some(retiring) = &self.retiring else { return false };
        retiring.input_ended || !self.removed || self.next.is_some()
    }

    /// Whether the input of the life that runs was ended.
    #[inline]
    pub(crate) fn input_ended(&self) -> bool {
        self.retiring.as_ref().is_some_and(|retiring| retiring.input_ended)
    }
}

impl Actor {
    /// The manifest by which messages are accepted for it, which is ahead of the one that its last life is held to.
    pub(crate) fn announced(&self) -> (&Manifest, &[(mainspring_message::Kind, String)]) {
        match &self.succession.next {
            Some(next) => (&next.manifest, &next.handles),
            None => (&self.manifest, &self.handles),
        }
    }
}

impl Kernel {
    /// Passes a capability to its next life, or out of the loop, gracefully.
    pub(crate) fn begin_succession(&mut self, capability: u32, now: Now) {
        let it = &mut self.actors[capability as usize];
        // The next program is not to blame for the failures of this one.
        it.restarts.clear();
        it.on_probation = false;
        it.probes = 0;
        let reference = it.reference(capability);
        match it.state {
            // It is on its way already; if it is to be removed now, it may take what it was kept from.
            ActorState::Up | ActorState::Failing if it.succession.retiring.is_some() => {
                self.pump(capability, now);
            }
            ActorState::Up => {
                let timer = self.schedule_retirement(reference, now);
                self.retire(capability, Retiring { input_ended: false, timer: Some(timer) });
            }
            // What it had is answered when the signal is served; then comes the next life.
            ActorState::Failing => self.retire(capability, Retiring { input_ended: true, timer: None }),
            ActorState::Spawning | ActorState::Attaching => {
                self.effects.push(Effect::Terminate { actor: reference });
                self.next_life(capability, now);
            }
            ActorState::Backoff(timer) | ActorState::Unhealthy(Some(timer)) => {
                self.wheel.cancel(timer);
                self.next_life(capability, now);
            }
            ActorState::Unhealthy(None) | ActorState::Stopped | ActorState::Down => {
                self.next_life(capability, now);
            }
        }
    }

    fn retire(&mut self, capability: u32, retiring: Retiring) {
        self.retiring += 1;
        self.actors[capability as usize].succession.retiring = Some(retiring);
    }

    fn schedule_retirement(&mut self, actor: ActorRef, now: Now) -> TimerKey {
        let deadline = deadline_after(now.mono_ns, ns(self.config.drain_ms));
        let ActorRef { capability, incarnation } = actor;
        self.wheel.schedule(deadline, Job::Retire { capability, incarnation })
    }

    /// Ends the input of every retiring life that has finished what it had.
    pub(crate) fn advance_retirements(&mut self, now: Now) {
        if self.retiring == 0 || !matches!(self.life, Life::Running | Life::Draining) {
            return;
        }
        for capability in 0..self.actors.len() as u32 {
            let it = &self.actors[capability as usize];
            let finishing = it.succession.retiring.as_ref().is_some_and(|retiring| !retiring.input_ended);
            if it.state != ActorState::Up || !finishing || !self.has_finished(it) {
                continue;
            }
            let actor = it.reference(capability);
            let timer = self.schedule_retirement(actor, now);
            if let Some(retiring) = &mut self.actors[capability as usize].succession.retiring {
                retiring.input_ended = true;
                if let Some(earlier) = retiring.timer.replace(timer) {
                    self.wheel.cancel(earlier);
                }
            }
            self.effects.push(Effect::Stop { actor });
        }
    }

    /// Whether a retiring life has nothing in its hands and waits for nothing that it asked.
    fn has_finished(&self, it: &Actor) -> bool {
        let nothing_comes = it.succession.holds_mail() || (it.pending == 0 && it.mail_len == 0);
        nothing_comes
            && it.in_flight.is_empty()
            && it.overdue.is_empty()
            && it.answers.is_empty()
            && self.peers.get(it.peer).requests == 0
    }

    /// A retiring life took too long.
    pub(crate) fn retirement_overdue(&mut self, capability: u32, incarnation: u32, now: Now) {
        let drain_ms = self.config.drain_ms;
        let actor = ActorRef { capability, incarnation };
        let Some(it) = self.living(actor) else { return };
        let Some(retiring) = &mut it.succession.retiring else { return };
        retiring.timer = None;
        if !retiring.input_ended {
            return self.fault(actor, format!("not finished within {drain_ms} ms of its retirement"));
        }
        let text = format!("{} did not end within {drain_ms} ms of the end of its input", it.manifest.id);
        self.log_about(capability, Level::Warn, text);
        self.effects.push(Effect::Terminate { actor });
        self.settle_hands(capability, Failure::ActorCrash, "it did not end when its input did", now);
        self.next_life(capability, now);
    }

    /// A life whose input was ended is over.
    pub(crate) fn retired(&mut self, capability: u32, failure: Option<&str>, now: Now) {
        let it = &mut self.actors[capability as usize];
        match failure {
            // It ended as it was asked to: the events that it took are finished.
            None => it.nothing_at_risk(),
            Some(reason) => {
                let text = format!("{} failed at its end: {reason}", it.manifest.id);
                self.log_about(capability, Level::Warn, text);
            }
        }
        self.settle_hands(capability, Failure::ActorCrash, failure.unwrap_or("it ended"), now);
        self.next_life(capability, now);
    }

    /// The retired life is gone: the next one is spawned, or the capability is out of the loop.
    pub(crate) fn next_life(&mut self, capability: u32, now: Now) {
        self.end_retirement(capability);
        if self.actors[capability as usize].succession.removed {
            return self.depart(capability, now);
        }
        self.spawn(capability, now);
    }

    /// Forgets that a life was to end.
    pub(crate) fn end_retirement(&mut self, capability: u32) {
        let Some(retiring) = self.actors[capability as usize].succession.retiring.take() else { return };
        self.retiring -= 1;
        if let Some(timer) = retiring.timer {
            self.wheel.cancel(timer);
        }
    }

    /// A removed capability is gone. Its place stays, for when it is added again.
    fn depart(&mut self, capability: u32, now: Now) {
        let it = &mut self.actors[capability as usize];
        it.state = ActorState::Stopped;
        it.succession.next = None;
        it.succession.news = None;
        let (id, peer) = (it.manifest.id.clone(), it.peer);
        self.empty_mailbox(capability, now);
        let given_up = self.cancel_schedules_of(peer);
        let given_up = match given_up {
            0 => String::new(),
            count => format!("; scheduled messages of it that are given up: {count}"),
        };
        self.log_about(capability, Level::Info, format!("{id} was removed{given_up}"));
        self.announce("Sys.CapabilityRemoved", json!({ "capabilityId": id }), now);
    }

    /// Tells that a life is up: after a reload, or after a restart.
    pub(crate) fn announce_life(&mut self, actor: ActorRef, now: Now) {
        let it = &mut self.actors[actor.capability as usize];
        let mut data = json!({ "capabilityId": it.manifest.id, "incarnation": actor.incarnation });
        let (type_name, what) = match it.succession.news.take() {
            Some(News::Added) => ("Sys.CapabilityAdded", "was added"),
            Some(news) => {
                data["newManifest"] = json!(news == News::Replaced);
                ("Sys.CapabilityReloaded", "was replaced")
            }
            None => ("Sys.ActorRestarted", "runs again"),
        };
        let text = format!("{} {what}", it.manifest.id);
        self.log_about(actor.capability, Level::Info, text);
        self.announce(type_name, data, now);
    }
}
