//! Threads of the library's own.
//!
//! A signal that is sent to the process goes to any thread that does not block it. The program did not ask for these
//! threads, so they must not take part: they block every signal from their first instruction to their last.

use super::signal_mask::BlockedSignals;
use std::io;
use std::thread::JoinHandle;

/// Starts a thread in which every signal is blocked, except those that a fault of the thread itself raises.
///
/// A program that `work` starts inherits that mask, as programs do.
///
/// # Errors
/// The system has no room for another thread.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    // A thread inherits the mask of the one that starts it. Blocked here, before it exists, no signal finds it unprepared;
    // what arrives in between waits for this thread.
    let _blocked = BlockedSignals::new();
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}
