//! From `mainspring.toml`, the manifests of capabilities and flags to [`Settings`].
//!
//! - `file`: the types that the files are read into; the documentation is made from them.
//! - `tree`, `toml_text`, `json_text`: documents whose every node knows its place.
//! - `read`: from trees to types, finding as many faults as one look can find.
//! - `sources`: the files that were read, and the problems that were found so far.
//! - `doors`, `capabilities`, `programs`: from types to settings.
//! - `scripts`: the file that an interpreter is to run.
//! - `bounds`: numbers that make no sense.
//! - `verify`: what only all capabilities together can get wrong.
//! - `keywords`: words in schemas that mean nothing.
//! - `guests`: what only compiling can show.
//! - `problem`: what is wrong, and how that is shown.
//! - `reference`: the documentation.

mod bounds;
mod capabilities;
mod doors;
mod file;
mod glob;
mod guests;
mod json_text;
mod keywords;
mod problem;
mod programs;
mod read;
mod reference;
mod scripts;
mod secrets;
mod sources;
mod toml_text;
mod tree;
mod verify;

pub(crate) use glob::name_matches;
pub use problem::{ConfigError, Phase, Problem};
pub use reference::reference;

use crate::natives::{native_manifest, native_names};
use crate::settings::{Capability, Door, LogFormat, LogLevel, LogSettings, Program, Settings};
use crate::system::socket_path::{chosen_socket_path, default_socket_path};
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
    /// Leave `mainspring.toml` in this folder alone; a file that is named is read all the same.
    pub no_config: bool,
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
    load_with(path, overrides, Guests::AreThere).map(|checked| checked.settings)
}

/// Settings that can be used, and what is most likely not meant in them.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The settings.
    pub settings: Settings,
    /// The warnings, in the order of the files.
    pub warnings: Vec<Problem>,
}

/// As [`load`], and compiles the guests too, which a daemon does once it runs; and says what is most likely not meant.
///
/// # Errors
/// As [`load`], and everything that is wrong with a guest before its first instruction.
pub fn check(path: Option<&Path>, overrides: &Overrides) -> Result<Checked, ConfigError> {
    load_with(path, overrides, Guests::CanStart)
}

/// What must be known of guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guests {
    AreThere,
    CanStart,
}

