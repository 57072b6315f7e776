//! The signal mask of a thread.

use std::mem::MaybeUninit;

/// Signals that a thread raises by its own fault. Blocked, they would end the process without a
/// word.
const OWN_FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// A signal mask that was replaced, to be put back.
#[derive(Clone, Copy)]
pub(crate) struct SavedMask(libc::sigset_t);

/// Blocks every signal in this thread, except those that its own faults raise. Hands back what was
/// blocked before.
///
/// Async-signal-safe, and allowed between a fork and whatever the child does next.
pub(crate) fn block_all() -> SavedMask {
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let all = every_signal();
    // SAFETY: the first set is initialised and the second is there to be filled in. The call fails
    // only for an unknown "how"; the mask that is then read would be the one that `sigemptyset` has
    // made.
    unsafe {
        libc::sigemptyset(before.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, before.as_mut_ptr());
        SavedMask(before.assume_init())
    }
}

/// Puts a mask back.
pub(crate) fn restore(mask: &SavedMask) {
    // SAFETY: the set is initialised, and nobody asks for the old one.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &mask.0, std::ptr::null_mut()) };
}

fn every_signal() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set, from which valid numbers are then taken.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for number in OWN_FAULTS {
            libc::sigdelset(set.as_mut_ptr(), number);
        }
        set.assume_init()
    }
}

/// Every signal is blocked in this thread for as long as it lives.
pub(crate) struct BlockedSignals(SavedMask);

impl BlockedSignals {
    pub(crate) fn new() -> BlockedSignals {
        BlockedSignals(block_all())
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        restore(&self.0);
    }
}
