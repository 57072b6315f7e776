//! Commands that need no running daemon: for whoever writes a capability, a guest or a configuration.

pub(super) mod bench;
pub(super) mod check;
pub(super) mod completions;
pub(super) mod manual;
pub(super) mod new;
#[cfg(feature = "guests")]
pub(super) mod run;
pub(super) mod test_capability;
