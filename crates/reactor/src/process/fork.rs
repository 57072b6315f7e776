//! Notices that the process has been forked.
//!
//! A forked child shares the parent's epoll set, timerfd and eventfds: whatever it changed there,
//! it would change for the parent. So the first thing the loop does in a child is to make all of
//! them anew (`core/forking.rs`), and until it has, it touches none of them. The C library's fork
//! tells us; a child made by a bare `clone` system call must not use its parent's loop.
//!
//! Around the fork, every signal is blocked in the thread that forks: a handler of ours that ran in
//! the child before the child knew what it is would wake the parent.

use crate::sys::signal_mask::{self, SavedMask};
use crate::sys::{fork_mutex, signal_intake};
use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);
/// The process that this memory belongs to.
static PROCESS: AtomicI32 = AtomicI32::new(0);

thread_local! {
    /// What the thread that forks had blocked before.
    static MASK: Cell<Option<SavedMask>> = const { Cell::new(None) };
}

/// How many forks lie between the first process and this one.
#[inline]
pub(crate) fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Whether this code runs in the process that its memory belongs to. A child of `vfork` runs in its
/// parent's memory until it starts another program. Async-signal-safe.
pub(crate) fn is_own_process() -> bool {
    PROCESS.load(Ordering::Relaxed) == current_process()
}

fn current_process() -> i32 {
    // SAFETY: no precondition, and no failure.
    unsafe { libc::getpid() }
}

/// Starts counting; needed once per process.
pub(crate) fn watch() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        PROCESS.store(current_process(), Ordering::Relaxed);
        // SAFETY: in the parent the hooks may do anything. In the child the last one works on
        // atomics, on locks that this thread has held since before the fork, and makes
        // async-signal-safe calls.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
}

extern "C" fn before() {
    fork_mutex::hold_all();
    MASK.set(Some(signal_mask::block_all()));
}

extern "C" fn in_parent() {
    after();
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    PROCESS.store(current_process(), Ordering::Relaxed);
    signal_intake::in_child();
    after();
}

fn after() {
    fork_mutex::release_all();
    if let Some(mask) = MASK.take() {
        signal_mask::restore(&mask);
    }
}
