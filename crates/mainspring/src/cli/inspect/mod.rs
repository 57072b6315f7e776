//! Commands that show how a running daemon is: actors, types, traces, timers, dead letters, all of it at once.

pub(super) mod actors;
pub(super) mod dead_letters;
pub(super) mod describe;
pub(super) mod logs;
pub(super) mod timers;
pub(super) mod top;
pub(super) mod trace;
