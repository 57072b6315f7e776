//! What a handle is known to be ready for, and who wants to know: one edge-triggered registration
//! per handle, remembered until the handle says AGAIN. Resources own signals and descriptors;
//! `sys/loop` and the wait of self-waking guests listen to them.

pub(crate) mod descriptor;
pub(crate) mod registration;
pub(crate) mod signal;
