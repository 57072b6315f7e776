//! Where clients connect.

use mainspring_kernel::Rights;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A place where clients connect.
#[derive(Clone, PartialEq, Eq)]
pub enum Listener {
    /// A Unix socket, readable and writable by its owner alone; a peer is its user.
    Unix {
        /// The path of the socket.
        path: PathBuf,
    },
    /// A TCP socket. The first line of a client must be the token; a peer is the
    /// token's name.
    Tcp {
        /// Where it listens; beyond loopback only with TLS.
        address: SocketAddr,
        /// Who may connect.
        tokens: Vec<Token>,
        /// Encryption.
        tls: Option<TlsFiles>,
    },
    /// HTTP on TCP, with tokens.
    Http(HttpListener),
    /// HTTP on a Unix socket, for its owner alone; a peer is its user.
    HttpUnix {
        /// The path of the socket.
        path: PathBuf,
    },
    /// Standard input and output, one client; the end of its input ends the adapter.
    Stdio,
}

/// Where HTTP is spoken.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpListener {
    /// Where it listens; beyond loopback only with TLS.
    pub address: SocketAddr,
    /// Who may ask.
    pub tokens: Vec<Token>,
    /// Names of this machine that may stand in `Host`, besides its address, loopback and
    /// `localhost`.
    pub hosts: Vec<String>,
    /// Encryption.
    pub tls: Option<TlsFiles>,
    /// A file for this run that tells the commands of this user the address and the first token.
    pub run_file: Option<PathBuf>,
}

/// The files of TLS, PEM each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain of certificates, the server's own first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The certificates by which those of clients must be signed; absent, clients need none.
    pub client_ca: Option<PathBuf>,
}

impl fmt::Debug for HttpListener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.tokens.iter().map(|token| token.name.as_str()).collect();
        let mut shown = formatter.debug_struct("Http");
        shown.field("address", &self.address).field("tokens", &names).field("hosts", &self.hosts);
        shown.field("tls", &self.tls).finish()
    }
}

/// Without the tokens: this may end up in a log.
impl fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listener::Unix { path } => formatter.debug_struct("Unix").field("path", path).finish(),
            Listener::Tcp { address, tokens, tls } => {
                let names: Vec<&str> = tokens.iter().map(|token| token.name.as_str()).collect();
                let mut shown = formatter.debug_struct("Tcp");
                shown.field("address", address).field("tokens", &names).field("tls", tls).finish()
            }
            Listener::Http(listener) => listener.fmt(formatter),
            Listener::HttpUnix { path } => formatter.debug_struct("HttpUnix").field("path", path).finish(),
            Listener::Stdio => formatter.write_str("Stdio"),
        }
    }
}

/// Who may connect by TCP or HTTP, and what it may do.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Who has it: the peer that its connections are.
    pub name: String,
    /// What a client says first.
    pub secret: String,
    /// What its connections may do.
    pub rights: Rights,
}

/// Whether a name is that of a peer who is known without a token: a user by the Unix socket
/// (`user:1000`), the standard streams (`stdio`), or somebody on another node (`node/peer`). A
/// token cannot have it, or two peers would be one.
#[must_use]
pub fn is_reserved_peer(name: &str) -> bool {
    name == "stdio" || name.starts_with("user:") || name.contains('/')
}
