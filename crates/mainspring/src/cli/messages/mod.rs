//! Commands that send messages and show what comes back or passes by.

mod items;
pub(super) mod message;
pub(super) mod pipe;
mod schedule;
pub(super) mod tap;
pub(super) mod watch;
