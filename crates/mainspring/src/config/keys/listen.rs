//! `[[listen]]`: where clients connect.

use crate::config::report::{Sources, TableReport};
use crate::config::text::{Node, Source, Value};
use crate::settings::{HttpListener, Listener, TlsFiles, Token, is_reserved_peer};
use crate::system::files::read_secret;
use crate::system::socket_path::{SOCKET_PATH_BYTES_MAX, is_same_socket};
use mainspring_kernel::keys::KeyType;
use mainspring_kernel::{Rights, check_pattern, keys};
use serde::Deserialize;
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

keys! {
    /// A place where clients connect: a Unix socket (`unix`), a TCP socket (`tcp`) with its
    /// `tokens`, or HTTP on either (`http` with `tokens`, `http_unix`).
    pub(in crate::config) struct ListenFile {
        /// The path of a Unix socket. Its owner alone may use it, and a client is known by its
        /// user.
        unix: Option<PathBuf> = None;
        /// An address with a port, such as `127.0.0.1:7700`; beyond loopback only with `tls`.
        tcp: Option<String> = None;
        /// An address for HTTP with a port, such as `127.0.0.1:7780`; beyond loopback only with
        /// `tls`.
        http: Option<String> = None;
        /// The path of a Unix socket for HTTP. Its owner alone may use it, and needs no token.
        http_unix: Option<PathBuf> = None;
        /// Names by which HTTP clients may call this machine, besides its address, loopback and
        /// `localhost`.
        hosts: Vec<String> = Vec::new();
        /// Encryption of TCP or HTTP: `{ certificate = "chain.pem", key = "key.pem", client_ca =
        /// "ca.pem" }`. With `client_ca`, clients must show a certificate that it signed.
        tls: Option<TlsTable> = None;
        /// Who may connect by TCP or HTTP. A client is known by the name of its token.
        tokens: Vec<TokenFile> = Vec::new();
    }
}

keys! {
    /// A token: the secret that a client says first. Either `token` or `token_file`.
    pub(in crate::config) struct TokenFile {
        /// Who has it. Neither `stdio` nor `user:` and more, and no `/`: those are peers without a
        /// token.
        name: String;
        /// The secret itself, 16 characters or more.
        token: Option<Secret> = None;
        /// A file that holds the secret (and perhaps a line end), which only its owner may read.
        token_file: Option<PathBuf> = None;
        /// Types that its clients may send and see: exact types, `Prefix.*` or `*`. Empty: all.
        allow: Vec<String> = Vec::new();
        /// Whether its clients may change the daemon and see the traffic of others: shutdown,
        /// restarts, reloads, dead letters, logs, taps, everybody's timers and traces.
        operator: bool = false;
    }
}

/// The files of TLS, as a table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct TlsTable {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

impl KeyType for TlsTable {
    fn takes() -> String {
        "table".into()
    }

    fn written(&self) -> Option<String> {
        None
    }
}

/// Text that is not shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(in crate::config) struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl KeyType for Secret {
    fn takes() -> String {
        String::takes()
    }

    fn written(&self) -> Option<String> {
        None
    }
}

/// The shortest token.
const TOKEN_BYTES_MIN: usize = 16;

/// All listeners; `None` if something is wrong with one.
pub(in crate::config) fn read(
    listen: &Node,
    source: &Rc<Source>,
    sources: &mut Sources,
) -> Option<Vec<Listener>> {
    let before = sources.problems.len();
    if !matches!(listen.value, Value::List(_)) {
        sources.problem_at(source, &listen.span, "`listen` is a list of tables: write `[[listen]]`");
        return None;
    }
    let nodes = listen.elements();
    let listeners: Vec<Option<Listener>> =
        nodes.iter().map(|node| listener(&mut TableReport::new(source, node, sources))).collect();
    for (at, listener) in listeners.iter().enumerate() {
        if listeners[..at].iter().any(|other| is_same(listener.as_ref(), other.as_ref())) {
            sources.problem_at(source, &nodes[at].span, "this socket is listed twice");
        }
    }
    if listeners.is_empty() {
        let message = "no client could connect; leave `listen` out for the usual socket";
        sources.problem_at(source, &listen.span, message);
    }
    (sources.problems.len() == before).then(|| listeners.into_iter().collect())?
}

