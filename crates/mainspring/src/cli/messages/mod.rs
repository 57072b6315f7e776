//! Commands that send messages and show what comes back or passes by: `send`, `query`, `emit`,
//! `pipe`, `watch`, `tap`.
//!
//! `message` is shared by the first three, `items` reads `key=value`, `schedule` is `--delay`,
//! `--at` and `--every`. Nothing outside of `cli/` touches them.

mod items;
pub(super) mod message;
pub(super) mod pipe;
mod schedule;
pub(super) mod tap;
pub(super) mod watch;
