//! Commands that send messages and show what comes back or passes by.

pub(super) mod message;
pub(super) mod pipe;
pub(super) mod watch;
