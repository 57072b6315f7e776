//! The boot: LOAD, DISCOVER, BUILD, SPAWN, ATTACH, ADAPT, READY; undone when a phase fails.

use crate::api::effect::Effect;
use crate::api::ids::{ActorRef, Now};
use crate::api::input::BootPlan;
use crate::flow::lanes::Sender;
use crate::kernel::{Job, Kernel, Life, ns};
use crate::supervision::actors::{Actor, ActorState};
use crate::supervision::candidate::{Candidate, check_manifest};
use crate::time::wheel::{TimerKey, deadline_after};
use mainspring_message::{ErrorData, Failure, Kind, Started};
use serde_json::json;

/// The phases of the boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BootPhase {
    #[default]
    Load,
    Discover,
    Build,
    Spawn,
    Attach,
    Adapt,
    Ready,
}

impl BootPhase {
    fn name(self) -> &'static str {
        match self {
            BootPhase::Load => "LOAD",
            BootPhase::Discover => "DISCOVER",
            BootPhase::Build => "BUILD",
            BootPhase::Spawn => "SPAWN",
            BootPhase::Attach => "ATTACH",
            BootPhase::Adapt => "ADAPT",
            BootPhase::Ready => "READY",
        }
    }
}

/// A transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Adapter {
    pub(crate) name: String,
    pub(crate) state: AdapterState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdapterState {
    Starting,
    Started { address: String },
    Ended,
}

#[derive(Debug, Default)]
pub(crate) struct BootState {
    pub(crate) phase: BootPhase,
    pub(crate) adapters: Vec<Adapter>,
    timer: Option<TimerKey>,
    begun: bool,
}

impl BootState {
    pub(crate) fn adapters_active(&self) -> usize {
        self.adapters.iter().filter(|adapter| adapter.state != AdapterState::Ended).count()
    }
}

impl Kernel {
    /// Boots: LOAD, DISCOVER and BUILD at once, SPAWN, ATTACH and ADAPT by effects that inputs answer, then READY.
    pub fn boot(&mut self, plan: BootPlan, now: Now) {
        if std::mem::replace(&mut self.boot_state.begun, true) {
            return;
        }
        let deadline = deadline_after(now.mono_ns, ns(self.config.boot_timeout_ms));
        self.boot_state.timer = Some(self.wheel.schedule(deadline, Job::Boot));
        if let Err(text) = self.load_discover_build(plan) {
            return self.boot_failed_in_phase(&text, now);
        }
        self.boot_state.phase = BootPhase::Spawn;
        for capability in 0..self.actors.len() {
            self.spawn(capability as u32, now);
        }
        self.advance_boot(now);
    }

    fn load_discover_build(&mut self, plan: BootPlan) -> Result<(), String> {
        for (at, manifest) in plan.capabilities.iter().enumerate() {
            check_manifest(manifest)?;
            if plan.capabilities[..at].iter().any(|other| other.id == manifest.id) {
                return Err(format!("two capabilities have the id {:?}", manifest.id));
            }
        }
        self.boot_state.phase = BootPhase::Discover;
        let found = plan
            .capabilities
            .into_iter()
            .map(Candidate::discover)
            .collect::<Result<Vec<Candidate>, String>>()?;
        self.boot_state.phase = BootPhase::Build;
        self.add_builtin_routes();
        self.check_claims(&found.iter().collect::<Vec<_>>(), |_| false)?;
        for candidate in found {
            self.add_capability(candidate);
        }
        let starting = |name| Adapter { name, state: AdapterState::Starting };
        self.boot_state.adapters = plan.adapters.into_iter().map(starting).collect();
        Ok(())
    }

    /// Adds a capability after all others, whose claims were checked.
    pub(crate) fn add_capability(&mut self, candidate: Candidate) {
        let capability = self.actors.len() as u32;
        let contract = self.add_routes(capability, candidate);
        let (peer, queue) = (self.peers.add_actor(), self.lanes.open(Sender::Actor(capability)));
        let own = self.peers.get_mut(peer);
        own.share = self.requests.open_share(&mut own.window);
        self.actors.push(Actor::new(contract, peer, queue));
    }

    pub(crate) fn boot_spawned(&mut self, actor: ActorRef, result: Result<(), String>, now: Now) {
        if !self.is_in_state(actor, ActorState::Spawning) {
            return;
        }
        if let Err(reason) = result {
            let it = &mut self.actors[actor.capability as usize];
            it.state = ActorState::Down;
            let text = format!("{} could not be spawned: {reason}", it.manifest.id);
            return self.boot_failed_in_phase(&text, now);
        }
        self.actors[actor.capability as usize].state = ActorState::Attaching;
        self.advance_boot(now);
    }

    pub(crate) fn boot_attached(&mut self, actor: ActorRef, result: Result<(), String>, now: Now) {
        if self.boot_state.phase != BootPhase::Attach || !self.is_in_state(actor, ActorState::Attaching) {
            return;
        }
        if let Err(reason) = result {
            let id = &self.actors[actor.capability as usize].manifest.id;
            let text = format!("{id} could not be attached: {reason}");
            return self.boot_failed_in_phase(&text, now);
        }
        self.actor_up(actor, now);
        self.advance_boot(now);
    }

