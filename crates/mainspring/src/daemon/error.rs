//! What can keep a daemon from running.

/// Why the daemon could not run at all. A boot that failed is no such error: it is told, and ends with exit code 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The loop failed.
    #[error("the event loop failed: {0}")]
    Reactor(#[from] mainspring_reactor::Error),
    /// There is no randomness for the ids of this run.
    #[error("the system gives no random numbers: {0}")]
    Random(std::io::Error),
    /// The log cannot be set up.
    #[error("the log cannot be set up: {0}")]
    Log(String),
}
