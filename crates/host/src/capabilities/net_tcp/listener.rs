//! A listener: reading it accepts connections.

use super::connect::{set_stream_options, socket_for};
use super::stream::TcpStream;
use crate::abi::errno::code_for;
use crate::guest::context::GuestContext;
use crate::handles::resource::{Resource, Watchable};
use crate::readiness::descriptor::WatchedDescriptor;
use crate::readiness::signal::Signal;
use mainspring_zcl::abi::{ErrorCode, handle_flags};
use mainspring_zcl::cap::{AcceptRecord, tcp_flags};
use mainspring_zcl::sys_loop::Readiness;
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, sockopt};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Most connections that one read accepts: some hundred microseconds' worth.
const ACCEPTS_PER_READ_MAX: usize = 64;

pub(super) struct TcpListener {
    descriptor: WatchedDescriptor,
    local_port: u16,
    flags: u32,
}

impl TcpListener {
    pub(super) fn bind(
        guest: &GuestContext,
        address: SocketAddr,
        flags: u32,
        backlog: u32,
    ) -> Result<TcpListener, ErrorCode> {
        let (fd, local_port) = bind(address, flags, backlog).map_err(code_for)?;
        let descriptor = WatchedDescriptor::new(&guest.reactor, &Signal::new(), fd);
        Ok(TcpListener { descriptor, local_port, flags })
    }

    pub(super) fn local_port(&self) -> u16 {
        self.local_port
    }

    /// Accepts one connection.
    fn accept(&self, guest: &GuestContext) -> Result<AcceptRecord, ErrorCode> {
        // Looked at first: a connection that was accepted and then refused would be lost.
        guest.check_handle_room()?;
        let (fd, peer) = loop {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::acceptfrom_with(self.descriptor.fd(), flags) {
                Ok(accepted) => break accepted,
                // The peer gave up before it was its turn; there may be others.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                Err(Errno::AGAIN) => {
                    self.descriptor.would_block(Readiness::READABLE);
                    return Err(ErrorCode::Again);
                }
                Err(errno) => return Err(code_for(errno)),
            }
        };
        set_stream_options(&fd, self.flags).map_err(code_for)?;
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        let handle = guest.open(Rc::new(TcpStream::accepted(guest, fd)))?;
        Ok(AcceptRecord {
            handle,
            peer_port: peer.map_or(0, |peer| u32::from(peer.port())),
            peer_address: peer.map_or([0; 16], |peer| mapped(peer.ip())),
            local_port: u32::from(self.local_port),
        })
    }
}

fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn bind(address: SocketAddr, flags: u32, backlog: u32) -> rustix::io::Result<(OwnedFd, u16)> {
    let fd = socket_for(address)?;
    if flags & tcp_flags::REUSEADDR != 0 {
        sockopt::set_socket_reuseaddr(&fd, true)?;
    }
    if flags & tcp_flags::REUSEPORT != 0 {
        sockopt::set_socket_reuseport(&fd, true)?;
    }
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, flags & tcp_flags::IPV6ONLY != 0)?;
    }
    rustix::net::bind(&fd, &address)?;
    rustix::net::listen(&fd, backlog.cast_signed())?;
    let bound: SocketAddrAny = rustix::net::getsockname(&fd)?;
    let port = SocketAddr::try_from(bound).map_or(address.port(), |bound| bound.port());
    Ok((fd, port))
}

impl Resource for TcpListener {
    fn flags(&self) -> u32 {
        handle_flags::READABLE | handle_flags::ENDABLE
    }

    /// Fills the buffer with whole records, one per connection.
    fn read(&self, guest: &GuestContext, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
        let (records, _) = buffer.as_chunks_mut::<{ AcceptRecord::BYTES }>();
        if records.is_empty() {
            return Err(ErrorCode::Bounds);
        }
        let mut accepted = 0;
        for record in records.iter_mut().take(ACCEPTS_PER_READ_MAX) {
            match self.accept(guest) {
                Ok(connection) => *record = connection.encode(),
                Err(code) if accepted == 0 => return Err(code),
                Err(_) => break,
            }
            accepted += 1;
        }
        Ok(accepted * AcceptRecord::BYTES)
    }

    fn holds_descriptor(&self) -> bool {
        true
    }

    fn watchable(&self) -> Option<&dyn Watchable> {
        Some(&self.descriptor)
    }
}
