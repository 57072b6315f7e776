#![doc = include_str!("../README.md")]

mod anything;
mod ask;
mod failure;
#[cfg(feature = "process")]
mod process;
pub mod runner;

pub use anything::{Anything, Empty};
pub use ask::{Ask, AskError, Reply};
pub use failure::{Failure, Stopped};
pub use mainspring_message::{Envelope, Json, Kind, Started};
#[cfg(feature = "process")]
pub use process::{Capability, Context};
pub use runner::Hints;
pub use schemars;
