//! Commands that start and steer a daemon.

pub(super) mod console;
pub(super) mod down;
pub(super) mod restart;
pub(super) mod status;
pub(super) mod up;
