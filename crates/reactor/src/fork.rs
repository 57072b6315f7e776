//! Notices that the process has been forked.
//!
//! A forked child shares the parent's epoll set, timerfd and eventfd: whatever it changed there, it would change for the
//! parent. So the first thing the loop does in a child is to make all of them anew. The C library's fork tells us; a
//! child made by a bare `clone` system call must not use its parent's loop.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between the first process and this one.
#[inline]
pub(crate) fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Starts counting; needed once per process.
pub(crate) fn watch() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the hook only adds to an atomic, which is allowed between fork and whatever the child does next.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
