//! The one error type of the crate.

use crate::Backend;
use std::io;
use std::os::fd::RawFd;

/// What went wrong, with what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The number is negative or no open descriptor has it.
    #[error("descriptor {fd} is not open: watch it before it is closed")]
    BadFd {
        /// The number that was given.
        fd: RawFd,
    },
    /// The descriptor is one of those by which the loop itself works: its alarm, say, or what wakes
    /// it.
    #[error("descriptor {fd} is the loop's own and cannot be watched: use timers, wakeups and on_child_exit")]
    OwnFd {
        /// The number that was given.
        fd: RawFd,
    },
    /// The backend in use cannot do what was asked.
    #[error("the {backend} backend cannot watch {what}: choose another mode or another backend")]
    Unsupported {
        /// What was asked.
        what: &'static str,
        /// The backend that was asked.
        backend: Backend,
    },
    /// A watch was started without any callback, so nothing could ever come of it.
    #[error("a watch needs at least one callback: add on_read, on_write or on_error before start")]
    NoCallback,
    /// The deadline lies beyond what signed 64-bit nanoseconds can express (about 292 years).
    #[error("the deadline is out of range: it must lie within 292 years of the clock's origin")]
    DeadlineOutOfRange,
    /// A repeating timer with an interval of zero would never let the loop rest.
    #[error("a repeating timer needs an interval of at least one nanosecond")]
    ZeroInterval,
    /// The watcher or timer is no longer there.
    #[error("the watcher or timer no longer exists")]
    Gone,
    /// The signal cannot be caught, or its number is not a signal.
    #[error("signal {signal} cannot be watched")]
    BadSignal {
        /// The number that was given.
        signal: i32,
    },
    /// Another loop in this process already watches the signal.
    #[error("signal {signal} is already watched by another loop of this process")]
    SignalTaken {
        /// The number that was given.
        signal: i32,
    },
    /// The queue of calls from other threads is at its bound.
    #[error("the loop's inbox is full ({limit} calls waiting): let the loop catch up and try again")]
    InboxFull {
        /// The bound that was reached.
        limit: usize,
    },
    /// The loop behind this handle has been closed or dropped.
    #[error("the reactor has been closed or dropped")]
    Closed,
    /// The operating system refused.
    #[error("{action} failed: {source}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// What the system answered.
        source: io::Error,
    },
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Wraps a system error, saying what was being done.
    pub(crate) fn io(action: &'static str) -> impl FnOnce(rustix::io::Errno) -> Error {
        move |errno| Error::Io { action, source: errno.into() }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error {
            Error::Io { source, .. } => source,
            Error::BadFd { .. } => io::Error::from_raw_os_error(libc::EBADF),
            Error::Unsupported { .. } => io::Error::new(io::ErrorKind::Unsupported, error),
            other => io::Error::new(io::ErrorKind::InvalidInput, other),
        }
    }
}
