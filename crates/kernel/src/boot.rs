//! The boot: LOAD, DISCOVER, BUILD, SPAWN, ATTACH, ADAPT, READY; undone when a phase fails.

use crate::actors::{Actor, ActorState};
use crate::builtins;
use crate::effect::{Effect, Level};
use crate::ids::{ActorRef, Now};
use crate::ingest::is_reserved;
use crate::input::BootPlan;
use crate::kernel::{Job, Kernel, Life, ns};
use crate::lanes::Sender;
use crate::manifest::Manifest;
use crate::routes::{Handler, Outbound, Route};
use crate::schema::{Discovery, EnvelopeValidator, discover};
use crate::wheel::{TimerKey, deadline_after};
use mainspring_message::{ErrorData, Failure, Kind, Started, check_type_name};
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
        let mut found: Vec<(Manifest, Discovery, Outbound)> = Vec::new();
        for manifest in plan.capabilities {
            let inbound = discover(&manifest.inbound)
                .map_err(|error| format!("the inbound schema of {}: {error}", manifest.id))?;
            let outbound = read_outbound(&manifest)?;
            found.push((manifest, inbound, outbound));
        }
        self.boot_state.phase = BootPhase::Build;
        builtins::add_routes(&mut self.routes);
        for (manifest, inbound, outbound) in found {
            self.add_capability(manifest, inbound, outbound)?;
        }
        let starting = |name| Adapter { name, state: AdapterState::Starting };
        self.boot_state.adapters = plan.adapters.into_iter().map(starting).collect();
        Ok(())
    }

    fn add_capability(
        &mut self,
        manifest: Manifest,
        inbound: Discovery,
        outbound: Outbound,
    ) -> Result<(), String> {
        let capability = self.actors.len() as u32;
        let mut handles = Vec::new();
        for event in &manifest.subscribes {
            self.routes.add_subscriber(event, capability, None);
        }
        for pair in inbound {
            handles.push((pair.kind, pair.type_name.clone()));
            match pair.kind {
                Kind::Event => self.routes.add_subscriber(&pair.type_name, capability, Some(pair.validator)),
                Kind::Command | Kind::Query => {
                    let (kind, name) = (pair.kind, &pair.type_name);
                    if is_reserved(name) {
                        return Err(format!(
                            "{} claims {kind}:{name}, which the loop keeps for itself",
                            manifest.id
                        ));
                    }
                    let route =
                        Route { handler: Handler::Capability(capability), inbound: Some(pair.validator) };
                    self.routes.add_handler(kind, name, route).map_err(|taken| {
                        let first = match taken {
                            Handler::Capability(first) => self.actors[first as usize].manifest.id.as_str(),
                            Handler::Builtin(_) => "the loop",
                        };
                        format!("duplicate handler for {kind}:{name}: {first} and {}", manifest.id)
                    })?;
                }
                // Outcomes come to whoever asked; listing them in a schema is allowed and needs no route.
                Kind::Reply | Kind::Error => {}
            }
        }
        let mut actor = Actor::new(manifest, handles, outbound);
        actor.peer = self.peers.add_actor();
        actor.queue = self.lanes.open(Sender::Actor(capability));
        self.actors.push(actor);
        Ok(())
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
        let cause = self.fresh_id();
        let report = self.loop_message(Kind::Error, failure.type_name(), &data, Some(&cause), None, now);
        self.log(Level::Error, format!("boot failed in {words}"));
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

fn check_manifest(manifest: &Manifest) -> Result<(), String> {
    let id = &manifest.id;
    let wrong = |what: &str| Err(format!("the manifest of {id:?}: {what}"));
    if id.is_empty() || id.len() > 128 || id.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return wrong("id must be 1 to 128 characters without spaces");
    }
    if manifest.description.trim().is_empty() {
        return wrong("description must say what the capability does");
    }
    for event in &manifest.subscribes {
        if let Err(reason) = check_type_name(event) {
            return wrong(&format!("subscribes: {event:?}: {reason}"));
        }
    }
    if manifest.limits.concurrency == 0 {
        return wrong("limits.concurrency must be at least 1");
    }
    if manifest.limits.mailbox_messages == 0 || manifest.limits.mailbox_bytes == 0 {
        return wrong("limits.mailbox_messages and limits.mailbox_bytes must be at least 1");
    }
    if manifest.retry.attempts == 0 {
        return wrong("retry.attempts must be at least 1: the first delivery counts");
    }
    Ok(())
}

fn read_outbound(manifest: &Manifest) -> Result<Outbound, String> {
    let Some(schema) = &manifest.outbound else { return Ok(Outbound::Anything) };
    if let Ok(pairs) = discover(schema) {
        let pairs = pairs.into_iter().map(|pair| ((pair.kind, pair.type_name.into()), pair.validator));
        return Ok(Outbound::Pairs(pairs.collect()));
    }
    let whole = EnvelopeValidator::new(schema)
        .map_err(|error| format!("the outbound schema of {}: {error}", manifest.id))?;
    Ok(Outbound::Whole(Box::new(whole)))
}
