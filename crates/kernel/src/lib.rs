//! The CQRS event loop of Mainspring as a deterministic state machine.

mod actors;
mod audit;
mod boot;
mod builtins;
mod completions;
mod config;
mod connections;
mod counters;
mod dead_letters;
mod dispatch;
mod effect;
mod ids;
mod ingest;
mod input;
mod kernel;
mod lanes;
mod manifest;
mod outputs;
mod peers;
mod requests;
mod routes;
mod schedules;
pub mod schema;
mod shutdown;
mod subscribers;
mod supervise;
pub mod wheel;

pub use audit::Audit;
pub use builtins::Census;
pub use config::{Config, Limits, Mode};
pub use counters::Counters;
pub use effect::{CloseReason, Effect, Level};
pub use ids::{ActorRef, ConnectionId, Now, Source};
pub use input::{ActorExit, BootPlan, Input};
pub use kernel::{Kernel, Turn};
pub use manifest::{ActorLimits, Manifest, RestartPolicy, RestartWhen, RetryPolicy};
