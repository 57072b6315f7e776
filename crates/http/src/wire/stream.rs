//! A client's socket as hyper wants it, on the reactor.

use hyper::rt::{Read, ReadBufCursor, Write};
use mainspring_reactor::{Async, Handle, Instant};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A socket without encryption.
pub(crate) struct Stream {
    pub(crate) io: Async<OwnedFd>,
    reactor: Handle,
    stall: Rc<Stall>,
}

/// Since when a client has taken no byte of what is written to it.
#[derive(Default)]
pub(crate) struct Stall {
    since: Cell<Option<Instant>>,
}

impl Stall {
    pub(crate) fn since(&self) -> Option<Instant> {
        self.since.get()
    }
}

impl Stream {
    pub(crate) fn new(reactor: &Handle, socket: OwnedFd, stall: Rc<Stall>) -> io::Result<Stream> {
        let io = Async::new(reactor, socket).map_err(io::Error::other)?;
        Ok(Stream { io, reactor: reactor.clone(), stall })
    }

    /// Writes, and notes since when that does not work.
    pub(crate) fn poll_send(
        &self,
        context: &mut Context<'_>,
        write: impl FnMut(&OwnedFd) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let outcome = self.io.poll_write_with(context, write);
        match &outcome {
            Poll::Ready(_) => self.stall.since.set(None),
            Poll::Pending if self.stall.since.get().is_none() => {
                self.stall.since.set(Some(self.reactor.now()));
            }
            Poll::Pending => {}
        }
        outcome
    }

    /// Ends the output. A peer that has gone already has no use for that.
    pub(crate) fn end_output(&self) -> io::Result<()> {
        match rustix::net::shutdown(self.io.get_ref(), Shutdown::Write) {
            Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A socket that can be closed at once: what was not read is thrown away, and the peer is told so.
pub(crate) trait Abort {
    fn abort(&self);
}

impl Abort for Stream {
    fn abort(&self) {
        // Without it the end would wait behind bytes that the peer never reads.
        let _ = rustix::net::sockopt::set_socket_linger(self.io.get_ref(), Some(Duration::ZERO));
    }
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: the system call only ever writes initialised bytes into it.
        let spare = unsafe { buffer.as_mut() };
        let room = spare.len();
        let count = ready!(self.io.poll_read_stream(context, room, |socket| {
            let ((filled, _), _) = rustix::net::recv(socket, &mut *spare, RecvFlags::empty())?;
            Ok(filled.len())
        }))?;
        // SAFETY: the system call has just filled so many bytes.
        unsafe { buffer.advance(count) };
        Poll::Ready(Ok(()))
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(context, |socket| Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(context, |socket| {
            let mut nothing = SendAncillaryBuffer::default();
            Ok(rustix::net::sendmsg(socket, bytes, &mut nothing, SendFlags::NOSIGNAL)?)
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.end_output())
    }
}
