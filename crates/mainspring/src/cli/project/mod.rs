//! Commands that need no running daemon: for whoever writes a capability, a guest or a
//! configuration.
//!
//! `new` writes skeletons, `check` reads a configuration, `test-capability` and `run` start one
//! program, `bench` measures, `completions` and `manual` write files. Each is one file or folder,
//! and `cli/mod.rs` calls it.

pub(super) mod bench;
pub(super) mod check;
pub(super) mod completions;
pub(super) mod manual;
pub(super) mod new;
#[cfg(feature = "guests")]
pub(super) mod run;
pub(super) mod test_capability;
