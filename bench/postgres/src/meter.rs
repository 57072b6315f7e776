//! What a piece of work took: time, CPU time of this thread, and how often the thread had to be
//! woken.

use bench_support::monotonic_ns;

/// Readings at the start of the work.
pub(crate) struct Meter {
    time_ns: u64,
    cpu_ns: u64,
    sleeps: u64,
}

impl Meter {
    pub(crate) fn start() -> Meter {
        let (cpu_ns, sleeps) = thread_usage();
        Meter { time_ns: monotonic_ns(), cpu_ns, sleeps }
    }

    /// Prints what has been used since the start; `own_sleeps` are those of the measurement itself.
    pub(crate) fn print(&self, own_sleeps: u64) {
        let time_ns = monotonic_ns() - self.time_ns;
        let (cpu_ns, sleeps) = thread_usage();
        println!("time ms {:.3}", time_ns as f64 / 1e6);
        println!("thread_cpu ms {:.3}", (cpu_ns - self.cpu_ns) as f64 / 1e6);
        println!("wake_ups count {}", (sleeps - self.sleeps).saturating_sub(own_sleeps));
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
