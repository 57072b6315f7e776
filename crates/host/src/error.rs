//! What can go wrong for whoever embeds the host.

use crate::capabilities::CapabilityId;
use crate::limits::policy::BadRule;

/// Why the host could not do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine refuses its settings or cannot reserve its address space.
    #[error(
        "cannot set up the engine for {guests_max} guests: {source}; fewer guests or a smaller memory limit may help"
    )]
    Engine {
        /// The number asked for.
        guests_max: u32,
        /// The engine's reason.
        source: wasmtime::Error,
    },
    /// The system allows fewer memory mappings than the guests need.
    #[error(
        "{guests_max} guests need about {needed} memory mappings and the system allows {allowed}: \
         run `sysctl -w vm.max_map_count={needed}` or admit fewer guests"
    )]
    MapCount {
        /// The number asked for.
        guests_max: u32,
        /// Mappings that they may need.
        needed: u64,
        /// Mappings that the system allows.
        allowed: u64,
    },
    /// A thread could not be started.
    #[error("cannot start the thread that preempts guests: {0}")]
    Thread(std::io::Error),
    /// The bytes are not a module that this host can run.
    #[error("cannot compile the guest: {0:#}")]
    Compile(wasmtime::Error),
    /// The guest is larger than what may be compiled.
    #[error("the guest has {found} bytes; the limit is {limit}")]
    GuestTooLarge {
        /// Its size in bytes.
        found: u64,
        /// The most there may be.
        limit: u64,
    },
    /// A function of the guest is larger than what may be compiled.
    #[error("a function of the guest has {found} bytes; the limit is {limit}")]
    FunctionTooLarge {
        /// Its size in bytes.
        found: u64,
        /// The most there may be.
        limit: u64,
    },
    /// Compiling took too long: for whoever holds
    /// [`CompileLimits::cpu_time`](crate::CompileLimits::cpu_time).
    #[error("compiling the guest takes more than {limit:?} of CPU time")]
    CompileTime {
        /// The most it may take.
        limit: std::time::Duration,
    },
    /// Compiling took too much memory: for whoever holds
    /// [`CompileLimits::memory_bytes`](crate::CompileLimits::memory_bytes).
    #[error("compiling the guest takes more than {limit} bytes of memory")]
    CompileMemory {
        /// The most it may take.
        limit: u64,
    },
    /// The module wants imports that the host does not have, or uses more than a slot offers.
    #[error("cannot link the guest: {0:#}")]
    Link(wasmtime::Error),
    /// The module has nothing to start.
    #[error("the guest exports neither `_start` nor `main`: nothing to run")]
    NoEntryPoint,
    /// The entry point takes or returns something unexpected.
    #[error(
        "the guest's `{name}` has an unexpected type: `_start` is () -> (), `main` is (i32, i32) -> i32 or -> ()"
    )]
    EntryPointType {
        /// Which one.
        name: &'static str,
    },
    /// As many guests as the host was made for are running.
    #[error("{limit} guests are running, which is the most that this host was made for")]
    TooManyGuests {
        /// The most there may be.
        limit: u32,
    },
    /// A guest is configured for a capability that the host does not have.
    #[error(
        "the guest is configured for {id}, which this host does not have: add it with `HostConfig::capability`"
    )]
    NoCapability {
        /// Which one.
        id: CapabilityId,
    },
    /// A capability does not accept what a guest is configured for.
    #[error("the guest's configuration of {id} is refused: {reason}")]
    CapabilityConfig {
        /// Which one.
        id: CapabilityId,
        /// Why.
        reason: String,
    },
    /// A rule of the network's allow-list cannot be understood.
    #[error(transparent)]
    Rule(#[from] BadRule),
    /// The reactor refused.
    #[error(transparent)]
    Reactor(#[from] mainspring_reactor::Error),
    /// A folder could not be opened for a guest.
    #[cfg(feature = "wasi")]
    #[error(transparent)]
    Folder(#[from] crate::wasi::FolderError),
    /// A limit that could not be kept.
    #[cfg(feature = "wasi")]
    #[error(
        "a limit on bandwidth does not reach WASI's sockets: allow the guest net/tcp@v1 alone, or lift the limit"
    )]
    BandwidthOfWasiSockets,
    /// A standard stream could not be set up.
    #[error("cannot set up a standard stream: {0}")]
    Stdio(std::io::Error),
}

/// The result of something that whoever embeds the host asked for.
pub type Result<T, E = Error> = std::result::Result<T, E>;
