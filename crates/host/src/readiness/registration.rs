//! The link between a descriptor on the reactor and the signal of its handle.
//!
//! One registration serves all watches of a handle. It is edge-triggered where the backend has
//! edges. Elsewhere (`poll(2)`) it asks only for what is not known to be ready, which comes to the
//! same: nothing is reported twice.

use crate::readiness::signal::Signal;
use mainspring_reactor::{Backend, Handle, Interest, Mode, Readiness as Reported, Watcher};
use mainspring_zcl::abi::ErrorCode;
use mainspring_zcl::sys_loop::Readiness;
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;

/// A descriptor's registration. Drop it before the descriptor.
pub(crate) struct Registration {
    reactor: Handle,
    signal: Rc<Signal>,
    watcher: Cell<Option<Watcher>>,
    /// What the kernel has been asked for.
    armed: Rc<Cell<Interest>>,
    edge: bool,
}

/// What must be asked of the kernel for a guest to learn of `bits`.
fn interest_for(bits: Readiness) -> Interest {
    let mut interest = Interest::empty();
    // The end of the peer's stream is reported to readers only.
    interest.set(Interest::READ, bits.intersects(Readiness::READABLE | Readiness::HANGUP));
    interest.set(Interest::WRITE, bits.contains(Readiness::WRITABLE));
    interest.set(Interest::ERROR, bits.contains(Readiness::ERROR));
    interest
}

/// What the kernel's report means to a guest: an error or a full hang-up makes every operation
/// return at once, a half-closed peer makes reads return and says nothing about writes.
fn bits_of(reported: Reported) -> Readiness {
    let both = Readiness::READABLE | Readiness::WRITABLE;
    let mut bits = Readiness::NONE;
    for (report, meaning) in [
        (Reported::READ, Readiness::READABLE),
        (Reported::WRITE, Readiness::WRITABLE),
        (Reported::READ_CLOSED, Readiness::READABLE | Readiness::HANGUP),
        (Reported::HANGUP, both | Readiness::HANGUP),
        (Reported::ERROR, both | Readiness::ERROR),
    ] {
        if reported.contains(report) {
            bits |= meaning;
        }
    }
    bits
}

impl Registration {
    pub(crate) fn new(reactor: &Handle, signal: &Rc<Signal>) -> Registration {
        Registration {
            reactor: reactor.clone(),
            signal: signal.clone(),
            watcher: Cell::new(None),
            armed: Rc::new(Cell::new(Interest::empty())),
            edge: reactor.backend() == Backend::Epoll,
        }
    }

    /// Makes sure that the kernel will report `wanted` of `source`, including what holds already.
    pub(crate) fn arm(&self, source: &impl AsFd, wanted: Readiness) -> Result<(), ErrorCode> {
        let wanted = self.missing(wanted) | self.armed.get();
        if wanted == self.armed.get() {
            return Ok(());
        }
        let changed = match self.watcher.get() {
            Some(watcher) => self.reactor.modify(watcher, wanted),
            None => self.start(source, wanted).map(|watcher| self.watcher.set(Some(watcher))),
        };
        changed.map_err(|_| ErrorCode::Io)?;
        self.armed.set(wanted);
        Ok(())
    }

    /// What to ask the kernel for: with edges everything, with levels only what is not known yet.
    fn missing(&self, wanted: Readiness) -> Interest {
        if self.edge {
            interest_for(wanted)
        } else {
            interest_for(wanted.difference(self.signal.readiness()))
        }
    }

    fn start(&self, source: &impl AsFd, interest: Interest) -> mainspring_reactor::Result<Watcher> {
        let (signal, armed, edge) = (self.signal.clone(), self.armed.clone(), self.edge);
        let mode = if edge { Mode::Edge } else { Mode::Level };
        let fd = source.as_fd().as_raw_fd();
        self.reactor.watch_raw(fd, ()).mode(mode).start_with(interest, move |(), event| {
            let bits = bits_of(event.readiness());
            signal.raise(bits);
            // Nobody watches any more, or levels would be reported again: be quiet until asked.
            let unwatched = signal.interest().is_empty();
            let mut keep = armed.get();
            if unwatched {
                keep = Interest::empty();
            } else if !edge && event.readiness().intersects(Reported::HANGUP | Reported::ERROR) {
                // Reported whatever is asked for, and for good.
                keep = Interest::empty();
            } else if !edge {
                keep.remove(interest_for(bits));
                // A full hang-up is reported to whoever is there at all.
                keep.set(
                    Interest::ERROR,
                    signal.interest().contains(Readiness::HANGUP) || keep.contains(Interest::ERROR),
                );
            }
            if keep != armed.get() && event.reactor().modify(event.watcher(), keep).is_ok() {
                armed.set(keep);
            }
        })
    }

    /// An operation would have had to wait: forget the bits, and have them reported when they come
    /// back.
    pub(crate) fn would_block(&self, source: &impl AsFd, bits: Readiness) {
        self.signal.lower(bits);
        if !self.edge && !self.signal.interest().is_empty() {
            // Refused only if the reactor is gone, and then nobody waits.
            let _ = self.arm(source, self.signal.interest());
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher.get() {
            self.reactor.unwatch(watcher);
        }
    }
}
