//! The runtime that wasmtime-wasi cannot do without, kept away from everyone else.
//!
//! wasmtime-wasi is built on tokio: its clocks, its files and its sockets look for a runtime
//! whenever they are polled. A guest that imports WASI is therefore polled with that runtime in
//! scope. It has threads of its own, started by the first such guest, which wake the guest's task
//! as any other thread would. Guests without WASI never touch it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use wasmtime_wasi::runtime::with_ambient_tokio_runtime;

/// Polls a future with tokio's runtime in scope.
pub(crate) struct WithTokio<F>(Pin<Box<F>>);

impl<F: Future> WithTokio<F> {
    pub(crate) fn new(future: F) -> WithTokio<F> {
        WithTokio(Box::pin(future))
    }
}

impl<F: Future> Future for WithTokio<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        with_ambient_tokio_runtime(|| self.0.as_mut().poll(context))
    }
}
