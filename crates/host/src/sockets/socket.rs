//! One connection, and what is known of its readiness.

use super::pace::Streak;
use crate::guest::context::GuestContext;
use crate::handles::resource::Resource;
use crate::readiness::descriptor::WatchedDescriptor;
use crate::readiness::signal::Signal;
use mainspring_zcl::abi::{ErrorCode, handle_flags};
use mainspring_zcl::sys_loop::Readiness;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::Waker;

/// A connection.
pub(super) struct Socket {
    signal: Rc<Signal>,
    descriptor: WatchedDescriptor,
    /// The directions in which the guest was told that it would block, or waits itself.
    blocked: Cell<Readiness>,
    /// The readiness that the guest was sent to look at, and has not looked at yet.
    sent: Cell<Readiness>,
    /// Nothing more is to be read.
    ended: Cell<bool>,
    /// Reads and writes in vain.
    pub(super) reads: Streak,
    pub(super) writes: Streak,
}

impl Socket {
    /// Takes over a connection and watches it for data.
    pub(super) fn new(guest: &GuestContext, fd: OwnedFd) -> Result<Socket, ErrorCode> {
        let signal = Signal::new();
        let descriptor = WatchedDescriptor::new(&guest.reactor, &signal, fd);
        let socket = Socket {
            signal,
            descriptor,
            blocked: Cell::new(Readiness::NONE),
            sent: Cell::new(Readiness::NONE),
            ended: Cell::new(false),
            reads: Streak::default(),
            writes: Streak::default(),
        };
        socket.watch(Readiness::READABLE)?;
        Ok(socket)
    }

    /// Makes sure that readiness in a direction will be noticed.
    ///
    /// # Errors
    /// If the reactor refuses.
    pub(super) fn watch(&self, direction: Readiness) -> Result<(), ErrorCode> {
        self.blocked.set(self.blocked.get() | direction);
        self.signal.demand(direction);
        self.descriptor.arm(self.signal.interest())
    }

    /// What the guest should look at: data that it was not sent to look at before, and whatever it
    /// was told to wait for.
    pub(super) fn news(&self) -> Readiness {
        let mut wanted = self.blocked.get() | Readiness::READABLE;
        if self.ended.get() {
            wanted = wanted.difference(Readiness::READABLE);
        }
        wanted.intersection(self.signal.readiness()).difference(self.sent.get())
    }

    /// The guest is sent to look at what is new here.
    pub(super) fn send_guest(&self) {
        self.sent.set(self.sent.get() | self.news());
    }

    /// Whatever is ready here is news again.
    pub(super) fn forget_sent(&self) {
        self.sent.set(Readiness::NONE);
    }

    /// Whether an operation in this direction would not block, as far as is known.
    pub(super) fn is_ready(&self, direction: Readiness) -> bool {
        self.signal.readiness().intersects(direction)
    }

    /// Wakes `waker` when there is any news.
    pub(super) fn wake(&self, waker: &Waker) {
        self.signal.wait(waker);
    }

    /// Reads up to `length` bytes; an empty answer is the end.
    pub(super) fn receive(&self, guest: &GuestContext, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = Vec::new();
        let received = self.descriptor.transfer(guest, Readiness::READABLE, length, |fd, allowed| {
            bytes.reserve_exact(allowed);
            rustix::net::recv(fd, spare_capacity(&mut bytes), RecvFlags::empty()).map(|(_, count)| count)
        });
        self.looked_at(Readiness::READABLE, &received);
        if !matches!(received, Ok(1..) | Err(Errno::AGAIN)) {
            self.ended.set(true);
        }
        received.map(|_| bytes)
    }

    /// Writes some of the front of `bytes`.
    pub(super) fn send(&self, guest: &GuestContext, bytes: &[u8]) -> Result<usize, Errno> {
        let sent = self.descriptor.send(guest, bytes);
        self.looked_at(Readiness::WRITABLE, &sent);
        sent
    }

    /// The guest has tried to move bytes in a direction.
    fn looked_at(&self, direction: Readiness, outcome: &Result<usize, Errno>) {
        self.sent.set(self.sent.get().difference(direction));
        if *outcome != Err(Errno::AGAIN) {
            self.blocked.set(self.blocked.get().difference(direction));
        }
    }
}

/// It takes a place among the guest's handles, and so is limited, counted and closed as they are.
impl Resource for Socket {
    fn flags(&self) -> u32 {
        handle_flags::ENDABLE
    }

    fn holds_descriptor(&self) -> bool {
        true
    }
}
