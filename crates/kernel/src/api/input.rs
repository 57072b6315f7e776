//! What happens to the kernel: plain values, so that a run can be logged and replayed.

use crate::api::ids::{ActorRef, ConnectionId, Now};
use crate::api::rights::Rights;
use crate::builtins::{ConsoleRefused, SettingsRefused};
use crate::{Change, Durable, Effect, Fact, Kernel, Manifest};
use mainspring_message::{Draft, Envelope, Failure, Json, Started};

/// What the kernel is to run: the boot phases LOAD to READY work on this.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BootPlan {
    /// The capabilities, in order; [`ActorRef::capability`] counts them, and those that a reload
    /// adds after them.
    pub capabilities: Vec<Manifest>,
    /// The transports to start, by name; effects count them.
    pub adapters: Vec<String>,
}

/// How an actor ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActorExit {
    /// By itself, with success.
    Done,
    /// With a failure: an exit code, a signal, a panic, a trap.
    Failed(String),
}

impl std::fmt::Display for ActorExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ActorExit::Done => f.write_str("it ended by itself"),
            ActorExit::Failed(reason) => f.write_str(reason),
        }
    }
}

/// One input. Each has a method of the same meaning on [`Kernel`]; [`Kernel::apply`] takes the
/// value.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// See [`Kernel::boot`].
    Boot(BootPlan),
    /// See [`Kernel::actor_spawned`].
    ActorSpawned(ActorRef, Result<(), String>),
    /// See [`Kernel::actor_attached`].
    ActorAttached(ActorRef, Result<(), String>),
    /// See [`Kernel::adapter_started`].
    AdapterStarted(u32, Result<String, String>),
    /// See [`Kernel::adapter_ended`].
    AdapterEnded(u32),
    /// See [`Kernel::connection_opened`].
    ConnectionOpened(ConnectionId, String),
    /// See [`Kernel::connection_has`].
    ConnectionHas(ConnectionId, Rights),
    /// See [`Kernel::peers_have`].
    PeersHave(Vec<(String, Rights)>),
    /// See [`Kernel::connection_closed`].
    ConnectionClosed(ConnectionId),
    /// See [`Kernel::ingest`].
    Line(ConnectionId, Vec<u8>),
    /// See [`Kernel::line_too_long`].
    LineTooLong(ConnectionId),
    /// See [`Kernel::written`].
    Written(ConnectionId, usize),
    /// See [`Kernel::actor_line`].
    ActorLine(ActorRef, Vec<u8>),
    /// See [`Kernel::actor_line_too_long`].
    ActorLineTooLong(ActorRef),
    /// See [`Kernel::actor_message`].
    ActorMessage(ActorRef, Box<Draft>),
    /// See [`Kernel::actor_event`].
    ActorEvent {
        /// Who says it.
        actor: ActorRef,
        /// The message that made it say so; it is the cause of the event.
        cause: Envelope,
        /// The type of the event.
        type_name: String,
        /// The data of the event, as JSON.
        data: Json,
    },
    /// See [`Kernel::actor_complained`].
    ActorComplained(ActorRef, Vec<u8>),
    /// See [`Kernel::actor_exited`].
    ActorExited(ActorRef, ActorExit),
    /// See [`Kernel::actor_blocked`].
    ActorBlocked(ActorRef),
    /// See [`Kernel::actor_ready`].
    ActorReady(ActorRef),
    /// See [`Kernel::actor_failed`].
    ActorFailed(ActorRef, String, Failure, String, Started),
    /// See [`Kernel::actor_progress`].
    ActorProgress(ActorRef, Envelope, bool),
    /// See [`Kernel::keep_value`].
    KeepValue {
        /// Whose it is.
        store: String,
        /// The key.
        key: String,
        /// The value, as JSON; nothing to forget it.
        value: Option<String>,
    },
    /// See [`Kernel::settings_read`].
    SettingsRead(u64, Result<Json, SettingsRefused>),
    /// See [`Kernel::console_opened`].
    ConsoleOpened(u64, Result<Json, ConsoleRefused>),
    /// See [`Kernel::node_trace_fetched`].
    NodeTraceFetched(u64, Result<Json, String>),
    /// See [`Kernel::stats_collected`].
    StatsCollected(u64, Json),
    /// See [`Kernel::reload`].
    Reload(Vec<Change>),
    /// See [`Kernel::restore`].
    Restore(Box<Durable>),
    /// See [`Kernel::actor_record`].
    ActorRecord(ActorRef, Box<Fact>),
    /// See [`Kernel::flushed`].
    Flushed(u64),
    /// See [`Kernel::storage_full`].
    StorageFull(bool),
    /// See [`Kernel::storage_congested`].
    StorageCongested(bool),
    /// See [`Kernel::storage_failed`].
    StorageFailed(String),
    /// See [`Kernel::effect_lost`].
    EffectLost(Box<Effect>),
    /// See [`Kernel::note_outside_bytes`].
    OutsideBytes(usize),
    /// See [`Kernel::shutdown`].
    Shutdown(String),
    /// See [`Kernel::hasten`].
    Hasten,
    /// See [`Kernel::turn`].
    Turn,
}

