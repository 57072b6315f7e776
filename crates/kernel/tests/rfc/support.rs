//! A world around a kernel, in virtual time: it answers the boot, keeps what was written and
//! delivered, and lets a test speak as clients and actors.
#![allow(dead_code, unreachable_pub)]

use mainspring_kernel::{
    ActorExit, ActorRef, BootPlan, Config, ConnectionId, Effect, Kernel, Manifest, Now, Rights, Turn,
};
use mainspring_message::{Draft, Envelope, Json};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The start of virtual time.
pub const START_UNIX_MS: u64 = 1_767_910_000_000;

/// A manifest that handles these `kind:Type` pairs and may say anything.
pub fn manifest(id: &str, handles: &[&str]) -> Manifest {
    let branches: Vec<Value> = handles
        .iter()
        .map(|handle| {
            let (kind, name) = handle.split_once(':').unwrap();
            json!({ "properties": { "kind": { "const": kind }, "type": { "const": name } } })
        })
        .collect();
    serde_json::from_value(json!({
        "id": id,
        "description": format!("The test capability {id}."),
        "inbound": { "anyOf": branches },
    }))
    .unwrap()
}

/// A line of a message without causation.
pub fn line(kind: &str, type_name: &str, id: &str, data: Value) -> String {
    json!({ "kind": kind, "type": type_name, "data": data, "metadata": { "id": id, "timestamp": 1 } })
        .to_string()
}

/// A line with these further metadata members.
pub fn line_with(kind: &str, type_name: &str, id: &str, data: Value, more: Value) -> String {
    let mut metadata = json!({ "id": id, "timestamp": 1 });
    for (name, value) in more.as_object().unwrap() {
        metadata[name] = value.clone();
    }
    json!({ "kind": kind, "type": type_name, "data": data, "metadata": metadata }).to_string()
}

pub struct World {
    pub kernel: Kernel,
    pub now: Now,
    /// Every effect so far.
    pub effects: Vec<Effect>,
    /// What was written, by connection, until taken.
    pub written: BTreeMap<ConnectionId, Vec<Envelope>>,
    /// What was delivered, in order, until taken.
    pub delivered: Vec<(ActorRef, Envelope)>,
    /// Whether writes count as read by the client at once.
    pub clients_read: bool,
    /// Whether spawns and attaches succeed at once.
    pub auto_start: bool,
    /// Whether actors end as soon as they are asked to.
    pub auto_stop: bool,
    next_id: u64,
}

impl World {
    pub fn new(config: Config) -> World {
        World {
            kernel: Kernel::new(config, 0xfeed),
            now: Now { mono_ns: 0, unix_ms: START_UNIX_MS },
            effects: Vec::new(),
            written: BTreeMap::new(),
            delivered: Vec::new(),
            clients_read: true,
            auto_start: true,
            auto_stop: true,
            next_id: 0,
        }
    }

    /// A running world with these capabilities and shipped settings.
    pub fn booted(capabilities: Vec<Manifest>) -> World {
        World::booted_with(Config::default(), capabilities)
    }

    pub fn booted_with(config: Config, capabilities: Vec<Manifest>) -> World {
        let mut world = World::new(config);
        world.boot(capabilities);
        assert!(
            world.effects.iter().any(|effect| matches!(effect, Effect::Ready { .. })),
            "{:?}",
            world.effects
        );
        world.run();
        world
    }

    pub fn boot(&mut self, capabilities: Vec<Manifest>) {
        self.kernel.boot(BootPlan { capabilities, adapters: vec!["unix".into()] }, self.now);
        self.settle();
    }

    /// Carries out effects until there are none; returns whether there were any.
    pub fn settle(&mut self) -> bool {
        let mut any = false;
        loop {
            let mut effects = Vec::new();
            self.kernel.drain_effects(&mut effects);
            if effects.is_empty() {
                return any;
            }
            any = true;
            for effect in effects {
                self.carry_out(&effect);
                self.effects.push(effect);
            }
        }
    }

    fn carry_out(&mut self, effect: &Effect) {
        match effect {
            Effect::Spawn { actor } if self.auto_start => self.kernel.actor_spawned(*actor, Ok(()), self.now),
            Effect::Attach { actor } if self.auto_start => {
                self.kernel.actor_attached(*actor, Ok(()), self.now)
            }
            Effect::StartAdapter { adapter } if self.auto_start => {
                self.kernel.adapter_started(*adapter, Ok("/run/test.sock".into()), self.now);
            }
            Effect::Stop { actor } if self.auto_stop => {
                self.kernel.actor_exited(*actor, ActorExit::Done, self.now)
            }
            Effect::Write { connection, message } => {
                self.written.entry(*connection).or_default().push(message.clone());
                if self.clients_read {
                    self.kernel.written(*connection, message.line().len() + 1, self.now);
                }
            }
            Effect::Deliver { actor, message } => self.delivered.push((*actor, message.clone())),
            _ => {}
        }
    }

    /// Turns until nothing is left to do now.
    pub fn run(&mut self) -> Turn {
        self.settle();
        for _ in 0..1_000_000 {
            let turn = self.kernel.turn(self.now);
            // Carrying out effects feeds inputs, after which the kernel may have more to do.
            if !self.settle() && turn != Turn::More {
                return turn;
            }
        }
        panic!("the kernel does not come to rest");
    }

