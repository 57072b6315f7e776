//! One node: a kernel, its uplink, and a capability that takes its time.

use super::ledger::NodesLedger;
use super::network::{LinkState, Network, Published, Subscription};
use crate::random::Random;
use crate::world::{Checked, Violation};
use mainspring_kernel::{
    ActorExit, ActorRef, BootPlan, Change, Config, ConnectionId, Durable, DurableBounds, Effect, Kernel,
    Manifest, Now, Rights, Turn,
};
use mainspring_message::{Envelope, Kind};
use mainspring_uplink::{Boot, Command, IMPORT_PREFIX, ImportChange, Incoming, Uplink, UplinkSettings};
use serde_json::json;
use std::collections::BTreeMap;

/// The client of each node.
const CLIENT: ConnectionId = ConnectionId(1);
/// The most turns in which a kernel without new inputs must come to rest.
const SETTLE_TURNS_MAX: u32 = 100_000;
/// What NATS carries here.
const MAX_PAYLOAD: usize = 1 << 20;

/// What a node is, through all its runs.
pub(super) struct Place {
    pub(super) name: String,
    pub(super) serves: bool,
    pub(super) has_journal: bool,
    /// Facts that survive, as they stand on disk.
    facts: Vec<(u8, u8, Vec<u8>)>,
    starts: u64,
    pub(super) node: Option<Node>,
    /// While it is stopped: until when.
    pub(super) stopped_until_ns: i64,
}

/// One run of a node.
pub(super) struct Node {
    index: usize,
    kernel: Kernel,
    pub(super) uplink: Uplink,
    recorded: u64,
    /// The ids of imported capabilities, by number.
    imports: BTreeMap<u32, String>,
    /// Requests in progress with the node's own actor, by when they are done.
    working: BTreeMap<(i64, u64), (ActorRef, Envelope)>,
    serial: u64,
}

fn manifest() -> Manifest {
    let branch = |kind: &str, name: &str| json!({ "properties": { "kind": { "const": kind }, "type": { "const": name } } });
    let inbound = json!({ "oneOf": [branch("command", "Work.Do"), branch("query", "Work.Get")] });
    let mut manifest = Manifest::new("work", "Works.", inbound);
    manifest.share = true;
    manifest.limits.concurrency = 64;
    manifest
}

impl Place {
    pub(super) fn new(name: String, serves: bool, has_journal: bool) -> Place {
        Place { name, serves, has_journal, facts: Vec::new(), starts: 0, node: None, stopped_until_ns: 0 }
    }

    /// Starts it on what its journal holds.
    pub(super) fn start(&mut self, index: usize, now: Now, world: &mut Surroundings<'_>) -> Checked {
        self.starts += 1;
        let nonce = (index as u64 + 1) << 32 | self.starts;
        let mut kernel = Kernel::new(Config { window_ms: 24 * 3_600_000, ..Config::default() }, nonce);
        let mut uplink = Uplink::new(UplinkSettings {
            bus: "sim".into(),
            node: self.name.clone(),
            import: vec!["Work.*".into()],
            events: Vec::new(),
            boot: Boot { at_ms: now.unix_ms, nonce },
            has_journal: self.has_journal,
            concurrency: 256,
            node_requests_max: 1000,
            late_ns: 5_000_000_000,
            line_bytes_max: 1 << 20,
        });
        let mut capabilities: Vec<Manifest> = self.serves.then(manifest).into_iter().collect();
        uplink.set_capabilities(&capabilities.iter().collect::<Vec<_>>(), &mut kernel, now);
        if self.has_journal {
            let mut durable = Durable::new(DurableBounds::default());
            for (kind, version, bytes) in &self.facts {
                durable.apply_record(*kind, *version, bytes).map_err(|error| Violation(error.to_string()))?;
            }
            let imported = uplink.restore_imports(durable.values("uplink.imports"));
            uplink.restore_targets(durable.values("uplink.targets"));
            uplink.restore_cursors(durable.values("uplink.cursors"));
            kernel.restore(durable, now);
            capabilities.extend(imported);
        }
        let imports = capabilities.iter().enumerate().filter_map(|(at, manifest)| {
            manifest.id.strip_prefix(IMPORT_PREFIX).map(|id| (at as u32, id.to_owned()))
        });
        let node = Node {
            index,
            uplink,
            recorded: 0,
            imports: imports.collect(),
            working: BTreeMap::new(),
            serial: 0,
            kernel,
        };
        let node = self.node.insert(node);
        node.kernel.boot(BootPlan { capabilities, adapters: Vec::new() }, now);
        world.network.subscriptions[index].clear();
        node.settle(&mut self.facts, now, world)?;
        node.kernel.connection_opened(CLIENT, "user:1", now);
        node.kernel.connection_has(CLIENT, Rights::of_operator(), now);
        if world.network.links[index] != LinkState::Down {
            node.uplink.connected(MAX_PAYLOAD, now);
        }
        node.settle(&mut self.facts, now, world)
    }

