//! What can keep a daemon from running.

/// Why the daemon could not run at all. A boot that failed is no such error: it is told, and ends
/// with exit code 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The loop failed.
    #[error("the event loop failed: {0}")]
    Reactor(#[from] mainspring_reactor::Error),
    /// There is no randomness for the ids of this run.
    #[error("cannot get random numbers from the system: {0}")]
    Random(std::io::Error),
    /// The loop cannot run beside the client of NATS.
    #[error("[uplink]: the event loop cannot run beside NATS: {0}")]
    Uplink(std::io::Error),
    /// The log cannot be set up.
    #[error("cannot set up the log: {0}")]
    Log(String),
}
