//! Time: the host's monotonic clock, and waiting by it.

use crate::runtime::driver::TimerKey;
use crate::runtime::executor::{try_with_driver, with_driver};
use crate::system::clock;
use std::future::Future;
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A moment on the host's monotonic clock. Bare WebAssembly has no `std::time::Instant`; this works
/// everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    monotonic_ns: u64,
}

impl Instant {
    /// This moment.
    ///
    /// # Panics
    ///
    /// If the host has no `sys/info@v1`.
    #[must_use]
    pub fn now() -> Instant {
        Instant { monotonic_ns: clock::now().monotonic_ns }
    }

    /// The time since then; zero if it is yet to come.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Instant::now() - self
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// A moment beyond the clock's range is its last one, which never comes.
    fn add(self, duration: Duration) -> Instant {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Instant { monotonic_ns: self.monotonic_ns.saturating_add(nanoseconds) }
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.monotonic_ns.saturating_sub(earlier.monotonic_ns))
    }
}

/// Waits for a duration from now, never shorter.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration)
}

/// Waits until a moment.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { deadline, timer: None }
}

/// The future of [`sleep`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    deadline: Instant,
    timer: Option<TimerKey>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let deadline_ns = self.deadline.monotonic_ns;
        with_driver(|driver| match self.timer {
            Some(timer) if driver.renew_timer(timer, context.waker()) => Poll::Pending,
            Some(_) => Poll::Ready(()),
            None => {
                self.timer = Some(driver.add_timer(deadline_ns, context.waker()));
                Poll::Pending
            }
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            try_with_driver(|driver| driver.remove_timer(timer));
        }
    }
}

/// The time was over before the future finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time is over")]
pub struct Elapsed;

impl From<Elapsed> for std::io::Error {
    fn from(elapsed: Elapsed) -> std::io::Error {
        std::io::Error::new(std::io::ErrorKind::TimedOut, elapsed)
    }
}

/// Awaits `future` for at most `duration`, counted from when it first has to wait.
///
/// # Errors
///
/// [`Elapsed`] if that is over first.
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = std::pin::pin!(future);
    // A future that need not wait needs no clock.
    let mut sleep = None;
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        let sleep = sleep.get_or_insert_with(|| crate::runtime::time::sleep(duration));
        Pin::new(sleep).poll(context).map(|()| Err(Elapsed))
    })
    .await
}

/// Ticks at a fixed rate, first after one period. Ticks that were missed fold into one.
///
/// # Panics
///
/// If the period is zero.
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval needs a period");
    Interval { next: Instant::now() + period, period }
}

/// What [`interval`] returns.
#[derive(Debug)]
pub struct Interval {
    next: Instant,
    period: Duration,
}

impl Interval {
    /// Waits for the next tick.
    pub async fn tick(&mut self) {
        sleep_until(self.next).await;
        let now = Instant::now();
        let [next, now] = [self.next, now].map(|at| i64::try_from(at.monotonic_ns).unwrap_or(i64::MAX));
        let period = i64::try_from(self.period.as_nanos()).unwrap_or(i64::MAX);
        // What lies beyond the clock's range never comes.
        let next = mainspring_ticks::fold(next, period, now).next.map_or(u64::MAX, i64::cast_unsigned);
        self.next = Instant { monotonic_ns: next };
    }
}
