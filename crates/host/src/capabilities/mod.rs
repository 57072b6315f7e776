//! Capabilities: what guests can open by name. Each has a folder or a file of its own, with its
//! configuration, its state and its messages; it is built like one of another crate, and sees a
//! guest only through its context. The list below is all that the rest of the host knows of them,
//! with two exceptions:
//!
//! - `sys_loop` alone suspends its guest. So `abi` waits for a `POLL` that it finds in a write, the
//!   table of handles has a variant for loops, a signal tells the loops that watch its handle, and
//!   a guest that makes way for others waits for the next turn as a `POLL` with timeout 0 does.
//! - `net_tcp` knows how to connect, and `sockets`, which is TCP for other guests, does it the same
//!   way.

pub(crate) mod capability;
pub(crate) mod net_tcp;
mod process;
mod sys_info;
pub(crate) mod sys_loop;

pub(crate) use capability::{AnyCapability, CAP_NAME_BYTES_MAX, CapabilityConfig, CapabilityData};
pub use capability::{Capability, CapabilityId, Opened, Opening, Params, PerGuest};

/// The capabilities of every host. Adding one is a module above and a line here.
pub(crate) fn built_in() -> Vec<Box<dyn AnyCapability>> {
    vec![
        Box::new(net_tcp::NetTcp),
        Box::new(process::Arguments),
        Box::new(process::Environment),
        Box::new(sys_info::SysInfo),
        Box::new(sys_loop::SysLoop),
    ]
}
