//! What operators look at the daemon with and steer it: actors, numbers, taps, traces, logs, dead
//! letters, restarts, the console.
//!
//! Each file is a built-in, as in the folder above, which calls it. Who may do what is decided
//! before that, by `flow/rules/rights.rs`; a file here asks it again only where some of its answers
//! are for everybody.

mod console;
mod dead_letters;
mod list_actors;
mod logs;
mod node_trace;
mod restart;
mod stats;
mod tap;
mod trace;

pub use console::ConsoleRefused;
pub use restart::SettingsRefused;
pub use stats::Census;

pub(super) use dead_letters::ListLetters;
pub(super) use list_actors::{ListActors, append};
pub(super) use trace::Trace;
