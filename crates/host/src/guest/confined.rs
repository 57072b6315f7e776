//! The one place where single-threaded values cross bounds that ask for `Send`.
//!
//! wasmtime wants `Send` of a store's data and of every host future, because some embedders move
//! stores between threads. We never do: a guest runs and ends on its reactor's thread. Rather than
//! make the reactor pay for locks, its values are wrapped here; the wrapper checks the thread on
//! every access and panics on any other, so a mistake cannot become a data race.
//!
//! The crate `send_wrapper` does the same, but asks the standard library for the current thread
//! each time, which showed up in profiles: a guest's request passes a dozen of these checks.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::ThreadId;

thread_local!(static THIS_THREAD: ThreadId = std::thread::current().id());

/// The current thread's name. Names are never used again, not even after a thread has ended.
fn this_thread() -> ThreadId {
    THIS_THREAD.with(|id| *id)
}

/// A value that stays on the thread that made it. Using or dropping it on any other panics; it is
/// then leaked.
pub(crate) struct Confined<T> {
    owner: ThreadId,
    value: ManuallyDrop<T>,
}

// SAFETY: the wrapper itself may go anywhere. Its value is reached only through `deref`,
// `deref_mut` and `drop`, each of which first checks that it runs on the owner's thread.
unsafe impl<T> Send for Confined<T> {}
// SAFETY: as above: on any other thread a shared reference gives access to nothing but the owner's
// name.
unsafe impl<T> Sync for Confined<T> {}

impl<T> Confined<T> {
    pub(crate) fn new(value: T) -> Confined<T> {
        Confined { owner: this_thread(), value: ManuallyDrop::new(value) }
    }

    /// The value, on the owner's thread only.
    pub(crate) fn here(&self) -> Option<&T> {
        (self.owner == this_thread()).then(|| &**self)
    }

    #[inline]
    fn check(&self) {
        assert!(self.owner == this_thread(), "a guest was touched outside of its thread");
    }
}

impl<T> Deref for Confined<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.check();
        &self.value
    }
}

impl<T> DerefMut for Confined<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.check();
        &mut self.value
    }
}

impl<T> Drop for Confined<T> {
    fn drop(&mut self) {
        if self.owner == this_thread() {
            // SAFETY: this is the owner's thread, and nothing uses the value after its drop.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        } else if !std::thread::panicking() {
            self.check();
        }
    }
}

impl<F: Future> Future for Confined<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the wrapper owns the future in place and never moves it out, so pinning the
        // wrapper pins the future.
        unsafe { self.map_unchecked_mut(|confined| &mut **confined) }.poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn a_confined_value_is_used_and_dropped_on_its_own_thread() {
        let value = Rc::new(Cell::new(1));
        let mut confined = Confined::new(value.clone());
        confined.set(2);
        *confined = value.clone();
        assert_eq!((value.get(), Rc::strong_count(&value)), (2, 2));
        drop(confined);
        assert_eq!(Rc::strong_count(&value), 1);
    }

    #[test]
    fn another_thread_can_neither_use_nor_drop_it() {
        let value = Rc::new(Cell::new(1));
        let confined = Confined::new(value.clone());
        let used = std::thread::scope(|scope| scope.spawn(|| confined.get()).join());
        assert!(used.is_err());
        let dropped = std::thread::spawn(move || drop(confined)).join();
        assert!(dropped.is_err());
        assert_eq!(Rc::strong_count(&value), 2, "it was leaked rather than touched");
    }
}
