//! The daemon: the kernel on the reactor, with real clients and real actors, on one thread.
//!
//! - [`run`] boots a daemon from [`Settings`] and runs it to its end.
//! - [`Actor`], [`Driver`] and [`Port`] are how a kind of actor is joined to the kernel; [`Native`]
//!   is a capability in Rust.
//!
//! What it is made of:
//!
//! - `transport`: listeners, and bytes on the wire; `clients`: whoever connected.
//! - `actors`: what carries capabilities out.
//! - `kernel_cell`: the kernel as all of these reach it; `pump`: what happens once per turn.
//! - `storage`: the journal and its thread; `hold`: effects that wait for it.
//! - `uplink`: other nodes of the bus, and the runtime that the loop is driven by then.
//! - `operator`: the log, signals, a new reading of the settings; `telemetry`: spans for other
//!   systems; `flight`: the recorder of inputs.
//!
//! Callbacks of the reactor say which clients are to be read. Once per turn of the reactor the pump
//! reads from some of them, cuts lines and feeds them to the kernel, runs the kernel, carries its
//! effects out, and writes to each client once. `docs/contracts/daemon.md` is the contract, clause
//! by clause.

mod actors;
mod clients;
mod error;
mod flight;
mod hold;
mod kernel_cell;
mod operator;
mod pump;
mod storage;
mod telemetry;
mod transport;
// Without the feature nothing is ever made of it.
#[cfg_attr(not(feature = "uplink"), allow(dead_code, unused_variables))]
mod uplink;

pub(crate) use actors::Preflight;
pub use actors::{Actor, Driver, Native, Natives, Port};
pub(crate) use clients::refusal::CONNECTION;
pub use error::Error;
pub use operator::log::install as install_log;
pub use operator::reload::SettingsReader;
pub use operator::report::Report;
pub(crate) use operator::report::unreadable as tell_unreadable;
pub use operator::watch::{SourceFinder, WatchedSources};

use crate::natives::memory;
use crate::settings::BootPhase;
use crate::settings::Settings;
use actors::ChildProcesses;
use flight::Recorder;
use mainspring_kernel::{Config, DurableBounds, Kernel};
use mainspring_reactor::Reactor;
use operator::{limits, log, signals};
use pump::Pump;
use std::ops::ControlFlow;
use std::rc::Rc;
use storage::Opening;

/// What a daemon is told besides its settings.
pub struct Options {
    /// How the boot is told.
    pub report: Report,
    /// The native capabilities that settings may name.
    pub natives: Natives,
    /// How the settings are read again (SIGHUP); absent, they are not.
    pub reader: Option<SettingsReader>,
    /// Where the settings come from, if they are to be read again whenever that or a program
    /// changes.
    pub watch: Option<SourceFinder>,
    /// The file that the settings came from, for `Sys.Stats`.
    pub configuration: Option<std::path::PathBuf>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("report", &self.report)
            .field("natives", &self.natives)
            .field("reader", &self.reader.is_some())
            .field("watch", &self.watch.is_some())
            .field("configuration", &self.configuration)
            .finish()
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            report: Report::Human,
            natives: Natives::built_in(),
            reader: None,
            watch: None,
            configuration: None,
        }
    }
}

