//! Commands that start and steer a daemon.

pub(super) mod up;
