//! TCP with tokens: on loopback, further with TLS.

use crate::daemon::clients::Identity;
use crate::daemon::clients::gate::Gate;
use crate::daemon::transport::listener::{ListeningSocket, Room};
use crate::daemon::transport::tls::TlsSocket;
use crate::daemon::transport::wire::Wire;
use crate::settings::{TlsFiles, Token, is_reserved_peer};
use mainspring_http::tls::Tls;
use mainspring_reactor::Handle;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

/// Where it listens, and who may connect how.
#[derive(Clone, Copy)]
pub(in crate::daemon::transport) struct TcpPlace<'a> {
    pub(in crate::daemon::transport) address: SocketAddr,
    pub(in crate::daemon::transport) tokens: &'a [Token],
    pub(in crate::daemon::transport) tls: Option<&'a TlsFiles>,
}

/// Listens on `address`, unless a socket was passed that does; port 0 means any that is free. Says
/// which it is.
pub(in crate::daemon::transport) fn open(
    reactor: &Handle,
    room: Room,
    adapter: u32,
    place: TcpPlace<'_>,
    passed: Option<OwnedFd>,
) -> Result<(ListeningSocket, SocketAddr), String> {
    let TcpPlace { address, tokens, tls } = place;
    if !address.ip().is_loopback() && tls.is_none() {
        return Err(format!("{address} is not loopback, so it needs `tls`: messages would not be encrypted"));
    }
    if tokens.is_empty() {
        return Err(format!("{address} has no tokens, so nobody could connect"));
    }
    if tokens.iter().any(|token| token.secret.is_empty()) {
        return Err(format!("{address} has an empty token, so anybody could connect"));
    }
    if let Some(Token { name, .. }) = tokens.iter().find(|token| is_reserved_peer(&token.name)) {
        return Err(format!("{address} has a token named {name:?}, and that is another peer's name"));
    }
    let listener = match passed {
        Some(socket) => TcpListener::from(socket),
        None => TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?,
    };
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let bound = listener.local_addr().map_err(|error| error.to_string())?;
    let tls = tls.map(|files| Tls::config(&files.certificate, &files.key, files.client_ca.as_deref()));
    let tls = tls.transpose().map_err(|error| error.to_string())?.map(Arc::new);
    let clients = Rc::clone(&room.clients);
    let gate = Rc::new(Gate::new(tokens.to_vec()));
    let listener = ListeningSocket::start(reactor, "tcp", OwnedFd::from(listener), room, move |socket| {
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        let wire = match &tls {
            None => Wire::socket(socket),
            Some(config) => match TlsSocket::new(socket, config) {
                Ok(socket) => Wire::tls(socket),
                Err(error) => return tracing::warn!("a client cannot be served: {error}"),
            },
        };
        clients.open(wire, adapter, Identity::ByToken(Rc::clone(&gate)));
    })?;
    Ok((listener, bound))
}
