//! TCP through `net/tcp@v1`, as far as the host's allow-list goes.

use crate::error::io_error;
use crate::io::handle::Handle;
use crate::zi::{self, ErrorCode};
use mainspring_zcl::cap::{AcceptRecord, TcpOpen, tcp_flags};
use mainspring_zcl::ctl::{HANDLE_OP_SHUT_WR, HandleOp};
use mainspring_zcl::{Frame, STATUS_OK};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
#[cfg(any(feature = "tokio", feature = "futures-io"))]
use std::task::{Context, Poll};

/// How many connections one call may accept.
const ACCEPTS_PER_READ: usize = 16;
/// Answers of `zi_ctl` to a shutdown are no longer than this.
const CTL_ANSWER_BYTES_MAX: usize = 256;

/// A TCP connection. Small segments are sent at once (no delay).
///
/// Reading and writing take `&self`, so that one task may read while another writes. With the
/// features `tokio` and `futures-io` it has the traits of those, too.
#[derive(Debug)]
pub struct TcpStream {
    handle: Handle,
    peer: Option<SocketAddr>,
}

impl TcpStream {
    /// Connects to `host:port`; the host looks the name up, and its allow-list decides.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` by the allow-list, `NotFound` for a name that does not resolve, otherwise
    /// what failed.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let stream = mainspring_guest::TcpStream::connect("example.org:80").await?;
    /// stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(address: &str) -> io::Result<TcpStream> {
        let (host, port) = split_address(address)?;
        let (handle, _) = open(host, port, tcp_flags::NODELAY)?;
        let stream = TcpStream { handle: Handle::from_raw(handle), peer: address.parse().ok() };
        stream.handle.established().await?;
        Ok(stream)
    }

    /// The other end, as far as it is known: for accepted connections, and for those to an address
    /// rather than a name.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Reads what is there, waiting if nothing is; 0 means that the peer has finished.
    ///
    /// # Errors
    ///
    /// What failed.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        std::future::poll_fn(|context| self.handle.poll_read_watched(context, buffer)).await
    }

    /// Writes what can be taken, waiting if nothing can.
    ///
    /// # Errors
    ///
    /// What failed.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.handle.write(bytes).await
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    ///
    /// What failed; how much was written is not known then.
    pub async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.handle.write_all(bytes).await
    }

    /// Says that nothing more will be written; reading goes on.
    ///
    /// # Errors
    ///
    /// What failed.
    pub fn shutdown_write(&self) -> io::Result<()> {
        let request = HandleOp { handle: self.handle.raw() as u32, op: HANDLE_OP_SHUT_WR }.to_frame(0);
        let mut answer = [0; CTL_ANSWER_BYTES_MAX];
        let length = zi::ctl(&request, &mut answer).map_err(io_error)?;
        match Frame::decode(&answer[..length]) {
            Ok(Some((frame, _))) if frame.status == STATUS_OK => Ok(()),
            _ => Err(io_error(ErrorCode::Io)),
        }
    }

    #[cfg(any(feature = "tokio", feature = "futures-io"))]
    pub(crate) fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.handle.poll_read_watched(context, buffer)
    }

    #[cfg(any(feature = "tokio", feature = "futures-io"))]
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// Accepts TCP connections.
#[derive(Debug)]
pub struct TcpListener {
    handle: Handle,
    port: u16,
    /// Accepted by the host in one call, and not asked for yet.
    accepted: RefCell<VecDeque<(TcpStream, SocketAddr)>>,
}

impl TcpListener {
    /// Listens on `host:port`; port 0 lets the system choose.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` by the allow-list, otherwise what failed.
    pub fn bind(address: &str) -> io::Result<TcpListener> {
        let (host, port) = split_address(address)?;
        let flags = tcp_flags::LISTEN | tcp_flags::REUSEADDR | tcp_flags::NODELAY;
        let (handle, port) = open(host, port, flags)?;
        Ok(TcpListener { handle: Handle::from_raw(handle), port, accepted: RefCell::default() })
    }

    /// The port.
    #[must_use]
    pub fn local_port(&self) -> u16 {
        self.port
    }

    /// Waits for a connection.
    ///
    /// # Errors
    ///
    /// What failed; the listener goes on.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            if let Some(connection) = self.accepted.borrow_mut().pop_front() {
                return Ok(connection);
            }
            let mut records = [0; ACCEPTS_PER_READ * AcceptRecord::BYTES];
            let length = self.handle.read(&mut records).await?;
            if length == 0 {
                return Err(io_error(ErrorCode::Closed));
            }
            let (records, _) = records[..length].as_chunks::<{ AcceptRecord::BYTES }>();
            self.accepted.borrow_mut().extend(records.iter().filter_map(connection));
        }
    }
}

fn connection(record: &[u8; AcceptRecord::BYTES]) -> Option<(TcpStream, SocketAddr)> {
    let record = AcceptRecord::decode(record).ok()?;
    let address = Ipv6Addr::from(record.peer_address).to_canonical();
    let peer = SocketAddr::new(address, record.peer_port as u16);
    let handle = Handle::from_raw(record.handle as i32);
    Some((TcpStream { handle, peer: Some(peer) }, peer))
}

fn open(host: &str, port: u16, flags: u32) -> io::Result<(zi::RawHandle, u16)> {
    let mut bound_port = u32::from(port);
    let parameters = TcpOpen {
        host_ptr: host.as_ptr() as u64,
        host_len: host.len() as u32,
        port: u32::from(port),
        flags,
        backlog: 0,
        // The host writes the port there before the call returns.
        out_port_ptr: if flags & tcp_flags::LISTEN == 0 { 0 } else { (&raw mut bound_port) as u64 },
    };
    let handle = zi::open("net", "tcp", &parameters.encode()).map_err(io_error)?;
    // SAFETY: it is a live local; read as volatile because the compiler has not seen the host write
    // to it.
    let bound_port = unsafe { (&raw const bound_port).read_volatile() };
    Ok((handle, bound_port as u16))
}

/// Splits `host:port`, where an IPv6 address stands in brackets.
fn split_address(address: &str) -> io::Result<(&str, u16)> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, format!("{address} is not host:port"));
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bare.unwrap_or(host);
    let is_v6 = matches!(host.parse(), Ok(IpAddr::V6(_)));
    if host.is_empty() || host.len() > TcpOpen::HOST_BYTES_MAX as usize || is_v6 != bare.is_some() {
        return Err(wrong());
    }
    Ok((host, port.parse().map_err(|_| wrong())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_split_at_the_last_colon_and_v6_needs_brackets() {
        assert_eq!(split_address("example.org:80").unwrap(), ("example.org", 80));
        assert_eq!(split_address("[::1]:0").unwrap(), ("::1", 0));
        for wrong in ["", "localhost", ":80", "::1:80", "h:65536", "h:", "[h]:1"] {
            assert!(split_address(wrong).is_err(), "{wrong}");
        }
    }
}
