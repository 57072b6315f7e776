//! What differs between the places where the client runs.

use std::future::Future;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};

/// Where the client runs. Everything happens on one thread, so nothing need be `Send`.
pub trait Platform: Clone + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + 'static;

    /// Connects to a host.
    fn connect(&self, host: &str, port: u16) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Starts a task beside the one that asks.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);

    /// Prints a line, at once.
    fn say(&self, line: &str);
}
