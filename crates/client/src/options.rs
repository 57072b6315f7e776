//! How a client behaves.

use std::time::Duration;

/// How a client behaves when there is no daemon.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How long the first connection is tried for. Zero: once.
    pub wait: Duration,
    /// How long a lost connection is tried to be made again, while somebody waits. Zero: the client
    /// is closed with its connection.
    pub reconnect: Duration,
}

impl Default for Options {
    /// One attempt at first; 30 seconds to come back.
    fn default() -> Options {
        Options { wait: Duration::ZERO, reconnect: Duration::from_secs(30) }
    }
}

impl Options {
    /// Tries to connect for so long.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Options {
        self.wait = wait;
        self
    }

    /// Tries for so long to connect again.
    #[must_use]
    pub fn reconnect(mut self, reconnect: Duration) -> Options {
        self.reconnect = reconnect;
        self
    }
}
