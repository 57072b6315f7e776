//! `epoll(7)` with a timerfd as alarm clock: the backend for Linux.
//!
//! Faults of this interface, and what is done about each:
//! - A registration belongs to the open file description, not to the number: after `dup` and
//!   `close` it keeps reporting and can no longer be removed. Tokens carry a generation, and
//!   [`Epoll::rebuild`] starts a new set. A spare one is kept for that, because there may be no
//!   descriptor left when it is needed.
//! - Regular files are refused (EPERM) although they are always ready. They are kept in a list and
//!   reported as such. The kernel does not tell when one is closed, so each is compared with what
//!   its number refers to before it is reported.
//! - Interest in nothing still reports errors and hang-ups, so such a descriptor is removed
//!   instead.
//! - Timeouts are whole milliseconds and subject to timer slack. A timerfd is neither. It is
//!   watched edge-triggered, so that it never needs to be read, and is set again only when the next
//!   deadline is earlier than the one it is set to.
//! - A set is shared across `fork`: see `core/forking.rs`.

use super::event::{Event, event};
use super::wake_fd::duplicate_onto;
use super::{ALARM, PROBE, Registration, Tokens, Wait, borrow};
use crate::watch::fds::Wanted;
use crate::{Error, Instant, Interest, Mode, Readiness, Result};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Most always-ready descriptors that one wait delivers, so that they and the others always leave
/// each other room.
const FILES_PER_TURN_MAX: usize = 256;
const NOT_ARMED: i64 = i64::MAX;
const NANOS_PER_SECOND: i64 = 1_000_000_000;
const IMMEDIATELY: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

pub(crate) struct Epoll {
    set: OwnedFd,
    /// A set that holds only `set`. A foreign loop watches this one, which outlives every reset.
    embedding: Option<OwnedFd>,
    alarm: OwnedFd,
    /// An empty set for the next rebuild, and the fork generation that made it: a forked child must
    /// not fill its parent's.
    spare: Option<(u32, OwnedFd)>,
    /// The deadline the alarm is set to, in nanoseconds.
    alarm_at: i64,
    always: Vec<AlwaysReady>,
    /// Where the next round over `always` starts, so that none of them starves.
    always_next: usize,
}

/// The kernel objects of a forked child, before it uses them.
pub(crate) struct ChildEpoll {
    set: OwnedFd,
    alarm: OwnedFd,
    embedding: Option<OwnedFd>,
}

/// A descriptor that is ready without the kernel's help.
struct AlwaysReady {
    fd: RawFd,
    /// What the number referred to when it was taken in.
    file: Option<FileIdentity>,
    token: u64,
    ready: Readiness,
    mode: Mode,
    armed: bool,
}

impl AlwaysReady {
    fn new(fd: RawFd, token: u64, interest: Interest, mode: Mode) -> AlwaysReady {
        let ready = Readiness::always(interest);
        // Interest in errors alone is never satisfied.
        AlwaysReady { fd, file: FileIdentity::of(fd), token, ready, mode, armed: !ready.is_empty() }
    }

    /// Whether the number still refers to what was taken in.
    fn is_there(&self) -> bool {
        self.file.is_some() && self.file == FileIdentity::of(self.fd)
    }
}

/// Tells files apart: by device and number, and a device file by what it stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    number: u64,
    kind: u32,
    stands_for: u64,
}

impl FileIdentity {
    /// What a number refers to; `None` if it is closed.
    #[allow(clippy::useless_conversion, reason = "the fields are narrower on some systems")]
    fn of(fd: RawFd) -> Option<FileIdentity> {
        let stat = rustix::fs::fstat(borrow(fd)).ok()?;
        Some(FileIdentity {
            device: stat.st_dev.into(),
            number: stat.st_ino.into(),
            kind: rustix::fs::FileType::from_raw_mode(stat.st_mode).as_raw_mode(),
            stands_for: stat.st_rdev.into(),
        })
    }
}

