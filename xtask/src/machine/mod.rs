//! What a machine needs for the tests and has not got: packages of the system, servers, tools. Each
//! is installed under `target/`, or by the system's own installer, and started for one command
//! alone. Everything else may ask for it; nothing here knows what it is for.

pub(crate) mod nats;
pub(crate) mod packages;
pub(crate) mod postgres;
pub(crate) mod tools;
