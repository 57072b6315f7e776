//! `poll(2)`: the backend for any Unix.
//!
//! Faults of this interface, and what is done about each:
//! - It costs time for every watched descriptor on every wait. Nothing can be done about it; use it
//!   for few descriptors.
//! - It knows levels only. Oneshot is made by hand (the entry is masked once reported); edge is
//!   refused at registration.
//! - A closed number is reported for ever (POLLNVAL). Such an entry is masked and never reported.
//! - A number that was closed and reused is indistinguishable from the old one: only owned and
//!   shared sources are safe from that here (`docs/contracts/reactor.md`, clause R11).
//! - On some systems (macOS) terminals and devices are refused; there they report an error.

use super::event::{Event, event};
use super::{EVENTS_PER_TURN_MAX, Registration, Tokens, Wait};
use crate::time::clock::monotonic_now;
use crate::watch::fds::Wanted;
use crate::{Backend, Error, Instant, Interest, Mode, Readiness, Result};
use std::io;
use std::os::fd::RawFd;

/// Numbers below zero are skipped by the kernel.
const MASKED: RawFd = -1;
const NANOS_PER_MILLI: i64 = 1_000_000;

#[derive(Default)]
pub(crate) struct PollSet {
    /// What the kernel sees.
    fds: Vec<libc::pollfd>,
    /// What we know about the entry of the same index.
    entries: Vec<PollEntry>,
    /// Index into both, by descriptor number.
    index_of: Vec<Option<u32>>,
    /// Where the next round starts, so that a full batch starves none of them.
    next: usize,
}

struct PollEntry {
    fd: RawFd,
    token: u64,
    mode: Mode,
}

impl PollSet {
    pub(crate) fn new() -> PollSet {
        PollSet::default()
    }

