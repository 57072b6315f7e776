//! Commands that show how a running daemon is: actors, types, traces, timers, dead letters, logs,
//! and `top` for all of it at once.
//!
//! Each file (or folder) is one command. They ask with the built-in messages that every client may
//! send, and share what is in `cli/support`.

pub(super) mod actors;
pub(super) mod dead_letters;
pub(super) mod describe;
pub(super) mod logs;
pub(super) mod nodes;
pub(super) mod timers;
pub(super) mod top;
pub(super) mod trace;
