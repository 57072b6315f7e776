//! Connecting: names are looked up off the reactor's thread, then every address is checked and
//! tried in turn.

use super::NetTcp;
use crate::abi::errno::code_for;
use crate::guest::context::GuestContext;
use crate::limits::Limit;
use crate::limits::denial::Denial;
use mainspring_reactor::{Async, BlockingLane, Handle};
use mainspring_zcl::abi::ErrorCode;
use mainspring_zcl::cap::{TcpOpen, tcp_flags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// The threads that look names up. A name server that does not answer holds each of them for
/// seconds, so there are many, and one guest may have a few.
const LOOKUPS: BlockingLane = BlockingLane::new("lookups", 32).share(4);

/// What to connect to. It has passed the first check.
pub(crate) enum Target {
    Address(SocketAddr),
    Name { name: String, port: u16, lookup: Lookup },
}

/// One of the lookups that a guest may have going at a time. It counts until the lookup is over,
/// even if nobody waits for it.
pub(crate) struct Lookup(Arc<AtomicUsize>);

impl Lookup {
    fn begin(guest: &GuestContext) -> Result<Lookup, ErrorCode> {
        let lookups = guest.own(&NetTcp).state.lookups.clone();
        if lookups.load(Ordering::Acquire) >= guest.limits().lookups {
            guest.refuse(Limit::Lookups);
            return Err(ErrorCode::OutOfMemory);
        }
        lookups.fetch_add(1, Ordering::AcqRel);
        Ok(Lookup(lookups))
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Target {
    /// The first check: of what the guest gave, before anything is looked up.
    pub(crate) fn new(guest: &GuestContext, host: String, port: u16) -> Result<Target, ErrorCode> {
        if port == 0 || host.len() > TcpOpen::HOST_BYTES_MAX as usize || host.contains('\0') {
            return Err(ErrorCode::Invalid);
        }
        match super::address_of(&host) {
            Some(address) if guest.network().may_connect((address, port).into()) => {
                Ok(Target::Address((address, port).into()))
            }
            None if guest.network().may_look_up(&host, port) => {
                Ok(Target::Name { name: host, port, lookup: Lookup::begin(guest)? })
            }
            Some(address) => {
                let wanted = SocketAddr::new(address, port);
                Err(super::denied(guest, Denial::Connect(wanted.to_string())))
            }
            None => Err(super::denied(guest, Denial::Connect(format!("{host}:{port}")))),
        }
    }

    /// The second check: the addresses that it stands for, as far as they are allowed; never empty.
    pub(crate) async fn addresses(self, guest: &GuestContext) -> Result<Vec<SocketAddr>, ErrorCode> {
        let (name, port, lookup) = match self {
            Target::Address(address) => return Ok(vec![address]),
            Target::Name { name, port, lookup } => (name, port, lookup),
        };
        let found = look_up(guest, name, port, lookup).await?;
        let may_connect = |address: &SocketAddr| guest.network().may_connect_resolved(*address);
        let (allowed, denied): (Vec<_>, Vec<_>) = found.into_iter().partition(may_connect);
        match denied.first() {
            // A rule for a name does not open addresses of this machine or its network.
            Some(address) if allowed.is_empty() => {
                Err(super::denied(guest, Denial::Connect(address.to_string())))
            }
            None if allowed.is_empty() => Err(ErrorCode::NoEntry),
            _ => Ok(allowed),
        }
    }
}

/// Makes a connection.
pub(super) async fn establish(
    guest: Rc<GuestContext>,
    target: Target,
    flags: u32,
) -> Result<OwnedFd, ErrorCode> {
    let mut outcome = Err(ErrorCode::NoEntry);
    for address in target.addresses(&guest).await? {
        outcome = attempt(&guest.reactor, address, flags).await.map_err(code_for);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

async fn look_up(
    guest: &GuestContext,
    name: String,
    port: u16,
    lookup: Lookup,
) -> Result<Vec<SocketAddr>, ErrorCode> {
    let resolver = guest.host.resolver.clone();
    let call = move || {
        let _lookup = lookup;
        resolver(&name, port)
    };
    let found = guest
        .reactor
        .blocking_on(&LOOKUPS, guest.own(&NetTcp).state.owner, call)
        .map_err(|_| ErrorCode::Io)?
        .await;
    match found {
        Ok(mut addresses) if !addresses.is_empty() => {
            addresses.truncate(ADDRESSES_MAX);
            Ok(addresses)
        }
        _ => Err(ErrorCode::NoEntry),
    }
}

/// Connects to one address.
pub(crate) async fn attempt(
    reactor: &Handle,
    address: SocketAddr,
    flags: u32,
) -> rustix::io::Result<OwnedFd> {
    let socket = Rc::new(socket_for(address)?);
    set_stream_options(&socket, flags)?;
    let pending = loop {
        match rustix::net::connect(&*socket, &address) {
            Ok(()) => break false,
            Err(Errno::INPROGRESS | Errno::AGAIN) => break true,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    };
    if pending {
        let watched = Async::new(reactor, socket.clone()).map_err(|_| Errno::IO)?;
        watched.writable().await.map_err(|_| Errno::IO)?;
        drop(watched);
        sockopt::socket_error(&*socket)??;
    }
    Rc::into_inner(socket).ok_or(Errno::IO)
}

pub(super) fn socket_for(address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

pub(super) fn set_stream_options(socket: &OwnedFd, flags: u32) -> rustix::io::Result<()> {
    if flags & tcp_flags::NODELAY != 0 {
        sockopt::set_tcp_nodelay(socket, true)?;
    }
    if flags & tcp_flags::KEEPALIVE != 0 {
        sockopt::set_socket_keepalive(socket, true)?;
    }
    Ok(())
}