    /// The node, if it runs now.
    pub(super) fn running(&self, now_ns: i64) -> bool {
        self.node.is_some() && self.stopped_until_ns <= now_ns
    }

    /// Does something with the node, and lets it come to rest.
    pub(super) fn with(
        &mut self,
        now: Now,
        world: &mut Surroundings<'_>,
        call: impl FnOnce(&mut Uplink, &mut Kernel),
    ) -> Checked {
        let Some(node) = &mut self.node else { return Ok(()) };
        call(&mut node.uplink, &mut node.kernel);
        node.settle(&mut self.facts, now, world)
    }

    pub(super) fn ask(&mut self, lines: &[String], now: Now, world: &mut Surroundings<'_>) -> Checked {
        self.with(now, world, |_, kernel| {
            lines.iter().for_each(|line| kernel.ingest(CLIENT, line.as_bytes(), now));
        })
    }

    pub(super) fn receive(
        &mut self,
        incoming: Incoming<'_>,
        now: Now,
        world: &mut Surroundings<'_>,
    ) -> Checked {
        self.with(now, world, |uplink, kernel| uplink.received(incoming, kernel, now))
    }

    pub(super) fn reconnect(&mut self, now: Now, world: &mut Surroundings<'_>) -> Checked {
        self.with(now, world, |uplink, _| uplink.connected(MAX_PAYLOAD, now))
    }

    /// When it has something to do by itself.
    pub(super) fn next_ns(&self) -> Option<i64> {
        let node = self.node.as_ref()?;
        let work = node.working.keys().next().map(|(at_ns, _)| *at_ns);
        let next = [work, node.kernel.next_deadline(), node.uplink.next_deadline_ns()]
            .into_iter()
            .flatten()
            .min()?;
        Some(next.max(self.stopped_until_ns))
    }

    /// Does what is due.
    pub(super) fn act(&mut self, now: Now, world: &mut Surroundings<'_>) -> Checked {
        let Some(node) = &mut self.node else { return Ok(()) };
        while let Some(at) = node.working.keys().next().copied().filter(|(at_ns, _)| *at_ns <= now.mono_ns) {
            let Some((actor, request)) = node.working.remove(&at) else { break };
            node.serial += 1;
            let answer = json!({
                "kind": "reply", "type": request.type_name(), "data": 1,
                "metadata": { "id": format!("r{}-{}", node.index, node.serial), "timestamp": 1, "causation": request.id() },
            });
            node.kernel.actor_line(actor, answer.to_string().as_bytes(), now);
        }
        if node.uplink.next_deadline_ns().is_some_and(|at_ns| at_ns <= now.mono_ns) {
            node.uplink.tick(&mut node.kernel, now);
        }
        node.settle(&mut self.facts, now, world)
    }
}

/// What a node acts upon.
pub(super) struct Surroundings<'a> {
    pub(super) network: &'a mut Network,
    pub(super) ledger: &'a mut NodesLedger,
    pub(super) random: &'a mut Random,
}

impl Node {
    /// Runs until nothing is left to do at this time.
    fn settle(
        &mut self,
        facts: &mut Vec<(u8, u8, Vec<u8>)>,
        now: Now,
        world: &mut Surroundings<'_>,
    ) -> Checked {
        for _ in 0..SETTLE_TURNS_MAX {
            let turn = self.kernel.turn(now);
            let mut effects = Vec::new();
            self.kernel.drain_effects(&mut effects);
            let mut any = !effects.is_empty();
            for effect in effects {
                self.carry_out(effect, facts, now, world)?;
            }
            any |= self.carry_out_commands(now, world);
            any |= self.adopt(now);
            if !any && turn != Turn::More {
                return Ok(());
            }
        }
        Err(Violation("a node does not come to rest without new inputs".to_owned()))
    }

