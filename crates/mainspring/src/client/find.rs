//! Where the daemon is, and what lets a command in.

use crate::client::{ClientError, TlsTrust};
use crate::config::{self, CONFIG_FILE, Overrides, first_listener_of_file};
use crate::settings::Listener;
use crate::system::files::read_secret;
use crate::system::socket_path::{chosen_socket_path, default_socket_path};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// The variable that names the TCP listener of the daemon. `--socket` and `--tcp` come before it,
/// `MAINSPRING_SOCKET` after it.
pub const TCP_VARIABLE: &str = "MAINSPRING_TCP";
/// The variable that holds the token for a TCP listener. A flag comes before it.
pub const TOKEN_VARIABLE: &str = "MAINSPRING_TOKEN";
/// The variable that names a file with the token. [`TOKEN_VARIABLE`] comes before it.
pub const TOKEN_FILE_VARIABLE: &str = "MAINSPRING_TOKEN_FILE";

/// The variable that names a file with the certificates that that of the daemon must be signed by;
/// with it TCP is encrypted.
pub const TLS_CA_VARIABLE: &str = "MAINSPRING_TLS_CA";
/// The variables that name a certificate to show and its key.
const TLS_CERTIFICATE_VARIABLE: &str = "MAINSPRING_TLS_CERTIFICATE";
const TLS_KEY_VARIABLE: &str = "MAINSPRING_TLS_KEY";

/// Where a daemon listens.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP socket, and the token that opens it.
    Tcp {
        /// A name or address of this machine, with a port.
        place: String,
        /// The secret.
        token: String,
        /// Whom to trust, if the connection is to be encrypted.
        tls: Option<Box<TlsTrust>>,
    },
}

/// What flags say about where the daemon is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flags<'a> {
    /// The path of a Unix socket.
    pub socket: Option<&'a Path>,
    /// A host and port.
    pub tcp: Option<&'a str>,
    /// A file with the token.
    pub token_file: Option<&'a Path>,
    /// A file with the certificates that that of the daemon must be signed by.
    pub tls_ca: Option<&'a Path>,
    /// A certificate to show, and its key.
    pub tls_certificate: Option<&'a Path>,
    /// See above.
    pub tls_key: Option<&'a Path>,
}

impl Address {
    /// Where the daemon listens: by flag, by `MAINSPRING_TCP` or `MAINSPRING_SOCKET`, by
    /// `mainspring.toml` in this folder or the nearest above it, or where it is by default.
    ///
    /// # Errors
    /// There is no token for a TCP listener, or it cannot be read; `mainspring.toml` would
    /// have to say, and has a fault or belongs to another user.
    pub fn find(flags: Flags<'_>) -> Result<Address, ClientError> {
        if let Some(path) = flags.socket {
            return Ok(Address::Unix(path.to_path_buf()));
        }
        let variable = text_variable(TCP_VARIABLE)?;
        if let Some(place) = flags.tcp.map(str::to_owned).or(variable) {
            let token = token(flags.token_file, &place)?;
            return Ok(Address::Tcp { place, token, tls: tls(flags)? });
        }
        if flags.token_file.is_some() || flags.tls_ca.is_some() || flags.tls_certificate.is_some() {
            return Err(ClientError::TokenWithoutTcp);
        }
        if let Some(path) = chosen_socket_path(None) {
            return Ok(Address::Unix(path));
        }
        let found = listener_of_project()?.map(Address::of_listener).transpose()?.flatten();
        Ok(found.unwrap_or_else(|| Address::Unix(default_socket_path())))
    }

    /// The address of a listener that a file names, with the first of its tokens.
    fn of_listener(listener: Listener) -> Result<Option<Address>, ClientError> {
        match listener {
            Listener::Unix { path } => Ok(Some(Address::Unix(path))),
            Listener::Tcp { address, .. } if address.port() == 0 => {
                Err(ClientError::UnknownPort { file: CONFIG_FILE })
            }
            Listener::Tcp { address, tokens, tls } => {
                let token = tokens.into_iter().next();
                // Its own certificate is the one to trust.
                let tls = tls.map(|files| Box::new(TlsTrust { ca: files.certificate, identity: None }));
                Ok(token.map(|token| Address::Tcp { place: address.to_string(), token: token.secret, tls }))
            }
            // The commands speak lines, not HTTP.
            Listener::Http(_) | Listener::HttpUnix { .. } | Listener::Stdio => Ok(None),
        }
    }
}

/// The listener that `mainspring.toml` names, in this folder or above it. A file that names none
/// because it is wrong must not lead to the daemon of another.
fn listener_of_project() -> Result<Option<Listener>, ClientError> {
    let Some(file) = config::file_to_load(None).map_err(ClientError::BadConfig)? else { return Ok(None) };
    if let Some(listener) = first_listener_of_file(&file) {
        return Ok(Some(listener));
    }
    let Err(mut error) = config::load(Some(&file), &Overrides::default()) else { return Ok(None) };
    // What is wrong with a capability's own file says nothing about the listener.
    error.problems.retain(|problem| problem.path == file);
    if error.problems.is_empty() { Ok(None) } else { Err(ClientError::BadConfig(error)) }
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

/// Whom to trust, if the connection is to be encrypted.
fn tls(flags: Flags<'_>) -> Result<Option<Box<TlsTrust>>, ClientError> {
    let file =
        |flag: Option<&Path>, name| flag.map(Path::to_owned).or_else(|| variable(name).map(PathBuf::from));
    let ca = file(flags.tls_ca, TLS_CA_VARIABLE);
    let certificate = file(flags.tls_certificate, TLS_CERTIFICATE_VARIABLE);
    let identity = match (certificate, file(flags.tls_key, TLS_KEY_VARIABLE)) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            return Err(ClientError::BadTls(
                "a certificate needs its key: give --tls-certificate and --tls-key",
            ));
        }
    };
    match ca {
        Some(ca) => Ok(Some(Box::new(TlsTrust { ca, identity }))),
        None if identity.is_some() => {
            Err(ClientError::BadTls("--tls-certificate needs --tls-ca, which says whom to trust"))
        }
        None => Ok(None),
    }
}

fn token(file: Option<&Path>, place: &str) -> Result<String, ClientError> {
    let read = |path: &Path| read_secret(path).map_err(ClientError::BadToken);
    if let Some(path) = file {
        return read(path);
    }
    if let Some(token) = text_variable(TOKEN_VARIABLE)? {
        return Ok(token);
    }
    match variable(TOKEN_FILE_VARIABLE) {
        Some(path) => read(Path::new(&path)),
        None => Err(ClientError::NoToken { place: place.to_owned() }),
    }
}

/// A variable of the environment that says something.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn text_variable(name: &'static str) -> Result<Option<String>, ClientError> {
    variable(name).map(|value| value.into_string().map_err(|_| ClientError::NotText(name))).transpose()
}
