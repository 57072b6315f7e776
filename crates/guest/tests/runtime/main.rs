//! The runtime against a host in memory with virtual time.

mod executor;
mod streams;
mod support;
