//! The uplink: other nodes of the bus, as actors here and as peers here.
//!
//! - `bridge`: the state machine of `crates/uplink` between the kernel and the network, on the
//!   loop's thread.
//! - `actor`: imported capabilities, which the kernel delivers to.
//! - `queues`: what passes between the loop and the thread that speaks with NATS.
//! - `nats`: that thread.
//!
//! The pump calls it once per turn; without `[uplink]` there is none, and no thread.

mod actor;
mod bridge;
#[cfg(feature = "uplink")]
mod nats;
mod queues;

pub(crate) use actor::UplinkDriver;
pub(crate) use bridge::{Bridge, Kept};
