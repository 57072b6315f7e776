//! Which signals a process lets through.

use std::io;
use std::mem::MaybeUninit;

/// Lets every signal through in this thread, whatever whoever started it has blocked: a signal that
/// is blocked cannot be watched. Allowed between fork and exec.
pub(crate) fn unblock_all() -> io::Result<()> {
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` makes the set that the next call reads; both are safe between fork and
    // exec.
    let failed = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
}

/// Blocks every signal in this thread: they are for the loop's thread, which watches them. Returns
/// what was blocked before.
pub(crate) fn block_all() -> io::Result<libc::sigset_t> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` makes the set that the next call reads; that one fills `before`, if it
    // succeeds.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) {
            0 => Ok(before.assume_init()),
            failed => Err(io::Error::from_raw_os_error(failed)),
        }
    }
}

/// Starts a thread that no signal interrupts.
pub(crate) fn spawn_without_signals(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    let before = block_all()?;
    // A thread begins with the mask of the one that starts it.
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    // SAFETY: it reads `before`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    thread
}
