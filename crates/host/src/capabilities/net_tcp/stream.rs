//! A connection, from the moment it is asked for.

use super::connect::{Target, establish};
use crate::abi::errno::code_for;
use crate::guest::context::GuestContext;
use crate::handles::resource::{Resource, Watchable};
use crate::readiness::descriptor::WatchedDescriptor;
use crate::readiness::signal::Signal;
use mainspring_reactor::JoinHandle;
use mainspring_zcl::abi::{ErrorCode, handle_flags};
use mainspring_zcl::sys_loop::Readiness;
use rustix::net::Shutdown;
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};

pub(super) struct TcpStream {
    signal: Rc<Signal>,
    state: RefCell<Connection>,
}

enum Connection {
    /// The name is being looked up or the peer has not answered.
    Pending(Option<JoinHandle<()>>),
    Open(WatchedDescriptor),
    Failed(ErrorCode),
}

impl TcpStream {
    /// Starts to connect.
    pub(super) fn connecting(
        guest: &Rc<GuestContext>,
        target: Target,
        flags: u32,
    ) -> Result<Rc<TcpStream>, ErrorCode> {
        guest.check_handle_room()?;
        let state = RefCell::new(Connection::Pending(None));
        let stream = Rc::new(TcpStream { signal: Signal::new(), state });
        let (weak, theirs) = (Rc::downgrade(&stream), guest.clone());
        let task = guest.reactor.spawn(async move {
            let outcome = establish(theirs.clone(), target, flags).await;
            if let Some(stream) = Weak::upgrade(&weak) {
                stream.connected(&theirs, outcome);
            }
        });
        let task = task.map_err(|_| ErrorCode::Io)?;
        *stream.state.borrow_mut() = Connection::Pending(Some(task));
        Ok(stream)
    }

    /// Takes over an accepted connection.
    pub(super) fn accepted(guest: &GuestContext, fd: OwnedFd) -> TcpStream {
        let signal = Signal::new();
        let descriptor = WatchedDescriptor::new(&guest.reactor, &signal, fd);
        TcpStream { signal, state: RefCell::new(Connection::Open(descriptor)) }
    }

    fn connected(&self, guest: &GuestContext, outcome: Result<OwnedFd, ErrorCode>) {
        let outcome = outcome.and_then(|fd| {
            let descriptor = WatchedDescriptor::new(&guest.reactor, &self.signal, fd);
            let interest = self.signal.interest();
            if !interest.is_empty() {
                descriptor.arm(interest)?;
            }
            Ok(descriptor)
        });
        let (state, news) = match outcome {
            Ok(descriptor) => (Connection::Open(descriptor), Readiness::WRITABLE),
            Err(code) => (Connection::Failed(code), Readiness::ALL),
        };
        let previous = self.state.replace(state);
        // Its task is the one that runs this, and must not be aborted.
        drop(previous);
        self.signal.raise(news);
    }

    /// Does something with the connection, once there is one.
    fn with_open<T>(
        &self,
        call: impl FnOnce(&WatchedDescriptor) -> rustix::io::Result<T>,
    ) -> Result<T, ErrorCode> {
        match &*self.state.borrow() {
            Connection::Pending(_) => Err(ErrorCode::Again),
            Connection::Failed(code) => Err(*code),
            Connection::Open(descriptor) => call(descriptor).map_err(code_for),
        }
    }
}

impl Resource for TcpStream {
    fn flags(&self) -> u32 {
        handle_flags::READABLE | handle_flags::WRITABLE | handle_flags::ENDABLE
    }

    fn read(&self, guest: &GuestContext, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
        self.with_open(|descriptor| descriptor.receive(guest, buffer))
    }

    fn write(&self, guest: &GuestContext, bytes: &[u8]) -> Result<usize, ErrorCode> {
        self.with_open(|descriptor| descriptor.send(guest, bytes))
    }

    fn shut_write(&self, _guest: &GuestContext) -> Result<(), ErrorCode> {
        self.with_open(|descriptor| rustix::net::shutdown(descriptor.fd(), Shutdown::Write))
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
            Connection::Open(descriptor) => descriptor.arm(interest),
            // Armed once there is something to arm.
            Connection::Pending(_) | Connection::Failed(_) => Ok(()),
        }
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        if let Connection::Pending(Some(task)) = self.state.replace(Connection::Failed(ErrorCode::Closed)) {
            task.abort();
        }
    }
}
