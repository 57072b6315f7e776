//! Threads of the library's own.
//!
//! A signal that is sent to the process goes to any thread that does not block it. The program did
//! not ask for these threads, so they must not take part: they block every signal from their first
//! instruction to their last.

use super::signal_mask::BlockedSignals;
use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread in which every signal is blocked, except those that a fault of the thread itself
/// raises: for threads of libraries, of which the program that receives signals knows nothing.
///
/// A program that `work` starts inherits that mask, as programs do.
///
/// # Errors
/// The system has no room for another thread.
///
/// # Examples
/// ```
/// let builder = std::thread::Builder::new().name("helper".into());
/// let thread = mainspring_reactor::spawn_without_signals(builder, || ())?;
/// thread.join().unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn spawn_without_signals(
    builder: Builder,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    // A thread inherits the mask of the one that starts it. Blocked here, before it exists, no
    // signal finds it unprepared; what arrives in between waits for this thread.
    let _blocked = BlockedSignals::new();
    builder.spawn(work)
}

/// The same, for a thread that needs nothing but a name.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    spawn_without_signals(Builder::new().name(name.to_owned()), work)
}
