//! Commands that start and steer a daemon.

pub(super) mod down;
pub(super) mod status;
pub(super) mod up;
