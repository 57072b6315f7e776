//! The connection itself: a Unix socket or TCP.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connected socket of either kind.
#[derive(Debug)]
pub enum Stream {
    /// A Unix socket, whose other end is known by its process and user.
    Unix(UnixStream),
    /// TCP.
    Tcp(TcpStream),
    /// TCP with encryption: this end of a pair, whose other end a thread of this process has.
    Tls(UnixStream),
}

/// The same call on whichever socket it is.
macro_rules! either {
    ($stream:expr, $socket:ident => $call:expr) => {
        match $stream {
            Stream::Unix($socket) => $call,
            Stream::Tcp($socket) => $call,
            Stream::Tls($socket) => $call,
        }
    };
}

impl Stream {
    /// A second handle of the same connection.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn try_clone(&self) -> io::Result<Stream> {
        match self {
            Stream::Unix(socket) => socket.try_clone().map(Stream::Unix),
            Stream::Tcp(socket) => socket.try_clone().map(Stream::Tcp),
            Stream::Tls(socket) => socket.try_clone().map(Stream::Tls),
        }
    }

    /// How long a read may wait.
    ///
    /// # Errors
    /// The time is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        either!(self, socket => socket.set_read_timeout(timeout))
    }

    /// How long a write may wait before the other end takes any of it.
    ///
    /// # Errors
    /// The time is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        either!(self, socket => socket.set_write_timeout(timeout))
    }

    /// The user at the other end, which TCP does not tell.
    #[must_use]
    pub fn peer_user(&self) -> Option<u32> {
        let Stream::Unix(socket) = self else { return None };
        rustix::net::sockopt::socket_peercred(socket).ok().map(|peer| peer.uid.as_raw())
    }

    /// Whether reads and writes return instead of waiting.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        either!(self, socket => socket.set_nonblocking(nonblocking))
    }

    /// Ends one direction or both.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        either!(self, socket => socket.shutdown(how))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        either!(self, socket => socket.read(buffer))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        either!(self, socket => socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        either!(self, socket => socket.as_fd())
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        either!(self, socket => socket.as_raw_fd())
    }
}
