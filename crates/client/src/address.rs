//! Where the daemon is, and what lets a client in: the same answers that the commands give.

use crate::error::ConnectError;
use serde::Deserialize;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{env, fmt, fs};

/// The variable that names the TCP listener of the daemon.
pub const TCP_VARIABLE: &str = "MAINSPRING_TCP";
/// The variable that names the daemon's socket; [`TCP_VARIABLE`] comes before it.
pub const SOCKET_VARIABLE: &str = "MAINSPRING_SOCKET";
/// The variable that holds the token for a TCP listener.
pub const TOKEN_VARIABLE: &str = "MAINSPRING_TOKEN";
/// The variable that names a file with the token; [`TOKEN_VARIABLE`] comes before it.
pub const TOKEN_FILE_VARIABLE: &str = "MAINSPRING_TOKEN_FILE";

const CONFIG_FILE: &str = "mainspring.toml";
/// The longest configuration that is read.
const CONFIG_BYTES_MAX: u64 = 16 << 20;
/// The longest secret that is read, with the end of its line.
const SECRET_BYTES_MAX: u64 = 4096;

/// Where a daemon listens.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP socket of this machine, and the token that opens it.
    Tcp {
        /// The host and port.
        place: String,
        /// The secret.
        token: String,
    },
}

impl Address {
    /// Where the daemon listens: by `MAINSPRING_TCP` or `MAINSPRING_SOCKET`, by `mainspring.toml`
    /// in this folder or the nearest above it (a Unix socket before TCP), or the user's own socket.
    /// Nothing above the home folder is looked at from within it.
    ///
    /// # Errors
    /// There is no token for a TCP listener, or it cannot be read; `mainspring.toml` has a fault,
    /// or is above this folder and belongs to another user.
    pub fn find() -> Result<Address, ConnectError> {
        if let Some(place) = text_variable(TCP_VARIABLE)? {
            return Address::tcp(place);
        }
        if let Some(path) = variable(SOCKET_VARIABLE) {
            return Ok(Address::Unix(path.into()));
        }
        Ok(of_project()?.unwrap_or_else(|| Address::Unix(default_socket())))
    }

    /// A TCP listener, with the token that the environment holds or names.
    ///
    /// # Errors
    /// There is no token, or it cannot be read.
    pub fn tcp(place: impl Into<String>) -> Result<Address, ConnectError> {
        let place = place.into();
        if let Some(token) = text_variable(TOKEN_VARIABLE)? {
            return Ok(Address::Tcp { place, token });
        }
        match variable(TOKEN_FILE_VARIABLE) {
            Some(path) => Address::tcp_with_token_file(place, Path::new(&path)),
            None => Err(ConnectError::Token(format!(
                "the daemon at {place} opens to a token: name a file with {TOKEN_FILE_VARIABLE}, or put it into {TOKEN_VARIABLE}"
            ))),
        }
    }

    /// A TCP listener, with the token in a file that only this user can read.
    ///
    /// # Errors
    /// The token cannot be read.
    pub fn tcp_with_token_file(place: impl Into<String>, path: &Path) -> Result<Address, ConnectError> {
        Ok(Address::Tcp { place: place.into(), token: read_secret(path)? })
    }

    pub(crate) fn token(&self) -> Option<&str> {
        match self {
            Address::Unix(_) => None,
            Address::Tcp { token, .. } => Some(token),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => path.display().fmt(formatter),
            Address::Tcp { place, .. } => formatter.write_str(place),
        }
    }
}

/// Without the token: this may end up in a log.
impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Address({self})")
    }
}

/// The user's own socket.
fn default_socket() -> PathBuf {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = match runtime {
        Some(runtime) => runtime.join("mainspring"),
        None => env::temp_dir().join(format!("mainspring-{}", rustix::process::getuid().as_raw())),
    };
    folder.join("mainspring.sock")
}

/// A variable of the environment that says something.
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

fn text_variable(name: &str) -> Result<Option<String>, ConnectError> {
    let not_text = |_| ConnectError::BadAddress(format!("the variable {name} is not UTF-8 text"));
    variable(name).map(|value| value.into_string().map_err(not_text)).transpose()
}

/// The secret that a file holds, which others must not be able to read.
fn read_secret(path: &Path) -> Result<String, ConnectError> {
    let fault = |words: String| ConnectError::Token(format!("the token: {}{words}", path.display()));
    let failed = |error: std::io::Error| fault(format!(": {error}"));
    // Whatever is no file may have no end, or wait for a writer.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits();
    let mut file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking.cast_signed())
        .open(path)
        .map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(fault(" is no regular file".to_owned()));
    }
    if about.mode() & 0o077 != 0 {
        return Err(fault(format!(" may be read by others; `chmod 600 {}`", path.display())));
    }
    let mut secret = String::new();
    file.by_ref().take(SECRET_BYTES_MAX + 1).read_to_string(&mut secret).map_err(failed)?;
    if secret.len() as u64 > SECRET_BYTES_MAX {
        return Err(fault(format!(" is longer than {SECRET_BYTES_MAX} bytes")));
    }
    Ok(secret.trim_end_matches(['\r', '\n']).to_owned())
}

