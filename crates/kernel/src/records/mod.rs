//! What could not be delivered, what happened lately, and how long it took: bounded, and written by the flow of messages. Only built-ins
//! read it.

pub(crate) mod dead_letters;
pub(crate) mod history;
pub(crate) mod latency;
