//! What a handle is known to be ready for, and who wants to know.
//!
//! Readiness is remembered: a bit that was raised stays until an operation on the handle says that it would have to wait. So
//! the host needs one edge-triggered registration per handle, a guest sees levels, and a guest that does not poll causes no work.

use crate::capabilities::sys_loop::Loop;
use mainspring_zcl::sys_loop::Readiness;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::Waker;

/// The bits that a bandwidth limit holds back. Bad news always passes.
const HELD_BITS: Readiness = Readiness::READABLE.union(Readiness::WRITABLE);

/// The remembered readiness of one handle.
#[derive(Default)]
pub struct Signal {
    ready: Cell<Readiness>,
    held: Cell<bool>,
    /// The union of what all watches ask for.
    interest: Cell<Readiness>,
    watches: RefCell<Vec<Subscription>>,
    /// Futures that wait for whatever comes next, each until it has been woken once.
    waiting: RefCell<Vec<Waker>>,
}

struct Subscription {
    target: Weak<Loop>,
    key: usize,
    events: Readiness,
}

impl Signal {
    /// A signal that is ready for nothing.
    pub fn new() -> Rc<Signal> {
        Rc::default()
    }

    /// A signal that is ready for `bits` from the start.
    pub fn raised(bits: Readiness) -> Rc<Signal> {
        let signal = Signal::new();
        signal.ready.set(bits);
        signal
    }

    /// What the handle is ready for.
    pub fn readiness(&self) -> Readiness {
        let ready = self.ready.get();
        if self.held.get() { ready.difference(HELD_BITS) } else { ready }
    }

    /// What all watches of the handle ask for, together.
    pub fn interest(&self) -> Readiness {
        self.interest.get()
    }

    /// The handle became ready for `bits`. Whoever waits for one of them is woken.
    pub fn raise(&self, bits: Readiness) {
        let fresh = bits.difference(self.ready.get());
        if fresh.is_empty() {
            return;
        }
        self.ready.set(self.ready.get().union(fresh));
        if !self.held.get() || !fresh.difference(HELD_BITS).is_empty() {
            self.mark(fresh);
        }
    }

    /// An operation found that the handle is not ready for `bits` any more.
    pub fn lower(&self, bits: Readiness) {
        self.ready.set(self.ready.get().difference(bits));
    }

    /// Holds readable and writable back, or lets them through again.
    pub(crate) fn hold(&self, held: bool) {
        if self.held.replace(held) && !held {
            self.mark(self.ready.get());
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.get()
    }

    /// Wakes `waker` when the handle becomes ready for anything more, or is closed.
    pub fn wait(&self, waker: &Waker) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    fn wake_waiting(&self) {
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }

    fn mark(&self, bits: Readiness) {
        self.wake_waiting();
        for watch in self.watches.borrow().iter().filter(|watch| watch.events.intersects(bits)) {
            if let Some(target) = watch.target.upgrade() {
                target.mark(watch.key);
            }
        }
    }

    pub(crate) fn subscribe(&self, target: &Rc<Loop>, key: usize, events: Readiness) {
        self.watches.borrow_mut().push(Subscription { target: Rc::downgrade(target), key, events });
        self.interest.set(self.interest.get().union(events));
    }

    /// Somebody who is no watch wants to hear of `bits`, for as long as the handle is open.
    #[cfg(feature = "wasi")]
    pub(crate) fn demand(&self, bits: Readiness) {
        self.interest.set(self.interest.get().union(bits));
    }

    pub(crate) fn unsubscribe(&self, target: &Loop, key: usize) {
        let mut watches = self.watches.borrow_mut();
        if let Some(index) =
            watches.iter().position(|watch| watch.key == key && std::ptr::eq(watch.target.as_ptr(), target))
        {
            watches.swap_remove(index);
        }
        let interest = watches.iter().fold(Readiness::NONE, |union, watch| union.union(watch.events));
        self.interest.set(interest);
    }

    /// The handle was closed: its watches end. Says how many there were.
    pub(crate) fn close(&self) -> usize {
        let watches = std::mem::take(&mut *self.watches.borrow_mut());
        self.interest.set(Readiness::NONE);
        for watch in &watches {
            if let Some(target) = watch.target.upgrade() {
                target.end_watch(watch.key);
            }
        }
        watches.len()
    }
}
