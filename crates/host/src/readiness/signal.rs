//! What a handle is known to be ready for, and who wants to know.
//!
//! Readiness is remembered: a bit that was raised stays until an operation on the handle says that
//! it would have to wait. So the host needs one edge-triggered registration per handle, a guest
//! sees levels, and a guest that does not poll causes no work.

use crate::capabilities::sys_loop::Loop;
use mainspring_zcl::sys_loop::Readiness;
use slab::Slab;
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
    /// The union of what all watches ask for, and of what is demanded.
    interest: Cell<Readiness>,
    /// What somebody who is no watch asks for.
    demanded: Cell<Readiness>,
    /// How many watches ask for each bit, so that one that ends costs the same however many there
    /// are.
    watchers: Cell<[u32; BITS.len()]>,
    watches: RefCell<Slab<Subscription>>,
    /// Futures that wait for whatever comes next, each until it has been woken once.
    waiting: RefCell<Vec<Waker>>,
}

/// Each bit that can be asked for.
const BITS: [Readiness; 4] = [Readiness::READABLE, Readiness::WRITABLE, Readiness::HANGUP, Readiness::ERROR];

/// How a signal knows one of its watches.
#[derive(Clone, Copy, Default)]
pub(crate) struct SubscriptionKey(usize);

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
        for (_, watch) in self.watches.borrow().iter().filter(|(_, watch)| watch.events.intersects(bits)) {
            if let Some(target) = watch.target.upgrade() {
                target.mark(watch.key);
            }
        }
    }

    pub(crate) fn subscribe(&self, target: &Rc<Loop>, key: usize, events: Readiness) -> SubscriptionKey {
        let subscription = Subscription { target: Rc::downgrade(target), key, events };
        let slot = self.watches.borrow_mut().insert(subscription);
        self.count(events, |count| count + 1);
        SubscriptionKey(slot)
    }

    /// Counts a watch in or out, and brings the interest up to date.
    fn count(&self, events: Readiness, change: impl Fn(u32) -> u32) {
        let mut watchers = self.watchers.get();
        let mut interest = self.demanded.get();
        for (bit, count) in BITS.into_iter().zip(&mut watchers) {
            if events.contains(bit) {
                *count = change(*count);
            }
            if *count > 0 {
                interest |= bit;
            }
        }
        self.watchers.set(watchers);
        self.interest.set(interest);
    }

    /// Somebody who is no watch wants to hear of `bits`, for as long as the handle is open.
    #[cfg(feature = "wasi")]
    pub(crate) fn demand(&self, bits: Readiness) {
        self.demanded.set(self.demanded.get().union(bits));
        self.interest.set(self.interest.get().union(bits));
    }

    /// Ends a watch; one that ended with its handle is gone already.
    pub(crate) fn unsubscribe(&self, key: SubscriptionKey) {
        let ended = self.watches.borrow_mut().try_remove(key.0);
        if let Some(watch) = ended {
            self.count(watch.events, |count| count.saturating_sub(1));
        }
    }

    /// The handle was closed: its watches end. Says how many there were.
    pub(crate) fn close(&self) -> usize {
        let watches = std::mem::take(&mut *self.watches.borrow_mut());
        self.watchers.set([0; BITS.len()]);
        self.demanded.set(Readiness::NONE);
        self.interest.set(Readiness::NONE);
        for (_, watch) in &watches {
            if let Some(target) = watch.target.upgrade() {
                target.end_watch(watch.key);
            }
        }
        watches.len()
    }
}
