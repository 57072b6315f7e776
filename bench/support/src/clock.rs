//! The clocks that the suites read.
//!
//! Costs are CPU time, not wall time: on a shared machine a preempted run is late but not more
//! expensive.

/// CPU time that this process used so far, user and system together, in nanoseconds.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Monotonic wall time in nanoseconds since an unspecified start.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec for the length of the call.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "clock_gettime knows both clocks on every Unix we measure on");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
