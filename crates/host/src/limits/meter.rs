//! What running costs a guest: CPU time, and not the time that the system ran something else
//! instead.
//!
//! The thread's CPU clock says that exactly, and takes some 600 ns to read: as much as a short
//! guest takes to run. The monotonic clock is read in 25 ns, and goes on while the thread waits for
//! a processor. So the monotonic clock measures how long a guest ran, and where it may be wrong by
//! much, the CPU clock corrects it: once a guest has run for a while, and about each millisecond,
//! so that there is a reading to compare with.

use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How old a reading of the CPU clock may be when a guest is resumed.
const READING_AGE_MAX: Duration = Duration::from_millis(1);
/// How long a guest must have run for its time to be corrected.
const CORRECTED_FROM: Duration = Duration::from_micros(100);

/// What the CPU clock of this thread said, and when.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    at: Instant,
    /// The CPU time of the thread.
    pub(crate) cpu_time: Duration,
}

#[cfg(feature = "wasi")]
impl Reading {
    /// What it says now.
    pub(crate) fn now() -> Reading {
        read(Instant::now())
    }
}

thread_local!(static LAST: Cell<Option<Reading>> = const { Cell::new(None) });

/// The CPU time of this thread.
fn thread_cpu_time() -> Duration {
    // A clock that counts from zero is never negative.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn read(at: Instant) -> Reading {
    let reading = Reading { at, cpu_time: thread_cpu_time() };
    LAST.set(Some(reading));
    reading
}

/// A stretch of time in which a guest runs: from one resumption to the next time that it waits.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    start: Instant,
    /// The thread's CPU time then, or up to [`READING_AGE_MAX`] before.
    thread_before: Duration,
}

impl Stretch {
    /// The guest runs from now on, on this thread.
    pub(crate) fn begin() -> Stretch {
        let start = Instant::now();
        let known = LAST.get().filter(|last| start.saturating_duration_since(last.at) < READING_AGE_MAX);
        let before = known.unwrap_or_else(|| read(start));
        Stretch { start, thread_before: before.cpu_time }
    }

    /// Whether the guest has used so much CPU time. The cheap clock says no most of the time.
    #[cfg(feature = "wasi")]
    pub(crate) fn has_used(self, time: Duration) -> bool {
        self.start.elapsed() >= time && self.cpu_time() >= time
    }

    /// The CPU time that the guest has used so far, at most.
    pub(crate) fn cpu_time(self) -> Duration {
        let now = Instant::now();
        let time = now.saturating_duration_since(self.start);
        if time < CORRECTED_FROM {
            return time;
        }
        self.cpu_time_at(read(now))
    }

    /// The CPU time that it had used at a reading, at most: for whoever needs the thread's too, and
    /// would have the clock read twice.
    pub(crate) fn cpu_time_at(self, reading: Reading) -> Duration {
        let time = reading.at.saturating_duration_since(self.start);
        time.min(reading.cpu_time.saturating_sub(self.thread_before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the processor busy for so much CPU time.
    fn burn(time: Duration) {
        let start = thread_cpu_time();
        while thread_cpu_time() - start < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn time_in_which_the_thread_did_not_run_is_not_charged() {
        let stretch = Stretch::begin();
        std::thread::sleep(Duration::from_millis(50));
        let charged = stretch.cpu_time();
        assert!(charged < Duration::from_millis(25), "{charged:?}");
    }

    #[test]
    fn what_was_used_is_charged_in_full() {
        let stretch = Stretch::begin();
        burn(Duration::from_millis(5));
        let charged = stretch.cpu_time();
        assert!(charged >= Duration::from_millis(5), "{charged:?}");
    }

    #[cfg(feature = "wasi")]
    #[test]
    fn one_reading_tells_what_the_guest_used_and_what_the_thread_did() {
        let (before, stretch) = (Reading::now(), Stretch::begin());
        burn(Duration::from_millis(5));
        std::thread::sleep(Duration::from_millis(20));
        let reading = Reading::now();
        let charged = stretch.cpu_time_at(reading);
        assert!(charged >= Duration::from_millis(5) && charged < Duration::from_millis(20), "{charged:?}");
        assert!(charged <= reading.cpu_time - before.cpu_time);
    }

    #[test]
    fn what_the_thread_did_before_is_charged_for_a_millisecond_at_most() {
        read(Instant::now());
        burn(Duration::from_millis(5));
        let stretch = Stretch::begin();
        std::thread::sleep(Duration::from_millis(20));
        let charged = stretch.cpu_time();
        assert!(charged < Duration::from_millis(5), "{charged:?}");
    }
}
