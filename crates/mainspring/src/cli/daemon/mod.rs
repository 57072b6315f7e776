//! Commands that start and steer a daemon: `up`, `status`, `down`, `restart`, `reload`, `console`.
//!
//! `up` is the one that runs a daemon in this process; the others ask one over its socket. Each
//! file is one command and is touched by `cli/mod.rs` alone.

pub(super) mod console;
pub(super) mod down;
pub(super) mod restart;
pub(super) mod status;
pub(super) mod up;
