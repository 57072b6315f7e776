//! The runtime against a host in memory with virtual time.

mod capability;
mod executor;
mod streams;
mod support;
mod typed;