    fn carry_out(
        &mut self,
        effect: Effect,
        facts: &mut Vec<(u8, u8, Vec<u8>)>,
        now: Now,
        world: &mut Surroundings<'_>,
    ) -> Checked {
        match effect {
            Effect::Record(records) => {
                for record in records.iter() {
                    facts.push((record.kind, record.version, record.data.to_vec()));
                    self.recorded += 1;
                }
                self.kernel.flushed(self.recorded, now);
                self.uplink.flushed(self.recorded, now);
            }
            Effect::Spawn { actor } => self.kernel.actor_spawned(actor, Ok(()), now),
            Effect::Attach { actor } => self.kernel.actor_attached(actor, Ok(()), now),
            Effect::Stop { actor } => self.kernel.actor_exited(actor, ActorExit::Done, now),
            Effect::Terminate { actor } => self.uplink.forget_actor(actor),
            Effect::Deliver { actor, message } => match self.imports.get(&actor.capability.0) {
                Some(id) => {
                    let id = id.clone();
                    self.uplink.deliver(&id.as_str().into(), actor, &message, &mut self.kernel, now);
                }
                None if message.kind() == Kind::Event => {}
                None => {
                    world.ledger.done(message.id())?;
                    let takes_ms = if world.random.percent(10) { 5000 } else { 20 };
                    let takes_ns = (world.random.below(takes_ms) * 1_000_000) as i64;
                    self.serial += 1;
                    self.working.insert((now.mono_ns + takes_ns, self.serial), (actor, message));
                }
            },
            Effect::Write { connection, message } if Uplink::has(connection) => {
                self.uplink.write(connection, &message, &mut self.kernel, now);
            }
            Effect::Write { connection, message } => {
                self.kernel.written(connection, message.line().len() + 1, now);
                world.ledger.told(self.index, &message)?;
            }
            Effect::Close { connection, reason } if Uplink::has(connection) => {
                self.uplink.closed(connection, &reason.to_string(), now);
            }
            Effect::Ready { .. } => self.uplink.start(&mut self.kernel, now),
            Effect::BootFailed { report } => return Err(Violation(format!("no boot: {}", report.data()))),
            _ => {}
        }
        Ok(())
    }

    fn carry_out_commands(&mut self, now: Now, world: &mut Surroundings<'_>) -> bool {
        let mut commands = Vec::new();
        self.uplink.drain_commands(&mut commands);
        let any = !commands.is_empty();
        for command in commands {
            let subscriptions = &mut world.network.subscriptions[self.index];
            match command {
                Command::Subscribe { subject, is_group } => {
                    subscriptions.push(Subscription { subject, is_group })
                }
                Command::Unsubscribe { subject } => subscriptions.retain(|of| of.subject != subject),
                Command::Publish { subject, reply, message, written } => {
                    let (reply, from) = (reply.as_deref(), self.index);
                    let published = Published { subject: &subject, reply, message: &message };
                    world.network.publish(from, &published, now.mono_ns, world.random);
                    for (connection, bytes) in written {
                        self.kernel.written(connection, bytes, now);
                    }
                }
            }
        }
        any
    }

    fn adopt(&mut self, now: Now) -> bool {
        let changes = self.uplink.take_changes();
        let any = !changes.is_empty();
        for change in changes {
            let (id, change) = match change {
                ImportChange::Set(manifest) => {
                    let id = manifest.id.clone();
                    let import = id.strip_prefix(IMPORT_PREFIX).unwrap_or_default();
                    let is_known = self.imports.values().any(|known| known == import);
                    (id, if is_known { Change::Replace(*manifest) } else { Change::Add(*manifest) })
                }
                ImportChange::Remove(id) => (id.clone(), Change::Remove(id)),
            };
            let adopted = self.kernel.reload(vec![change], now);
            if let Ok(numbers) = &adopted {
                let import = id.strip_prefix(IMPORT_PREFIX).unwrap_or_default().to_owned();
                self.imports.extend(numbers.iter().map(|number| (number.0, import.clone())));
            }
            self.uplink.adopted(&id, adopted.map(drop).map_err(|refused| refused.reason));
        }
        self.uplink.take_notices();
        any
    }
}
