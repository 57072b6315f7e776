//! Capabilities and the programs behind them.

#[cfg(feature = "guests")]
use mainspring_host::{CompileLimits, Folder, Limits as GuestLimits};
use mainspring_kernel::Manifest;
use std::path::PathBuf;
use std::time::Duration;

/// A capability and the program behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Capability {
    /// What it says about itself.
    pub manifest: Manifest,
    /// What carries it out.
    pub program: Program,
    /// The file of its manifest, if there is one: read again on reload.
    pub file: Option<PathBuf>,
}

/// What carries a capability out.
#[derive(Clone, Debug, PartialEq)]
pub enum Program {
    /// Code of the daemon, by its name.
    Native(String),
    /// A child process that speaks lines on its standard streams.
    Process(ProcessProgram),
    /// A WebAssembly guest that speaks lines on its standard streams.
    Guest(GuestProgram),
    /// Other nodes of the bus, which share the capability under this id.
    Uplink(String),
}

/// A child process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessProgram {
    /// The program and its arguments. A path with a `/` is relative to `folder`; a bare name is
    /// looked up in `PATH`.
    pub command: Vec<String>,
    /// Whether the command is a server of the Model Context Protocol: the daemon's own program
    /// (`mainspring mcp adapter`) then starts it and translates.
    pub is_mcp_server: bool,
    /// The folder it runs in.
    pub folder: PathBuf,
    /// Variables that it gets besides those of the daemon.
    pub environment: Vec<(String, String)>,
    /// What the operating system lets it use.
    pub limits: ProcessLimits,
    /// How long it may take to end once its input has ended; then it is told (SIGTERM), and as long
    /// again later killed.
    pub grace: Duration,
}

/// Limits that the operating system enforces on a child process. `None` leaves the daemon's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Address space.
    pub memory_bytes: Option<u64>,
    /// CPU time in all.
    pub cpu_seconds: Option<u64>,
    /// Open files.
    pub files: Option<u64>,
    /// The largest file that it may write.
    pub file_bytes: Option<u64>,
}

/// A WebAssembly guest. What it may use comes with the feature `guests`.
#[derive(Clone, Debug, PartialEq)]
pub struct GuestProgram {
    /// The module or component.
    pub module: PathBuf,
    /// Its arguments, without its name.
    pub arguments: Vec<String>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// Where it may connect, as rules.
    pub allow_connect: Vec<String>,
    /// Where it may listen, as rules.
    pub allow_listen: Vec<String>,
    /// Whether it may use WASI's sockets too, under the same rules.
    pub wasi_sockets: bool,
    /// Folders that are opened to it.
    #[cfg(feature = "guests")]
    pub folders: Vec<Folder>,
    /// What it may use.
    #[cfg(feature = "guests")]
    pub limits: GuestLimits,
    /// What compiling it may cost.
    #[cfg(feature = "guests")]
    pub compile: CompileLimits,
    /// How long it may take to end once its input has ended: it is interrupted after half of that
    /// time and killed after all of it.
    pub grace: Duration,
}
