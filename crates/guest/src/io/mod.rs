//! Streams: a handle whose operations can be awaited, and on it TCP, the standard streams, lines,
//! and the traits of tokio and futures-io. It waits through the driver of `runtime`.

#[cfg(any(feature = "tokio", feature = "futures-io"))]
mod async_traits;
pub(crate) mod handle;
pub(crate) mod net;
pub(crate) mod stdio;