    pub(crate) fn add(
        &mut self,
        fd: RawFd,
        token: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<Registration> {
        check_mode(mode)?;
        check_open(fd)?;
        let pollfd = libc::pollfd { fd, events: poll_flags(interest), revents: 0 };
        let entry = PollEntry { fd, token, mode };
        match self.find(fd) {
            Some(index) => {
                self.fds[index] = pollfd;
                self.entries[index] = entry;
            }
            None => {
                let slot = fd as usize;
                if slot >= self.index_of.len() {
                    self.index_of.resize(slot + 1, None);
                }
                self.index_of[slot] = Some(self.fds.len() as u32);
                self.fds.push(pollfd);
                self.entries.push(entry);
            }
        }
        Ok(Registration::Kernel)
    }

    pub(crate) fn modify(
        &mut self,
        fd: RawFd,
        tokens: Tokens,
        interest: Interest,
        mode: Mode,
    ) -> Result<(Registration, u64)> {
        Ok((self.add(fd, tokens.same, interest, mode)?, tokens.same))
    }

    pub(crate) fn remove(&mut self, fd: RawFd) {
        let Some(index) = self.find(fd) else { return };
        self.fds.swap_remove(index);
        self.entries.swap_remove(index);
        self.index_of[fd as usize] = None;
        if let Some(moved) = self.entries.get(index) {
            self.index_of[moved.fd as usize] = Some(index as u32);
        }
    }

    pub(crate) fn wait(
        &mut self,
        events: &mut Vec<Event>,
        wait: Wait,
        deadline: Option<Instant>,
    ) -> Result<()> {
        events.clear();
        let ready = match poll(&mut self.fds, wait, deadline) {
            Ok(ready) => ready,
            // A signal handler ran. The deadline is absolute, so whoever waits again waits for no
            // longer.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(source) => return Err(Error::Io { action: "poll", source }),
        };
        self.collect(events, ready);
        Ok(())
    }

    fn collect(&mut self, events: &mut Vec<Event>, mut ready: usize) {
        let count = self.fds.len();
        let mut index = self.next;
        for _ in 0..count {
            if ready == 0 || events.len() == EVENTS_PER_TURN_MAX {
                break;
            }
            index = if index + 1 < count { index + 1 } else { 0 };
            let pollfd = &mut self.fds[index];
            let flags = std::mem::replace(&mut pollfd.revents, 0);
            if flags == 0 {
                continue;
            }
            ready -= 1;
            if flags & libc::POLLNVAL != 0 {
                pollfd.fd = MASKED;
                continue;
            }
            let entry = &self.entries[index];
            if entry.mode.is_oneshot() {
                pollfd.fd = MASKED;
            }
            events.push(event(entry.token, readiness(flags)));
        }
        self.next = index;
    }

    /// Starts anew with what is wanted. Returns the numbers that are not open any more.
    pub(crate) fn rebuild(&mut self, wanted: &[Wanted]) -> Result<Vec<RawFd>> {
        *self = PollSet::default();
        let mut gone = Vec::new();
        for entry in wanted {
            if self.add(entry.fd, entry.token, entry.interest, entry.mode).is_err() {
                gone.push(entry.fd);
            }
        }
        Ok(gone)
    }

    /// A number is all this knows.
    pub(crate) fn has(&self, _: RawFd) -> bool {
        true
    }

    pub(crate) fn owns(&self, _: RawFd) -> bool {
        false
    }

    /// There is no alarm: the wait itself ends at its deadline.
    pub(crate) fn arm(&mut self, _: Instant) -> Result<()> {
        Ok(())
    }

    fn find(&self, fd: RawFd) -> Option<usize> {
        let index = *self.index_of.get(usize::try_from(fd).ok()?)?;
        index.map(|index| index as usize)
    }
}

pub(crate) fn check_mode(mode: Mode) -> Result<()> {
    if mode.is_edge() {
        return Err(Error::Unsupported { what: "in edge mode", backend: Backend::Poll });
    }
    Ok(())
}

fn check_open(fd: RawFd) -> Result<()> {
    rustix::io::fcntl_getfd(super::borrow(fd)).map(drop).map_err(|_| Error::BadFd { fd })
}

fn poll_flags(interest: Interest) -> i16 {
    let mut flags = 0;
    if interest.contains(Interest::READ) {
        flags |= libc::POLLIN;
        #[cfg(target_os = "linux")]
        {
            flags |= libc::POLLRDHUP;
        }
    }
    if interest.contains(Interest::WRITE) {
        flags |= libc::POLLOUT;
    }
    if interest.contains(Interest::PRIORITY) {
        flags |= libc::POLLPRI;
    }
    flags
}

#[cfg(target_os = "linux")]
fn readiness(flags: i16) -> Readiness {
    Readiness::from_bits_truncate(flags as u16)
}

#[cfg(not(target_os = "linux"))]
fn readiness(flags: i16) -> Readiness {
    let mut ready = Readiness::empty();
    ready.set(Readiness::READ, flags & libc::POLLIN != 0);
    ready.set(Readiness::WRITE, flags & libc::POLLOUT != 0);
    ready.set(Readiness::PRIORITY, flags & libc::POLLPRI != 0);
    ready.set(Readiness::ERROR, flags & libc::POLLERR != 0);
    ready.set(Readiness::HANGUP, flags & libc::POLLHUP != 0);
    ready
}

/// The time left, or `None` for ever.
fn remaining(wait: Wait, deadline: Option<Instant>) -> Option<i64> {
    match (wait, deadline) {
        (Wait::Now, _) => Some(0),
        (Wait::Block, None) => None,
        (Wait::Block, Some(deadline)) => {
            Some(deadline.as_nanos().saturating_sub(monotonic_now().as_nanos()).max(0))
        }
    }
}

/// `ppoll` takes nanoseconds.
#[cfg(target_os = "linux")]
fn poll(fds: &mut [libc::pollfd], wait: Wait, deadline: Option<Instant>) -> io::Result<usize> {
    const NANOS_PER_SECOND: i64 = 1000 * NANOS_PER_MILLI;
    // Both are narrower on 32-bit systems. Whoever waits for more than 68 years waits again then.
    let timeout = remaining(wait, deadline).map(|nanos| libc::timespec {
        tv_sec: (nanos / NANOS_PER_SECOND).min(i64::from(i32::MAX)) as _,
        tv_nsec: (nanos % NANOS_PER_SECOND) as _,
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let count = fds.len() as libc::nfds_t;
    // SAFETY: the slice is valid for its length during the call, and the timeout is null or points
    // to a live timespec.
    let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), count, timeout, std::ptr::null()) };
    usize::try_from(ready).map_err(|_| io::Error::last_os_error())
}

/// Plain `poll` takes milliseconds, rounded up so that no deadline is met early.
#[cfg(not(target_os = "linux"))]
fn poll(fds: &mut [libc::pollfd], wait: Wait, deadline: Option<Instant>) -> io::Result<usize> {
    let timeout = match remaining(wait, deadline) {
        None => -1,
        Some(nanos) => {
            let millis = nanos / NANOS_PER_MILLI + i64::from(nanos % NANOS_PER_MILLI != 0);
            i32::try_from(millis).unwrap_or(i32::MAX)
        }
    };
    // SAFETY: the slice is valid for its length during the call.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout) };
    usize::try_from(ready).map_err(|_| io::Error::last_os_error())
}
