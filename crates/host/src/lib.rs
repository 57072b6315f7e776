//! Runs sandboxed WebAssembly guests on one loop, thousands on one thread; a guest that waits costs no CPU.
//!
//! # How a guest waits
//! Everything that a guest calls returns at once: a read that would have to wait says `AGAIN`. The guest then tells `sys/loop` which
//! handles and timers it cares about and makes one call, `POLL`, for all of them. That suspends the guest (its stack is
//! set aside) and nothing else; the reactor wakes it when one of its handles is ready. There is no second event loop underneath.
//!
//! # Where to start
//! A [`Host`] compiles a [`Program`] and starts it on a reactor with a [`GuestConfig`]; a [`GuestHandle`] kills it, tells what it
//! [has done](GuestStats) and how it [ended](Exit). By default a guest can reach nothing: no network, no files, no streams.
//!
//! # What holds for every guest
//! - It is preempted after its [slice](Limits::cpu_slice); its neighbours keep answering. It can be [killed](GuestControl::kill)
//!   whatever it is doing.
//! - Each of its [limits](Limits) is enforced, and each refusal is counted.
//! - Nothing that it writes, and no pointer or length that it passes, can crash the host, block it or grow a buffer without bound.
//!
//! The contract, clause by clause and with the test that proves each, is `docs/guests-semantics.md` in the repository.
//!
//! # Extending it
//! Implement [`Capability`] and [`Resource`] to give guests something else to open, and [`Watchable`] to let them wait for it;
//! `sys/loop` needs no change. [`HostConfig::link`] adds other imports, such as WASI's.

mod bandwidth;
mod capability;
mod compile;
mod confined;
mod context;
mod control;
mod ctl;
mod errno;
mod error;
mod frames;
mod guest;
mod heap;
mod host;
mod imports;
mod info;
mod limits;
mod memory;
mod meter;
mod pipe;
mod policy;
mod process;
mod program;
mod registration;
mod resource;
mod run;
mod signal;
#[cfg(feature = "wasi")]
mod sockets;
mod state;
mod stats;
mod stdio;
mod sys_loop;
mod table;
mod tcp;
mod ticker;
#[cfg(feature = "wasi")]
mod wasi;

pub use capability::{Capability, Opened, Params};
pub use compile::CompileLimits;
pub use context::GuestContext;
pub use control::GuestControl;
pub use error::{Error, Result};
pub use guest::{Exit, GuestConfig, GuestHandle, TrapReport};
pub use host::{Host, HostConfig};
pub use limits::{Limit, Limits};
pub use mainspring_zcl::abi::ErrorCode;
pub use mainspring_zcl::sys_loop::Readiness;
pub use memory::GuestMemory;
pub use pipe::{PIPE_BYTES_DEFAULT, PipeReader, PipeWriter, pipe};
pub use policy::{BadRule, NetworkPolicy, Rule};
pub use program::Program;
pub use resource::{Resource, Watchable};
pub use signal::Signal;
#[cfg(feature = "wasi")]
pub use sockets::{BadSocketWait, SocketWait};
pub use state::GuestState;
pub use stats::{GuestPhase, GuestStats, HostStats};
pub use stdio::{Stdin, Stdout};
pub use sys_loop::EVENTS_PER_POLL_MAX;
#[cfg(feature = "wasi")]
pub use wasi::{Component, Folder, FolderError, WasiConfig};
pub use wasmtime;
