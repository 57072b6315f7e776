//! All actors at once: how the boot brings them up, and how the end lets them go.

use super::Actors;
use super::supervision::ActorState;
use crate::api::effect::Effect;
use crate::api::ids::{ActorRef, CapabilityId};
use crate::out::Out;

impl Actors {
    /// In the boot an actor was spawned, or not: then why the boot fails. Nothing if it was not
    /// asked for.
    pub(crate) fn boot_spawned(
        &mut self,
        actor: ActorRef,
        result: Result<(), String>,
    ) -> Option<Result<(), String>> {
        if !self.is_in_state(actor, ActorState::Spawning) {
            return None;
        }
        let it = self.get_mut(actor.capability);
        it.state = if result.is_ok() { ActorState::Attaching } else { ActorState::Down };
        Some(result.map_err(|reason| format!("{} could not be spawned: {reason}", it.id())))
    }

    /// In the boot the daemon listens to an actor, or could not: then why the boot fails. Nothing
    /// if it was not asked to.
    pub(crate) fn boot_attached(
        &self,
        actor: ActorRef,
        result: Result<(), String>,
    ) -> Option<Result<(), String>> {
        if !self.is_in_state(actor, ActorState::Attaching) {
            return None;
        }
        let id = self.get(actor.capability).id();
        Some(result.map_err(|reason| format!("{id} could not be attached: {reason}")))
    }

    /// Whether all were spawned.
    pub(crate) fn are_all_spawned(&self) -> bool {
        self.list.iter().all(|it| it.state == ActorState::Attaching)
    }

    /// The ids of those that were not spawned yet.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = &str> {
        let awaited = self.list.iter().filter(|it| it.state != ActorState::Attaching);
        awaited.map(|it| it.id())
    }

    /// Whether all are up.
    pub(crate) fn are_all_up(&self) -> bool {
        self.list.iter().all(|it| it.state == ActorState::Up)
    }

    /// Whether none will say anything any more.
    pub(crate) fn are_all_gone(&self) -> bool {
        self.list.iter().all(|it| matches!(it.state, ActorState::Stopped | ActorState::Down))
    }

    /// The ids of those that may still say something.
    pub(crate) fn alive(&self) -> Vec<&str> {
        let gone = |it: &&super::Actor| matches!(it.state, ActorState::Stopped | ActorState::Down);
        self.list.iter().filter(|it| !gone(it)).map(|it| it.id()).collect()
    }

    /// Has the daemon listen to all of them.
    pub(crate) fn attach_all(&self, out: &mut Out) {
        for capability in self.ids() {
            out.push(Effect::Attach { actor: self.get(capability).reference(capability) });
        }
    }

    /// Ends the input of those that work, and gives up the others.
    pub(crate) fn stop_all(&mut self, out: &mut Out) {
        for capability in self.ids() {
            let it = self.get_mut(capability);
            let actor = it.reference(capability);
            match it.state {
                ActorState::Up if it.succession.input_ended() => continue,
                ActorState::Up => {
                    out.push(Effect::Stop { actor });
                    continue;
                }
                ActorState::Spawning | ActorState::Attaching => out.push(Effect::Terminate { actor }),
                ActorState::Backoff(timer) | ActorState::Unhealthy(Some(timer)) => {
                    out.wheel.cancel(timer);
                }
                _ => {}
            }
            it.state = ActorState::Stopped;
        }
    }

    /// Ends all of them now, the last one first if the boot is undone.
    pub(crate) fn terminate_all(&mut self, is_boot: bool, out: &mut Out) {
        let mut all: Vec<CapabilityId> = self.ids().collect();
        if is_boot {
            all.reverse();
        }
        for capability in all {
            let it = self.get_mut(capability);
            let is_starting = matches!(it.state, ActorState::Spawning | ActorState::Attaching);
            if it.state == ActorState::Up || (is_boot && is_starting) {
                out.push(Effect::Terminate { actor: it.reference(capability) });
            }
            it.state = ActorState::Stopped;
        }
    }
}