fn listener(table: &mut TableReport<'_>) -> Option<Listener> {
    let file: ListenFile = table.read()?;
    let places = [file.unix.is_some(), file.tcp.is_some(), file.http.is_some(), file.http_unix.is_some()];
    match places.iter().filter(|place| **place).count() {
        0 => {
            table.problem("", "write `unix` or `http_unix` with a path, or `tcp` or `http` with an address");
            return None;
        }
        1 => {}
        _ => {
            table.problem("", "these are several places: write a table for each");
            return None;
        }
    }
    let is_by_tcp = file.http.is_some() || file.tcp.is_some();
    for (key, is_fit, places) in
        [("hosts", file.http.is_some(), "`http`"), ("tls", is_by_tcp, "`tcp` and `http`")]
    {
        if !is_fit && table.node().entry(key).is_some() {
            let place = table.place_of_key(key);
            table.sources.problem(&place, format!("`{key}` is for {places}"));
        }
    }
    if file.unix.is_some() || file.http_unix.is_some() {
        if table.node().entry("tokens").is_some() {
            let message = "a Unix socket knows its clients by their user; `tokens` are for `tcp` and `http`";
            let place = table.place_of_key("tokens");
            table.sources.problem(&place, message);
        }
        if let Some(path) = &file.http_unix {
            return unix("http_unix", path, table).map(|path| Listener::HttpUnix { path });
        }
    }
    match (&file.unix, &file.tcp, &file.http) {
        (Some(path), ..) => unix("unix", path, table).map(|path| Listener::Unix { path }),
        (_, Some(address), _) => tcp(address, &file, table),
        (_, _, Some(address)) => http(address, &file, table),
        _ => None,
    }
}

/// Whether two listeners would be the same socket.
fn is_same(one: Option<&Listener>, other: Option<&Listener>) -> bool {
    match (one, other) {
        (Some(Listener::Unix { path }), Some(Listener::Unix { path: other })) => is_same_socket(path, other),
        (Some(Listener::Tcp { address, .. }), Some(Listener::Tcp { address: other, .. })) => {
            address == other && address.port() != 0
        }
        (Some(Listener::Http(http)), Some(Listener::Http(other))) => {
            http.address == other.address && http.address.port() != 0
        }
        (
            Some(Listener::HttpUnix { path }),
            Some(Listener::HttpUnix { path: other } | Listener::Unix { path: other }),
        )
        | (Some(Listener::Unix { path }), Some(Listener::HttpUnix { path: other })) => {
            is_same_socket(path, other)
        }
        _ => false,
    }
}

fn unix(key: &'static str, path: &Path, table: &mut TableReport<'_>) -> Option<PathBuf> {
    if path.file_name().is_none() {
        table.problem(key, "the path of a socket ends with its name");
        return None;
    }
    let path = table.source().beside(path);
    if path.as_os_str().as_bytes().len() > SOCKET_PATH_BYTES_MAX {
        let message =
            format!("the path of a socket has at most {SOCKET_PATH_BYTES_MAX} bytes: {}", path.display());
        table.problem(key, message);
        return None;
    }
    Some(path)
}

fn tcp(address: &str, file: &ListenFile, table: &mut TableReport<'_>) -> Option<Listener> {
    let Ok(address) = address.parse::<SocketAddr>() else {
        table.problem("tcp", "expected an address and a port, such as 127.0.0.1:7700 or [::1]:7700");
        return None;
    };
    if !address.ip().is_loopback() && file.tls.is_none() {
        let message = "beyond loopback (127.0.0.1, [::1]) TCP is served with `tls` only: what is said could be read on its way";
        table.problem("tcp", message);
        return None;
    }
    if file.tokens.is_empty() {
        let message = "everybody on this machine can reach a TCP socket: name in `tokens` who may connect";
        table.problem("tcp", message);
        return None;
    }
    let tls = tls_files(file, table);
    Some(Listener::Tcp { address, tokens: tokens(file, table), tls })
}