/// Boots a daemon and runs it until it ends; returns its exit code.
///
/// It takes SIGTERM, SIGINT and SIGHUP for itself while it runs, so call it before other threads
/// are started.
///
/// # Errors
/// When there can be no loop at all. A boot that fails is told, and ends with exit code 1.
pub fn run(settings: Settings, options: Options) -> Result<i32, Error> {
    let descriptors = limits::raise_descriptors();
    let reactor = Reactor::new()?;
    let mut config = settings.kernel();
    config.collect_stats = true;
    if config.limits.memory_bytes_max == 0 {
        config.limits.memory_bytes_max = limits::memory_allowed() / 2;
    }
    let store = options.natives.memory_account();
    store.bytes_max.set(memory::BYTES_MAX.min(config.limits.memory_bytes_max / 4));
    let report = options.report;
    let opening = match open_journal(&settings, &mut config) {
        Ok(opening) => opening,
        Err(problem) => {
            tell_unreadable(report, BootPhase::Load, &problem);
            return Ok(1);
        }
    };
    let recorder = match start_recorder(&settings) {
        Ok(recorder) => recorder,
        Err(problem) => {
            tell_unreadable(report, BootPhase::Load, &problem);
            return Ok(1);
        }
    };
    let nonce = nonce()?;
    let (recorder, kernel) = match recorder {
        Some((recorder, sink)) => (Some(recorder), Kernel::recorded(config, nonce, sink)),
        None => (None, Kernel::new(config, nonce)),
    };
    let child_processes = ChildProcesses::new(&reactor, descriptors)?;
    let watched = options.watch.clone();
    let pump =
        match Pump::new(&reactor, kernel, settings, options, &child_processes, opening, recorder, nonce) {
            Ok(pump) => pump,
            Err(problem) => {
                tell_unreadable(report, BootPhase::Load, &problem);
                return Ok(1);
            }
        };
    signals::watch(&reactor, &pump)?;
    if let Some(sources) = watched {
        Pump::watch_files(&pump, sources);
    }
    let log_keeper = log::Keeper::new(&reactor);
    pump.boot();
    let (turning, tended) = (Rc::clone(&pump), log_keeper.clone());
    let turn = move || match turning.turn() {
        Some(code) => ControlFlow::Break(code),
        None => {
            tended.tend();
            ControlFlow::Continue(turning.has_more())
        }
    };
    let (_reactor, code) = drive(reactor, pump.uplink(), turn)?;
    let code = pump.end(code);
    child_processes.close();
    log_keeper.end();
    Ok(code)
}

/// Makes turns until one ends the daemon; each says whether it has more to do at once. With an
/// uplink that is a task of the uplink's runtime.
#[cfg_attr(not(feature = "uplink"), expect(unused_variables, reason = "then there is no uplink"))]
fn drive(
    mut reactor: Reactor,
    uplink: Option<&Rc<uplink::Bridge>>,
    mut turn: impl FnMut() -> ControlFlow<i32, bool> + 'static,
) -> Result<(Reactor, i32), Error> {
    #[cfg(feature = "uplink")]
    if let Some(uplink) = uplink {
        return uplink.drive(reactor, turn);
    }
    loop {
        match turn() {
            ControlFlow::Break(code) => return Ok((reactor, code)),
            ControlFlow::Continue(has_more) => {
                reactor.poll(has_more.then_some(std::time::Duration::ZERO))?;
            }
        }
    }
}

/// Opens the journal, if there is to be one, and lets answers be remembered for as long as it says.
fn open_journal(settings: &Settings, config: &mut Config) -> Result<Option<Opening>, String> {
    let journal = &settings.journal;
    let Some(folder) = &journal.folder else { return Ok(None) };
    config.window_ms = u64::try_from(journal.remember.as_millis()).unwrap_or(u64::MAX);
    let bounds = DurableBounds {
        answers_max: config.limits.window_answers_max,
        answer_bytes_max: config.limits.window_bytes_max,
        ..DurableBounds::default()
    };
    let opening = storage::open(folder, journal, bounds)?;
    for line in &opening.told {
        tracing::info!("{line}");
    }
    for line in &opening.warnings {
        tracing::warn!("{line}");
    }
    Ok(Some(opening))
}

/// Starts to record what happens to the kernel, if that is wanted.
fn start_recorder(settings: &Settings) -> Result<Option<flight::RecorderAndSink>, String> {
    let Some(folder) = settings.flight.place() else { return Ok(None) };
    Recorder::start(folder, settings.flight.bytes).map(Some)
}

fn nonce() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    let count = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Error::Random(error.into()))?;
    if count < bytes.len() {
        return Err(Error::Random(std::io::Error::other("too few of them")));
    }
    Ok(u64::from_le_bytes(bytes))
}
