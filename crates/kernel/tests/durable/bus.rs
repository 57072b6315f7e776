//! A kernel with a journal in memory: facts are on disk when the test says so, what rests on them
//! is held until then, and a power cut keeps what is on disk and nothing else.

use crate::support::manifest;
use mainspring_kernel::{
    ActorExit, ActorRef, BootPlan, Config, ConnectionId, Durable, DurableBounds, Effect, Fact, FactRecord,
    Kernel, Limits, Manifest, Now, Rights, Source, Turn,
};
use mainspring_message::{Draft, Envelope, Json};
use serde_json::Value;

pub(crate) const START_UNIX_MS: u64 = 1_767_910_000_000;

pub(crate) struct Bus {
    pub(crate) kernel: Kernel,
    pub(crate) now: Now,
    config: Config,
    capabilities: Vec<Manifest>,
    /// What the settings of the next run say of peers.
    pub(crate) peers: Vec<(String, Rights)>,
    /// How much of what is over is kept, from the next run on.
    pub(crate) bounds: DurableBounds,
    /// What is on disk.
    pub(crate) disk: Vec<Fact<&'static str>>,
    /// What was recorded in this run, and how much of it is on disk.
    pub(crate) recorded: Vec<Fact<&'static str>>,
    pub(crate) flushed: usize,
    /// What waits, each with the fact that it rests on.
    held: Vec<(u64, Effect)>,
    after: u64,
    /// Whether every fact is on disk at once.
    pub(crate) quick: bool,
    pub(crate) written: Vec<(ConnectionId, Envelope)>,
    pub(crate) delivered: Vec<(ActorRef, Envelope)>,
    pub(crate) exit: Option<i32>,
    nonce: u64,
    /// Whether clients read what is written to them at once; else what they have not read.
    pub(crate) reads: bool,
    unread: Vec<(ConnectionId, usize)>,
    serial: u64,
}

pub(crate) fn orders() -> Manifest {
    manifest("orders", &["command:Order.Place", "query:Order.Get"])
}