impl Kernel {
    /// Feeds one input, as the method of the same meaning would.
    pub fn apply(&mut self, input: Input, now: Now) {
        match input {
            Input::Boot(plan) => self.boot(plan, now),
            Input::ActorSpawned(actor, result) => self.actor_spawned(actor, result, now),
            Input::ActorAttached(actor, result) => self.actor_attached(actor, result, now),
            Input::AdapterStarted(adapter, result) => self.adapter_started(adapter, result, now),
            Input::AdapterEnded(adapter) => self.adapter_ended(adapter, now),
            Input::ConnectionOpened(connection, peer) => self.connection_opened(connection, &peer, now),
            Input::ConnectionHas(connection, rights) => self.connection_has(connection, rights, now),
            Input::PeersHave(peers) => self.peers_have(peers, now),
            Input::ConnectionClosed(connection) => self.connection_closed(connection, now),
            Input::Line(connection, line) => self.ingest(connection, &line, now),
            Input::LineTooLong(connection) => self.line_too_long(connection, now),
            Input::Written(connection, bytes) => self.written(connection, bytes, now),
            Input::ActorLine(actor, line) => self.actor_line(actor, &line, now),
            Input::ActorLineTooLong(actor) => self.actor_line_too_long(actor, now),
            Input::ActorMessage(actor, draft) => self.actor_message(actor, *draft, now),
            Input::ActorEvent { actor, cause, type_name, data } => {
                self.actor_event(actor, &cause, &type_name, || data, now);
            }
            Input::ActorComplained(actor, line) => {
                self.actor_complained(actor, &line, now);
            }
            Input::ActorExited(actor, exit) => self.actor_exited(actor, exit, now),
            Input::ActorBlocked(actor) => self.actor_blocked(actor, now),
            Input::ActorReady(actor) => self.actor_ready(actor, now),
            Input::ActorFailed(actor, id, failure, text, started) => {
                self.actor_failed(actor, &id, failure, &text, started, now);
            }
            Input::ActorProgress(actor, event, is_told) => self.actor_progress(actor, &event, is_told, now),
            Input::KeepValue { store, key, value } => {
                self.keep_value(&store, &key, value.as_deref(), now);
            }
            Input::SettingsRead(ticket, result) => self.settings_read(ticket, result, now),
            Input::ConsoleOpened(ticket, result) => self.console_opened(ticket, result, now),
            Input::NodeTraceFetched(ticket, result) => self.node_trace_fetched(ticket, result, now),
            Input::StatsCollected(ticket, numbers) => self.stats_collected(ticket, numbers, now),
            Input::Reload(changes) => {
                // A refusal is told by an event, too.
                let _ = self.reload(changes, now);
            }
            Input::Restore(durable) => self.restore(*durable, now),
            Input::ActorRecord(actor, fact) => self.actor_record(actor, &fact, now),
            Input::Flushed(fact) => self.flushed(fact, now),
            Input::StorageFull(is_full) => self.storage_full(is_full, now),
            Input::StorageCongested(is_congested) => self.storage_congested(is_congested, now),
            Input::StorageFailed(reason) => self.storage_failed(&reason, now),
            Input::EffectLost(effect) => self.effect_lost(&effect, now),
            Input::OutsideBytes(bytes) => self.note_outside_bytes(bytes),
            Input::Shutdown(reason) => self.shutdown(&reason, now),
            Input::Hasten => self.hasten(now),
            Input::Turn => {
                self.turn(now);
            }
        }
    }
}