    /// Lets time pass, stopping at every deadline on the way.
    pub fn pass_ms(&mut self, ms: u64) {
        let end_ns = self.now.mono_ns + ms as i64 * 1_000_000;
        self.run();
        while let Some(deadline_ns) = self.kernel.next_deadline().filter(|deadline_ns| *deadline_ns <= end_ns)
        {
            self.set_time(deadline_ns.max(self.now.mono_ns));
            if self.run() == Turn::Ended {
                break;
            }
        }
        self.set_time(end_ns);
        self.run();
    }

    fn set_time(&mut self, mono_ns: i64) {
        self.now = Now { mono_ns, unix_ms: START_UNIX_MS + (mono_ns / 1_000_000) as u64 };
    }

    pub fn connect(&mut self, number: u64) -> ConnectionId {
        self.connect_as(number, &format!("peer-{number}"))
    }

    pub fn connect_as(&mut self, number: u64, peer: &str) -> ConnectionId {
        let connection = self.connect_with(number, peer, Rights::of_operator());
        self.settle();
        connection
    }

    /// A connection with these rights.
    pub fn connect_with(&mut self, number: u64, peer: &str, rights: Rights) -> ConnectionId {
        let connection = ConnectionId(number);
        self.kernel.connection_opened(connection, peer, self.now);
        self.kernel.connection_has(connection, rights, self.now);
        self.settle();
        connection
    }

    /// A client sends a line; nothing turns yet.
    pub fn send(&mut self, connection: ConnectionId, line: &str) {
        self.kernel.ingest(connection, line.as_bytes(), self.now);
        self.settle();
    }

    /// A client sends a line and the loop runs; what was written to it is returned.
    pub fn ask(&mut self, connection: ConnectionId, line: &str) -> Vec<Envelope> {
        self.send(connection, line);
        self.run();
        self.take_written(connection)
    }

    /// A built-in's answer.
    pub fn call(&mut self, connection: ConnectionId, kind: &str, type_name: &str, data: Value) -> Envelope {
        self.next_id += 1;
        let id = format!("call-{}", self.next_id);
        let mut answers = self.ask(connection, &line(kind, type_name, &id, data));
        let at = answers.iter().position(|answer| answer.causation() == Some(&id)).expect("an answer");
        let answer = answers.remove(at);
        self.written.entry(connection).or_default().extend(answers);
        answer
    }

    pub fn take_written(&mut self, connection: ConnectionId) -> Vec<Envelope> {
        self.written.remove(&connection).unwrap_or_default()
    }

    /// The one message written to the connection.
    pub fn only_written(&mut self, connection: ConnectionId) -> Envelope {
        let mut written = self.take_written(connection);
        assert_eq!(written.len(), 1, "{written:?}");
        written.remove(0)
    }

    pub fn take_delivered(&mut self) -> Vec<(ActorRef, Envelope)> {
        std::mem::take(&mut self.delivered)
    }

    /// The one message delivered.
    pub fn only_delivered(&mut self) -> (ActorRef, Envelope) {
        let mut delivered = self.take_delivered();
        assert_eq!(delivered.len(), 1, "{delivered:?}");
        delivered.remove(0)
    }

    /// An actor says a line and the loop runs.
    pub fn says(&mut self, actor: ActorRef, line: &str) {
        self.kernel.actor_line(actor, line.as_bytes(), self.now);
        self.run();
    }

    /// An actor says a draft and the loop runs.
    pub fn says_draft(&mut self, actor: ActorRef, draft: Draft) {
        self.kernel.actor_message(actor, draft, self.now);
        self.run();
    }

    /// An actor replies to what it was given.
    pub fn replies(&mut self, actor: ActorRef, request: &Envelope, data: Value) {
        self.says_draft(actor, Draft::reply(request, Json::from(data)));
    }

    pub fn crashes(&mut self, actor: ActorRef) {
        self.kernel.actor_exited(actor, ActorExit::Failed("exit code 7".into()), self.now);
        self.run();
    }

    /// How many effects fit.
    pub fn count(&self, fits: impl Fn(&Effect) -> bool) -> usize {
        self.effects.iter().filter(|effect| fits(effect)).count()
    }

    pub fn dead_letters(&mut self, connection: ConnectionId) -> Vec<Value> {
        let answer = self.call(connection, "query", "Sys.DeadLetters", json!({ "action": "list" }));
        data(&answer)["letters"].as_array().unwrap().clone()
    }

    pub fn actor_state(&mut self, connection: ConnectionId, id: &str) -> String {
        let answer = self.call(connection, "query", "Sys.Actors", json!({}));
        let all = data(&answer);
        let found =
            all["actors"].as_array().unwrap().iter().find(|actor| actor["capabilityId"] == id).unwrap();
        found["state"].as_str().unwrap().to_owned()
    }
}

/// The data of a message as a value.
pub fn data(message: &Envelope) -> Value {
    message.data_as().unwrap()
}

/// The code of an error.
pub fn code(message: &Envelope) -> u64 {
    assert_eq!(message.kind().as_str(), "error", "{message:?}");
    data(message)["code"].as_u64().unwrap()
}
