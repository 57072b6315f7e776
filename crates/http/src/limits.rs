//! Every bound of the server, and what happens at it.

use std::time::Duration;

/// What a client may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's line and headers. Beyond: 431, and the connection is closed.
    pub head_bytes_max: usize,
    /// Headers of a request. Beyond: 431, and the connection is closed.
    pub headers_max: usize,
    /// Bytes of a request's body, and of a line of `/v1/messages`. Beyond: 413.
    pub body_bytes_max: usize,
    /// From the first byte the server waits for to the end of a request's head; for TLS the
    /// handshake counts. An idle connection that was used before has
    /// [`idle_time_max`](Limits::idle_time_max) instead. Beyond: closed.
    pub head_time_max: Duration,
    /// How long a body may take. Beyond: 408, and the connection is closed. The body of
    /// `/v1/messages` may take for ever.
    pub body_time_max: Duration,
    /// How long a connection may be kept without a request. Beyond: closed.
    pub idle_time_max: Duration,
    /// How long a client may take no byte of what is written to it. Beyond: closed.
    pub stall_time_max: Duration,
    /// Connections that have not shown a valid token. Beyond: the oldest of them is closed.
    pub strangers_max: usize,
    /// Open streams of events and messages. Beyond: 503.
    pub streams_max: usize,
    /// Types in `types=` of one stream. Beyond: 400.
    pub stream_types_max: usize,
    /// How long nothing may pass on a stream of server-sent events before a comment is sent, so
    /// that proxies keep it open.
    pub keep_alive: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head_bytes_max: 16 << 10,
            headers_max: 64,
            body_bytes_max: 1 << 20,
            head_time_max: Duration::from_secs(10),
            body_time_max: Duration::from_secs(30),
            idle_time_max: Duration::from_secs(75),
            stall_time_max: Duration::from_secs(30),
            strangers_max: 128,
            streams_max: 1024,
            stream_types_max: 256,
            keep_alive: Duration::from_secs(15),
        }
    }
}
