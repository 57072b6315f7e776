//! `mainspring run`: one guest, in the foreground.

use crate::CodeCache;
use crate::cli::support::target::EXIT_SIGNALLED;
use crate::cli::support::warnings;
use crate::system::preopen;
use crate::text::units;
use mainspring_host::{
    BadGuestConfig, CompileLimits, Component, Denial, Exit, Folder, GuestConfig, GuestConfigBuilder,
    GuestHandle, GuestStats, HostConfig, Limit, Limits, SocketWait, Stdin, Stdout, WasiConfig,
};
use mainspring_reactor::{Reactor, Signal, SignalEvent};
use std::cell::{Cell, RefCell};
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

/// The exit code of a guest that trapped, as of a process that aborted.
const EXIT_TRAPPED: u8 = 134;
/// The exit code of a guest that was killed or used up a limit, as of a process that was.
const EXIT_KILLED: u8 = 137;
/// How long a guest may take to finish once it was asked to.
const GRACE: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  mainspring run hello.wasm
  mainspring run --allow-listen 127.0.0.1:7000 echo.wasm -- 127.0.0.1:7000
  mainspring run --allow-connect db.example.com:5432 --env PGUSER=me report.wasm
  mainspring run --dir ./data::/data:ro --memory-max 16MiB convert.wasm -- /data/in.csv

A guest can reach nothing but its standard streams unless a flag says so. Rules for the network are host:port; the host may be a name \
(db.example.com), all names below one (*.example.com), an address or network (10.0.0.0/8), `loopback` or `*`; the port a number, a range (8000-8999) \
or `*`.

Exit code: the guest's own; 134 if it trapped, 137 if it was killed or used up a limit, 128 + n after signal n, 1 if it could not be started, 2 for a \
command line that is wrong.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct RunArguments {
    /// The guest: a WebAssembly module or component.
    guest: PathBuf,
    /// RunArguments for the guest.
    #[arg(last = true)]
    arguments: Vec<String>,
    /// Let it connect to this host and port (may be repeated).
    #[arg(long, value_name = "RULE", help_heading = "Network")]
    allow_connect: Vec<String>,
    /// Let it listen at this address and port (may be repeated).
    #[arg(long, value_name = "RULE", help_heading = "Network")]
    allow_listen: Vec<String>,
    /// Let it use WASI's sockets as well, under the same rules.
    #[arg(long, help_heading = "Network")]
    wasi_sockets: bool,
    /// How long reads and writes of a component that wakes itself wait for any of its sockets: the
    /// longest in milliseconds, the first and the longest, or 0 [default:
    /// $MAINSPRING_SOCKET_WAIT_MS, or 1-10].
    #[arg(long, value_name = "MS", help_heading = "Network")]
    socket_wait: Option<SocketWait>,
    /// Set a variable of its environment; without a value, pass on the one of this process (may be
    /// repeated).
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Open a folder to it, under another name if one is given, read-only with `:ro` (may be
    /// repeated).
    #[arg(long, value_name = "HOST[::GUEST][:ro]", value_parser = preopen::folder)]
    dir: Vec<Folder>,
    /// The memory that it may have [default: 64MiB].
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Limits")]
    memory_max: Option<u64>,
    /// The CPU time that it may use in all [default: no limit].
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Limits")]
    cpu_max: Option<Duration>,
    /// How long it may run before others get a turn [default: 5ms].
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Limits")]
    cpu_slice: Option<Duration>,
    /// Open handles [default: 1024].
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    handles_max: Option<usize>,
    /// Watches [default: 4096].
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    watches_max: Option<usize>,
    /// Armed timers [default: 4096].
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    timers_max: Option<usize>,
    /// Bytes that are held for it [default: 1MiB].
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Limits")]
    buffered_max: Option<u64>,
    /// Bytes per second over the network [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Limits")]
    bandwidth_max: Option<u64>,
    /// Bytes that it may add to the folders that it may write to [default: 1GiB].
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Limits")]
    folder_max: Option<u64>,
    /// The size of the module or component [default: 64MiB].
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Limits")]
    module_max: Option<u64>,
    /// The size of its largest function [default: 1MiB].
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Limits")]
    function_max: Option<u64>,
    /// The CPU time that compiling it may take [default: 1m].
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Limits")]
    compile_time_max: Option<Duration>,
    /// The memory that compiling it may take [default: 1GiB].
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Limits")]
    compile_memory_max: Option<u64>,
    /// Say at the end, on standard error, what it did: polls, wake-ups, bytes, CPU time, memory.
    #[arg(long)]
    stats: bool,
    /// Compile it anew, and do not keep the compiled code.
    #[arg(long)]
    no_cache: bool,
}

