//! What another node writes to this one: whatever it is, what leaves is well-formed and bounded, no
//! request has two outcomes, and the kernel's tables agree with each other afterwards.
//!
//! An input is messages of three lines each: the subject, the head (`-` if there is none) and the
//! payload, in which the byte 0x1f stands for the end of a line.

use crate::kernel::{echo, look_at};
use mainspring_kernel::{
    ActorExit, BootPlan, Change, Config, ConnectionId, Effect, Kernel, Manifest, Now, Turn,
};
use mainspring_message::{Draft, Envelope, Kind};
use mainspring_uplink::{Boot, Command, IMPORT_PREFIX, ImportChange, Incoming, Uplink, UplinkSettings};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const CLIENT: ConnectionId = ConnectionId(1);
/// Messages of one input, and turns after each.
const MESSAGES_MAX: usize = 24;
const TURNS_MAX: usize = 200;
/// Time that passes between two messages: hellos, silence and timeouts come due.
const STEP_NS: i64 = 100_000_000;
/// What NATS carries here, and what a subject and a head may come to.
const MAX_PAYLOAD: usize = 1 << 20;
const HEAD_BYTES_MAX: usize = 1024;
/// What stands for the end of a line in the payload of an input.
const LINE_END: u8 = 0x1f;

pub(crate) fn run(bytes: &[u8]) {
    let mut node = Node::start("own", echo().clone());
    let mut lines = bytes.split(|byte| *byte == b'\n');
    for _ in 0..MESSAGES_MAX {
        let (Some(subject), Some(head), Some(payload)) = (lines.next(), lines.next(), lines.next()) else {
            break;
        };
        let Ok(subject) = str::from_utf8(subject) else { continue };
        let payload: Vec<u8> =
            payload.iter().map(|byte| if *byte == LINE_END { b'\n' } else { *byte }).collect();
        let message = if head == b"-" { payload } else { [head, b"\n", payload.as_slice()].concat() };
        node.receive(subject, &message);
        node.ask();
        node.pass();
    }
    node.end();
}

/// What an honest node writes while requests go both ways.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let (mut own, mut peer) = (Node::start("own", echo().clone()), Node::start("peer", other()));
    let mut written = Vec::new();
    for _ in 0..MESSAGES_MAX {
        let for_own: Vec<Published> = peer.published.drain(..).collect();
        for message in &for_own {
            written.extend_from_slice(message.subject.as_bytes());
            written.push(b'\n');
            let (head, payload) = message.message.split_at(head_bytes(&message.message));
            written.extend_from_slice(head);
            written.extend(payload.iter().map(|byte| if *byte == b'\n' { LINE_END } else { *byte }));
            written.push(b'\n');
            own.receive(&message.subject, &message.message);
        }
        own.ask();
        peer.ask();
        own.pass();
        for message in own.published.drain(..).collect::<Vec<_>>() {
            peer.receive(&message.subject, &message.message);
        }
        peer.pass();
    }
    vec![written]
}

/// Bytes of the head of a message, with the end of its line.
fn head_bytes(message: &[u8]) -> usize {
    message.iter().position(|byte| *byte == b'\n').map_or(message.len(), |end| end + 1)
}

/// A capability of another node.
fn other() -> Manifest {
    let branch = |kind: &str, name: &str| json!({ "properties": { "kind": { "const": kind }, "type": { "const": name } } });
    let inbound = json!({ "oneOf": [branch("command", "Other.Do"), branch("query", "Other.Get")] });
    Manifest::new("other", "Does something elsewhere.", inbound)
}

struct Published {
    subject: String,
    message: Vec<u8>,
}

/// A kernel with its uplink, and whoever carries out what they say.
struct Node {
    kernel: Kernel,
    uplink: Uplink,
    now: Now,
    /// The ids of imported capabilities, by number.
    imports: BTreeMap<u32, String>,
    published: Vec<Published>,
    asked: u32,
    /// Requests of the client that have their outcome.
    ended: BTreeSet<String>,
}

impl Node {
    fn start(name: &str, mut capability: Manifest) -> Node {
        let now = Now { mono_ns: 1_000_000_000, unix_ms: 1_767_910_000_000 };
        let uplink = Uplink::new(UplinkSettings {
            bus: "fuzz".into(),
            node: name.into(),
            import: vec!["*".into()],
            events: vec!["*".into()],
            boot: Boot { at_ms: now.unix_ms, nonce: name.len() as u64 },
            has_journal: false,
            concurrency: 4,
            node_requests_max: 16,
            late_ns: 1_000_000_000,
            line_bytes_max: 1 << 20,
        });
        capability.share = true;
        let kernel = Kernel::new(Config::default(), 42);
        let (imports, published, ended) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        let mut node = Node { kernel, uplink, now, imports, published, asked: 0, ended };
        node.uplink.set_capabilities(&[&capability], &mut node.kernel, now);
        node.kernel.boot(BootPlan { capabilities: vec![capability], adapters: vec![] }, now);
        node.settle();
        node.uplink.connected(MAX_PAYLOAD, now);
        node.kernel.connection_opened(CLIENT, "client", now);
        node.settle();
        node
    }

