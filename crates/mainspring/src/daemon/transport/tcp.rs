//! TCP on loopback, with tokens.

use crate::daemon::clients::Entry;
use crate::daemon::clients::gate::Gate;
use crate::daemon::transport::listener::{ListeningSocket, Room};
use crate::daemon::transport::wire::Wire;
use crate::settings::{Token, is_reserved_peer};
use mainspring_reactor::Handle;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Listens on `address`; port 0 means any that is free. Says which it is.
pub(in crate::daemon::transport) fn open(
    reactor: &Handle,
    room: Room,
    door: u32,
    address: SocketAddr,
    tokens: &[Token],
) -> Result<(ListeningSocket, SocketAddr), String> {
    if !address.ip().is_loopback() {
        return Err(format!("{address} is not loopback: messages are not encrypted"));
    }
    if tokens.is_empty() {
        return Err(format!("{address} has no tokens, so nobody could come in"));
    }
    if tokens.iter().any(|token| token.secret.is_empty()) {
        return Err(format!("{address} has an empty token, so anybody could come in"));
    }
    if let Some(Token { name, .. }) = tokens.iter().find(|token| is_reserved_peer(&token.name)) {
        return Err(format!("{address} has a token named {name:?}, and that is another peer's name"));
    }
    let listener = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let bound = listener.local_addr().map_err(|error| error.to_string())?;
    let clients = Rc::clone(&room.clients);
    let gate = Rc::new(Gate::new(tokens.to_vec()));
    let listener = ListeningSocket::start(reactor, "tcp", OwnedFd::from(listener), room, move |socket| {
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        clients.open(Wire::socket(socket), door, Entry::Gate(Rc::clone(&gate)));
    })?;
    Ok((listener, bound))
}
