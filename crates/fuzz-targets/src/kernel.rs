//! A client that sends lines to a kernel: what is written is always a message, and the tables agree
//! with each other afterwards.

use mainspring_kernel::{BootPlan, Config, ConnectionId, Effect, Kernel, Manifest, Now, Turn};
use mainspring_message::{Draft, Envelope, Kind};
use serde_json::json;
use std::sync::OnceLock;

const CLIENT: ConnectionId = ConnectionId(1);
/// Lines of one input, and turns after each.
const LINES_MAX: usize = 24;
const TURNS_MAX: usize = 200;
/// Time that passes between two lines, so that timers and timeouts come due.
const STEP_NS: i64 = 50_000_000;

pub(crate) fn run(bytes: &[u8]) {
    let mut world = World::boot(vec![echo().clone()]);
    world.kernel.connection_opened(CLIENT, "stranger", world.now);
    for line in bytes.split(|byte| *byte == b'\n').take(LINES_MAX) {
        world.kernel.ingest(CLIENT, line, world.now);
        world.settle();
        world.pass();
    }
    world.kernel.connection_closed(CLIENT, world.now);
    world.settle();
    world.kernel.audit().expect("the tables agree");
}

/// A capability whose messages have schemas of several kinds.
pub(crate) fn echo() -> &'static Manifest {
    static ECHO: OnceLock<Manifest> = OnceLock::new();
    ECHO.get_or_init(|| {
        let message = |kind: &str, name: &str, data: serde_json::Value| {
            json!({ "properties": { "kind": { "const": kind }, "type": { "const": name }, "data": data } })
        };
        let manifest = json!({
            "id": "echo",
            "description": "Says what it hears.",
            "inbound": { "oneOf": [
                message("query", "Echo.Say", json!(true)),
                message("command", "Echo.Do", json!({
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": { "type": "string", "minLength": 1, "maxLength": 9 },
                        "count": { "type": "integer", "minimum": 0 },
                        "tags": { "type": "array", "items": { "enum": ["a", "b"] }, "uniqueItems": true },
                    },
                    "additionalProperties": false,
                })),
                message("event", "Echo.Heard", json!({ "type": ["object", "null"] })),
            ] },
        });
        serde_json::from_value(manifest).expect("a manifest")
    })
}

/// A kernel and whoever carries out what it says.
pub(crate) struct World {
    kernel: Kernel,
    now: Now,
}

impl World {
    pub(crate) fn boot(capabilities: Vec<Manifest>) -> World {
        let now = Now { mono_ns: 0, unix_ms: 1_767_910_000_000 };
        let mut world = World { kernel: Kernel::new(Config::default(), 42), now };
        world.kernel.boot(BootPlan { capabilities, adapters: vec![] }, now);
        world.settle();
        world
    }

    fn pass(&mut self) {
        self.now.mono_ns += STEP_NS;
        self.now.unix_ms += (STEP_NS / 1_000_000) as u64;
        self.settle();
    }

    /// Turns until nothing is left to do.
    fn settle(&mut self) {
        let mut effects = Vec::new();
        for _ in 0..TURNS_MAX {
            let turn = self.kernel.turn(self.now);
            self.kernel.drain_effects(&mut effects);
            if effects.is_empty() && turn == Turn::Idle {
                return;
            }
            for effect in effects.drain(..) {
                self.carry_out(effect);
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        let now = self.now;
        match effect {
            Effect::Spawn { actor } => self.kernel.actor_spawned(actor, Ok(()), now),
            Effect::Attach { actor } => self.kernel.actor_attached(actor, Ok(()), now),
            Effect::Deliver { actor, message } if message.kind() != Kind::Event => {
                self.kernel.actor_message(actor, Draft::reply(&message, message.data_json()), now);
            }
            Effect::Write { connection, message } => {
                look_at(&message);
                self.kernel.written(connection, message.line().len() + 1, now);
            }
            _ => {}
        }
    }
}

pub(crate) fn look_at(message: &Envelope) {
    Envelope::parse(message.line().as_bytes()).expect("what is written is a message");
    assert!(!message.line().contains('\n'), "a message is a line: {}", message.line());
}
