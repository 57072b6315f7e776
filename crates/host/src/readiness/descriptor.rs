//! A descriptor that a handle stands for, with what is known of its readiness.

use crate::guest::context::GuestContext;
use crate::handles::resource::Watchable;
use crate::readiness::registration::Registration;
use crate::readiness::signal::Signal;
use mainspring_reactor::Handle;
use mainspring_zcl::abi::ErrorCode;
use mainspring_zcl::sys_loop::Readiness;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Most bytes that one call moves: more in one call is hardly faster, and nobody else runs
/// meanwhile.
const TRANSFER_BYTES_MAX: usize = 256 * 1024;

/// A descriptor on the reactor.
pub(crate) struct WatchedDescriptor {
    signal: Rc<Signal>,
    // Ends before the descriptor does.
    registration: Registration,
    fd: OwnedFd,
}

impl WatchedDescriptor {
    pub(crate) fn new(reactor: &Handle, signal: &Rc<Signal>, fd: OwnedFd) -> WatchedDescriptor {
        WatchedDescriptor { signal: signal.clone(), registration: Registration::new(reactor, signal), fd }
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Makes sure that the kernel will report `wanted`, including what holds already.
    pub(crate) fn arm(&self, wanted: Readiness) -> Result<(), ErrorCode> {
        self.registration.arm(&self.fd, wanted)
    }

    /// An operation would have had to wait: forget the bits, and have them reported when they come
    /// back.
    pub(crate) fn would_block(&self, bits: Readiness) {
        self.registration.would_block(&self.fd, bits);
    }

    /// Receives into the front of `buffer`.
    pub(crate) fn receive(&self, guest: &GuestContext, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.transfer(guest, Readiness::READABLE, buffer.len(), |fd, allowed| {
            rustix::net::recv(fd, &mut buffer[..allowed], RecvFlags::empty()).map(|(_, count)| count)
        })
    }

    /// Sends some of the front of `bytes`.
    pub(crate) fn send(&self, guest: &GuestContext, bytes: &[u8]) -> Result<usize, Errno> {
        self.transfer(guest, Readiness::WRITABLE, bytes.len(), |fd, allowed| {
            rustix::net::send(fd, &bytes[..allowed], SendFlags::NOSIGNAL)
        })
    }

    /// Moves bytes by `call`, which is told how many it may, as far as the guest's bandwidth goes;
    /// and keeps true what is known of the descriptor's readiness.
    pub(crate) fn transfer(
        &self,
        guest: &GuestContext,
        direction: Readiness,
        wanted: usize,
        mut call: impl FnMut(&OwnedFd, usize) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let wanted = wanted.min(TRANSFER_BYTES_MAX);
        let Ok(allowed) = guest.take_bandwidth(&self.signal, wanted) else { return Err(Errno::AGAIN) };
        let outcome = retry_on_intr(|| call(&self.fd, allowed));
        if let Ok(count) = outcome {
            guest.spend_bandwidth(count);
        }
        // Less than asked for means that there is no more, unless the end or an error is next.
        let ending = self.signal.readiness().intersects(Readiness::HANGUP | Readiness::ERROR);
        let is_last = matches!(outcome, Ok(count @ 1..) if count < allowed) && !ending;
        if is_last || outcome == Err(Errno::AGAIN) {
            self.would_block(direction);
        }
        outcome
    }
}

impl Watchable for WatchedDescriptor {
    fn signal(&self) -> &Rc<Signal> {
        &self.signal
    }

    fn arm(&self, _guest: &GuestContext, interest: Readiness) -> Result<(), ErrorCode> {
        WatchedDescriptor::arm(self, interest)
    }
}
