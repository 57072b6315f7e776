//! From `mainspring.toml`, the manifests of capabilities and flags to [`Settings`].
//!
//! - `file`: the types that the files are read into; the documentation is made from them.
//! - `tree`, `toml_text`, `json_text`: documents whose every node knows its place.
//! - `read`: from trees to types, finding as many faults as one look can find.
//! - `sources`: the files that were read, and the problems that were found so far.
//! - `doors`, `capabilities`, `programs`: from types to settings.
//! - `bounds`: numbers that make no sense.
//! - `verify`: what only all capabilities together can get wrong.
//! - `problem`: what is wrong, and how that is shown.
//! - `reference`: the documentation.

mod bounds;
mod capabilities;
mod doors;
mod file;
mod glob;
mod json_text;
mod problem;
mod programs;
mod read;
mod reference;
mod sources;
mod toml_text;
mod tree;
mod verify;

pub use problem::{ConfigError, Problem};
pub use reference::reference;

use crate::native::{native_manifest, native_names};
use crate::settings::{Capability, Door, LogFormat, LogLevel, LogSettings, Program, Settings};
use crate::socket_path::{chosen_socket_path, default_socket_path};
use capabilities::Loader;
use file::{ConfigFile, FormatFile, LevelFile, TimeoutsFile};
use mainspring_kernel::{Config as KernelConfig, Mode};
use sources::Sources;
use std::path::{Path, PathBuf};

/// The file that is read when none is named and it is there.
pub const CONFIG_FILE: &str = "mainspring.toml";

/// What flags say, which comes before what files say.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// One Unix socket at this path instead of those of the file; TCP sockets stay. Absent: `MAINSPRING_SOCKET`, if that is set.
    pub socket: Option<PathBuf>,
    /// Standard input and output instead of any socket, and an end when nothing is left to do.
    pub batch: bool,
    /// The level of logging.
    pub log_level: Option<LogLevel>,
    /// The form of log lines.
    pub log_format: Option<LogFormat>,
}

/// The file that [`load`] reads: the one that is named, or else `mainspring.toml` in this folder if it is there.
#[must_use]
pub fn file_to_load(path: Option<&Path>) -> Option<PathBuf> {
    match path {
        Some(path) => Some(path.to_path_buf()),
        None => Path::new(CONFIG_FILE).exists().then(|| PathBuf::from(CONFIG_FILE)),
    }
}

/// The settings of a file (see [`file_to_load`]) and of flags; without a file, [`defaults`] and flags.
///
/// # Errors
/// Everything that is wrong with the file, the manifests that it names and the programs that these name.
pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Settings, ConfigError> {
    let mut settings = match file_to_load(path) {
        Some(path) => load_file(&path)?,
        None => defaults(),
    };
    apply(overrides, &mut settings);
    Ok(settings)
}

/// What is run without any file: the Unix socket that the commands look for, and all native capabilities.
#[must_use]
pub fn defaults() -> Settings {
    Settings {
        kernel: kernel_config(&TimeoutsFile::default(), mainspring_kernel::Limits::default()),
        doors: vec![Door::Unix { path: default_socket_path() }],
        capabilities: native_names().filter_map(native).collect(),
        log: LogSettings { level: LogLevel::Info, format: LogFormat::Human },
    }
}

/// The path of the first Unix socket that a file names, if the file says so without fault in that part.
#[must_use]
pub fn socket_of_file(path: &Path) -> Option<PathBuf> {
    let mut sources = Sources::default();
    let (source, node) = sources.open(path)?;
    let listen = node.get("listen")?;
    let doors = doors::read(listen, &source, &mut sources)?;
    doors.into_iter().find_map(|door| if let Door::Unix { path } = door { Some(path) } else { None })
}

fn apply(overrides: &Overrides, settings: &mut Settings) {
    if let Some(path) = chosen_socket_path(overrides.socket.as_deref()) {
        settings.doors.retain(|door| !matches!(door, Door::Unix { .. }));
        settings.doors.insert(0, Door::Unix { path });
    }
    if overrides.batch {
        settings.doors = vec![Door::Stdio];
        settings.kernel.mode = Mode::Batch;
    }
    settings.log.level = overrides.log_level.unwrap_or(settings.log.level);
    settings.log.format = overrides.log_format.unwrap_or(settings.log.format);
}

fn load_file(path: &Path) -> Result<Settings, ConfigError> {
    let mut sources = Sources::default();
    let settings = settings(path, &mut sources);
    match settings {
        Some(settings) if sources.problems.is_empty() => Ok(settings),
        _ => Err(sources.into_error(path)),
    }
}

fn settings(path: &Path, sources: &mut Sources) -> Option<Settings> {
    let (source, node) = sources.open(path)?;
    let file: Option<ConfigFile> = read::read(&node, &source, &mut sources.problems);
    let doors = match node.get("listen") {
        Some(listen) => doors::read(listen, &source, sources),
        None => Some(vec![Door::Unix { path: default_socket_path() }]),
    };
    // A file with a fault still tells where its capabilities are, and their faults are worth knowing now.
    let manifests = node.get("manifests");
    let mut loader = Loader::new(&node, &source, sources);
    loader.native(node.get("native"));
    loader.inline(node.get("capability"));
    loader.files(manifests);
    let found = loader.finish();
    verify::verify(&found, sources);
    let file = file?;
    bounds::check(&file, &node, &source, sources);
    Some(Settings {
        kernel: kernel_config(&file.timeouts, file.limits),
        doors: doors?,
        capabilities: found.into_iter().map(|found| found.capability).collect(),
        log: LogSettings { level: level(file.log.level), format: format(file.log.format) },
    })
}

fn native(name: &str) -> Option<Capability> {
    let manifest = native_manifest(name)?;
    Some(Capability { manifest, program: Program::Native(name.to_owned()), file: None })
}

fn kernel_config(timeouts: &TimeoutsFile, limits: mainspring_kernel::Limits) -> KernelConfig {
    let ms = |time: file::Time| u64::try_from(time.0.as_millis()).unwrap_or(u64::MAX);
    KernelConfig {
        mode: Mode::Daemon,
        default_timeout_ms: ms(timeouts.default),
        timeout_ms_max: ms(timeouts.max),
        boot_timeout_ms: ms(timeouts.boot),
        drain_ms: ms(timeouts.drain),
        hang_ms: ms(timeouts.hang),
        window_ms: ms(timeouts.repeat),
        collect_stats: true,
        limits,
    }
}

fn level(level: LevelFile) -> LogLevel {
    match level {
        LevelFile::Error => LogLevel::Error,
        LevelFile::Warn => LogLevel::Warn,
        LevelFile::Info => LogLevel::Info,
        LevelFile::Debug => LogLevel::Debug,
        LevelFile::Trace => LogLevel::Trace,
    }
}

fn format(format: FormatFile) -> LogFormat {
    match format {
        FormatFile::Human => LogFormat::Human,
        FormatFile::Json => LogFormat::Json,
    }
}
