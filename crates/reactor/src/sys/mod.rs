//! The kernel interfaces under the loop, one per file.
//!
//! A backend is a variant of [`Poller`] and provides:
//! - `add`, `modify`, `remove`: keep a descriptor, a token and an interest in the kernel's set;
//! - `check_mode`: whether a [`Mode`](crate::Mode) can be asked for;
//! - `wait`: block until something is ready or a deadline passes, and list what is ready;
//! - `has_alarm`: whether a deadline shows up as an event ([`ALARM`]) rather than as a wait that
//!   ended; if so, `arm` sets it ahead of a wait that somebody else makes, and `alarm_rang` is
//!   called when it was reported;
//! - `has_always_ready`: whether something is ready that the kernel does not watch, such as a
//!   regular file;
//! - `has`, `owns`: whether the set holds what a number refers to now, and whether a number is one
//!   of the loop's own;
//! - `rebuild`: throw the kernel's set away and start one with what is wanted, under the same
//!   descriptor number; or fail and leave everything as it was;
//! - `prepare_for_child`, `after_fork`: make the kernel objects of a forked child, and put them in
//!   the place of the parent's.
//!
//! Tokens are opaque to a backend, except that it reports its own alarm as [`ALARM`].

#[cfg(target_os = "linux")]
pub(crate) mod epoll;
pub(crate) mod event;
pub(crate) mod fork_mutex;
pub(crate) mod poll;
pub(crate) mod signal_intake;
pub(crate) mod signal_mask;
pub(crate) mod threads;
pub(crate) mod wake_fd;

use crate::watch::fds::Wanted;
use crate::{Backend, Instant, Interest, Mode, Result};
use event::Event;
use std::os::fd::{BorrowedFd, RawFd};

/// Token of the descriptor by which other threads wake the loop.
pub(crate) const WAKE: u64 = u64::MAX;
/// Token of the backend's alarm clock.
pub(crate) const ALARM: u64 = u64::MAX - 1;

/// Token of a registration that is gone at once. No slot has it.
#[cfg(target_os = "linux")]
pub(crate) const PROBE: u64 = u64::MAX - 2;

/// Most events that one wait delivers, so that descriptors cannot starve timers (and the other way
/// round).
pub(crate) const EVENTS_PER_TURN_MAX: usize = 1024;

/// How a descriptor was taken into the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registration {
    /// The kernel watches it.
    Kernel,
    /// The kernel cannot watch it because it is always ready (a regular file).
    Always,
}

/// The tokens between which a change of a registration chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens {
    /// For the descriptor that is in the set already: what was fetched for it is still true of it.
    pub(crate) same: u64,
    /// For another descriptor under the same number, or one that was not in the set.
    pub(crate) fresh: u64,
}

/// How long a wait may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Look and return.
    Now,
    /// Until something happens or the deadline, if there is one, passes.
    Block,
}

/// The backend in use.
pub(crate) enum Poller {
    #[cfg(target_os = "linux")]
    Epoll(epoll::Epoll),
    Poll(poll::PollSet),
}

/// The kernel objects of a forked child, before it uses them.
pub(crate) enum ChildPoller {
    #[cfg(target_os = "linux")]
    Epoll(epoll::ChildEpoll),
    Poll,
}

macro_rules! each {
    ($self:expr, $poller:ident => $body:expr) => {
        match $self {
            #[cfg(target_os = "linux")]
            Poller::Epoll($poller) => $body,
            Poller::Poll($poller) => $body,
        }
    };
}

impl Poller {
    pub(crate) fn new(backend: Backend) -> Result<Poller> {
        match backend {
            #[cfg(target_os = "linux")]
            Backend::Epoll => Ok(Poller::Epoll(epoll::Epoll::new()?)),
            #[cfg(not(target_os = "linux"))]
            Backend::Epoll => Err(crate::Error::Unsupported { what: "anything on this system", backend }),
            Backend::Poll => Ok(Poller::Poll(poll::PollSet::new())),
        }
    }

    pub(crate) fn backend(&self) -> Backend {
        match self {
            #[cfg(target_os = "linux")]
            Poller::Epoll(_) => Backend::Epoll,
            Poller::Poll(_) => Backend::Poll,
        }
    }

