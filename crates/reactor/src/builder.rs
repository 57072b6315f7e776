//! How a reactor is made.

use crate::core::Core;
use crate::tasks::pool::{BLOCKING_THREADS_DEFAULT, Pool};
use crate::time::clock::{Clock, VirtualClock};
use crate::{Handle, Reactor, Result};
use std::fmt;
use std::rc::Rc;

/// The kernel interface a loop waits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// `epoll(7)`, timerfd and eventfd: Linux only, and the default there.
    Epoll,
    /// `poll(2)`: any Unix. Level and oneshot only.
    Poll,
}

impl Backend {
    /// The best one for this system.
    pub fn best() -> Backend {
        if cfg!(target_os = "linux") { Backend::Epoll } else { Backend::Poll }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Epoll => "epoll",
            Backend::Poll => "poll",
        })
    }
}

/// Settings for a new [`Reactor`].
///
/// # Examples
/// ```
/// use mainspring_reactor::{Backend, Builder};
///
/// let reactor = Builder::new().backend(Backend::Poll).blocking_threads(2).build()?;
/// assert_eq!(reactor.backend(), Backend::Poll);
/// # Ok::<(), mainspring_reactor::Error>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    backend: Backend,
    clock: Option<VirtualClock>,
    blocking_threads: usize,
}

impl Builder {
    /// The defaults: the best backend, the real clock, four threads for blocking calls.
    pub fn new() -> Builder {
        Builder { backend: Backend::best(), clock: None, blocking_threads: BLOCKING_THREADS_DEFAULT }
    }

    /// Chooses the backend.
    pub fn backend(mut self, backend: Backend) -> Builder {
        self.backend = backend;
        self
    }

    /// Runs the loop on a virtual clock.
    pub fn virtual_clock(mut self, clock: &VirtualClock) -> Builder {
        self.clock = Some(clock.clone());
        self
    }

    /// Bounds the threads for [`blocking`](Handle::blocking) calls; at least one. They start when
    /// first needed.
    pub fn blocking_threads(mut self, threads: usize) -> Builder {
        self.blocking_threads = threads.max(1);
        self
    }

    /// Makes the reactor.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if the system lacks the backend;
    /// [`Error::Io`](crate::Error::Io) if the system is out of descriptors or memory.
    pub fn build(self) -> Result<Reactor> {
        let clock = self.clock.map_or(Clock::Monotonic, Clock::Virtual);
        let core = Core::new(self.backend, clock, Pool::new(self.blocking_threads))?;
        Ok(Reactor::from_handle(Handle(Rc::new(core))))
    }
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}