fn load_with(path: Option<&Path>, overrides: &Overrides, guests: Guests) -> Result<Checked, ConfigError> {
    let file = file_to_load(path).filter(|_| path.is_some() || !overrides.no_config);
    let mut checked = match file {
        Some(path) => load_file(&path, guests)?,
        None => Checked { settings: defaults(), warnings: Vec::new() },
    };
    apply(overrides, &mut checked.settings);
    Ok(checked)
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

/// The door of a file that the commands use: its first Unix socket, or else its first TCP socket, if the file says so without fault in that part.
#[must_use]
pub fn first_door_of_file(path: &Path) -> Option<Door> {
    let mut sources = Sources::default();
    let (source, node) = sources.open(path)?;
    let listen = node.get("listen")?;
    let doors = doors::read(listen, &source, &mut sources)?;
    // Stable: of each kind the first stays first.
    doors.into_iter().min_by_key(|door| !matches!(door, Door::Unix { .. }))
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

fn load_file(path: &Path, guests: Guests) -> Result<Checked, ConfigError> {
    let mut sources = Sources::default();
    let settings = settings(path, guests, &mut sources);
    match settings {
        Some(settings) if sources.problems.is_empty() => {
            Ok(Checked { settings, warnings: sources.into_warnings() })
        }
        _ => Err(sources.into_error(path)),
    }
}

fn settings(path: &Path, guests: Guests, sources: &mut Sources) -> Option<Settings> {
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
    if guests == Guests::CanStart {
        guests::verify(&found, sources);
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SOUND: &str = r#"
manifests = ["*.json"]
native = ["Memory"]
[[listen]]
unix = "é.sock"
[[listen]]
tcp = "127.0.0.1:0"
tokens = [{ name = "ü", token = "0123456789abcdef" }]
[timeouts]
default = "1.5s"
[limits]
line_bytes_max = "64KiB"
[restart]
when = "on_failure"
[[capability]]
id = "a"
description = "ä"
inbound = { oneOf = [{ properties = { kind = { const = "query" }, type = { const = "App.Ask" } } }] }
program = { wasm = "x.wasm", allow_connect = ["*.example.com:443"], folders = [".::/data:ro"], limits = { cpu = "1s" } }
"#;
    const MANIFEST: &str = r#"{ "id": "b", "description": "ö\u00e9", "restart": { "backoff_ms": "1s" },
        "inbound": { "properties": { "kind": { "const": "command" }, "type": { "enum": ["App.Do", "App.Undo"] } } },
        "program": { "process": ["sh", "-c", "cat"], "env": { "A": "1" } } }"#;

    /// A small generator, the same in every run.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % bound.max(1) as u64) as usize
        }

        /// The text with a piece taken out, doubled, or changed.
        fn damage(&mut self, text: &str) -> String {
            let mut characters: Vec<char> = text.chars().collect();
            for _ in 0..=self.below(3) {
                let at = self.below(characters.len());
                let end = (at + 1 + self.below(12)).min(characters.len());
                match self.below(4) {
                    0 => drop(characters.drain(at..end)),
                    1 => characters.splice(at..at, characters[at..end].to_vec()).for_each(drop),
                    2 => {
                        characters[at] =
                            ['"', '[', '}', '=', '\n', '\\', 'é', '0', '-', '\u{0}'][self.below(10)]
                    }
                    _ => characters.truncate(at.max(1)),
                }
            }
            characters.into_iter().collect()
        }
    }

    #[test]
    fn whatever_is_in_the_files_there_are_settings_or_problems_and_every_problem_can_be_shown() {
        let folder = tempfile::tempdir().unwrap();
        let (config, manifest) = (folder.path().join("mainspring.toml"), folder.path().join("b.json"));
        fs::write(folder.path().join("x.wasm"), b"\0asm\x01\0\0\0").unwrap();
        fs::write(&config, SOUND).unwrap();
        fs::write(&manifest, MANIFEST).unwrap();
        assert_eq!(load(Some(&config), &Overrides::default()).unwrap().capabilities.len(), 3);
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
        let mut refused = 0;
        for round in 0..300 {
            let damaged = round % 2 == 0;
            fs::write(&config, if damaged { dice.damage(SOUND) } else { SOUND.into() }).unwrap();
            fs::write(&manifest, if damaged { MANIFEST.into() } else { dice.damage(MANIFEST) }).unwrap();
            if let Err(error) = load(Some(&config), &Overrides::default()) {
                refused += 1;
                assert!(!error.problems.is_empty());
                assert!(error.to_string().contains("error: "));
            }
        }
        assert!(refused > 200, "{refused}");
    }

    #[test]
    fn flags_come_before_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("mainspring.toml");
        fs::write(&config, "[[listen]]\nunix = 'a'\n[[listen]]\ntcp = '127.0.0.1:1'\ntokens = [{ name = 'x', token = '0123456789abcdef' }]\n[log]\nlevel = 'warn'\n").unwrap();
        let mut overrides = Overrides {
            socket: Some("b".into()),
            log_level: Some(LogLevel::Trace),
            log_format: Some(LogFormat::Json),
            ..Overrides::default()
        };
        let settings = load(Some(&config), &overrides).unwrap();
        assert_eq!(settings.doors[0], Door::Unix { path: "b".into() });
        assert!(matches!(settings.doors[1..], [Door::Tcp { .. }]));
        assert_eq!((settings.log.level, settings.log.format), (LogLevel::Trace, LogFormat::Json));
        overrides.batch = true;
        let settings = load(Some(&config), &overrides).unwrap();
        assert_eq!((settings.doors, settings.kernel.mode), (vec![Door::Stdio], Mode::Batch));
    }

    #[test]
    fn restart_of_the_file_holds_for_what_a_manifest_leaves_out() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("mainspring.toml");
        fs::write(
            &config,
            "native = []\nmanifests = ['b.json']\n[restart]\nwhen = 'never'\nbackoff_ms = '9s'\n",
        )
        .unwrap();
        fs::write(folder.path().join("b.json"), MANIFEST).unwrap();
        let settings = load(Some(&config), &Overrides::default()).unwrap();
        let restart = &settings.capabilities[0].manifest.restart;
        assert_eq!((restart.when, restart.backoff_ms), (mainspring_kernel::RestartWhen::Never, 1000));
        assert_eq!(restart.max_restarts, mainspring_kernel::RestartPolicy::default().max_restarts);
    }
}