/// Why a guest could not be started.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum RunError {
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("{path} is not WebAssembly: it begins with neither a module's nor a component's header")]
    NotWebAssembly { path: String },
    #[error("--env {0}: there is no such variable in this process, or it is no text")]
    NoVariable(String),
    #[error("--env {0}: a variable has a name, such as NAME=VALUE")]
    NoName(String),
    #[error(transparent)]
    Host(#[from] mainspring_host::Error),
    #[error("{path}: {reason}; {flag} raises that")]
    TooLarge { path: String, reason: mainspring_host::Error, flag: &'static str },
    #[error("{flag}: {reason}")]
    Refused { flag: &'static str, reason: BadGuestConfig },
    #[error(transparent)]
    Reactor(#[from] mainspring_reactor::Error),
}

impl RunError {
    /// Whether the command line is to blame.
    pub(in crate::cli) fn is_usage(&self) -> bool {
        matches!(self, RunError::NoVariable(_) | RunError::NoName(_) | RunError::Refused { .. })
    }
}

pub(in crate::cli) fn run(arguments: &RunArguments) -> Result<ExitCode, RunError> {
    warnings::show();
    let config = configuration(arguments)?;
    let bytes = read(arguments)?;
    let mut reactor = Reactor::new()?;
    let signals = Signals::watch(&reactor)?;
    // One guest needs no pool, and reserving one would cost more than it saves.
    let mut host = HostConfig::new();
    host.guests_max = 1;
    host.pooling = false;
    host.socket_wait = arguments.socket_wait.unwrap_or(host.socket_wait);
    let host = host.build()?;
    let cache = if arguments.no_cache { CodeCache::none() } else { CodeCache::of_user() };
    let limits = compile_limits(arguments);
    let too_large = |error| too_large(arguments, error);
    let guest = if Component::is_component(&bytes) {
        let component = cache.component_within(&host, &bytes, &limits).map_err(too_large)?;
        host.spawn_component(&reactor, &component, config)?
    } else {
        let program = cache.program_within(&host, &bytes, &limits).map_err(too_large)?;
        host.spawn(&reactor, &program, config)?
    };
    signals.guest.replace(Some(guest.clone()));
    let exit = reactor.block_on(guest.exit())?;
    if arguments.stats {
        print_stats(&guest.stats());
    }
    Ok(exit_code(&exit, signals.first.get()))
}

fn compile_limits(arguments: &RunArguments) -> CompileLimits {
    let shipped = CompileLimits::default();
    CompileLimits {
        bytes: arguments.module_max.unwrap_or(shipped.bytes),
        function_bytes: arguments.function_max.unwrap_or(shipped.function_bytes),
        cpu_time: arguments.compile_time_max.unwrap_or(shipped.cpu_time),
        memory_bytes: arguments.compile_memory_max.unwrap_or(shipped.memory_bytes),
    }
}

/// Names the flag that a refusal is about, if it is about one.
fn too_large(arguments: &RunArguments, reason: mainspring_host::Error) -> RunError {
    let flag = match reason {
        mainspring_host::Error::GuestTooLarge { .. } => "--module-max",
        mainspring_host::Error::FunctionTooLarge { .. } => "--function-max",
        mainspring_host::Error::CompileTime { .. } => "--compile-time-max",
        mainspring_host::Error::CompileMemory { .. } => "--compile-memory-max",
        _ => return RunError::Host(reason),
    };
    RunError::TooLarge { path: arguments.guest.display().to_string(), reason, flag }
}

fn read(arguments: &RunArguments) -> Result<Vec<u8>, RunError> {
    let path = arguments.guest.display().to_string();
    // One byte more than there may be tells what is too large, and nothing is read without end.
    let most = compile_limits(arguments).bytes.saturating_add(1);
    let mut bytes = Vec::new();
    std::fs::File::open(&arguments.guest)
        .and_then(|file| file.take(most).read_to_end(&mut bytes))
        .map_err(|source| RunError::Read { path: path.clone(), source })?;
    if bytes.starts_with(b"\0asm") { Ok(bytes) } else { Err(RunError::NotWebAssembly { path }) }
}

fn configuration(arguments: &RunArguments) -> Result<GuestConfig, RunError> {
    let name = arguments.guest.file_name().unwrap_or_default().to_string_lossy();
    let environment = arguments.env.iter().map(|text| variable(text)).collect::<Result<_, _>>()?;
    let mut config = GuestConfigBuilder::new(&name)
        .arguments(&arguments.arguments)
        .environment(environment)
        .limits(limits(arguments))
        .allow_connect(&arguments.allow_connect)
        .allow_listen(&arguments.allow_listen)
        .wasi(WasiConfig { folders: arguments.dir.clone(), sockets: arguments.wasi_sockets })
        .build()
        .map_err(|reason| RunError::Refused { flag: flag_of(&reason), reason })?;
    (config.stdin, config.stdout, config.stderr) = (Stdin::Inherit, Stdout::Inherit, Stdout::Inherit);
    config.on_denial(|denial| eprintln!("mainspring: the guest was denied: {denial}{}", remedy(denial)));
    Ok(config)
}

/// The flag that would grant what a guest was denied.
fn remedy(denial: &Denial) -> String {
    match (denial, denial.rule()) {
        (Denial::Connect(_), Some(rule)) => format!("; grant it with --allow-connect '{rule}'"),
        (Denial::Listen(_), Some(rule)) => format!("; grant it with --allow-listen '{rule}'"),
        (Denial::WasiSockets, _) => "; grant it with --wasi-sockets".to_owned(),
        _ => String::new(),
    }
}

/// The flag that a refusal is about.
fn flag_of(reason: &BadGuestConfig) -> &'static str {
    match reason {
        BadGuestConfig::Connect(_) => "--allow-connect",
        BadGuestConfig::Listen(_) => "--allow-listen",
        BadGuestConfig::Variable(_) => "--env",
        _ => "arguments",
    }
}

fn variable(text: &str) -> Result<(String, String), RunError> {
    let name = text.split('=').next().unwrap_or_default();
    if name.is_empty() {
        return Err(RunError::NoName(text.into()));
    }
    if let Some((name, value)) = text.split_once('=') {
        return Ok((name.into(), value.into()));
    }
    let value = std::env::var(text).map_err(|_| RunError::NoVariable(text.into()))?;
    Ok((text.into(), value))
}

fn limits(arguments: &RunArguments) -> Limits {
    let mut limits = Limits::default();
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    limits.memory_bytes = arguments.memory_max.map_or(limits.memory_bytes, size);
    limits.cpu_total = arguments.cpu_max.or(limits.cpu_total);
    limits.cpu_slice = arguments.cpu_slice.unwrap_or(limits.cpu_slice);
    limits.handles = arguments.handles_max.unwrap_or(limits.handles);
    limits.watches = arguments.watches_max.unwrap_or(limits.watches);
    limits.timers = arguments.timers_max.unwrap_or(limits.timers);
    limits.buffered_bytes = arguments.buffered_max.map_or(limits.buffered_bytes, size);
    limits.bandwidth_bytes_per_s = arguments.bandwidth_max.or(limits.bandwidth_bytes_per_s);
    limits.folder_bytes = arguments.folder_max.or(limits.folder_bytes);
    limits
}

/// The first signal asks the guest to finish, and gives it a while; the second, or the end of that
/// while, kills it.
#[derive(Clone, Default)]
struct Signals {
    first: Rc<Cell<Option<Signal>>>,
    guest: Rc<RefCell<Option<GuestHandle>>>,
}

impl Signals {
    fn watch(reactor: &Reactor) -> Result<Signals, RunError> {
        let signals = Signals::default();
        for signal in [Signal::INT, Signal::TERM] {
            let signals = signals.clone();
            reactor.on_signal(signal, move |event| signals.arrived(event))?;
        }
        Ok(signals)
    }

    fn arrived(&self, event: &SignalEvent<'_>) {
        let Some(guest) = self.guest.borrow().clone() else { return };
        if self.first.replace(Some(event.signal())).is_some() {
            return guest.kill();
        }
        guest.interrupt();
        let late = guest.clone();
        // Without a timer there is no while to give.
        if event.reactor().after(GRACE, move |_| late.kill()).is_err() {
            guest.kill();
        }
    }
}

fn exit_code(exit: &Exit, signalled: Option<Signal>) -> ExitCode {
    match (exit, signalled) {
        (Exit::Trapped(report), _) => {
            eprintln!("mainspring: the guest trapped: {report}");
            ExitCode::from(EXIT_TRAPPED)
        }
        (_, Some(signal)) => ExitCode::from(EXIT_SIGNALLED.wrapping_add(signal.as_raw() as u8)),
        (Exit::Returned(code), None) => ExitCode::from((code & 0xFF) as u8),
        (Exit::OverLimit(limit), None) => {
            eprintln!("mainspring: the guest used up its limit: {}", name_of(*limit));
            ExitCode::from(EXIT_KILLED)
        }
        (_, None) => {
            eprintln!("mainspring: the guest was killed");
            ExitCode::from(EXIT_KILLED)
        }
    }
}

/// A limit as the command line calls it; those that it cannot set have a name of their own.
fn name_of(limit: Limit) -> &'static str {
    match limit {
        Limit::Memory => "--memory-max",
        Limit::CpuTotal => "--cpu-max",
        Limit::Handles => "--handles-max",
        Limit::Watches => "--watches-max",
        Limit::Timers => "--timers-max",
        Limit::BufferedBytes => "--buffered-max",
        Limit::Bandwidth => "--bandwidth-max",
        Limit::FolderBytes => "--folder-max",
        other => other.name(),
    }
}

fn print_stats(stats: &GuestStats) {
    eprintln!(
        "polls            {} ({} empty, {} without waiting)",
        stats.polls, stats.empty_polls, stats.zero_timeout_polls
    );
    eprintln!("wake-ups         {} ({} events)", stats.wakeups, stats.events);
    eprintln!("told to wait     {}", stats.agains);
    eprintln!("bytes            {} read, {} written", stats.bytes_read, stats.bytes_written);
    eprintln!("CPU time         {:?} ({} times preempted)", stats.cpu_time, stats.preemptions);
    eprintln!("memory           {} KiB", stats.memory_bytes / 1024);
    for limit in Limit::ALL.into_iter().filter(|limit| stats.refused(*limit) > 0) {
        eprintln!("refused          {} by the limit {}", stats.refused(limit), name_of(limit));
    }
}
