//! From `mainspring.toml`, the manifests of capabilities and flags to [`Settings`].
//!
//! - `keys`: the tables of the files, one file each; plain settings declare theirs in `settings`.
//! - `text`: from bytes to typed values, with the place of everything.
//! - `report`: what is wrong, and how that is shown.
//! - `checks`: what goes wrong beyond keys.
//! - `capabilities`, `patterns`: the capabilities that a file names.
//! - `assemble`: all of it, in order.
//! - `find`: which file it is when none is named.
//! - `reference`: the documentation.
//!
//! Nothing here knows the daemon: both know `settings`.

mod assemble;
mod capabilities;
mod checks;
mod find;
mod keys;
mod patterns;
mod reference;
mod report;
mod text;

pub use checks::GuestCheck;
pub(crate) use patterns::name_matches;
pub use reference::reference;
pub use report::{ConfigError, Problem};

use crate::natives::{native_manifest, native_names};
use crate::settings::{Capability, HttpListener, Listener, LogFormat, LogLevel, Program, Settings, Token};
use crate::system::socket_path::{chosen_socket_path, default_socket_path};
use mainspring_kernel::{Mode, Rights};
use report::Sources;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The file that is read when none is named and it is there, in this folder or above it.
pub const CONFIG_FILE: &str = "mainspring.toml";

/// What flags say, which comes before what files say.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Look for no `mainspring.toml`; a file that is named is read all the same.
    pub no_config: bool,
    /// One Unix socket at this path instead of those of the file; TCP sockets stay. Absent:
    /// `MAINSPRING_SOCKET`, if that is set.
    pub socket: Option<PathBuf>,
    /// HTTP at this address as well, with this token for whoever runs the commands.
    pub http: Option<(SocketAddr, String)>,
    /// Standard input and output instead of any socket, and an end when nothing is left to do.
    pub batch: bool,
    /// The folder of the journal.
    pub journal: Option<PathBuf>,
    /// The level of logging.
    pub log_level: Option<LogLevel>,
    /// The form of log lines.
    pub log_format: Option<LogFormat>,
}

/// The file that [`load`] reads: the one that is named, or else `mainspring.toml` in this folder or
/// in the nearest folder above it, up to the home folder, if it is there.
///
/// # Errors
/// The nearest one is above this folder and belongs to another user.
pub fn file_to_load(path: Option<&Path>) -> Result<Option<PathBuf>, ConfigError> {
    match path {
        Some(path) => Ok(Some(path.to_path_buf())),
        None => find::nearest(),
    }
}

/// The settings of a file (see [`file_to_load`]) and of flags; without a file, [`defaults`] and
/// flags.
///
/// # Errors
/// Everything that is wrong with the file, the manifests that it names and the programs that these
/// name.
pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Settings, ConfigError> {
    load_with(path, overrides, None).map(|checked| checked.settings)
}

/// Settings that can be used, and what is most likely not meant in them.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The settings.
    pub settings: Settings,
    /// The warnings, in the order of the files.
    pub warnings: Vec<Problem>,
}

/// As [`load`], and asks about each guest whether it can be started; and says what is most likely
/// not meant.
///
/// # Errors
/// As [`load`], and whatever `guests` says about a guest.
pub fn check(
    path: Option<&Path>,
    overrides: &Overrides,
    guests: &mut GuestCheck<'_>,
) -> Result<Checked, ConfigError> {
    load_with(path, overrides, Some(guests))
}

fn load_with(
    path: Option<&Path>,
    overrides: &Overrides,
    guests: Option<&mut GuestCheck<'_>>,
) -> Result<Checked, ConfigError> {
    let file = if path.is_none() && overrides.no_config { None } else { file_to_load(path)? };
    let mut checked = match file {
        Some(path) => load_file(&path, guests)?,
        None => Checked { settings: defaults(), warnings: Vec::new() },
    };
    apply(overrides, &mut checked.settings);
    Ok(checked)
}

/// What is run without any file: the Unix socket that the commands look for, and all native
/// capabilities.
#[must_use]
pub fn defaults() -> Settings {
    let capabilities = native_names().filter_map(native).collect();
    Settings::new(vec![Listener::Unix { path: default_socket_path() }], capabilities)
}

