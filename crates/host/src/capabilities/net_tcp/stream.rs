//! A connection, from the moment it is asked for.

use super::connect::{Target, establish};
use crate::abi::errno::code_for;
use crate::guest::context::GuestContext;
use crate::handles::resource::{Resource, Watchable};
use crate::readiness::registration::Registration;
use crate::readiness::signal::Signal;
use mainspring_reactor::{Handle, JoinHandle};
use mainspring_zcl::abi::{ErrorCode, handle_flags};
use mainspring_zcl::sys_loop::Readiness;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};

pub(super) struct TcpStream {
    signal: Rc<Signal>,
    state: RefCell<State>,
}

enum State {
    /// The name is being looked up or the peer has not answered.
    Connecting(Option<JoinHandle<()>>),
    Open(Socket),
    Failed(ErrorCode),
}

struct Socket {
    // Ends before the descriptor does.
    registration: Registration,
    fd: OwnedFd,
}

impl Socket {
    fn new(reactor: &Handle, signal: &Rc<Signal>, fd: OwnedFd) -> Socket {
        Socket { registration: Registration::new(reactor, signal), fd }
    }
}

impl TcpStream {
    /// Starts to connect.
    pub(super) fn connecting(
        guest: &Rc<GuestContext>,
        target: Target,
        flags: u32,
    ) -> Result<Rc<TcpStream>, ErrorCode> {
        guest.check_handle_room()?;
        let state = RefCell::new(State::Connecting(None));
        let stream = Rc::new(TcpStream { signal: Signal::new(), state });
        let (weak, theirs) = (Rc::downgrade(&stream), guest.clone());
        let task = guest.reactor.spawn(async move {
            let outcome = establish(theirs.clone(), target, flags).await;
            if let Some(stream) = Weak::upgrade(&weak) {
                stream.connected(&theirs, outcome);
            }
        });
        let task = task.map_err(|_| ErrorCode::Io)?;
        *stream.state.borrow_mut() = State::Connecting(Some(task));
        Ok(stream)
    }

    /// Takes over an accepted connection.
    pub(super) fn accepted(guest: &GuestContext, fd: OwnedFd) -> TcpStream {
        let signal = Signal::new();
        let socket = Socket::new(&guest.reactor, &signal, fd);
        TcpStream { signal, state: RefCell::new(State::Open(socket)) }
    }

    fn connected(&self, guest: &GuestContext, outcome: Result<OwnedFd, ErrorCode>) {
        let outcome = outcome.and_then(|fd| {
            let socket = Socket::new(&guest.reactor, &self.signal, fd);
            let interest = self.signal.interest();
            if !interest.is_empty() {
                socket.registration.arm(&socket.fd, interest)?;
            }
            Ok(socket)
        });
        let (state, news) = match outcome {
            Ok(socket) => (State::Open(socket), Readiness::WRITABLE),
            Err(code) => (State::Failed(code), Readiness::ALL),
        };
        let previous = self.state.replace(state);
        // Its task is the one that runs this, and must not be aborted.
        drop(previous);
        self.signal.raise(news);
    }

    fn transfer(
        &self,
        guest: &GuestContext,
        direction: Readiness,
        wanted: usize,
        call: impl FnMut(&OwnedFd, usize) -> Result<usize, Errno>,
    ) -> Result<usize, ErrorCode> {
        let state = self.state.borrow();
        let socket = match &*state {
            State::Connecting(_) => return Err(ErrorCode::Again),
            State::Failed(code) => return Err(*code),
            State::Open(socket) => socket,
        };
        socket.registration.transfer(guest, &socket.fd, direction, wanted, call).map_err(code_for)
    }
}

impl Resource for TcpStream {
    fn flags(&self) -> u32 {
        handle_flags::READABLE | handle_flags::WRITABLE | handle_flags::ENDABLE
    }

    fn read(&self, guest: &GuestContext, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
        self.transfer(guest, Readiness::READABLE, buffer.len(), |fd, allowed| {
            rustix::net::recv(fd, &mut buffer[..allowed], RecvFlags::empty()).map(|(_, count)| count)
        })
    }

    fn write(&self, guest: &GuestContext, bytes: &[u8]) -> Result<usize, ErrorCode> {
        self.transfer(guest, Readiness::WRITABLE, bytes.len(), |fd, allowed| {
            rustix::net::send(fd, &bytes[..allowed], SendFlags::NOSIGNAL)
        })
    }

    fn shut_write(&self, _guest: &GuestContext) -> Result<(), ErrorCode> {
        match &*self.state.borrow() {
            State::Connecting(_) => Err(ErrorCode::Again),
            State::Failed(code) => Err(*code),
            State::Open(socket) => rustix::net::shutdown(&socket.fd, Shutdown::Write).map_err(code_for),
        }
    }

    fn holds_descriptor(&self) -> bool {
        true
    }

    fn watchable(&self) -> Option<&dyn Watchable> {
        Some(self)
    }
}

impl Watchable for TcpStream {
    fn signal(&self) -> &Rc<Signal> {
        &self.signal
    }

    fn arm(&self, _guest: &GuestContext, interest: Readiness) -> Result<(), ErrorCode> {
        match &*self.state.borrow() {
            State::Open(socket) => socket.registration.arm(&socket.fd, interest),
            // Armed once there is something to arm.
            State::Connecting(_) | State::Failed(_) => Ok(()),
        }
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        if let State::Connecting(Some(task)) = self.state.replace(State::Failed(ErrorCode::Closed)) {
            task.abort();
        }
    }
}
