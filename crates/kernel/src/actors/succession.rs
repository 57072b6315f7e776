//! How a running capability passes to its next manifest or program: without losing a message.
//!
//! The incarnation that runs is *retired*: it is given nothing new, finishes what it has in
//! progress, has its input ended and leaves; then the next incarnation is spawned and given the
//! mailbox. Routes and schemas change at once, the contract that an incarnation is held to (its
//! outbound schema, its limits) changes with the incarnation.

use super::contract::Contract;
use super::supervision::ActorState;
use super::{Actor, Actors};
use crate::api::effect::{Effect, Level};
use crate::api::ids::{ActorRef, CapabilityId};
use crate::api::manifest::Manifest;
use crate::out::Out;
use crate::requests::PeerId;
use crate::time::Job;
use crate::time::wheel::TimerKey;
use mainspring_message::Kind;

/// What a capability is passing to.
#[derive(Debug, Default)]
pub(super) struct Succession {
    /// It was removed: nothing new comes to it, and it has no next incarnation.
    removed: bool,
    /// The incarnation that runs is to end.
    retiring: Option<Retiring>,
    /// What the next incarnation is held to, if not to the same.
    next: Option<Box<Contract>>,
    /// What is told when the next incarnation is up, instead of a restart.
    news: Option<News>,
}

/// An incarnation that is to end.
#[derive(Debug)]
struct Retiring {
    /// Whether it was told that nothing more comes.
    input_ended: bool,
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

/// How a capability goes on.
#[derive(Debug)]
pub(crate) enum NextStep {
    /// It is on its way; it may take mail now that it was kept from.
    Pump,
    /// It is on its way.
    Wait,
    /// It has no incarnation: the next one is due.
    Next,
}

impl Succession {
    /// Whether mail is kept from the incarnation that runs. One that is being removed takes what
    /// was meant for it.
    #[inline]
    pub(super) fn holds_mail(&self) -> bool {
        let Some(retiring) = &self.retiring else { return false };
        retiring.input_ended || !self.removed || self.next.is_some()
    }

    /// Whether the input of the incarnation that runs was ended.
    #[inline]
    pub(super) fn input_ended(&self) -> bool {
        self.retiring.as_ref().is_some_and(|retiring| retiring.input_ended)
    }

    pub(super) fn is_retiring(&self) -> bool {
        self.retiring.is_some()
    }

    pub(super) fn is_removed(&self) -> bool {
        self.removed
    }

    pub(super) fn take_next(&mut self) -> Option<Box<Contract>> {
        self.next.take()
    }

    pub(super) fn take_news(&mut self) -> Option<News> {
        self.news.take()
    }
}

impl Actor {
    /// The manifest by which messages are accepted for it, which is ahead of the one that its last
    /// incarnation is held to.
    pub(super) fn announced(&self) -> (&Manifest, &[(Kind, String)]) {
        let contract = self.succession.next.as_deref().unwrap_or(&self.contract);
        (&contract.manifest, &contract.handles)
    }

    /// Whether a retiring incarnation has nothing in progress. `requests` tells how many are
    /// unfinished that are for its capability, and that it made.
    fn has_finished(&self, requests: (usize, usize)) -> bool {
        let (for_it, of_it) = requests;
        let nothing_comes = self.succession.holds_mail() || (for_it == 0 && self.mailbox.len() == 0);
        nothing_comes && self.progress.is_finished() && of_it == 0
    }
}

impl Actors {
    /// A capability has a new contract, for its next incarnation.
    pub(crate) fn install(&mut self, capability: CapabilityId, contract: Contract, news: News) {
        let succession = &mut self.get_mut(capability).succession;
        succession.removed = false;
        succession.next = Some(Box::new(contract));
        succession.news = Some(news);
    }

    /// What is told when a capability is up again, unless there is other news.
    pub(crate) fn set_news(&mut self, capability: CapabilityId, news: News) {
        self.get_mut(capability).succession.news.get_or_insert(news);
    }

    /// A capability is removed once it has finished.
    pub(crate) fn remove(&mut self, capability: CapabilityId) {
        self.get_mut(capability).succession.removed = true;
    }

    /// Whether a capability was removed.
    pub(crate) fn is_removed(&self, capability: CapabilityId) -> bool {
        self.get(capability).succession.removed
    }

    /// Whether a capability was removed and the program that messages were accepted for is still
    /// there to finish them.
    pub(crate) fn finishes_for_removal(&self, capability: CapabilityId) -> bool {
        let succession = &self.get(capability).succession;
        succession.removed && succession.next.is_none()
    }

    /// Whether the next incarnation is held to the same contract.
    pub(crate) fn next_is_the_same(&self, capability: CapabilityId) -> bool {
        let succession = &self.get(capability).succession;
        !succession.removed && succession.next.is_none()
    }

    /// Whether an incarnation is to end.
    pub(crate) fn is_retiring(&self, capability: CapabilityId) -> bool {
        self.get(capability).succession.is_retiring()
    }

