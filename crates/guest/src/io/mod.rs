//! Streams: a handle whose operations can be awaited, and on it TCP, the standard streams, lines,
//! and the traits of tokio and futures-io. It waits through the driver of `runtime`.

#[cfg(feature = "futures-io")]
mod futures_io;
pub(crate) mod handle;
pub(crate) mod line_buffer;
pub(crate) mod net;
pub(crate) mod stdio;
#[cfg(feature = "tokio")]
mod tokio_io;
