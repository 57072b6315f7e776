//! The kernel of Mainspring: commands, queries and events, routed by a deterministic state machine.
//!
//! A [`Kernel`] routes commands, queries and events between clients and actors, supervises the
//! actors, and keeps time. It is pure: no socket, file, clock, thread or random number inside. What
//! happens goes in by methods (or as an [`Input`] value), what is to be done comes out as
//! [`Effect`]s, and the time is a parameter. The same inputs give the same effects, byte for byte,
//! so a run can be logged, replayed and simulated.
//!
//! `docs/contracts/kernel.md` is the contract, clause by clause.
//!
//! # Examples
//!
//! A kernel driven by hand: one capability, one client, one query.
//!
//! ```
//! use mainspring_kernel::{BootPlan, Config, ConnectionId, Effect, Kernel, Manifest, Now, Turn};
//! use mainspring_message::{Draft, Envelope};
//!
//! let echo: Manifest = serde_json::from_value(serde_json::json!({
//!     "id": "echo",
//!     "description": "Says what it hears.",
//!     "inbound": { "properties": { "kind": { "const": "query" }, "type": { "const": "Echo.Say" } } },
//! }))?;
//! let now = Now { mono_ns: 0, unix_ms: 1_767_910_000_000 };
//! let mut kernel = Kernel::new(Config::default(), 42);
//! kernel.boot(BootPlan { capabilities: vec![echo], adapters: vec![] }, now);
//!
//! let client = ConnectionId(1);
//! let mut effects = Vec::new();
//! let mut written: Vec<Envelope> = Vec::new();
//! let mut asked = false;
//! loop {
//!     let turn = kernel.turn(now);
//!     kernel.drain_effects(&mut effects);
//!     if effects.is_empty() && turn == Turn::Idle {
//!         break;
//!     }
//!     for effect in effects.drain(..) {
//!         match effect {
//!             Effect::Spawn { actor } => kernel.actor_spawned(actor, Ok(()), now),
//!             Effect::Attach { actor } => kernel.actor_attached(actor, Ok(()), now),
//!             Effect::Ready { .. } => {
//!                 kernel.connection_opened(client, "alice", now);
//!                 let line = br#"{"kind":"query","type":"Echo.Say","data":"hi","metadata":{"id":"q-1","timestamp":1}}"#;
//!                 kernel.ingest(client, line, now);
//!                 asked = true;
//!             }
//!             // This is the actor: native code that gets a parsed message and answers with a draft.
//!             Effect::Deliver { actor, message } => {
//!                 kernel.actor_message(actor, Draft::reply(&message, message.data_json()), now);
//!             }
//!             Effect::Write { connection, message } => {
//!                 kernel.written(connection, message.line().len() + 1, now);
//!                 written.push(message);
//!             }
//!             _ => {}
//!         }
//!     }
//! }
//! assert!(asked);
//! assert_eq!((written[0].causation(), written[0].data()), (Some("q-1"), r#""hi""#));
//! # Ok::<(), serde_json::Error>(())
//! ```

mod actors;
mod api;
mod builtins;
mod cursors;
mod dead_letters;
mod durability;
mod egress;
mod facts;
mod flow;
mod history;
mod kernel;
pub mod keys;
mod lifecycle;
mod logs;
mod out;
mod requests;
pub mod schema;
mod tape;
mod taps;
mod time;

pub use api::config::{Config, Limits, Mode};
pub use api::counters::Counters;
pub use api::effect::{CloseReason, Effect, EffectTarget, Level};
pub use api::fact::{Answer, ComposedAnswer, Ending, Fact, PeerName};
pub use api::ids::{ActorRef, CapabilityId, ConnectionId, Now, Source};
pub use api::input::{ActorExit, BootPlan, Input};
pub use api::manifest::{
    ActorLimits, Manifest, Redeliver, RestartPolicy, RestartWhen, RetryPolicy, TypeNotes,
};
pub use api::rights::Rights;
pub use builtins::{Census, ConsoleRefused, SettingsRefused};
pub use egress::check_pattern;
pub use facts::{Durable, DurableBounds, FACT_KINDS, FactError, FactRecord, Records, fingerprint};
pub use flow::passing_on::PassedOn;
pub use flow::reload::{Change, ReloadRefused};
pub use kernel::{Kernel, Turn};
pub use lifecycle::audit::Audit;
pub use tape::{Recorded, Replay, ReplayError, TapeError, TapeReader, TapeSink, gap as tape_gap};
pub use time::wheel;
