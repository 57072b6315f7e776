//! Sockets that a service manager opened for the daemon and passed to it (`LISTEN_FDS`): socket
//! activation.

use crate::settings::Listener;
use crate::system::socket_path::is_same_socket;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the sockets have been taken: they are there once.
static ARE_TAKEN: AtomicBool = AtomicBool::new(false);

/// A socket that was passed.
struct PassedSocket {
    socket: OwnedFd,
    address: PassedAddress,
}

/// Where a socket that was passed listens.
#[derive(Debug)]
enum PassedAddress {
    Unix(PathBuf),
    Tcp(SocketAddr),
    Unknown,
}

/// For each listener the socket that was passed for it. Those that no listener names are closed,
/// and told of.
pub(super) fn passed_sockets(listeners: &[Listener]) -> Vec<Option<OwnedFd>> {
    let mut passed = match sd_notify::listen_fds() {
        // Nothing else of this process knows these numbers, and this is done once.
        Ok(numbers) if numbers.len() > 0 && !ARE_TAKEN.swap(true, Ordering::Relaxed) => {
            // SAFETY: the service manager passed these descriptors to this very process (its number
            // was compared), for it to own.
            let own = |number| unsafe { OwnedFd::from_raw_fd(number) };
            numbers.map(|number| PassedSocket::new(own(number))).collect()
        }
        Ok(_) => Vec::new(),
        Err(error) => {
            tracing::warn!("cannot use the sockets of the service manager ($LISTEN_FDS): {error}");
            Vec::new()
        }
    };
    let sockets = listeners.iter().map(|listener| {
        let at = passed.iter().position(|passed| passed.address.is_that_of(listener))?;
        Some(passed.swap_remove(at).socket)
    });
    let sockets = sockets.collect();
    for PassedSocket { address, .. } in passed {
        tracing::warn!("the service manager passed {address}, which no `[[listen]]` names; it is not used");
    }
    sockets
}

impl PassedSocket {
    fn new(socket: OwnedFd) -> PassedSocket {
        let unix = UnixListener::from(socket);
        let _ = unix.set_nonblocking(true);
        if let Ok(address) = unix.local_addr() {
            let address =
                address.as_pathname().map_or(PassedAddress::Unknown, |path| PassedAddress::Unix(path.into()));
            return PassedSocket { socket: unix.into(), address };
        }
        let tcp = TcpListener::from(OwnedFd::from(unix));
        let address = tcp.local_addr().map_or(PassedAddress::Unknown, PassedAddress::Tcp);
        PassedSocket { socket: tcp.into(), address }
    }
}

impl PassedAddress {
    fn is_that_of(&self, listener: &Listener) -> bool {
        match (self, listener) {
            (PassedAddress::Unix(passed), Listener::Unix { path } | Listener::HttpUnix { path }) => {
                is_same_socket(passed, path)
            }
            (PassedAddress::Tcp(passed), Listener::Tcp { address, .. }) => passed == address,
            (PassedAddress::Tcp(passed), Listener::Http(http)) => *passed == http.address,
            _ => false,
        }
    }
}

impl std::fmt::Display for PassedAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PassedAddress::Unix(path) => write!(f, "the Unix socket {}", path.display()),
            PassedAddress::Tcp(address) => write!(f, "the TCP socket {address}"),
            PassedAddress::Unknown => {
                f.write_str("a socket that is neither of Unix, with a path, nor of TCP")
            }
        }
    }
}
