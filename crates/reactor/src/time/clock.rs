//! The loop's clock: monotonic nanoseconds, real or virtual.
//!
//! The wall clock plays no part: setting it moves no timer (clause M1.4.1). A virtual clock stands
//! still until a test, or an idle loop, moves it, so hours of timers run in milliseconds and always
//! in the same order.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// A point on the loop's monotonic clock, in signed 64-bit nanoseconds (about 292 years either
/// way).
///
/// The origin is the clock's own (on Linux, roughly the start of the machine; for a
/// [`VirtualClock`], its creation): instants of different clocks cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(i64);

impl Instant {
    /// The earliest instant there is.
    pub const MIN: Instant = Instant(i64::MIN);
    /// The latest instant there is.
    pub const MAX: Instant = Instant(i64::MAX);

    /// The instant that lies `nanos` nanoseconds after the clock's origin.
    pub const fn from_nanos(nanos: i64) -> Instant {
        Instant(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The instant `duration` later, or `None` beyond the representable range.
    pub fn checked_add(self, duration: Duration) -> Option<Instant> {
        let nanos = i64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_add(nanos).map(Instant)
    }

    /// Time from `earlier` to `self`, zero when `earlier` is later.
    pub fn saturating_duration_since(self, earlier: Instant) -> Duration {
        let nanos = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }
}

/// A clock that stands still until it is moved.
///
/// Clones share one time. With auto-advance on (the default), a loop that has nothing else to do
/// jumps straight to its next deadline; with it off, time moves only by
/// [`advance`](VirtualClock::advance).
///
/// # Examples
/// ```
/// use mainspring_reactor::{Builder, VirtualClock};
/// use std::time::Duration;
///
/// let clock = VirtualClock::new();
/// let mut reactor = Builder::new().virtual_clock(&clock).build()?;
/// reactor.after(Duration::from_secs(3600), |_| println!("an hour later"))?;
/// reactor.run_until_idle()?; // returns at once
/// assert_eq!(clock.elapsed(), Duration::from_secs(3600));
/// # Ok::<(), mainspring_reactor::Error>(())
/// ```
#[derive(Clone)]
pub struct VirtualClock(Rc<VirtualTime>);

struct VirtualTime {
    now: Cell<i64>,
    auto_advance: Cell<bool>,
}

impl VirtualClock {
    /// A clock that shows its origin.
    pub fn new() -> VirtualClock {
        VirtualClock(Rc::new(VirtualTime { now: Cell::new(0), auto_advance: Cell::new(true) }))
    }

    /// The time it shows.
    pub fn now(&self) -> Instant {
        Instant(self.0.now.get())
    }

    /// How far it has been moved since its creation.
    pub fn elapsed(&self) -> Duration {
        self.now().saturating_duration_since(Instant(0))
    }

    /// Moves it forward, at most to the end of its range. Timers that become due run on the loop's
    /// next turn.
    pub fn advance(&self, by: Duration) {
        let nanos = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        self.0.now.set(self.0.now.get().saturating_add(nanos));
    }

    /// Chooses whether an idle loop moves the clock to its next deadline by itself.
    pub fn set_auto_advance(&self, on: bool) {
        self.0.auto_advance.set(on);
    }

    pub(crate) fn auto_advances(&self) -> bool {
        self.0.auto_advance.get()
    }

    /// Moves the clock to `instant` unless it already shows a later one.
    pub(crate) fn advance_to(&self, instant: Instant) {
        self.0.now.set(self.0.now.get().max(instant.0));
    }
}

impl Default for VirtualClock {
    fn default() -> VirtualClock {
        VirtualClock::new()
    }
}

impl fmt::Debug for VirtualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualClock").field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}

/// Where the loop reads the time.
pub(crate) enum Clock {
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// A test's clock.
    Virtual(VirtualClock),
}

impl Clock {
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self {
            Clock::Monotonic => monotonic_now(),
            Clock::Virtual(clock) => clock.now(),
        }
    }
}

/// Reads the real monotonic clock, whatever clock the loop runs on.
#[inline]
pub(crate) fn monotonic_now() -> Instant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Through the C library, which finds the kernel's fast path where there is one; rustix looks
    // for it by itself and crashes under valgrind, which hides it.
    // SAFETY: the call is handed a live timespec, and this clock exists everywhere.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    #[allow(clippy::useless_conversion, reason = "both are narrower on 32-bit systems")]
    let (seconds, nanos) = (i64::from(time.tv_sec), i64::from(time.tv_nsec));
    Instant(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}
