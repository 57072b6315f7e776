//! The descriptor by which other threads, and signal handlers, wake a waiting loop.

use crate::{Backend, Error, Result};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

/// An eventfd, or a pipe where there is none.
pub(crate) struct WakeFd {
    read: OwnedFd,
    /// The pipe's other end; an eventfd is its own.
    write: Option<OwnedFd>,
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
        Ok(WakeFd { read, write: None })
    }

    fn pipe() -> Result<WakeFd> {
        let (read, write) = rustix::pipe::pipe().map_err(Error::io("pipe"))?;
        for end in [&read, &write] {
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC).map_err(Error::io("fcntl"))?;
            rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::NONBLOCK).map_err(Error::io("fcntl"))?;
        }
        Ok(WakeFd { read, write: Some(write) })
    }

    /// The end to watch for reading.
    pub(crate) fn raw_fd(&self) -> RawFd {
        self.read.as_raw_fd()
    }

    /// Whether the number is one of these.
    pub(crate) fn owns(&self, fd: RawFd) -> bool {
        self.read.as_raw_fd() == fd || self.write.as_ref().is_some_and(|write| write.as_raw_fd() == fd)
    }

    /// Makes the other end readable. A full pipe is readable already, so a refusal means success.
    pub(crate) fn notify(&self) {
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

    /// Makes it unreadable until the next [`notify`](WakeFd::notify).
    pub(crate) fn drain(&self) {
        let mut buffer = [0u8; 64];
        loop {
            match rustix::io::read(&self.read, &mut buffer) {
                Err(Errno::INTR) => {}
                Ok(count) if count == buffer.len() => {}
                _ => return,
            }
        }
    }

    /// Replaces the descriptors by fresh ones under the same numbers, so that a forked child no longer shares them.
    pub(crate) fn replace(&self, backend: Backend) -> Result<()> {
        let fresh = WakeFd::new(backend)?;
        duplicate_onto(&fresh.read, &self.read)?;
        if let (Some(from), Some(onto)) = (&fresh.write, &self.write) {
            duplicate_onto(from, onto)?;
        }
        Ok(())
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
    // SAFETY: both numbers are open and owned by this process's copy of the loop; the target keeps its owner and is
    // atomically made to refer to the new description.
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
