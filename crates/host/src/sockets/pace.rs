//! How long a guest that wakes itself is made to wait: never when it has something to do, longer and longer while it has not.

use std::cell::Cell;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

/// The variable that [`SocketWait::from_environment`] reads.
const VARIABLE: &str = "MAINSPRING_SOCKET_WAIT_MS";
/// The longest wait that can be asked for.
const LONGEST_MS_MAX: u64 = 60_000;

/// How long a component waits in `socket-read` and `socket-write` of `mainspring:sockets` before it is told that they would block.
///
/// A guest whose stream wakes itself calls again at once, whatever it is told; this wait is all that keeps it from using a whole core. It
/// ends when any socket of the guest is ready.
///
/// # Examples
/// ```
/// use mainspring_host::SocketWait;
///
/// let wait: SocketWait = "1-10".parse()?;
/// assert_eq!(wait, SocketWait::default());
/// assert!("0".parse::<SocketWait>()?.longest.is_zero(), "no wait at all");
/// # Ok::<(), mainspring_host::BadSocketWait>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketWait {
    /// The first wait after the guest made progress. 1 ms.
    pub first: Duration,
    /// What it doubles up to while the guest makes no progress. 10 ms; zero means no wait at all.
    pub longest: Duration,
    /// The CPU time between two calls that would block above which the guest has other work, and is not made to wait. 50 µs.
    pub busy: Duration,
}

/// A wait that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a wait: write the longest in milliseconds (10), the first and the longest (1-10), or 0 for none"
)]
pub struct BadSocketWait(String);

impl Default for SocketWait {
    fn default() -> SocketWait {
        SocketWait {
            first: Duration::from_millis(1),
            longest: Duration::from_millis(10),
            busy: Duration::from_micros(50),
        }
    }
}

impl FromStr for SocketWait {
    type Err = BadSocketWait;

    fn from_str(text: &str) -> Result<SocketWait, BadSocketWait> {
        let number = |text: &str| text.trim().parse().ok().filter(|ms: &u64| *ms <= LONGEST_MS_MAX);
        let parsed = match text.split_once('-') {
            None => number(text).map(|longest| (longest.min(1), longest)),
            Some((first, longest)) => number(first).zip(number(longest)),
        };
        match parsed {
            Some((first, longest)) if first <= longest && (first > 0 || longest == 0) => Ok(SocketWait {
                first: Duration::from_millis(first),
                longest: Duration::from_millis(longest),
                ..SocketWait::default()
            }),
            _ => Err(BadSocketWait(text.into())),
        }
    }
}

impl SocketWait {
    /// What `MAINSPRING_SOCKET_WAIT_MS` says, or else the default. The variable is read once in the life of the process; what makes no
    /// sense is logged.
    pub fn from_environment() -> SocketWait {
        static READ: OnceLock<SocketWait> = OnceLock::new();
        *READ.get_or_init(|| {
            let Some(text) = std::env::var_os(VARIABLE) else { return SocketWait::default() };
            text.to_string_lossy().parse().unwrap_or_else(|error| {
                tracing::warn!("{VARIABLE}: {error}; the default holds");
                SocketWait::default()
            })
        })
    }
}

/// What a guest has used so far, by two clocks of which each counts too much: the one includes times when the system ran something else
/// instead of this thread, the other includes what the thread did for other guests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clocks {
    /// The time that the guest ran.
    pub(super) guest: Duration,
    /// The CPU time of the thread.
    pub(super) thread: Duration,
}

impl Clocks {
    /// The CPU time that the guest has used in between, at most.
    fn since(self, earlier: Clocks) -> Duration {
        let guest = self.guest.saturating_sub(earlier.guest);
        guest.min(self.thread.saturating_sub(earlier.thread))
    }
}

/// The pace of one guest.
pub(super) struct Pace {
    wait: SocketWait,
    next: Cell<Duration>,
    /// Whether bytes have moved since the last wait.
    moved: Cell<bool>,
    /// When the guest was last told that something would block.
    told_at: Cell<Option<Clocks>>,
    /// The guest waits by itself.
    parks: Cell<bool>,
}

