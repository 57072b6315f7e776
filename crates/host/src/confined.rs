//! The one place where single-threaded values cross bounds that ask for `Send`.
//!
//! wasmtime wants `Send` of a store's data and of every host future, because some embedders move stores between threads. We never
//! do: a guest lives and dies on its loop's thread. Rather than make the loop pay for locks, its values are wrapped here; the
//! wrapper checks the thread on every access and panics on any other, so a mistake cannot become a data race.

use send_wrapper::SendWrapper;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A value that stays on the thread that made it.
pub(crate) struct Confined<T>(SendWrapper<T>);

impl<T> Confined<T> {
    pub(crate) fn new(value: T) -> Confined<T> {
        Confined(SendWrapper::new(value))
    }
}

impl<T> Deref for Confined<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Confined<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<F: Future> Future for Confined<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the wrapper owns the future in place and never moves it out, so pinning the wrapper pins the future.
        unsafe { self.map_unchecked_mut(|confined| &mut *confined.0) }.poll(context)
    }
}
