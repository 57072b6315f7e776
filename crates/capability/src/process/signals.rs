//! SIGTERM ends a capability like the end of its input; SIGINT is the daemon's business: a terminal
//! sends it to everybody.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// A descriptor that becomes readable when one of the two signals comes.
pub(crate) struct Signals(OwnedFd);

impl Signals {
    /// Takes the signals for the whole process: threads that are made later inherit the mask, and
    /// programs that the standard library starts do not.
    pub(crate) fn take() -> io::Result<Signals> {
        // SAFETY: the set is initialised by `sigemptyset` before anything reads it, and lives as
        // long as the calls that get it; `signalfd` returns a descriptor that is nobody else's.
        unsafe {
            let mut set = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::sigaddset(&raw mut set, libc::SIGINT);
            let failed = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            if failed != 0 {
                return Err(io::Error::from_raw_os_error(failed));
            }
            let descriptor = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals(OwnedFd::from_raw_fd(descriptor)))
        }
    }

    /// Whether SIGTERM has come.
    pub(crate) fn is_over(&self) -> bool {
        let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
        let mut is_over = false;
        while let Ok(count) = rustix::io::read(&self.0, &mut info) {
            if count < info.len() {
                break;
            }
            // The number of the signal is the first member.
            let number = u32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
            is_over |= number == libc::SIGTERM.cast_unsigned();
        }
        is_over
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