    /// Answers [`Effect::StartAdapter`], with the address it listens on.
    pub fn adapter_started(&mut self, adapter: u32, result: Result<String, String>, now: Now) {
        if self.life != Life::Booting || self.boot_state.phase != BootPhase::Adapt {
            return;
        }
        let Some(it) = self.boot_state.adapters.get_mut(adapter as usize) else { return };
        if it.state != AdapterState::Starting {
            return;
        }
        match result {
            Ok(address) => {
                it.state = AdapterState::Started { address };
                self.advance_boot(now);
            }
            Err(reason) => {
                it.state = AdapterState::Ended;
                let text = format!("the adapter {} could not be started: {reason}", it.name);
                self.boot_failed_in_phase(&text, now);
            }
        }
    }

    /// The transport will bring no more messages (the end of standard input, in a batch).
    pub fn adapter_ended(&mut self, adapter: u32, _now: Now) {
        if let Some(it) = self.boot_state.adapters.get_mut(adapter as usize) {
            it.state = AdapterState::Ended;
        }
    }

    /// Goes to the next phase when all of this one is done.
    fn advance_boot(&mut self, now: Now) {
        if self.boot_state.phase == BootPhase::Spawn
            && self.actors.iter().all(|actor| actor.state == ActorState::Attaching)
        {
            self.boot_state.phase = BootPhase::Attach;
            for (capability, actor) in self.actors.iter().enumerate() {
                self.effects.push(Effect::Attach { actor: actor.reference(capability as u32) });
            }
        }
        if self.boot_state.phase == BootPhase::Attach
            && self.actors.iter().all(|actor| actor.state == ActorState::Up)
        {
            self.boot_state.phase = BootPhase::Adapt;
            for adapter in 0..self.boot_state.adapters.len() {
                self.effects.push(Effect::StartAdapter { adapter: adapter as u32 });
            }
        }
        let pending = |adapter: &Adapter| adapter.state == AdapterState::Starting;
        if self.boot_state.phase == BootPhase::Adapt && !self.boot_state.adapters.iter().any(pending) {
            self.boot_ready(now);
        }
    }

    fn boot_ready(&mut self, now: Now) {
        self.boot_state.phase = BootPhase::Ready;
        self.life = Life::Running;
        if let Some(timer) = self.boot_state.timer.take() {
            self.wheel.cancel(timer);
        }
        let summary = self.boot_summary();
        let event = self.loop_message(Kind::Event, "Sys.BootComplete", &summary.to_string(), None, None, now);
        self.effects.push(Effect::Ready { summary: event.clone() });
        // The lane is empty but for this.
        self.lanes.announce(event);
    }

    fn boot_summary(&self) -> serde_json::Value {
        let capabilities: Vec<serde_json::Value> = self
            .actors
            .iter()
            .map(|actor| {
                let handles: Vec<String> =
                    actor.handles.iter().map(|(kind, name)| format!("{kind}:{name}")).collect();
                json!({ "id": actor.manifest.id, "handles": handles })
            })
            .collect();
        let mut subscriptions = serde_json::Map::new();
        for (event, wanted_by) in self.routes.subscriptions() {
            let ids =
                wanted_by.iter().map(|capability| self.actors[*capability as usize].manifest.id.clone());
            subscriptions.insert(event.to_owned(), ids.collect());
        }
        let adapters: Vec<String> = self
            .boot_state
            .adapters
            .iter()
            .map(|adapter| match &adapter.state {
                AdapterState::Started { address } => format!("{}:{address}", adapter.name),
                _ => adapter.name.clone(),
            })
            .collect();
        json!({
            "capabilities": capabilities,
            "subscriptions": subscriptions,
            "adapters": adapters,
            "timers": { "defaultTimeout": self.config.default_timeout_ms },
        })
    }

    pub(crate) fn boot_too_slow(&mut self, now: Now) {
        self.boot_state.timer = None;
        if self.life == Life::Booting {
            let text = format!("not done within {} ms", self.config.boot_timeout_ms);
            self.boot_failed_in_phase(&text, now);
        }
    }

    /// Reports the failure, undoes the phases that had succeeded, and ends.
    pub(crate) fn boot_failed_in_phase(&mut self, text: &str, now: Now) {
        if self.life != Life::Booting {
            return;
        }
        let words = format!("{}: {text}", self.boot_state.phase.name());
        let mut data = String::new();
        let failure = Failure::Boot;
        let error = ErrorData {
            failure,
            message: &words,
            original_id: None,
            original_type: None,
            started: Started::No,
        };
        error.write(&mut data);
        // An error names what caused it; the boot was caused by nothing but itself.
        let cause = self.fresh_ids.make().to_owned();
        let report = self.loop_message(Kind::Error, failure.type_name(), &data, Some(&cause), None, now);
        self.effects.push(Effect::BootFailed { report });
        // What came in through the adapters that had started is answered like everything else.
        for key in self.requests.live_keys() {
            self.fail(key, Failure::ShuttingDown, "the boot failed before the request was routed", now);
        }
        self.undo_boot();
        self.close_all_connections(now);
        self.life = Life::Ended;
        self.effects.push(Effect::Exit { code: 1 });
    }

    /// Undoes ADAPT, ATTACH and SPAWN, in that order.
    fn undo_boot(&mut self) {
        let began = self.boot_state.phase == BootPhase::Adapt;
        for (at, adapter) in self.boot_state.adapters.iter_mut().enumerate().rev() {
            if began && adapter.state != AdapterState::Ended {
                self.effects.push(Effect::StopAdapter { adapter: at as u32 });
            }
            adapter.state = AdapterState::Ended;
        }
        for (capability, actor) in self.actors.iter_mut().enumerate().rev() {
            if matches!(actor.state, ActorState::Spawning | ActorState::Attaching | ActorState::Up) {
                self.effects.push(Effect::Terminate { actor: actor.reference(capability as u32) });
            }
            actor.state = ActorState::Stopped;
        }
    }
}
