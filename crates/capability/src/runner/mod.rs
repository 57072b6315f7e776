//! What a crate needs that runs capabilities: what they say of themselves, the lines of their
//! outcomes, requests of their own, messages that wait. Processes are run by this crate, guests by
//! `mainspring-guest`; both are made of this, so that they have one shape and follow one set of
//! rules.

mod asks;
mod backlog;
mod manifest;
mod outline;
mod wire;

pub use asks::{Answer, answer, ask_line, cut_off, unanswered};
pub use backlog::Backlog;
pub use outline::{Hints, Outline};
pub use wire::{LINE_BYTES_MAX, Told, cancelled_request, event_line, line, outcome, time_left};
