//! The boot: LOAD, DISCOVER, BUILD, SPAWN, ATTACH, ADAPT, READY; undone when a phase fails.

use super::{Lifecycle, Stage};
use crate::actors::contract::{Candidate, check_manifest};
use crate::api::effect::Effect;
use crate::api::ids::{ActorRef, Now};
use crate::api::input::BootPlan;
use crate::flow::lanes::Sender;
use crate::flow::system::Hearers;
use crate::kernel::Kernel;
use crate::out::{Cause, Out};
use crate::time::Job;
use mainspring_message::{ErrorData, Failure, Kind, Started};
use serde_json::json;

/// The phases of the boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BootPhase {
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
pub(super) struct Adapter {
    pub(super) name: String,
    pub(super) state: AdapterState,
}

/// How far a transport is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AdapterState {
    Starting,
    /// It listens on this address.
    Started {
        address: String,
    },
    /// It will bring no more messages.
    Ended,
}

impl Lifecycle {
    /// Whether a transport may still bring messages.
    pub(super) fn has_adapters(&self) -> bool {
        self.adapters.iter().any(|adapter| adapter.state != AdapterState::Ended)
    }

    /// Stops the transports, the last one first if the boot is undone.
    pub(super) fn stop_adapters(&mut self, is_boot: bool, out: &mut Out) {
        let mut all: Vec<(usize, &mut Adapter)> = self.adapters.iter_mut().enumerate().collect();
        if is_boot {
            all.reverse();
        }
        // Before ADAPT none was started.
        let have_begun = !is_boot || self.phase == BootPhase::Adapt;
        for (at, adapter) in all {
            if have_begun && adapter.state != AdapterState::Ended {
                out.push(Effect::StopAdapter { adapter: at as u32 });
            }
            adapter.state = AdapterState::Ended;
        }
    }

    /// The transports, each with its address once it has one.
    fn adapter_names(&self) -> Vec<String> {
        let name = |adapter: &Adapter| match &adapter.state {
            AdapterState::Started { address } => format!("{}:{address}", adapter.name),
            _ => adapter.name.clone(),
        };
        self.adapters.iter().map(name).collect()
    }
}

