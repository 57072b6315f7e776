//! The uplink: other nodes of the bus, as actors here and as peers here.
//!
//! - `bridge`: the state machine of `crates/uplink` between the kernel and the network, on the
//!   loop's thread.
//! - `actor`: imported capabilities, which the kernel delivers to.
//! - `nats`: the client of NATS, in a runtime of tokio on the same thread.
//! - `queues`: what passes between the loop and that client.
//! - `driving`: the loop as a task of that runtime.
//! - `intake`: how much came that is no message.
//!
//! The pump calls it once per turn; without `[uplink]` there is none, and no runtime: then the loop
//! waits by itself.

mod actor;
mod bridge;
#[cfg(feature = "uplink")]
mod driving;
#[cfg(feature = "uplink")]
mod intake;
#[cfg(feature = "uplink")]
mod nats;
mod queues;

pub(crate) use actor::UplinkDriver;
pub(crate) use bridge::{Bridge, Kept};
