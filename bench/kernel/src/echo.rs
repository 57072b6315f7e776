//! A booted kernel with an echo actor, driven by hand as the daemon drives it.

use mainspring_kernel::{ActorLimits, BootPlan, Config, ConnectionId, Effect, Kernel, Manifest, Now, Turn};
use mainspring_message::{Draft, Envelope};
use serde_json::{Value, json};

use crate::payload::Line;

/// How an actor speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    /// Parsed messages, as native actors do.
    Values,
    /// Lines, as processes and guests do: the actor reads its line and writes one, as any program
    /// would.
    Lines,
}

/// The client that is measured.
const CLIENT: ConnectionId = ConnectionId(0);
/// Unfinished requests of each client that waits for ever.
const PENDING_EACH: usize = 10_000;
/// How much time passes between two messages.
const STEP_NS: i64 = 1_500;

/// The kernel and everything around it.
pub(crate) struct Echo {
    kernel: Kernel,
    speech: Speech,
    now: Now,
    line: Line,
    effects: Vec<Effect>,
    /// What the client would read.
    out: Vec<u8>,
    scratch: String,
}

/// Prints the settings that are in force: the shipped ones.
pub(crate) fn print_defaults() {
    let config = Config::default();
    println!("shipped defaults, validation of both sides on: {config:?}\n");
}

impl Echo {
    /// A kernel with an echo capability for this data, and a number of requests that nobody
    /// answers.
    pub(crate) fn new(speech: Speech, data: &Value, schema: &Value, pending: usize) -> Echo {
        let kernel = Kernel::new(Config::default(), 7);
        let now = Now { mono_ns: 1_000_000_000, unix_ms: 1_767_910_000_000 };
        let line = Line::new("Echo.Say", data);
        let mut echo =
            Echo { kernel, speech, now, line, effects: Vec::new(), out: Vec::new(), scratch: String::new() };
        echo.boot(schema);
        echo.leave_pending(pending);
        echo.kernel.connection_opened(CLIENT, "bench", echo.now);
        echo
    }

    fn boot(&mut self, schema: &Value) {
        let capabilities =
            vec![manifest("echo", "Echo.Say", schema, 1), manifest("sink", "Sink.Take", schema, 1 << 20)];
        self.kernel.boot(BootPlan { capabilities, adapters: Vec::new() }, self.now);
        let mut ready = false;
        while !ready {
            let mut effects = Vec::new();
            self.kernel.drain_effects(&mut effects);
            assert!(!effects.is_empty(), "the boot waits for nothing");
            for effect in effects {
                match effect {
                    Effect::Spawn { actor } => self.kernel.actor_spawned(actor, Ok(()), self.now),
                    Effect::Attach { actor } => self.kernel.actor_attached(actor, Ok(()), self.now),
                    Effect::Ready { .. } => ready = true,
                    other => panic!("unexpected during the boot: {other:?}"),
                }
            }
        }
        self.run();
    }

    /// Sends requests to a capability that never answers.
    fn leave_pending(&mut self, pending: usize) {
        let mut line = Line::new("Sink.Take", &crate::payload::usual_data());
        for at in 0..pending {
            let client = ConnectionId(1 + (at / PENDING_EACH) as u64);
            if at % PENDING_EACH == 0 {
                self.kernel.connection_opened(client, &format!("waiting-{}", client.0), self.now);
            }
            self.kernel.ingest(client, line.next(), self.now);
            self.run();
        }
        assert_eq!(self.kernel.census().requests, pending);
    }

    /// The length of the line that is sent.
    pub(crate) fn line_bytes(&self) -> usize {
        self.line.len()
    }

    /// Sends so many messages, `depth` at a time, and takes so many replies.
    pub(crate) fn exchange(&mut self, messages: usize, depth: usize) {
        let before = self.kernel.counters().requests_replied;
        for _ in 0..messages / depth {
            for _ in 0..depth {
                self.now.mono_ns += STEP_NS;
                self.kernel.ingest(CLIENT, self.line.next(), self.now);
            }
            self.run();
            self.flush();
        }
        let replied = self.kernel.counters().requests_replied - before;
        assert_eq!(replied as usize, messages / depth * depth, "every message gets its reply");
    }

    /// Makes turns and carries out effects until nothing is left to do.
    fn run(&mut self) {
        loop {
            let turn = self.kernel.turn(self.now);
            let mut effects = std::mem::take(&mut self.effects);
            self.kernel.drain_effects(&mut effects);
            let did_nothing = effects.is_empty();
            for effect in effects.drain(..) {
                self.carry_out(effect);
            }
            self.effects = effects;
            if turn == Turn::Idle && did_nothing {
                return;
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Deliver { message, .. } if message.type_name() != "Echo.Say" => {}
            Effect::Deliver { actor, message } => match self.speech {
                Speech::Values => {
                    let reply = Draft::reply(&message, message.data_json());
                    self.kernel.actor_message(actor, reply, self.now);
                }
                Speech::Lines => {
                    let heard =
                        Envelope::parse(message.line().as_bytes()).expect("the kernel delivers messages");
                    let reply = Draft::reply(&heard, heard.data_json());
                    let said = reply.compose("r", self.now.unix_ms, &mut self.scratch);
                    self.kernel.actor_line(actor, said.line().as_bytes(), self.now);
                }
            },
            Effect::Write { message, .. } => {
                self.out.extend_from_slice(message.line().as_bytes());
                self.out.push(b'\n');
            }
            other => panic!("unexpected: {other:?}"),
        }
    }

    /// The client reads everything, once per turn of the daemon.
    fn flush(&mut self) {
        self.kernel.written(CLIENT, self.out.len(), self.now);
        self.out.clear();
    }
}

fn manifest(id: &str, type_name: &str, data: &Value, concurrency: u32) -> Manifest {
    let message = |kind: &str| {
        json!({ "type": "object", "properties": {
            "kind": { "const": kind }, "type": { "const": type_name }, "data": data } })
    };
    Manifest {
        outbound: Some(message("reply")),
        limits: ActorLimits { concurrency, ..ActorLimits::default() },
        ..Manifest::new(id, "Takes part in a measurement.", message("command"))
    }
}