impl Epoll {
    pub(crate) fn new() -> Result<Epoll> {
        let (set, alarm) = (new_set()?, new_alarm()?);
        watch_alarm(&set, &alarm)?;
        let (alarm_at, always) = (NOT_ARMED, Vec::new());
        Ok(Epoll { set, embedding: None, alarm, spare: new_spare(), alarm_at, always, always_next: 0 })
    }

    pub(crate) fn add(
        &mut self,
        fd: RawFd,
        token: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<Registration> {
        add_to(&self.set, &mut self.always, fd, token, interest, mode)
    }

    /// Whether the number is one of the loop's own.
    pub(crate) fn owns(&self, fd: RawFd) -> bool {
        let spare = self.spare.as_ref().map(|(_, spare)| spare);
        let own = [Some(&self.set), Some(&self.alarm), self.embedding.as_ref(), spare];
        own.into_iter().flatten().any(|own| own.as_raw_fd() == fd)
    }

    pub(crate) fn modify(
        &mut self,
        fd: RawFd,
        tokens: Tokens,
        interest: Interest,
        mode: Mode,
    ) -> Result<(Registration, u64)> {
        let Tokens { same, fresh } = tokens;
        if let Some(index) = self.always.iter().position(|entry| entry.fd == fd) {
            // The number may have been closed and reused for something the kernel can watch: ask
            // again.
            self.always.swap_remove(index);
            return Ok((self.add(fd, fresh, interest, mode)?, fresh));
        }
        let flags = event_flags(interest, mode);
        match epoll::modify(&self.set, borrow(fd), EventData::new_u64(same), flags) {
            Ok(()) => Ok((Registration::Kernel, same)),
            // Closed and reopened under the same number: the kernel forgot the old one.
            Err(Errno::NOENT) => Ok((self.add(fd, fresh, interest, mode)?, fresh)),
            Err(Errno::PERM) => {
                self.always.push(AlwaysReady::new(fd, fresh, interest, mode));
                Ok((Registration::Always, fresh))
            }
            Err(errno) => Err(refusal(fd, errno)),
        }
    }

    pub(crate) fn remove(&mut self, fd: RawFd) {
        if let Some(index) = self.always.iter().position(|entry| entry.fd == fd) {
            self.always.swap_remove(index);
        } else {
            let _ = epoll::delete(&self.set, borrow(fd));
        }
    }

    /// Whether the set holds what the number refers to now. The kernel tells when it is asked to
    /// take it in again.
    pub(crate) fn has(&self, fd: RawFd) -> bool {
        if let Some(entry) = self.always.iter().find(|entry| entry.fd == fd) {
            return entry.is_there();
        }
        match epoll::add(&self.set, borrow(fd), EventData::new_u64(PROBE), EventFlags::ONESHOT) {
            Err(errno) => errno == Errno::EXIST,
            Ok(()) => {
                let _ = epoll::delete(&self.set, borrow(fd));
                false
            }
        }
    }

    /// Always inline: every turn passes here, and most of its arguments are known where it is
    /// called. By itself, which the compiler prefers now that there are four callers, it takes some
    /// 20 instructions more, a tenth of a small turn.
    #[inline(always)]
    pub(crate) fn wait(
        &mut self,
        events: &mut Vec<Event>,
        wait: Wait,
        deadline: Option<Instant>,
    ) -> Result<()> {
        if let Some(deadline) = deadline {
            self.arm(deadline)?;
        }
        events.clear();
        if !self.always.is_empty() {
            self.append_always(events);
        }
        let at_once = wait == Wait::Now || !events.is_empty();
        let timeout = if at_once { Some(&IMMEDIATELY) } else { None };
        match epoll::wait(&self.set, spare_capacity(events), timeout) {
            Ok(_) => Ok(()),
            // A signal handler ran. The deadline is absolute, so whoever waits again waits for no
            // longer.
            Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::io("epoll_wait")(errno)),
        }
    }