    fn receive(&mut self, subject: &str, message: &[u8]) {
        self.uplink.received(Incoming { subject, message }, &mut self.kernel, self.now);
        self.settle();
    }

    /// The client asks twice for something that is here, or at another node, or nowhere.
    fn ask(&mut self) {
        self.asked += 1;
        let kind = if self.asked.is_multiple_of(2) { "command" } else { "query" };
        let types = ["Other.Do", "Other.Get", "Echo.Do", "Echo.Say"];
        let name = types[self.asked as usize % types.len()];
        for id in [2 * self.asked, 2 * self.asked + 1] {
            let line = format!(
                r#"{{"kind":"{kind}","type":"{name}","data":{{"name":"a"}},"metadata":{{"id":"{id}","timestamp":1}}}}"#
            );
            self.kernel.ingest(CLIENT, line.as_bytes(), self.now);
        }
        self.settle();
    }

    fn pass(&mut self) {
        self.now.mono_ns += STEP_NS;
        self.now.unix_ms += (STEP_NS / 1_000_000) as u64;
        self.uplink.tick(&mut self.kernel, self.now);
        self.settle();
    }

    fn end(mut self) {
        self.uplink.disconnected();
        self.kernel.connection_closed(CLIENT, self.now);
        self.settle();
        self.kernel.audit().expect("the tables agree");
    }

    /// Turns until nothing is left to do.
    fn settle(&mut self) {
        let (mut effects, mut commands) = (Vec::new(), Vec::new());
        for _ in 0..TURNS_MAX {
            let turn = self.kernel.turn(self.now);
            self.kernel.drain_effects(&mut effects);
            let mut any = !effects.is_empty();
            for effect in effects.drain(..) {
                self.carry_out(effect);
            }
            self.uplink.drain_commands(&mut commands);
            any |= !commands.is_empty();
            for command in commands.drain(..) {
                self.publish(command);
            }
            any |= self.adopt();
            self.uplink.take_notices();
            if !any && turn != Turn::More {
                return;
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        let now = self.now;
        match effect {
            Effect::Spawn { actor } => self.kernel.actor_spawned(actor, Ok(()), now),
            Effect::Attach { actor } => self.kernel.actor_attached(actor, Ok(()), now),
            Effect::Stop { actor } => self.kernel.actor_exited(actor, ActorExit::Done, now),
            Effect::Terminate { actor } => self.uplink.forget_actor(actor),
            Effect::Deliver { actor, message } => match self.imports.get(&actor.capability.0).cloned() {
                Some(import) => {
                    self.uplink.deliver(&import.as_str().into(), actor, &message, &mut self.kernel, now)
                }
                None if message.kind() == Kind::Event => {}
                None => self.kernel.actor_message(actor, Draft::reply(&message, message.data_json()), now),
            },
            Effect::Write { connection, message } if Uplink::has(connection) => {
                self.uplink.write(connection, &message, &mut self.kernel, now);
            }
            Effect::Write { connection, message } => {
                self.kernel.written(connection, message.line().len() + 1, now);
                self.look_at_outcome(&message);
            }
            Effect::Close { connection, reason } if Uplink::has(connection) => {
                self.uplink.closed(connection, &reason.to_string(), now);
            }
            Effect::Ready { .. } => self.uplink.start(&mut self.kernel, now),
            _ => {}
        }
    }

    fn look_at_outcome(&mut self, message: &Envelope) {
        look_at(message);
        if let (Kind::Reply | Kind::Error, Some(id)) = (message.kind(), message.causation()) {
            assert!(self.ended.insert(id.to_owned()), "request {id} has two outcomes: {}", message.line());
        }
    }

    fn publish(&mut self, command: Command) {
        let Command::Publish { subject, reply, message, written } = command else { return };
        for name in [Some(&subject), reply.as_ref()].into_iter().flatten() {
            let is_token = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'*' | b'>');
            assert!(name.bytes().all(is_token) && name.len() < HEAD_BYTES_MAX, "the subject {name:?}");
        }
        let head = message.iter().position(|byte| *byte == b'\n');
        assert!(head.is_some_and(|end| end < HEAD_BYTES_MAX && message[..end].is_ascii()), "{message:?}");
        assert!(message.len() <= MAX_PAYLOAD, "{} bytes do not fit", message.len());
        for (connection, bytes) in written {
            self.kernel.written(connection, bytes, self.now);
        }
        self.published.push(Published { subject, message });
    }

    /// Has the kernel know what others share.
    fn adopt(&mut self) -> bool {
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
            let adopted = self.kernel.reload(vec![change], self.now);
            if let Ok(numbers) = &adopted {
                let import = id.strip_prefix(IMPORT_PREFIX).unwrap_or_default();
                self.imports.extend(numbers.iter().map(|number| (number.0, import.to_owned())));
            }
            self.uplink.adopted(&id, adopted.map(drop).map_err(|refused| refused.reason));
        }
        any
    }
}