    /// How many incarnations are to end.
    pub(crate) fn retiring(&self) -> usize {
        self.retiring
    }

    /// Passes a capability to its next incarnation, or removes it, gracefully.
    pub(crate) fn begin_succession(&mut self, capability: CapabilityId, out: &mut Out) -> NextStep {
        let drain_ms = self.bounds.drain_ms;
        let it = self.get_mut(capability);
        // The next program is not to blame for the failures of this one.
        it.restarts.forgive();
        let actor = it.reference(capability);
        match it.state {
            // If it is to be removed now, it may take what it was kept from.
            ActorState::Up | ActorState::Failing if it.succession.is_retiring() => return NextStep::Pump,
            ActorState::Up => {
                let timer = Some(out.schedule_in(drain_ms, Job::Retire(actor)));
                self.retire(capability, Retiring { input_ended: false, timer });
                return NextStep::Wait;
            }
            // What it had is answered when the signal is served; then comes the next incarnation.
            ActorState::Failing => {
                self.retire(capability, Retiring { input_ended: true, timer: None });
                return NextStep::Wait;
            }
            ActorState::Spawning | ActorState::Attaching => out.push(Effect::Terminate { actor }),
            ActorState::Backoff(timer) | ActorState::Unhealthy(Some(timer)) => {
                out.wheel.cancel(timer);
            }
            ActorState::Unhealthy(None) | ActorState::Stopped | ActorState::Down => {}
        }
        NextStep::Next
    }

    fn retire(&mut self, capability: CapabilityId, retiring: Retiring) {
        self.retiring += 1;
        self.get_mut(capability).succession.retiring = Some(retiring);
    }

    /// Ends the input of every retiring incarnation that has finished what it had. `requests` tells
    /// how many are unfinished that are for a capability, and that its peer made.
    pub(crate) fn end_inputs(
        &mut self,
        requests: impl Fn(CapabilityId, PeerId) -> (usize, usize),
        out: &mut Out,
    ) {
        let drain_ms = self.bounds.drain_ms;
        for capability in self.ids() {
            let it = self.get_mut(capability);
            let actor = it.reference(capability);
            let is_finishing = it.succession.is_retiring() && !it.succession.input_ended();
            if it.state != ActorState::Up || !is_finishing || !it.has_finished(requests(capability, it.peer))
            {
                continue;
            }
            if let Some(retiring) = &mut it.succession.retiring {
                retiring.input_ended = true;
                let timer = out.schedule_in(drain_ms, Job::Retire(actor));
                if let Some(earlier) = retiring.timer.replace(timer) {
                    out.wheel.cancel(earlier);
                }
            }
            out.push(Effect::Stop { actor });
        }
    }

    /// A retiring incarnation gets as much time again.
    pub(crate) fn postpone_retirement(&mut self, actor: ActorRef, out: &mut Out) {
        let drain_ms = self.bounds.drain_ms;
        if let Some(it) = self.living(actor)
            && let Some(retiring) = &mut it.succession.retiring
        {
            retiring.timer = Some(out.schedule_in(drain_ms, Job::Retire(actor)));
        }
    }

    /// A retiring incarnation took too long. Returns whether it was terminated after the end of its
    /// input; before that, it is at fault.
    pub(crate) fn retirement_overdue(&mut self, actor: ActorRef, out: &mut Out) -> bool {
        let drain_ms = self.bounds.drain_ms;
        let Some(it) = self.living(actor) else { return false };
        let Some(retiring) = &mut it.succession.retiring else { return false };
        retiring.timer = None;
        if !retiring.input_ended {
            let text = format!("not finished within {drain_ms} ms of its retirement");
            self.fault(actor, text, out);
            return false;
        }
        let text = format!("{} did not end within {drain_ms} ms of the end of its input", it.id());
        out.log_about(it.id(), Level::Warn, text);
        out.push(Effect::Terminate { actor });
        true
    }

    /// An incarnation whose input was ended is over, with this failure if there was one.
    pub(crate) fn retired(&mut self, capability: CapabilityId, failure: Option<&str>, out: &mut Out) {
        let it = self.get_mut(capability);
        match failure {
            // It ended as it was asked to: the events that it took are finished.
            None => it.causes.nothing_at_risk(),
            Some(reason) => {
                let text = format!("{} failed at its end: {reason}", it.id());
                out.log_about(it.id(), Level::Warn, text);
            }
        }
    }

    /// Forgets that an incarnation was to end.
    pub(crate) fn end_retirement(&mut self, capability: CapabilityId, out: &mut Out) {
        let Some(retiring) = self.get_mut(capability).succession.retiring.take() else { return };
        self.retiring -= 1;
        if let Some(timer) = retiring.timer {
            out.wheel.cancel(timer);
        }
    }

    /// A removed capability is gone. Its place stays, for when it is added again.
    pub(crate) fn depart(&mut self, capability: CapabilityId) {
        let it = self.get_mut(capability);
        it.state = ActorState::Stopped;
        it.succession.next = None;
        it.succession.news = None;
    }
}
