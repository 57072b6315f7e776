//! The CQRS event loop of Mainspring as a deterministic state machine.

mod config;
mod effect;
mod ids;
mod input;
mod kernel;
mod manifest;
pub mod wheel;

pub use config::{Config, Limits, Mode};
pub use effect::{CloseReason, Effect, Level};
pub use ids::{ActorRef, ConnectionId, Now, Source};
pub use input::{ActorExit, BootPlan, Input};
pub use kernel::{Kernel, Turn};
pub use manifest::{ActorLimits, Manifest, RestartPolicy, RestartWhen, RetryPolicy};
