//! The descriptor by which other threads, and signal handlers, wake a waiting loop.

use crate::process::fork;
use crate::{Backend, Error, Result};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// An eventfd, or a pipe where there is none. It is written to once until the loop has looked, and
/// only by the process that made it.
pub(crate) struct WakeFd {
    read: OwnedFd,
    /// The pipe's other end; an eventfd is its own.
    write: Option<OwnedFd>,
    /// Whether the loop has been told and has not looked since.
    told: AtomicBool,
    /// The fork generation that made the descriptors. Until a child has made its own, they are the
    /// parent's.
    generation: AtomicU32,
}

impl WakeFd {
    pub(crate) fn new(backend: Backend) -> Result<WakeFd> {
        match backend {
            #[cfg(target_os = "linux")]
            Backend::Epoll => WakeFd::eventfd(),
            _ => WakeFd::pipe(),
        }
    }

    #[cfg(target_os = "linux")]
    fn eventfd() -> Result<WakeFd> {
        use rustix::event::EventfdFlags;
        let read = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(Error::io("eventfd"))?;
        Ok(WakeFd::from_ends(read, None))
    }

    fn pipe() -> Result<WakeFd> {
        let (read, write) = rustix::pipe::pipe().map_err(Error::io("pipe"))?;
        for end in [&read, &write] {
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC).map_err(Error::io("fcntl"))?;
            rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::NONBLOCK).map_err(Error::io("fcntl"))?;
        }
        Ok(WakeFd::from_ends(read, Some(write)))
    }

    fn from_ends(read: OwnedFd, write: Option<OwnedFd>) -> WakeFd {
        let generation = AtomicU32::new(fork::generation());
        WakeFd { read, write, told: AtomicBool::new(false), generation }
    }

    /// The end to watch for reading.
    pub(crate) fn raw_fd(&self) -> RawFd {
        self.read.as_raw_fd()
    }

    /// Whether the number is one of these.
    pub(crate) fn owns(&self, fd: RawFd) -> bool {
        self.read.as_raw_fd() == fd || self.write.as_ref().is_some_and(|write| write.as_raw_fd() == fd)
    }

    /// Makes it readable, unless it is since the loop last looked. Async-signal-safe.
    pub(crate) fn notify(&self) {
        // In this order, the other way round than in `adopt`, so that one of the two sees the
        // other.
        if !self.told.swap(true, Ordering::SeqCst) && self.is_own() {
            self.write_once();
        }
    }

    /// To be called when it was readable, ahead of a look at what was left: from here on there may
    /// be more.
    pub(crate) fn acknowledge(&self) {
        if self.is_own() {
            self.drain();
        }
        // A swap, not a store: whoever found the flag set has left something before, which must be
        // seen from here on.
        self.told.swap(false, Ordering::AcqRel);
    }

    /// Takes the descriptors of a fresh one over, under the old numbers, so that a forked child no
    /// longer shares them. What it was told before, it has been told.
    pub(crate) fn adopt(&self, fresh: WakeFd) -> Result<()> {
        duplicate_onto(&fresh.read, &self.read)?;
        if let (Some(from), Some(onto)) = (&fresh.write, &self.write) {
            duplicate_onto(from, onto)?;
        }
        self.generation.store(fork::generation(), Ordering::SeqCst);
        if self.told.load(Ordering::SeqCst) {
            self.write_once();
        }
        Ok(())
    }

    /// Whether the descriptors belong to this process and not to its parent.
    fn is_own(&self) -> bool {
        self.generation.load(Ordering::SeqCst) == fork::generation()
    }

    /// A full pipe is readable already, so a refusal means success.
    fn write_once(&self) {
        let target = self.write.as_ref().unwrap_or(&self.read).as_fd();
        while let Err(Errno::INTR) = rustix::io::write(target, &1u64.to_ne_bytes()) {}
    }

    /// Waits until it is readable, for a while at most.
    pub(crate) fn await_readable(&self, timeout: std::time::Duration) {
        let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).saturating_add(1);
        let mut pollfd = libc::pollfd { fd: self.raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the call is handed one live pollfd.
        let result = unsafe { libc::poll(&mut pollfd, 1, millis) };
        // Where not a single descriptor is allowed, poll refuses to look at one.
        if result < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
            std::thread::sleep(timeout);
        }
    }

    fn drain(&self) {
        let mut buffer = [0u8; 64];
        loop {
            match rustix::io::read(&self.read, &mut buffer) {
                Err(Errno::INTR) => {}
                Ok(count) if count == buffer.len() => {}
                _ => return,
            }
        }
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

/// Makes the number of `onto` refer to what `from` refers to.
pub(crate) fn duplicate_onto(from: &OwnedFd, onto: &OwnedFd) -> Result<()> {
    loop {
        if duplicate(from.as_raw_fd(), onto.as_raw_fd()) >= 0 {
            return Ok(());
        }
        match std::io::Error::last_os_error() {
            // Another thread is just opening something, or a signal handler ran.
            source if matches!(source.raw_os_error(), Some(libc::EBUSY | libc::EINTR)) => {}
            source => return Err(Error::Io { action: "dup3", source }),
        }
    }
}

/// In one step, so that no program that another thread starts meanwhile inherits it.
#[cfg(target_os = "linux")]
fn duplicate(from: RawFd, onto: RawFd) -> libc::c_int {
    // SAFETY: both numbers are open and owned by this process's copy of the loop; the target keeps
    // its owner and is atomically made to refer to the new description.
    unsafe { libc::dup3(from, onto, libc::O_CLOEXEC) }
}

#[cfg(not(target_os = "linux"))]
fn duplicate(from: RawFd, onto: RawFd) -> libc::c_int {
    // SAFETY: as above; the second call sets a flag of a number that is open.
    unsafe {
        let result = libc::dup2(from, onto);
        // dup2 clears close-on-exec.
        if result < 0 { result } else { libc::fcntl(onto, libc::F_SETFD, libc::FD_CLOEXEC) }
    }
}