    /// Sets the alarm unless it rings early enough already. An alarm that rings too early costs one
    /// empty turn, which is cheaper than a system call for every deadline that moves.
    #[inline]
    pub(crate) fn arm(&mut self, deadline: Instant) -> Result<()> {
        if deadline.as_nanos() < self.alarm_at { self.set_alarm(deadline.as_nanos()) } else { Ok(()) }
    }

    /// To be told that the alarm has rung, so that the next deadline sets it again.
    pub(crate) fn alarm_rang(&mut self) {
        self.alarm_at = NOT_ARMED;
    }

    fn set_alarm(&mut self, deadline: i64) -> Result<()> {
        // Zero would disarm, and a timerfd knows no time before its origin.
        let nanos = deadline.max(1);
        let value = Timespec { tv_sec: nanos / NANOS_PER_SECOND, tv_nsec: nanos % NANOS_PER_SECOND };
        let setting = Itimerspec { it_interval: IMMEDIATELY, it_value: value };
        rustix::time::timerfd_settime(&self.alarm, TimerfdTimerFlags::ABSTIME, &setting)
            .map_err(Error::io("timerfd_settime"))?;
        self.alarm_at = deadline;
        Ok(())
    }

    /// Whether anything is ready without the kernel's help.
    pub(crate) fn has_always_ready(&self) -> bool {
        self.always.iter().any(|entry| entry.armed)
    }

    /// Lists what is ready without a wait, ahead of what the kernel will say.
    fn append_always(&mut self, events: &mut Vec<Event>) {
        let count = self.always.len();
        let (start, mut seen) = (self.always_next % count, 0);
        while seen < count && events.len() < FILES_PER_TURN_MAX {
            let entry = &mut self.always[(start + seen) % count];
            seen += 1;
            if entry.armed {
                // What was closed behind our back is silent from here on, whatever takes its
                // number.
                let there = entry.is_there();
                entry.armed = there && entry.mode == Mode::Level;
                if there {
                    events.push(event(entry.token, entry.ready));
                }
            }
        }
        self.always_next = start + seen;
    }

    /// A descriptor that is readable whenever a turn would find something to do.
    pub(crate) fn embedding_fd(&mut self) -> Result<BorrowedFd<'_>> {
        if self.embedding.is_none() {
            let outer = epoll::create(CreateFlags::CLOEXEC).map_err(Error::io("epoll_create1"))?;
            epoll::add(&outer, &self.set, EventData::new_u64(0), EventFlags::IN)
                .map_err(Error::io("epoll_ctl"))?;
            self.embedding = Some(outer);
        }
        Ok(self.embedding.as_ref().map(AsFd::as_fd).unwrap_or(self.set.as_fd()))
    }

    /// Makes what a forked child needs of its own.
    pub(crate) fn prepare_for_child(&self) -> Result<ChildEpoll> {
        let embedding = self.embedding.as_ref().map(|_| new_set()).transpose()?;
        Ok(ChildEpoll { set: new_set()?, alarm: new_alarm()?, embedding })
    }

    /// Takes a child's own objects over, under the numbers of the parent's, which from here on are
    /// the parent's alone.
    pub(crate) fn after_fork(&mut self, fresh: ChildEpoll) -> Result<()> {
        duplicate_onto(&fresh.set, &self.set)?;
        duplicate_onto(&fresh.alarm, &self.alarm)?;
        self.always.clear();
        self.spare = new_spare();
        watch_alarm(&self.set, &self.alarm)?;
        if let (Some(outer), Some(fresh)) = (&self.embedding, &fresh.embedding) {
            duplicate_onto(fresh, outer)?;
            epoll::add(outer, &self.set, EventData::new_u64(0), EventFlags::IN)
                .map_err(Error::io("epoll_ctl"))?;
        }
        if self.alarm_at != NOT_ARMED { self.set_alarm(self.alarm_at) } else { Ok(()) }
    }

    /// Puts a new set with what is wanted in it in the place of the old one, under the old number,
    /// or leaves everything as it is. Returns the numbers that are not open any more.
    pub(crate) fn rebuild(&mut self, wanted: &[Wanted]) -> Result<Vec<RawFd>> {
        let spare =
            self.spare.take().filter(|(generation, _)| *generation == crate::process::fork::generation());
        let fresh = spare.map_or_else(new_set, |(_, spare)| Ok(spare))?;
        watch_alarm(&fresh, &self.alarm)?;
        let (mut always, mut gone) = (Vec::new(), Vec::new());
        for entry in wanted {
            match add_to(&fresh, &mut always, entry.fd, entry.token, entry.interest, entry.mode) {
                Ok(_) => {}
                Err(Error::BadFd { fd }) => gone.push(fd),
                Err(error) => return Err(error),
            }
        }
        self.replace_set(&fresh)?;
        drop(fresh);
        // With the number that has just become free, if there is no other.
        self.spare = new_spare();
        self.always = always;
        Ok(gone)
    }

    /// Makes the set's number refer to a fresh set. A foreign loop does not notice.
    fn replace_set(&mut self, fresh: &OwnedFd) -> Result<()> {
        if let Some(outer) = &self.embedding {
            // Closing the old set does not remove it if a forked child has it open as well.
            let _ = epoll::delete(outer, &self.set);
        }
        let replaced = duplicate_onto(fresh, &self.set);
        if let Some(outer) = &self.embedding {
            epoll::add(outer, &self.set, EventData::new_u64(0), EventFlags::IN)
                .map_err(Error::io("epoll_ctl"))?;
        }
        replaced
    }
}