fn http(address: &str, file: &ListenFile, table: &mut TableReport<'_>) -> Option<Listener> {
    let Ok(address) = address.parse::<SocketAddr>() else {
        table.problem("http", "expected an address and a port, such as 127.0.0.1:7780 or [::1]:7780");
        return None;
    };
    if !address.ip().is_loopback() && file.tls.is_none() {
        let message = "beyond loopback (127.0.0.1, [::1]) HTTP is served with `tls` only: tokens could be read on their way";
        table.problem("http", message);
        return None;
    }
    if file.tokens.is_empty() {
        table.problem("http", "nobody could ask anything: name in `tokens` who may");
        return None;
    }
    let tls = tls_files(file, table);
    let tokens = tokens(file, table);
    Some(Listener::Http(HttpListener { address, tokens, hosts: file.hosts.clone(), tls, run_file: None }))
}

/// Where the files of TLS are.
fn tls_files(file: &ListenFile, table: &TableReport<'_>) -> Option<TlsFiles> {
    let source = table.source();
    file.tls.as_ref().map(|files| TlsFiles {
        certificate: source.beside(&files.certificate),
        key: source.beside(&files.key),
        client_ca: files.client_ca.as_ref().map(|path| source.beside(path)),
    })
}

/// The tokens of a table that can be used; what is wrong with the others is added to the problems.
fn tokens(file: &ListenFile, table: &mut TableReport<'_>) -> Vec<Token> {
    let nodes = table.node().get("tokens").map_or(&[][..], Node::elements);
    let mut tokens: Vec<Token> = Vec::new();
    for (token, node) in file.tokens.iter().zip(nodes) {
        let mut table = TableReport::new(table.source(), node, table.sources);
        tokens.extend(named_token(token, &tokens, &mut table));
    }
    tokens
}

/// A token and its name; what is wrong with it, beside those before it, is added to the problems.
fn named_token(token: &TokenFile, others: &[Token], table: &mut TableReport<'_>) -> Option<Token> {
    let source = table.source();
    let secret = match secret(token, source) {
        Ok(secret) => secret,
        Err((key, message)) => {
            table.problem(key, message);
            return None;
        }
    };
    if token.token.is_some() && is_read_by_others(&source.path) {
        let place = table.place_of_key("token");
        table.sources.warn_hiding(&secret, &place, readable_token(source));
    }
    if others.iter().any(|other| other.name == token.name) {
        table.problem("name", format!("the name {:?} is listed twice", token.name));
    } else if others.iter().any(|other| other.secret == secret) {
        table.problem("name", "this token has two names; every client needs a token of its own");
    }
    for pattern in &token.allow {
        if let Err(reason) = check_pattern(pattern) {
            table.problem("allow", format!("{pattern:?}: {reason}"));
        }
    }
    let rights = Rights::default().as_operator(token.operator);
    let rights = if token.allow.is_empty() { rights } else { rights.limited_to(&token.allow) };
    Some(Token { name: token.name.clone(), secret, rights })
}

/// Whether users other than its owner may read a file.
fn is_read_by_others(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o044 != 0)
}

fn readable_token(source: &Source) -> String {
    let file = source.path.display();
    format!(
        "other users may read this file, and the token in it; `chmod 600 {file}`, or write `token_file` with \
         the path of a file that only you may read"
    )
}

/// The secret of a token, or the key at fault and what is wrong.
fn secret(token: &TokenFile, source: &Source) -> Result<String, (&'static str, String)> {
    if token.name.trim().is_empty() {
        return Err(("name", "say who has the token".into()));
    }
    if is_reserved_peer(&token.name) {
        let message = "that is the name of a user of the Unix socket (`user:...`), of the standard streams (`stdio`) or of somebody on another node (`node/peer`): choose another";
        return Err(("name", message.into()));
    }
    let (key, secret) = match (&token.token, &token.token_file) {
        (Some(secret), None) => ("token", secret.0.clone()),
        (None, Some(path)) => {
            ("token_file", read_secret(&source.beside(path)).map_err(|text| ("token_file", text))?)
        }
        _ => return Err(("", "write either `token` or `token_file`".into())),
    };
    if secret.len() < TOKEN_BYTES_MIN || secret.chars().any(char::is_whitespace) {
        let message = format!(
            "a token has at least {TOKEN_BYTES_MIN} characters and no spaces; `openssl rand -hex 16` makes one"
        );
        return Err((key, message));
    }
    Ok(secret)
}