/// A fact that was recorded; it stays for as long as the test runs.
fn kept(record: FactRecord<'_>) -> Fact<&'static str> {
    Fact::read(record.kind, record.version, Box::leak(record.data.into())).unwrap()
}

impl Bus {
    pub(crate) fn new(capabilities: Vec<Manifest>) -> Bus {
        Bus::with_limits(Limits::default(), capabilities)
    }

    pub(crate) fn with_limits(limits: Limits, capabilities: Vec<Manifest>) -> Bus {
        let config = Config { window_ms: 24 * 3_600_000, limits, ..Config::default() };
        let now = Now { mono_ns: 5_000_000_000, unix_ms: START_UNIX_MS };
        let mut bus = Bus {
            kernel: Kernel::new(config.clone(), 1),
            now,
            config,
            capabilities,
            peers: Vec::new(),
            bounds: DurableBounds::default(),
            disk: Vec::new(),
            recorded: Vec::new(),
            flushed: 0,
            held: Vec::new(),
            after: 0,
            quick: true,
            written: Vec::new(),
            delivered: Vec::new(),
            exit: None,
            nonce: 1,
            reads: true,
            unread: Vec::new(),
            serial: 0,
        };
        bus.start();
        bus
    }

    /// What the facts on disk come to.
    pub(crate) fn durable(&self) -> Durable {
        let mut durable = Durable::new(self.bounds);
        for fact in &self.disk {
            let mut bytes = Vec::new();
            fact.write(&mut bytes);
            durable.apply_record(fact.kind(), fact.version(), &bytes).unwrap();
        }
        durable
    }

    fn start(&mut self) {
        let durable = self.durable();
        // A snapshot in between makes no difference.
        let mut copy = Durable::new(self.bounds);
        durable.facts().for_each(|fact| copy.apply(fact));
        assert_eq!(copy, durable);
        self.kernel.restore(copy, self.now);
        self.kernel.peers_have(self.peers.clone(), self.now);
        let capabilities = self.capabilities.clone();
        self.kernel.boot(BootPlan { capabilities, adapters: vec!["unix".into()] }, self.now);
        self.run();
    }

    /// The process ends at once, and another one starts after a while: what is not on disk is gone.
    pub(crate) fn cut_power(&mut self, down_ms: u64) {
        let capabilities = self.capabilities.clone();
        self.cut_power_and_run(down_ms, capabilities);
    }

    pub(crate) fn cut_power_and_run(&mut self, down_ms: u64, capabilities: Vec<Manifest>) {
        self.capabilities = capabilities;
        self.nonce += 1;
        self.kernel = Kernel::new(self.config.clone(), self.nonce);
        // Monotonic time begins anew with the machine.
        self.now = Now { mono_ns: 1_000_000, unix_ms: self.now.unix_ms + down_ms };
        self.recorded.clear();
        self.held.clear();
        self.written.clear();
        self.delivered.clear();
        (self.flushed, self.after, self.exit) = (0, 0, None);
        self.start();
    }

    /// The first `count` facts of this run are on disk, as far as there are so many.
    pub(crate) fn flush_up_to(&mut self, count: usize) {
        let count = count.min(self.recorded.len());
        self.disk.extend_from_slice(&self.recorded[self.flushed.min(count)..count]);
        self.flushed = self.flushed.max(count);
        self.kernel.flushed(self.flushed as u64, self.now);
        let held = std::mem::take(&mut self.held);
        for (fact, effect) in held {
            self.offer(fact, effect);
        }
    }

    pub(crate) fn flush(&mut self) {
        self.flush_up_to(usize::MAX);
        self.run();
    }

    fn offer(&mut self, fact: u64, effect: Effect) {
        let target = |effect: &Effect| match effect {
            Effect::Deliver { actor, .. } | Effect::Stop { actor } => {
                Some((0, u64::from(actor.capability.0)))
            }
            Effect::Write { connection, .. } | Effect::Close { connection, .. } => Some((1, connection.0)),
            _ => None,
        };
        let own = target(&effect);
        let waits = own.is_some() && self.held.iter().any(|(_, held)| target(held) == own);
        if waits || fact > self.flushed as u64 {
            assert!(own.is_some(), "{effect:?} rests on a fact");
            self.held.push((fact, effect));
        } else {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        let now = self.now;
        match effect {
            Effect::Spawn { actor } => self.kernel.actor_spawned(actor, Ok(()), now),
            Effect::Attach { actor } => self.kernel.actor_attached(actor, Ok(()), now),
            Effect::StartAdapter { adapter } => {
                self.kernel.adapter_started(adapter, Ok("/run/test".into()), now);
            }
            Effect::Stop { actor } => self.kernel.actor_exited(actor, ActorExit::Done, now),
            Effect::Write { connection, message } => {
                let bytes = message.line().len() + 1;
                match self.reads {
                    true => self.kernel.written(connection, bytes, now),
                    false => self.unread.push((connection, bytes)),
                }
                self.written.push((connection, message));
            }
            Effect::Deliver { actor, message } => self.delivered.push((actor, message)),
            Effect::Exit { code } => self.exit = Some(code),
            _ => {}
        }
    }

    /// Clients read what was written to them so far.
    pub(crate) fn read_all(&mut self) {
        for (connection, bytes) in std::mem::take(&mut self.unread) {
            self.kernel.written(connection, bytes, self.now);
        }
        self.run();
    }

    /// A number that was not used before.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn settle(&mut self) -> bool {
        let mut effects = Vec::new();
        self.kernel.drain_effects(&mut effects);
        let any = !effects.is_empty();
        for effect in effects {
            match effect {
                Effect::Record(records) => {
                    self.recorded.extend(records.iter().map(kept));
                    if self.quick {
                        self.flush_up_to(usize::MAX);
                    }
                }
                Effect::After { fact } => self.after = fact,
                effect => {
                    let after = std::mem::take(&mut self.after);
                    self.offer(after, effect);
                }
            }
        }
        any
    }

    pub(crate) fn run(&mut self) {
        self.settle();
        for _ in 0..100_000 {
            let turn = self.kernel.turn(self.now);
            if !self.settle() && turn != Turn::More {
                return;
            }
        }
        panic!("the loop does not come to rest");
    }

    /// From whom the daemon is to stop reading, and from whom to read again, since the last turn.
    pub(crate) fn reading(&mut self) -> (Vec<Source>, Vec<Source>) {
        let (mut effects, mut paused, mut resumed) = (Vec::new(), Vec::new(), Vec::new());
        self.kernel.drain_effects(&mut effects);
        for effect in effects {
            match effect {
                Effect::PauseReading { source } => paused.push(source),
                Effect::ResumeReading { source } => resumed.push(source),
                _ => {}
            }
        }
        (paused, resumed)
    }

    pub(crate) fn pass_ms(&mut self, ms: u64) {
        let end = self.now.mono_ns + ms as i64 * 1_000_000;
        self.run();
        while let Some(deadline) = self.kernel.next_deadline().filter(|deadline| *deadline <= end) {
            self.set_time(deadline.max(self.now.mono_ns));
            self.run();
            if self.exit.is_some() {
                break;
            }
        }
        self.set_time(end);
        self.run();
    }

    fn set_time(&mut self, mono_ns: i64) {
        let passed_ms = (mono_ns / 1_000_000 - self.now.mono_ns / 1_000_000) as u64;
        self.now = Now { mono_ns, unix_ms: self.now.unix_ms + passed_ms };
    }

    pub(crate) fn connect(&mut self, number: u64, peer: &str) -> ConnectionId {
        self.kernel.connection_opened(ConnectionId(number), peer, self.now);
        self.kernel.connection_has(ConnectionId(number), Rights::of_operator(), self.now);
        ConnectionId(number)
    }

    pub(crate) fn send(&mut self, connection: ConnectionId, line: &str) {
        self.kernel.ingest(connection, line.as_bytes(), self.now);
        self.run();
    }

    /// Sends, and gives the one answer.
    pub(crate) fn ask(&mut self, connection: ConnectionId, line: &str) -> Envelope {
        let before = self.written.len();
        self.send(connection, line);
        assert_eq!(self.written.len(), before + 1, "{:?}", &self.written[before..]);
        self.written.pop().unwrap().1
    }

    pub(crate) fn only_delivered(&mut self) -> (ActorRef, Envelope) {
        let mut delivered = std::mem::take(&mut self.delivered);
        assert_eq!(delivered.len(), 1, "{delivered:?}");
        delivered.remove(0)
    }

    pub(crate) fn only_written(&mut self) -> Envelope {
        let mut written = std::mem::take(&mut self.written);
        assert_eq!(written.len(), 1, "{written:?}");
        written.remove(0).1
    }

    pub(crate) fn replies(&mut self, actor: ActorRef, request: &Envelope, data: Value) {
        self.kernel.actor_message(actor, Draft::reply(request, Json::from(data)), self.now);
        self.run();
    }

    /// The names of the facts of this run, without the first.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.recorded.iter().skip(1).map(Fact::name).collect()
    }

    pub(crate) fn fail_storage(&mut self) {
        self.kernel.storage_failed("input/output error", self.now);
        for (fact, effect) in std::mem::take(&mut self.held) {
            if fact > self.flushed as u64 {
                self.kernel.effect_lost(&effect, self.now);
            } else {
                self.carry_out(effect);
            }
        }
        self.flushed = usize::MAX;
        self.run();
    }
}
