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

    /// Makes the other end readable. A full pipe is readable already, so a refusal means success.
    pub(crate) fn notify(&self) {
        let target = self.write.as_ref().unwrap_or(&self.read).as_fd();
        while let Err(Errno::INTR) = rustix::io::write(target, &1u64.to_ne_bytes()) {}
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
    // SAFETY: both numbers are open and owned by this process's copy of the loop; the target keeps its owner and is
    // atomically made to refer to the new description.
    let result = unsafe { libc::dup2(from.as_raw_fd(), onto.as_raw_fd()) };
    if result < 0 {
        return Err(Error::Io { action: "dup2", source: std::io::Error::last_os_error() });
    }
    // dup2 clears close-on-exec.
    rustix::io::fcntl_setfd(onto, rustix::io::FdFlags::CLOEXEC).map_err(Error::io("fcntl"))
}
