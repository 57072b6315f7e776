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
    /// A TCP socket on loopback. The first line of a client must be the token; a peer is the token's name.
    Tcp {
        /// Where it listens; the address must be loopback.
        address: SocketAddr,
        /// Who may connect.
        tokens: Vec<Token>,
    },
    /// Standard input and output, one client; the end of its input ends the adapter.
    Stdio,
}

/// Without the tokens: this may end up in a log.
impl fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listener::Unix { path } => formatter.debug_struct("Unix").field("path", path).finish(),
            Listener::Tcp { address, tokens } => {
                let names: Vec<&str> = tokens.iter().map(|token| token.name.as_str()).collect();
                formatter.debug_struct("Tcp").field("address", address).field("tokens", &names).finish()
            }
            Listener::Stdio => formatter.write_str("Stdio"),
        }
    }
}

/// Who may connect by TCP, and what it may do.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Who has it: the peer that its connections are.
    pub name: String,
    /// What a client says first.
    pub secret: String,
    /// What its connections may do.
    pub rights: Rights,
}

/// Whether a name is that of a peer who is known without a token: a user by the Unix socket (`user:1000`), or the standard
/// streams (`stdio`). A token cannot have it, or two peers would be one.
#[must_use]
pub fn is_reserved_peer(name: &str) -> bool {
    name == "stdio" || name.starts_with("user:")
}
