//! How a guest is ended or interrupted from outside, from any thread.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// What the guest's task and everyone who may end it share.
#[derive(Default)]
pub(crate) struct Control {
    killed: AtomicBool,
    interrupted: AtomicBool,
    ended: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Control {
    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether a poll is to return early, which this takes back.
    pub(crate) fn take_interrupt(&self) -> bool {
        self.interrupted.load(Ordering::Acquire) && self.interrupted.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// Remembers how to wake the guest's task.
    pub(crate) fn register(&self, waker: &Waker) {
        let mut slot = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !slot.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *slot = Some(waker.clone());
        }
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Ends or interrupts a guest, from any thread.
#[derive(Clone)]
pub struct GuestControl(pub(crate) Arc<Control>);

impl GuestControl {
    /// Ends the guest, whatever it is doing: if it waits, at once; if it runs, within its slice.
    /// Everything it has is freed. Killing a guest that has ended does nothing.
    pub fn kill(&self) {
        self.0.killed.store(true, Ordering::Release);
        self.0.wake();
    }

    /// Makes the guest's `POLL`, the one it waits in or else its next one, return at once, with
    /// whatever events there are.
    pub fn interrupt(&self) {
        self.0.interrupted.store(true, Ordering::Release);
        self.0.wake();
    }

    /// Whether the guest has ended.
    pub fn is_ended(&self) -> bool {
        self.0.is_ended()
    }
}

impl fmt::Debug for GuestControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestControl").field("ended", &self.is_ended()).finish_non_exhaustive()
    }
}
