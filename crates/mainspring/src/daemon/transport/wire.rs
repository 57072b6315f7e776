//! What connects a client: a socket, or a pair of standard streams.

use crate::daemon::transport::outlet::Outlet;
use crate::daemon::transport::tls::TlsSocket;
use mainspring_reactor::{Backend, Event, Handle, Interest, Mode, Watcher};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};
use std::os::fd::{AsRawFd, OwnedFd};

/// A way to a client and back. It is non-blocking, and knows what the reactor watches of it.
#[derive(Debug)]
pub(crate) struct Wire {
    ends: Ends,
    input: Option<Watcher>,
    /// The watcher of a separate output, once it was needed.
    output: Option<Watcher>,
    interest: Interest,
}

#[derive(Debug)]
enum Ends {
    Socket(OwnedFd),
    Tls(TlsSocket),
    Streams { input: OwnedFd, output: Outlet },
}

impl Wire {
    /// A connected, non-blocking socket.
    pub(crate) fn socket(socket: OwnedFd) -> Wire {
        Wire::new(Ends::Socket(socket))
    }

    /// The same with encryption.
    pub(crate) fn tls(socket: TlsSocket) -> Wire {
        Wire::new(Ends::Tls(socket))
    }

    /// Two streams. `input` may block: it is read once whenever there is something to read.
    pub(crate) fn streams(input: OwnedFd, output: Outlet) -> Wire {
        Wire::new(Ends::Streams { input, output })
    }

    fn new(ends: Ends) -> Wire {
        Wire { ends, input: None, output: None, interest: Interest::empty() }
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match &self.ends {
            Ends::Socket(socket) => rustix::io::read(socket, buffer),
            Ends::Tls(socket) => socket.read(buffer),
            Ends::Streams { input, .. } => rustix::io::read(input, buffer),
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match &self.ends {
            Ends::Socket(socket) => rustix::net::send(socket, bytes, SendFlags::NOSIGNAL),
            Ends::Tls(socket) => socket.write(bytes),
            Ends::Streams { output, .. } => output.write(bytes),
        }
    }

    /// Tells the peer that nothing more will come.
    pub(crate) fn end_output(&self) {
        match &self.ends {
            Ends::Socket(socket) => {
                let _ = rustix::net::shutdown(socket, Shutdown::Write);
            }
            Ends::Tls(socket) => socket.end_output(),
            Ends::Streams { .. } => {}
        }
    }

    /// Whether it is the standard streams. A peer there that is gone altogether cannot be told from
    /// one that will send no more.
    pub(crate) fn is_standard_streams(&self) -> bool {
        matches!(self.ends, Ends::Streams { .. })
    }

    /// Whether the reactor tells of new input once, and not for as long as it is there.
    ///
    /// With many busy clients that saves telling of all of them in every turn, when only a few can
    /// be read. Standard streams are told of for as long as there is input: they may block, so they
    /// are read only when it is certain that there is some.
    pub(crate) fn tells_edges(&self, reactor: &Handle) -> bool {
        !self.is_standard_streams() && reactor.backend() == Backend::Epoll
    }

    /// Has the reactor tell `interest` and nothing else; `tell` makes the callback for a watcher
    /// that is not there yet.
    pub(crate) fn watch<F>(
        &mut self,
        reactor: &Handle,
        interest: Interest,
        tell: impl Fn() -> F,
    ) -> Result<(), mainspring_reactor::Error>
    where
        F: FnMut(&mut (), &Event<'_>) + 'static,
    {
        if interest == self.interest && self.input.is_some() {
            return Ok(());
        }
        match &self.ends {
            Ends::Socket(socket) | Ends::Tls(TlsSocket { socket, .. }) => {
                let mode = if self.tells_edges(reactor) { Mode::Edge } else { Mode::Level };
                set(reactor, &mut self.input, socket.as_raw_fd(), mode, interest, tell)?;
            }
            Ends::Streams { input, output } => {
                let reading = interest & Interest::READ;
                set(reactor, &mut self.input, input.as_raw_fd(), Mode::Level, reading, &tell)?;
                let writing = interest & Interest::WRITE;
                if self.output.is_some() || !writing.is_empty() {
                    use std::os::fd::AsFd;
                    set(reactor, &mut self.output, output.as_fd().as_raw_fd(), Mode::Level, writing, &tell)?;
                }
            }
        }
        self.interest = interest;
        Ok(())
    }

    /// Ends the watches. To be called before the wire is dropped.
    pub(crate) fn unwatch(&mut self, reactor: &Handle) {
        for watcher in [self.input.take(), self.output.take()].into_iter().flatten() {
            reactor.unwatch(watcher);
        }
    }
}

fn set<F>(
    reactor: &Handle,
    watcher: &mut Option<Watcher>,
    fd: i32,
    mode: Mode,
    interest: Interest,
    tell: impl Fn() -> F,
) -> Result<(), mainspring_reactor::Error>
where
    F: FnMut(&mut (), &Event<'_>) + 'static,
{
    match watcher {
        Some(watcher) => reactor.modify(*watcher, interest),
        None => {
            *watcher =
                Some(reactor.watch_raw(fd, ()).label("client").mode(mode).start_with(interest, tell())?);
            Ok(())
        }
    }
}