impl Kernel {
    /// Boots: LOAD, DISCOVER and BUILD at once, SPAWN, ATTACH and ADAPT by effects that inputs
    /// answer, then READY.
    pub fn boot(&mut self, plan: BootPlan, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.boot(&plan));
        if std::mem::replace(&mut self.lifecycle.has_begun, true) {
            return;
        }
        let timer = self.out.schedule_in(self.config.boot_timeout_ms, Job::Boot);
        self.lifecycle.boot_timer = Some(timer);
        if let Err(text) = self.load_discover_build(plan) {
            return self.boot_failed_in_phase(&text);
        }
        self.take_up();
        self.warn_of_events_without_journal();
        self.lifecycle.phase = BootPhase::Spawn;
        for capability in self.actors.ids() {
            self.actors.spawn(capability, &mut self.out);
        }
        self.advance_boot();
    }

    fn load_discover_build(&mut self, plan: BootPlan) -> Result<(), String> {
        for (at, manifest) in plan.capabilities.iter().enumerate() {
            check_manifest(manifest)?;
            if plan.capabilities[..at].iter().any(|other| other.id == manifest.id) {
                return Err(format!("two capabilities have the id {:?}", manifest.id));
            }
        }
        self.lifecycle.phase = BootPhase::Discover;
        let found = plan
            .capabilities
            .into_iter()
            .map(Candidate::discover)
            .collect::<Result<Vec<Candidate>, String>>()?;
        self.lifecycle.phase = BootPhase::Build;
        self.routes.add_builtins();
        self.routes.check_claims(&found.iter().collect::<Vec<_>>(), |_| false, |_| "")?;
        for candidate in found {
            self.add_capability(candidate);
        }
        let starting = |name| Adapter { name, state: AdapterState::Starting };
        self.lifecycle.adapters = plan.adapters.into_iter().map(starting).collect();
        Ok(())
    }

    /// Adds a capability after all others, whose claims were checked.
    pub(crate) fn add_capability(&mut self, candidate: Candidate) {
        let capability = self.actors.next_id();
        let contract = self.routes.add(capability, candidate);
        let peer = self.requests.add_capability();
        let queue = self.lanes.open(Sender::Actor(capability));
        self.actors.add(contract, peer, queue);
    }

    pub(crate) fn boot_spawned(&mut self, actor: ActorRef, result: Result<(), String>) {
        match self.actors.boot_spawned(actor, result) {
            None => {}
            Some(Ok(())) => self.advance_boot(),
            Some(Err(text)) => self.boot_failed_in_phase(&text),
        }
    }

    pub(crate) fn boot_attached(&mut self, actor: ActorRef, result: Result<(), String>) {
        if self.lifecycle.phase != BootPhase::Attach {
            return;
        }
        match self.actors.boot_attached(actor, result) {
            None => {}
            Some(Ok(())) => {
                self.actor_up(actor);
                self.advance_boot();
            }
            Some(Err(text)) => self.boot_failed_in_phase(&text),
        }
    }

    /// Answers [`Effect::StartAdapter`], with the address it listens on.
    pub fn adapter_started(&mut self, adapter: u32, result: Result<String, String>, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.adapter_started(adapter, &result));
        if !self.lifecycle.is_booting() || self.lifecycle.phase != BootPhase::Adapt {
            return;
        }
        let Some(it) = self.lifecycle.adapters.get_mut(adapter as usize) else { return };
        if it.state != AdapterState::Starting {
            return;
        }
        match result {
            Ok(address) => {
                it.state = AdapterState::Started { address };
                self.advance_boot();
            }
            Err(reason) => {
                it.state = AdapterState::Ended;
                let text = format!("the listener {} could not be started: {reason}", it.name);
                self.boot_failed_in_phase(&text);
            }
        }
    }

    /// The transport will bring no more messages (the end of standard input, in a batch).
    pub fn adapter_ended(&mut self, adapter: u32, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.adapter_ended(adapter));
        if let Some(it) = self.lifecycle.adapters.get_mut(adapter as usize) {
            it.state = AdapterState::Ended;
        }
    }

    /// Goes to the next phase when all of this one is done.
    fn advance_boot(&mut self) {
        if self.lifecycle.phase == BootPhase::Spawn && self.actors.are_all_spawned() {
            self.lifecycle.phase = BootPhase::Attach;
            self.actors.attach_all(&mut self.out);
        }
        if self.lifecycle.phase == BootPhase::Attach && self.actors.are_all_up() {
            self.lifecycle.phase = BootPhase::Adapt;
            for adapter in 0..self.lifecycle.adapters.len() {
                self.out.push(Effect::StartAdapter { adapter: adapter as u32 });
            }
        }
        let is_starting = |adapter: &Adapter| adapter.state == AdapterState::Starting;
        if self.lifecycle.phase == BootPhase::Adapt && !self.lifecycle.adapters.iter().any(is_starting) {
            self.boot_ready();
        }
    }

    fn boot_ready(&mut self) {
        self.lifecycle.phase = BootPhase::Ready;
        self.lifecycle.stage = Stage::Running;
        if let Some(timer) = self.lifecycle.boot_timer.take() {
            self.out.wheel.cancel(timer);
        }
        let summary = self.boot_summary();
        let event = self.out.message(Kind::Event, "Sys.BootComplete", &summary.to_string(), Cause::NONE);
        self.out.push(Effect::Ready { summary: event.clone() });
        // The lane is empty but for this.
        self.out.system.announce(event, Hearers::All);
    }

    fn boot_summary(&self) -> serde_json::Value {
        let mut subscriptions = serde_json::Map::new();
        for (event, wanted_by) in self.routes.subscriptions() {
            let ids = wanted_by.iter().map(|capability| self.actors.id(*capability).to_owned());
            subscriptions.insert(event.to_owned(), ids.collect());
        }
        json!({
            "capabilities": self.actors.summary(),
            "subscriptions": subscriptions,
            "adapters": self.lifecycle.adapter_names(),
            "timers": { "defaultTimeout": self.config.default_timeout_ms },
        })
    }

    pub(crate) fn boot_too_slow(&mut self) {
        self.lifecycle.boot_timer = None;
        if self.lifecycle.is_booting() {
            let limit = self.config.boot_timeout_ms;
            let text = match self.lifecycle.phase {
                BootPhase::Spawn => {
                    let awaited: Vec<&str> = self.actors.awaited().collect();
                    format!("not started within {limit} ms (`timeouts.boot`): {}", awaited.join(", "))
                }
                _ => format!("not done within {limit} ms (`timeouts.boot`)"),
            };
            self.boot_failed_in_phase(&text);
        }
    }

    /// Reports the failure, undoes the phases that had succeeded, and ends.
    pub(crate) fn boot_failed_in_phase(&mut self, text: &str) {
        if !self.lifecycle.is_booting() {
            return;
        }
        self.leave_facts_alone();
        let words = format!("{}: {text}", self.lifecycle.phase.name());
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
        let cause = self.out.fresh_id().to_owned();
        let report = self.out.message(Kind::Error, failure.type_name(), &data, Cause::named(&cause));
        self.out.push(Effect::BootFailed { report });
        // What came in through the adapters that had started is answered like everything else.
        for key in self.requests.live_keys() {
            self.fail(key, Failure::ShuttingDown, "the boot failed before the request was routed");
        }
        // ADAPT, ATTACH and SPAWN are undone, in that order.
        self.lifecycle.stop_adapters(true, &mut self.out);
        self.actors.terminate_all(true, &mut self.out);
        self.close_all_connections();
        self.lifecycle.stage = Stage::Ended;
        self.out.push(Effect::Exit { code: 1 });
    }
}
