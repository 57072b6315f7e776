//! The functions that C calls, as the headers declare them, by what they are about.
//!
//! Each checks its arguments (`arguments`), finds its loop by name (`registry`), and lets no panic
//! out (`boundary`); what it does is the reactor's. `original` has the second set of names, the
//! others the first. Nothing outside this folder calls them but programs in C; only what `original`
//! keeps for a loop is part of that loop (`event_loop`).

pub mod calls;
pub mod introspection;
pub mod life_cycle;
pub mod original;
pub mod processes;
pub mod running;
pub mod timers;
pub mod watching;
