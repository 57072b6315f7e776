//! What a piece of work took: time, CPU time of this thread, and how often the thread had to be
//! woken.

use bench_support::monotonic_ns;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// What the clocks and counters of this thread said at one time.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    time_ns: u64,
    cpu_ns: u64,
    sleeps: u64,
}

impl Reading {
    pub(crate) fn now() -> Reading {
        let (cpu_ns, sleeps) = thread_usage();
        Reading { time_ns: monotonic_ns(), cpu_ns, sleeps }
    }

    /// The first and the last of several.
    pub(crate) fn first_and_last(readings: &[Reading]) -> Option<(Reading, Reading)> {
        let at = |reading: &&Reading| reading.time_ns;
        Some((*readings.iter().min_by_key(at)?, *readings.iter().max_by_key(at)?))
    }

    /// Prints what was used from this one to another; `own_sleeps` are those of the measurement
    /// itself.
    pub(crate) fn print_until(self, end: Reading, own_sleeps: u64) {
        println!("time ms {:.3}", (end.time_ns - self.time_ns) as f64 / 1e6);
        println!("thread_cpu ms {:.3}", (end.cpu_ns - self.cpu_ns) as f64 / 1e6);
        println!("wake_ups count {}", (end.sleeps - self.sleeps).saturating_sub(own_sleeps));
    }
}

/// Takes a reading when something wakes a task, and passes the wake-up on. A guest that does not
/// give way wakes the task long before it runs.
pub(crate) struct WakeReading {
    first: Mutex<Option<Reading>>,
    next: Waker,
}

impl WakeReading {
    pub(crate) fn new(next: &Waker) -> Arc<WakeReading> {
        Arc::new(WakeReading { first: Mutex::new(None), next: next.clone() })
    }

    /// The reading of the first wake-up, if there was one.
    pub(crate) fn first(&self) -> Option<Reading> {
        *self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for WakeReading {
    fn wake(self: Arc<WakeReading>) {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Reading::now);
        self.next.wake_by_ref();
    }
}

/// CPU time of this thread, and how often it gave up the processor to wait.
fn thread_usage() -> (u64, u64) {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `rusage` is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both point to valid, writable structures for the length of the calls.
    let results = unsafe {
        [
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time),
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage),
        ]
    };
    assert_eq!(results, [0, 0], "Linux knows both");
    (time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64, usage.ru_nvcsw as u64)
}
