#![doc = include_str!("../README.md")]

mod address;
mod client;
mod connect;
mod core;
mod driver;
mod error;
mod options;
mod request;
mod shared;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use crate::core::{Gap, GapReason, Watched};
pub use address::{Address, SOCKET_VARIABLE, TCP_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE};
pub use client::{Canceller, Client, Running, Watch, WatchStopper};
pub use error::{ConnectError, Error, Outcome};
pub use mainspring_message::{Envelope, Json, Kind, Started};
pub use options::Options;
pub use request::{Reply, Request};