/// The part of `mainspring.toml` that says where the daemon listens.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    listen: Vec<Listener>,
}

#[derive(Deserialize)]
struct Listener {
    unix: Option<PathBuf>,
    tcp: Option<String>,
    #[serde(default)]
    tokens: Vec<Token>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    token_file: Option<PathBuf>,
}

/// The folder of `mainspring.toml`, relative to this one: this one, or the nearest above it.
fn project() -> Result<Option<PathBuf>, ConnectError> {
    if Path::new(CONFIG_FILE).exists() {
        return Ok(Some(PathBuf::new()));
    }
    let Ok(here) = env::current_dir() else { return Ok(None) };
    let home = variable("HOME").and_then(|home| fs::canonicalize(home).ok());
    match above(&here, home.as_deref()) {
        Some(way) => check_owners(&way).map(|()| Some(way)),
        None => Ok(None),
    }
}

/// The way to the nearest folder above this one that has a configuration. The home folder is the
/// last that is looked at.
fn above(here: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let mut way = PathBuf::new();
    for folder in here.ancestors().take_while(|folder| Some(*folder) != home) {
        way.push("..");
        if folder.parent()?.join(CONFIG_FILE).is_file() {
            return Some(way);
        }
    }
    None
}

/// Makes sure that `mainspring.toml` of a folder above is nobody else's: neither the folder, nor
/// the file, nor a link in its place.
fn check_owners(folder: &Path) -> Result<(), ConnectError> {
    let file = folder.join(CONFIG_FILE);
    let fault = |words: String| ConnectError::BadAddress(format!("{}: {words}", file.display()));
    let user = rustix::process::geteuid().as_raw();
    let system = fs::metadata("/").map_or(0, |root| root.uid());
    for about in [fs::metadata(folder), fs::symlink_metadata(&file), fs::metadata(&file)] {
        let owner = about.map_err(|error| fault(error.to_string()))?.uid();
        if ![user, 0, system].contains(&owner) {
            return Err(fault(format!(
                "belongs to user {owner}, or is in a folder of that user; the file of another user is read \
                 in its own folder alone"
            )));
        }
    }
    Ok(())
}

/// What `mainspring.toml` says. A file with a fault must not lead to the daemon of another.
fn of_project() -> Result<Option<Address>, ConnectError> {
    let Some(folder) = project()? else { return Ok(None) };
    let file = folder.join(CONFIG_FILE);
    let fault = |words: String| ConnectError::BadAddress(format!("{}: {words}", file.display()));
    let mut text = String::new();
    match fs::File::open(&file) {
        Ok(file) => {
            file.take(CONFIG_BYTES_MAX).read_to_string(&mut text).map_err(|error| fault(error.to_string()))?
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fault(error.to_string())),
    };
    let config: Config = toml::from_str(&text).map_err(|error| fault(error.message().to_owned()))?;
    if let Some(path) = config.listen.iter().find_map(|listener| listener.unix.clone()) {
        return Ok(Some(Address::Unix(folder.join(path))));
    }
    let tcp = config.listen.into_iter().find_map(|listener| Some((listener.tcp?, listener.tokens)));
    let Some((place, tokens)) = tcp else { return Ok(None) };
    if place.ends_with(":0") {
        return Err(fault(format!("the daemon chooses its TCP port itself: say which with {TCP_VARIABLE}")));
    }
    match tokens.into_iter().next() {
        Some(Token { token: Some(token), .. }) => Ok(Some(Address::Tcp { place, token })),
        Some(Token { token_file: Some(path), .. }) => {
            Address::tcp_with_token_file(place, &folder.join(path)).map(Some)
        }
        _ => Err(ConnectError::Token(format!("{CONFIG_FILE} has no token for {place}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_configuration_above_a_folder_is_found_up_to_the_home_folder() {
        let root = tempfile::tempdir().unwrap();
        let (home, deep) = (root.path().join("home"), root.path().join("home/project/capabilities"));
        fs::create_dir_all(&deep).unwrap();
        fs::write(root.path().join(CONFIG_FILE), "").unwrap();
        assert_eq!(above(&deep, Some(&home)), None);
        assert_eq!(above(&deep, None), Some("../../..".into()));
        fs::write(home.join(CONFIG_FILE), "").unwrap();
        assert_eq!(above(&deep, Some(&home)), Some("../..".into()));
        fs::write(home.join("project").join(CONFIG_FILE), "").unwrap();
        assert_eq!(above(&deep, Some(&home)), Some("..".into()));
    }
}
