//! What a daemon is to run: plain values, resolved and checked, whatever they were read from.
//!
//! `config` makes them from files and flags; `daemon` carries them out. Neither knows the other.

use mainspring_host::{CompileLimits, Folder, Limits as GuestLimits};
use mainspring_kernel::{Config as KernelConfig, Manifest};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Everything that a daemon needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The settings of the kernel.
    pub kernel: KernelConfig,
    /// Where clients come in.
    pub doors: Vec<Door>,
    /// The capabilities, in order.
    pub capabilities: Vec<Capability>,
    /// What is logged, and how.
    pub log: LogSettings,
}

/// A place where clients come in.
#[derive(Clone, PartialEq, Eq)]
pub enum Door {
    /// A Unix socket, readable and writable by its owner alone; a peer is its user.
    Unix {
        /// The path of the socket.
        path: PathBuf,
    },
    /// A TCP socket on loopback. The first line of a client must be the token; a peer is the token's name.
    Tcp {
        /// Where it listens; the address must be loopback.
        address: SocketAddr,
        /// Who may come in: names and tokens.
        tokens: Vec<(String, String)>,
    },
    /// Standard input and output, one client; the end of its input ends the adapter.
    Stdio,
}

/// Without the tokens: this may end up in a log.
impl fmt::Debug for Door {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Door::Unix { path } => formatter.debug_struct("Unix").field("path", path).finish(),
            Door::Tcp { address, tokens } => {
                let names: Vec<&str> = tokens.iter().map(|(name, _)| name.as_str()).collect();
                formatter.debug_struct("Tcp").field("address", address).field("tokens", &names).finish()
            }
            Door::Stdio => formatter.write_str("Stdio"),
        }
    }
}

/// Whether a name is that of a peer who is known without a token: a user by the Unix socket (`user:1000`), or the standard streams
/// (`stdio`). A token cannot have it, or two peers would be one.
#[must_use]
pub fn is_reserved_peer(name: &str) -> bool {
    name == "stdio" || name.starts_with("user:")
}

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
}

/// A child process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessProgram {
    /// The program and its arguments. A path with a `/` is relative to `folder`; a bare name is looked up in `PATH`.
    pub command: Vec<String>,
    /// The folder it runs in.
    pub folder: PathBuf,
    /// Variables that it gets besides those of the daemon.
    pub environment: Vec<(String, String)>,
    /// What the operating system lets it use.
    pub limits: ProcessLimits,
    /// How long it may take to end once its input has ended; then it is told (SIGTERM), and as long again later killed.
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

/// A WebAssembly guest.
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
    pub folders: Vec<Folder>,
    /// What it may use.
    pub limits: GuestLimits,
    /// What compiling it may cost.
    pub compile: CompileLimits,
    /// How long it may take to end once its input has ended: after half of it it is interrupted, after all of it killed.
    pub grace: Duration,
}

/// What is logged, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The least important level that is written.
    pub level: LogLevel,
    /// For people or for machines.
    pub format: LogFormat,
}

/// How much a log line matters, most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// A person should look.
    Error,
    /// Something is wrong, and is being dealt with.
    Warn,
    /// Worth knowing.
    Info,
    /// For finding faults.
    Debug,
    /// Everything.
    Trace,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A line that reads well.
    Human,
    /// A JSON object a line.
    Json,
}
