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
