//! `net/tcp@v1`: connections and listeners.
//!
//! `connect` checks a target against the allow-list and makes a connection, `stream` and `listener`
//! are the handles that a guest reads, writes and accepts on. The list in `capabilities/mod.rs`
//! names it; `sockets/` uses its checks for components.

pub(crate) mod connect;
mod listener;
mod stream;

use crate::abi::memory::GuestMemory;
use crate::capabilities::{Capability, CapabilityId, Opened, Opening};
use crate::guest::context::GuestContext;
use crate::limits::denial::Denial;
use connect::Target;
use listener::TcpListener;
use mainspring_reactor::BlockingOwner;
use mainspring_zcl::abi::ErrorCode;
use mainspring_zcl::cap::{TcpOpen, tcp_flags};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use stream::TcpStream;

/// Connections that wait to be accepted, unless told otherwise.
const BACKLOG_DEFAULT: u32 = 128;
/// Most connections that may wait to be accepted.
const BACKLOG_MAX: u32 = 4096;

/// The capability.
pub(crate) struct NetTcp;

/// What it keeps for one guest.
pub(crate) struct TcpState {
    /// Names being looked up. The lookups themselves count, on other threads, so that a guest
    /// cannot queue more by closing handles.
    lookups: Arc<AtomicUsize>,
    /// On whose account lookups are made.
    owner: BlockingOwner,
}

impl Default for TcpState {
    fn default() -> TcpState {
        TcpState { lookups: Arc::default(), owner: BlockingOwner::new() }
    }
}

impl Capability for NetTcp {
    const ID: CapabilityId = CapabilityId::new("net", "tcp", 1);
    type Config = ();
    type State = TcpState;

    fn open(&self, opening: Opening<'_, '_>) -> Result<Opened, ErrorCode> {
        let open = TcpOpen::decode(opening.params()?).map_err(|_| ErrorCode::Invalid)?;
        if open.host_len == 0 || open.host_len > TcpOpen::HOST_BYTES_MAX || open.flags & !tcp_flags::ALL != 0
        {
            return Err(ErrorCode::Invalid);
        }
        let port = u16::try_from(open.port).map_err(|_| ErrorCode::Invalid)?;
        let host = opening.memory.get(open.host_ptr, open.host_len)?;
        let host = std::str::from_utf8(host).map_err(|_| ErrorCode::Invalid)?.to_owned();
        if open.flags & tcp_flags::LISTEN != 0 {
            listen(opening.guest, opening.memory, &open, &host, port)
        } else {
            connect(opening.guest, &open, host, port)
        }
    }
}

fn connect(guest: &Rc<GuestContext>, open: &TcpOpen, host: String, port: u16) -> Result<Opened, ErrorCode> {
    let target = Target::new(guest, host, port)?;
    let stream = TcpStream::connecting(guest, target, open.flags)?;
    Ok(Opened::new(stream))
}

/// The address that a host is, if it is no name. An IPv6 address may stand in brackets, as it does
/// in front of a port everywhere else.
fn address_of(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}

fn denied(guest: &GuestContext, denial: Denial) -> ErrorCode {
    guest.deny(denial);
    ErrorCode::Denied
}

fn listen(
    guest: &Rc<GuestContext>,
    memory: &mut GuestMemory<'_>,
    open: &TcpOpen,
    host: &str,
    port: u16,
) -> Result<Opened, ErrorCode> {
    // A listener reports its port at once, so there is no time to look a name up.
    let address = match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => address_of(host).ok_or(ErrorCode::Invalid)?,
    };
    if open.out_port_ptr != 0 {
        memory.get(open.out_port_ptr, 4)?;
    }
    let address = SocketAddr::new(address, port);
    if !guest.network().may_listen(address) {
        return Err(denied(guest, Denial::Listen(address.to_string())));
    }
    guest.check_handle_room()?;
    let backlog = if open.backlog == 0 { BACKLOG_DEFAULT } else { open.backlog.min(BACKLOG_MAX) };
    let listener = TcpListener::bind(guest, address, open.flags, backlog)?;
    if open.out_port_ptr != 0 {
        let port = u32::from(listener.local_port());
        memory.get_mut(open.out_port_ptr, 4)?.copy_from_slice(&port.to_le_bytes());
    }
    Ok(Opened::new(Rc::new(listener)))
}
