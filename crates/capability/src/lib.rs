#![doc = include_str!("../README.md")]

mod anything;
mod ask;
mod capability;
mod context;
mod failure;
mod manifest;
mod run;

pub use anything::{Anything, Empty};
pub use ask::{Ask, AskError, Reply};
pub use capability::{Capability, Hints};
pub use context::{Context, Stopped};
pub use failure::Failure;
pub use mainspring_message::{Envelope, Json, Kind, Started};
pub use schemars;