    /// Whether a passed deadline arrives as an event, so that a turn without one need not read the
    /// clock.
    pub(crate) fn has_alarm(&self) -> bool {
        self.backend() == Backend::Epoll
    }

    pub(crate) fn add(
        &mut self,
        fd: RawFd,
        token: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<Registration> {
        each!(self, poller => poller.add(fd, token, interest, mode))
    }

    /// Changes a registration. Says which of the two tokens it then carries.
    pub(crate) fn modify(
        &mut self,
        fd: RawFd,
        tokens: Tokens,
        interest: Interest,
        mode: Mode,
    ) -> Result<(Registration, u64)> {
        each!(self, poller => poller.modify(fd, tokens, interest, mode))
    }

    /// Takes the descriptor out of the set. Failures mean that the kernel has forgotten it already
    /// (clause M1.3.3).
    pub(crate) fn remove(&mut self, fd: RawFd) {
        each!(self, poller => poller.remove(fd));
    }

    /// Waits; `deadline` bounds the wait and, where there is an alarm, arms it.
    #[inline]
    pub(crate) fn wait(
        &mut self,
        events: &mut Vec<Event>,
        wait: Wait,
        deadline: Option<Instant>,
    ) -> Result<()> {
        each!(self, poller => poller.wait(events, wait, deadline))
    }

    /// Whether the backend knows the mode.
    pub(crate) fn check_mode(&self, mode: Mode) -> Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Poller::Epoll(_) => Ok(()),
            Poller::Poll(_) => poll::check_mode(mode),
        }
    }

    /// Whether the set holds what the number refers to now. A backend that knows numbers only says
    /// yes.
    pub(crate) fn has(&self, fd: RawFd) -> bool {
        each!(self, poller => poller.has(fd))
    }

    /// Whether a wait would find something without asking the kernel.
    pub(crate) fn has_always_ready(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Poller::Epoll(epoll) => epoll.has_always_ready(),
            Poller::Poll(_) => false,
        }
    }

    /// Sets the alarm ahead of a wait that this loop does not make itself.
    pub(crate) fn arm(&mut self, deadline: Instant) -> Result<()> {
        each!(self, poller => poller.arm(deadline))
    }

    /// To be told that [`ALARM`] was reported.
    pub(crate) fn alarm_rang(&mut self) {
        match self {
            #[cfg(target_os = "linux")]
            Poller::Epoll(epoll) => epoll.alarm_rang(),
            Poller::Poll(_) => {}
        }
    }

    /// Makes what a forked child needs of its own. Touches nothing of what there is.
    pub(crate) fn prepare_for_child(&self) -> Result<ChildPoller> {
        match self {
            #[cfg(target_os = "linux")]
            Poller::Epoll(epoll) => epoll.prepare_for_child().map(ChildPoller::Epoll),
            Poller::Poll(_) => Ok(ChildPoller::Poll),
        }
    }

    /// Takes over what was made for a forked child, under the old numbers: an empty set.
    pub(crate) fn after_fork(&mut self, fresh: ChildPoller) -> Result<()> {
        match (self, fresh) {
            #[cfg(target_os = "linux")]
            (Poller::Epoll(epoll), ChildPoller::Epoll(fresh)) => epoll.after_fork(fresh),
            (Poller::Poll(poller), _) => {
                *poller = poll::PollSet::new();
                Ok(())
            }
            #[cfg(target_os = "linux")]
            (Poller::Epoll(_), ChildPoller::Poll) => Ok(()),
        }
    }

    /// Starts a new set with what is wanted in it, under the same descriptor number, or leaves
    /// everything as it is. Returns the numbers that are not open any more.
    pub(crate) fn rebuild(&mut self, wanted: &[Wanted]) -> Result<Vec<RawFd>> {
        each!(self, poller => poller.rebuild(wanted))
    }

    /// Whether the number is one of the loop's own.
    pub(crate) fn owns(&self, fd: RawFd) -> bool {
        each!(self, poller => poller.owns(fd))
    }
}

/// Lends a number to a system call.
pub(crate) fn borrow<'fd>(fd: RawFd) -> BorrowedFd<'fd> {
    debug_assert!(fd >= 0, "checked at registration");
    // SAFETY: the number is not negative, and the borrow lasts for one registration call, in which
    // the kernel itself checks that the number is open; nothing is read from, written to or closed
    // through it.
    unsafe { BorrowedFd::borrow_raw(fd) }
}
