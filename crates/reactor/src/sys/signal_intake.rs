//! Where signals arrive: a signalfd, or a pipe that a signal handler writes to.

use super::wake_fd::duplicate_onto;
use crate::{Backend, Error, Result, Signal};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

/// Most signals read from the kernel in one go.
const SIGNALS_PER_READ_MAX: usize = 32;

/// How a signal is let go of.
pub(crate) enum Hold {
    /// Unblock it, unless it was blocked before.
    #[cfg(target_os = "linux")]
    Blocked { before: bool },
    /// Remove the action from the signal handler.
    Handled(signal_hook_registry::SigId),
}

/// Where signals arrive.
pub(crate) enum Intake {
    #[cfg(target_os = "linux")]
    SignalFd { fd: Rc<OwnedFd>, mask: libc::sigset_t },
    Pipe {
        read: Rc<OwnedFd>,
        /// Shared with the actions that signal handlers run.
        write: Arc<OwnedFd>,
    },
}

impl Intake {
    pub(crate) fn new(backend: Backend) -> Result<Intake> {
        match backend {
            #[cfg(target_os = "linux")]
            Backend::Epoll => {
                let mask = signal_set(None);
                Ok(Intake::SignalFd { fd: Rc::new(new_signalfd(&mask)?), mask })
            }
            _ => {
                let (read, write) = new_pipe()?;
                Ok(Intake::Pipe { read: Rc::new(read), write: Arc::new(write) })
            }
        }
    }

    /// The descriptor to watch.
    pub(crate) fn source(&self) -> Rc<OwnedFd> {
        match self {
            #[cfg(target_os = "linux")]
            Intake::SignalFd { fd, .. } => fd.clone(),
            Intake::Pipe { read, .. } => read.clone(),
        }
    }

    /// A signalfd reports the signals of whoever reads it; a pipe is shared with the parent process.
    pub(crate) fn after_fork(&self) -> Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Intake::SignalFd { .. } => Ok(()),
            Intake::Pipe { read, write } => {
                let (fresh_read, fresh_write) = new_pipe()?;
                duplicate_onto(&fresh_read, read)?;
                duplicate_onto(&fresh_write, write)
            }
        }
    }

    pub(crate) fn take_in(&mut self, signal: Signal) -> Result<Hold> {
        match self {
            #[cfg(target_os = "linux")]
            Intake::SignalFd { fd, mask } => {
                let before = set_blocked(signal, true)?;
                // SAFETY: the set is initialised and the number has been checked.
                unsafe { libc::sigaddset(mask, signal.as_raw()) };
                set_mask(fd, mask)?;
                Ok(Hold::Blocked { before })
            }
            Intake::Pipe { write, .. } => {
                let write = write.clone();
                let byte = [signal.as_raw() as u8];
                let action = move || {
                    let _ = rustix::io::write(&write, &byte);
                };
                // SAFETY: the action makes one write(2) to a non-blocking pipe, which is async-signal-safe; it neither
                // allocates nor locks nor panics.
                let id = unsafe { signal_hook_registry::register(signal.as_raw(), action) };
                id.map(Hold::Handled).map_err(|source| Error::Io { action: "sigaction", source })
            }
        }
    }

    pub(crate) fn let_go(&mut self, signal: Signal, hold: Hold) {
        match (self, hold) {
            #[cfg(target_os = "linux")]
            (Intake::SignalFd { fd, mask }, Hold::Blocked { before }) => {
                // SAFETY: the set is initialised and the number has been checked.
                unsafe { libc::sigdelset(mask, signal.as_raw()) };
                let _ = set_mask(fd, mask);
                if !before {
                    let _ = set_blocked(signal, false);
                }
            }
            (_, Hold::Handled(id)) => {
                signal_hook_registry::unregister(id);
            }
            #[cfg(target_os = "linux")]
            (Intake::Pipe { .. }, Hold::Blocked { .. }) => {}
        }
    }

    /// What has arrived since the last read, by signal.
    pub(crate) fn read(&mut self) -> BTreeMap<Signal, u32> {
        let mut counts = BTreeMap::new();
        match self {
            #[cfg(target_os = "linux")]
            Intake::SignalFd { fd, .. } => {
                const SIZE: usize = size_of::<libc::signalfd_siginfo>();
                let mut buffer = [0u8; SIZE * SIGNALS_PER_READ_MAX];
                let length = rustix::io::read(&*fd, &mut buffer).unwrap_or(0);
                for info in buffer[..length].chunks_exact(SIZE) {
                    // ssi_signo is the first field.
                    let number = u32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
                    *counts.entry(Signal::from_raw(number as i32)).or_insert(0) += 1;
                }
            }
            Intake::Pipe { read, .. } => {
                let mut buffer = [0u8; SIGNALS_PER_READ_MAX];
                let length = rustix::io::read(&*read, &mut buffer).unwrap_or(0);
                for number in &buffer[..length] {
                    *counts.entry(Signal::from_raw(i32::from(*number))).or_insert(0) += 1;
                }
            }
        }
        counts
    }
}

fn new_pipe() -> Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe().map_err(Error::io("pipe"))?;
    for end in [&read, &write] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC).map_err(Error::io("fcntl"))?;
        rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::NONBLOCK).map_err(Error::io("fcntl"))?;
    }
    Ok((read, write))
}

#[cfg(target_os = "linux")]
fn signal_set(signal: Option<Signal>) -> libc::sigset_t {
    // SAFETY: all zeroes is a valid sigset_t, sigemptyset initialises it, and the number has been checked.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        if let Some(signal) = signal {
            libc::sigaddset(&mut set, signal.as_raw());
        }
        set
    }
}

#[cfg(target_os = "linux")]
fn new_signalfd(mask: &libc::sigset_t) -> Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    let fd = signalfd(-1, mask)?;
    // SAFETY: the call has just made this descriptor, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(target_os = "linux")]
fn set_mask(fd: &OwnedFd, mask: &libc::sigset_t) -> Result<()> {
    use std::os::fd::AsRawFd;
    signalfd(fd.as_raw_fd(), mask).map(drop)
}

#[cfg(target_os = "linux")]
fn signalfd(fd: std::os::fd::RawFd, mask: &libc::sigset_t) -> Result<std::os::fd::RawFd> {
    // SAFETY: the mask is initialised; the number is -1 (make one) or an open signalfd (change its mask).
    let result = unsafe { libc::signalfd(fd, mask, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if result < 0 {
        return Err(Error::Io { action: "signalfd", source: std::io::Error::last_os_error() });
    }
    Ok(result)
}

/// Blocks or unblocks a signal in this thread. Says whether it was blocked before.
#[cfg(target_os = "linux")]
fn set_blocked(signal: Signal, blocked: bool) -> Result<bool> {
    let set = signal_set(Some(signal));
    let mut old = signal_set(None);
    let how = if blocked { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: both sets are initialised and live across the call.
    let result = unsafe { libc::pthread_sigmask(how, &set, &mut old) };
    if result != 0 {
        return Err(Error::Io {
            action: "pthread_sigmask",
            source: std::io::Error::from_raw_os_error(result),
        });
    }
    // SAFETY: the call has filled in the old set.
    Ok(unsafe { libc::sigismember(&old, signal.as_raw()) } == 1)
}
