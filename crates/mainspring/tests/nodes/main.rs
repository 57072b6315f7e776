//! Several daemons on one bus: real programs, real nats-servers, and what goes wrong between them.
//! The clauses are those of `docs/contracts/nodes.md`.
#![cfg(feature = "uplink")]

#[allow(dead_code, reason = "the tests of the daemon use the rest")]
#[path = "../daemon/support.rs"]
mod support;

mod bus;
mod credentials;
mod durable;
mod events;
mod faults;
mod history;
mod hostile;
mod proxy;
mod requests;
mod security;
mod turns;