impl Pace {
    pub(super) fn new(wait: SocketWait) -> Pace {
        Pace {
            wait,
            next: Cell::new(wait.first),
            moved: Cell::new(false),
            told_at: Cell::new(None),
            parks: Cell::new(false),
        }
    }

    /// Bytes went through a socket.
    pub(super) fn moved(&self) {
        self.moved.set(true);
    }

    /// The guest waits by itself from now on.
    pub(super) fn parks(&self) {
        self.parks.set(true);
    }

    /// The guest is told that something would block.
    pub(super) fn told(&self, now: Clocks) {
        self.told_at.set(Some(now));
    }

    /// How long to wait for a call that would block; not at all if the guest has other work or waits by itself.
    pub(super) fn next_wait(&self, now: Clocks) -> Option<Duration> {
        if self.parks.get() || self.wait.longest.is_zero() {
            return None;
        }
        let busy = self.told_at.get().is_some_and(|told_at| now.since(told_at) > self.wait.busy);
        if busy || self.moved.replace(false) {
            self.next.set(self.wait.first);
        }
        if busy {
            return None;
        }
        let next = self.next.get();
        self.next.set((next * 2).min(self.wait.longest));
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Clocks = Clocks { guest: Duration::ZERO, thread: Duration::ZERO };

    fn at(guest_us: u64, thread_us: u64) -> Clocks {
        Clocks { guest: Duration::from_micros(guest_us), thread: Duration::from_micros(thread_us) }
    }

    fn ms(wait: Option<Duration>) -> Option<u128> {
        wait.map(|wait| wait.as_millis())
    }

    #[test]
    fn the_wait_doubles_without_progress_and_starts_anew_when_bytes_move() {
        let pace = Pace::new(SocketWait::default());
        let waits: Vec<_> = (0..6).map(|_| ms(pace.next_wait(NOTHING))).collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10].map(Some));
        pace.moved();
        assert_eq!(ms(pace.next_wait(NOTHING)), Some(1));
        assert_eq!(ms(pace.next_wait(NOTHING)), Some(2));
    }

    #[test]
    fn a_guest_with_other_work_is_not_made_to_wait() {
        let pace = Pace::new(SocketWait::default());
        for used in [0, 51, 102] {
            pace.told(at(used, used));
            assert_eq!(pace.next_wait(at(used + 51, used + 51)), None);
        }
        pace.told(NOTHING);
        assert_eq!(ms(pace.next_wait(at(50, 50))), Some(1), "as much as calling again takes");
    }

    #[test]
    fn what_the_system_or_the_thread_did_meanwhile_is_not_the_guests_work() {
        let pace = Pace::new(SocketWait::default());
        pace.told(NOTHING);
        assert_eq!(ms(pace.next_wait(at(1000, 10))), Some(1), "the thread had to wait for its turn");
        pace.told(NOTHING);
        assert_eq!(ms(pace.next_wait(at(10, 1000))), Some(2), "another guest ran");
    }

    #[test]
    fn a_guest_that_waits_by_itself_is_not_made_to_wait_here_as_well() {
        let pace = Pace::new(SocketWait::default());
        pace.parks();
        assert_eq!(pace.next_wait(NOTHING), None);
        assert_eq!(Pace::new("0".parse().unwrap()).next_wait(NOTHING), None);
    }

    #[test]
    fn waits_are_read_from_text_and_nonsense_says_what_to_write() {
        let wait = |text: &str| {
            text.parse::<SocketWait>().map(|wait| (wait.first.as_millis(), wait.longest.as_millis()))
        };
        assert_eq!(wait(" 5 "), Ok((1, 5)));
        assert_eq!(wait("2-20"), Ok((2, 20)));
        assert_eq!(wait("0"), Ok((0, 0)));
        for wrong in ["", "-1", "5-2", "0-5", "1-", "ten", "60001"] {
            assert!(wait(wrong).unwrap_err().to_string().contains("1-10"), "{wrong}");
        }
    }
}
