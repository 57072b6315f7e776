//! A client's socket with encryption, read and written as if it had none.
//!
//! A read takes everything that the socket has, so a short read means what it means without
//! encryption: there is no more. A write tells bytes as written only when their encrypted form has
//! left, so nothing waits in here but what is being written just now, and nobody has to know that.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use rustls::{ServerConfig, ServerConnection};
use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes that are encrypted at a time: one record of the protocol.
const RECORD_BYTES: usize = 16 << 10;

/// A socket with encryption.
#[derive(Debug)]
pub(crate) struct TlsSocket {
    pub(super) socket: OwnedFd,
    state: RefCell<TlsState>,
}

#[derive(Debug)]
struct TlsState {
    session: Box<ServerConnection>,
    /// Bytes of the last write whose encrypted form has not left yet.
    unsent: usize,
    has_ended: bool,
}

impl TlsSocket {
    pub(crate) fn new(socket: OwnedFd, config: &Arc<ServerConfig>) -> Result<TlsSocket, rustls::Error> {
        let session = Box::new(ServerConnection::new(Arc::clone(config))?);
        Ok(TlsSocket { socket, state: RefCell::new(TlsState { session, unsent: 0, has_ended: false }) })
    }

    /// Reads what was sent; the handshake happens in here.
    pub(super) fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let state = &mut *self.state.borrow_mut();
        let mut filled = 0;
        loop {
            match state.session.reader().read(&mut buffer[filled..]) {
                Ok(0) => return Ok(filled),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // It closed without saying so: what came is what there is, as without encryption.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(filled),
                Err(_) => return Err(Errno::PROTO),
            }
            if filled == buffer.len() || state.has_ended {
                return Ok(filled);
            }
            match state.session.read_tls(&mut Socket(&self.socket)) {
                Ok(count) => state.has_ended = count == 0,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return if filled > 0 { Ok(filled) } else { Err(Errno::AGAIN) };
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(errno(&error)),
            }
            let is_broken = state.session.process_new_packets().is_err();
            // The next part of the handshake, or the alert that tells why not. It is short, and the
            // first that is sent.
            let _ = self.send(state);
            if is_broken {
                return Err(Errno::PROTO);
            }
        }
    }

    /// Writes; says how many of the bytes have left.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let state = &mut *self.state.borrow_mut();
        if state.unsent == 0 {
            self.send(state)?;
            let some = &bytes[..bytes.len().min(RECORD_BYTES)];
            state.unsent = state.session.writer().write(some).map_err(|error| errno(&error))?;
        }
        // Whoever is told to come again comes with the same bytes: they are not encrypted twice.
        self.send(state)?;
        Ok(std::mem::take(&mut state.unsent))
    }

    /// Tells the peer that nothing more will come.
    pub(super) fn end_output(&self) {
        let state = &mut *self.state.borrow_mut();
        state.session.send_close_notify();
        let _ = self.send(state);
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }

    /// Sends whatever the session has to send.
    fn send(&self, state: &mut TlsState) -> Result<(), Errno> {
        while state.session.wants_write() {
            match state.session.write_tls(&mut Socket(&self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(&error)),
            }
        }
        Ok(())
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::PROTO, Errno::from_raw_os_error)
}

/// A socket as the session reads and writes it.
struct Socket<'a>(&'a OwnedFd);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(self.0, buffer, RecvFlags::empty())?.0)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