/// Takes a descriptor into a set, or into the list of those that are always ready.
fn add_to(
    set: &OwnedFd,
    always: &mut Vec<AlwaysReady>,
    fd: RawFd,
    token: u64,
    interest: Interest,
    mode: Mode,
) -> Result<Registration> {
    let flags = event_flags(interest, mode);
    match epoll::add(set, borrow(fd), EventData::new_u64(token), flags) {
        Ok(()) => Ok(Registration::Kernel),
        // The same description under the same number is still there: a removal failed unseen, or
        // was never made.
        Err(Errno::EXIST) => {
            epoll::modify(set, borrow(fd), EventData::new_u64(token), flags)
                .map_err(|errno| refusal(fd, errno))?;
            Ok(Registration::Kernel)
        }
        Err(Errno::PERM) => {
            always.push(AlwaysReady::new(fd, token, interest, mode));
            Ok(Registration::Always)
        }
        Err(errno) => Err(refusal(fd, errno)),
    }
}

fn new_set() -> Result<OwnedFd> {
    epoll::create(CreateFlags::CLOEXEC).map_err(Error::io("epoll_create1"))
}

/// If there is no room for it now, the next rebuild asks for a set when it needs one.
fn new_spare() -> Option<(u32, OwnedFd)> {
    new_set().ok().map(|set| (crate::process::fork::generation(), set))
}

fn new_alarm() -> Result<OwnedFd> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags).map_err(Error::io("timerfd_create"))
}

fn watch_alarm(set: &OwnedFd, alarm: &OwnedFd) -> Result<()> {
    epoll::add(set, alarm, EventData::new_u64(ALARM), EventFlags::IN | EventFlags::ET)
        .map_err(Error::io("epoll_ctl"))
}

fn event_flags(interest: Interest, mode: Mode) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN | EventFlags::RDHUP, interest.contains(Interest::READ));
    flags.set(EventFlags::OUT, interest.contains(Interest::WRITE));
    flags.set(EventFlags::PRI, interest.contains(Interest::PRIORITY));
    flags.set(EventFlags::ET, mode.is_edge());
    flags.set(EventFlags::ONESHOT, mode.is_oneshot());
    flags
}

fn refusal(fd: RawFd, errno: Errno) -> Error {
    match errno {
        Errno::BADF => Error::BadFd { fd },
        errno => Error::io("epoll_ctl")(errno),
    }
}
