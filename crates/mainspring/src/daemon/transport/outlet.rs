//! Writing to a descriptor that somebody else gave us, without ever blocking on it.
//!
//! Standard output and standard error may be shared with other programs, so their flags are not
//! ours to change: O_NONBLOCK would appear in the shell as well. Pipes and terminals are opened
//! anew instead, sockets are written with a flag of their own, and regular files never block for
//! long.

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Most bytes written at a time to something that may block: with room for one byte, a pipe has
/// room for a page.
const PIECE_BYTES: usize = 4096;

/// Whether some of the report of the boot is yet to be written to standard output.
pub(in crate::daemon) static REPORT_WAITS: AtomicBool = AtomicBool::new(false);

/// A place to write to that never blocks the daemon.
#[derive(Debug)]
pub(crate) enum Outlet {
    Socket(OwnedFd),
    /// Opened anew without blocking, or a regular file.
    Free(OwnedFd),
    /// Might block: asked before each piece.
    Asked(OwnedFd),
    /// Full until the report of the boot is written: what is for standard output stays in order.
    BehindReport(Box<Outlet>),
}

impl Outlet {
    /// An outlet to the same place as `fd`.
    pub(crate) fn to(fd: BorrowedFd<'_>) -> Result<Outlet, Errno> {
        let own = rustix::io::fcntl_dupfd_cloexec(fd, 3)?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&own)?.st_mode);
        Ok(match kind {
            FileType::Socket => Outlet::Socket(own),
            FileType::RegularFile => Outlet::Free(own),
            _ => match open_anew(&own) {
                Ok(anew) => Outlet::Free(anew),
                Err(_) => Outlet::Asked(own),
            },
        })
    }

    /// The same, behind the report of the boot.
    pub(crate) fn behind_report(self) -> Outlet {
        Outlet::BehindReport(Box::new(self))
    }

    /// Waits until there is room; false when none comes in time.
    pub(crate) fn wait_for_room(&self, deadline: Instant) -> bool {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = rustix::event::Timespec::try_from(left).ok();
            let mut room = [rustix::event::PollFd::new(self, rustix::event::PollFlags::OUT)];
            match rustix::event::poll(&mut room, timeout.as_ref()) {
                Err(Errno::INTR) if !left.is_zero() => {}
                Ok(1..) => return !left.is_zero(),
                _ => return false,
            }
        }
    }

    /// Writes what can be written now.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Outlet::Socket(fd) => rustix::net::send(fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT),
            Outlet::Free(fd) => rustix::io::write(fd, bytes),
            Outlet::BehindReport(_) if REPORT_WAITS.load(Ordering::Relaxed) => Err(Errno::AGAIN),
            Outlet::BehindReport(outlet) => outlet.write(bytes),
            Outlet::Asked(fd) => {
                let mut ask = [rustix::event::PollFd::new(fd, rustix::event::PollFlags::OUT)];
                match rustix::event::poll(&mut ask, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))?
                {
                    0 => Err(Errno::AGAIN),
                    _ => rustix::io::write(fd, &bytes[..bytes.len().min(PIECE_BYTES)]),
                }
            }
        }
    }
}

impl AsFd for Outlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Outlet::Socket(fd) | Outlet::Free(fd) | Outlet::Asked(fd) => fd.as_fd(),
            Outlet::BehindReport(outlet) => outlet.as_fd(),
        }
    }
}

/// The same pipe or terminal, with flags of our own.
fn open_anew(fd: &OwnedFd) -> Result<OwnedFd, Errno> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::open(path, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{fcntl_getfl, fcntl_setfl};

    #[test]
    fn a_full_pipe_does_not_block_and_its_flags_stay_as_they_were() {
        let (_reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let outlet = Outlet::to(writer.as_fd()).expect("an outlet");
        let piece = [b'x'; PIECE_BYTES];
        let mut written = 0;
        let error = loop {
            match outlet.write(&piece) {
                Ok(bytes) => written += bytes,
                Err(error) => break error,
            }
        };
        assert_eq!(error, Errno::AGAIN);
        assert!(written >= PIECE_BYTES);
        assert!(!fcntl_getfl(&writer).expect("flags").contains(OFlags::NONBLOCK));
        // What the shell may have set is not touched either.
        fcntl_setfl(&writer, OFlags::NONBLOCK).expect("flags");
        assert!(fcntl_getfl(&writer).expect("flags").contains(OFlags::NONBLOCK));
    }

    #[test]
    fn what_may_block_is_asked_first() {
        let (_reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let outlet = Outlet::Asked(writer);
        let piece = [b'x'; 2 * PIECE_BYTES];
        while let Ok(bytes) = outlet.write(&piece) {
            assert_eq!(bytes, PIECE_BYTES);
        }
        assert_eq!(outlet.write(&piece), Err(Errno::AGAIN));
    }
}