/// The listener of a file that the commands use: its first Unix socket, or else its first TCP
/// socket, if the file says so without fault in that part.
#[must_use]
pub fn first_listener_of_file(path: &Path) -> Option<Listener> {
    let mut sources = Sources::default();
    let (source, node) = sources.open(path)?;
    let listeners = keys::listen::read(node.get("listen")?, &source, &mut sources)?;
    // Stable: of each kind the first stays first.
    let rank = |listener: &Listener| match listener {
        Listener::Unix { .. } => 0,
        Listener::Tcp { .. } => 1,
        _ => 2,
    };
    listeners.into_iter().min_by_key(rank)
}

/// The name of whoever has the token of `--http`.
const HTTP_PEER: &str = "http";

/// Where a daemon at a Unix socket tells its HTTP address and token: beside the socket.
pub(crate) fn http_run_file(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".http");
    name.into()
}

/// The journal's folder that a file names, if it says so without fault in that part.
pub(crate) fn journal_of_file(path: &Path) -> Option<PathBuf> {
    let mut sources = Sources::default();
    let (source, node) = sources.open(path)?;
    match &node.get("journal")?.get("folder")?.value {
        text::Value::Text(folder) => Some(source.beside(folder)),
        _ => None,
    }
}

/// The folder of the recordings that a file names, or that is beside it.
pub(crate) fn flight_of_file(path: &Path) -> Option<PathBuf> {
    let mut sources = Sources::default();
    let (source, node) = sources.open(path)?;
    let folder = node.get("flight")?.get("folder").map(|folder| &folder.value);
    match folder {
        None => Some(source.beside(Path::new("flight"))),
        Some(text::Value::Text(folder)) => Some(source.beside(folder)),
        Some(_) => None,
    }
}

fn apply(overrides: &Overrides, settings: &mut Settings) {
    if let Some(path) = chosen_socket_path(overrides.socket.as_deref()) {
        settings.listeners.retain(|listener| !matches!(listener, Listener::Unix { .. }));
        settings.listeners.insert(0, Listener::Unix { path });
    }
    if let Some((address, token)) = &overrides.http {
        // The file that tells it is this user's alone, who is an operator by the Unix socket too.
        let (name, secret) = (HTTP_PEER.to_owned(), token.clone());
        let tokens = vec![Token { name, secret, rights: Rights::of_operator() }];
        let run_file = settings.listeners.iter().find_map(|listener| match listener {
            Listener::Unix { path } => Some(http_run_file(path)),
            _ => None,
        });
        let http = HttpListener { address: *address, tokens, hosts: Vec::new(), tls: None, run_file };
        settings.listeners.push(Listener::Http(http));
    }
    if overrides.batch {
        settings.listeners = vec![Listener::Stdio];
        settings.mode = Mode::Batch;
    }
    if overrides.journal.is_some() {
        settings.journal.folder.clone_from(&overrides.journal);
    }
    settings.log.level = overrides.log_level.unwrap_or(settings.log.level);
    settings.log.format = overrides.log_format.unwrap_or(settings.log.format);
}

fn load_file(path: &Path, guests: Option<&mut GuestCheck<'_>>) -> Result<Checked, ConfigError> {
    let mut sources = Sources::default();
    match assemble::settings(path, guests, &mut sources) {
        Some(settings) if sources.problems.is_empty() => {
            Ok(Checked { settings, warnings: sources.into_warnings() })
        }
        _ => Err(sources.into_error(path)),
    }
}

fn native(name: &str) -> Option<Capability> {
    let manifest = native_manifest(name)?;
    Some(Capability { manifest, program: Program::Native(name.to_owned()), file: None })
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
        assert_eq!(settings.listeners[0], Listener::Unix { path: "b".into() });
        assert!(matches!(settings.listeners[1..], [Listener::Tcp { .. }]));
        assert_eq!((settings.log.level, settings.log.format), (LogLevel::Trace, LogFormat::Json));
        overrides.batch = true;
        let settings = load(Some(&config), &overrides).unwrap();
        assert_eq!((settings.listeners, settings.mode), (vec![Listener::Stdio], Mode::Batch));
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
