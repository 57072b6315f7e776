//! Runs sandboxed WebAssembly guests on one reactor, thousands on one thread; a guest that waits
//! costs no CPU.
//!
//! # How a guest waits
//! Everything that a guest calls returns at once: a read that would have to wait says `AGAIN`. The
//! guest then tells `sys/loop` which handles and timers it cares about and makes one call, `POLL`,
//! for all of them. That suspends the guest (its stack is set aside) and nothing else; the reactor
//! wakes it when one of its handles is ready. There is no second event loop underneath.
//!
//! # Where to start
//! A [`Host`] compiles a [`Program`] and starts it on a reactor with a [`GuestConfig`]; a
//! [`GuestHandle`] kills it, tells what it [has done](GuestStats) and how it [ended](Exit). By
//! default a guest can reach nothing: no network, no files, no streams.
//!
//! # What holds for every guest
//! - It is preempted after its [slice](Limits::cpu_slice); its neighbours keep answering. It can be
//!   [killed](GuestControl::kill) whatever it is doing.
//! - Each of its [limits](Limits) is enforced, and each refusal is counted.
//! - Nothing that it writes, and no pointer or length that it passes, can crash the host, block it
//!   or grow a buffer without bound.
//!
//! The contract, clause by clause and with the test that proves each, is `docs/contracts/guests.md`
//! in the repository.
//!
//! # Extending it
//! Implement [`Capability`] to give guests something else to open: it has a configuration and a
//! state per guest, and limits of its own. What it opens is a [`Framed`] handle that speaks in
//! messages, or any [`Resource`], [`Watchable`] if guests are to wait for it; `sys/loop` needs no
//! change. `examples/host-capability` in the repository is a complete one. [`HostConfig::link`]
//! adds other imports.

mod abi;
mod capabilities;
mod compile;
mod error;
mod framing;
mod guest;
mod handles;
mod host;
mod limits;
mod program;
mod readiness;
#[cfg(feature = "wasi")]
mod sockets;
#[cfg(feature = "wasi")]
mod wasi;

pub use abi::memory::GuestMemory;
pub use capabilities::sys_loop::EVENTS_PER_POLL_MAX;
pub use capabilities::{Capability, CapabilityId, Opened, Opening, Params, PerGuest};
pub use compile::CompileLimits;
pub use error::{Error, Result};
pub use framing::{Framed, Reply, Responses, Service};
pub use guest::context::GuestContext;
pub use guest::control::GuestControl;
pub use guest::state::GuestState;
pub use guest::stats::{GuestPhase, GuestStats, HostStats};
pub use guest::{BadGuestConfig, Exit, GuestConfig, GuestConfigBuilder, GuestHandle, TrapReport};
pub use handles::pipe::{PIPE_BYTES_DEFAULT, PipeReader, PipeWriter, pipe};
pub use handles::resource::{Resource, Watchable};
pub use handles::stdio::{Stdin, Stdout};
pub use host::{Host, HostConfig};
pub use limits::denial::Denial;
pub use limits::policy::{BadRule, NetworkPolicy, Rule};
pub use limits::{Limit, Limits};
pub use mainspring_zcl::abi::ErrorCode;
pub use mainspring_zcl::sys_loop::Readiness;
pub use program::Program;
pub use readiness::signal::Signal;
#[cfg(feature = "wasi")]
pub use sockets::{BadSocketWait, SocketWait};
#[cfg(feature = "wasi")]
pub use wasi::{Component, Folder, FolderError, WasiConfig};
pub use wasmtime;

/// The example of the product's page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/products/host.md")]
struct Product;
