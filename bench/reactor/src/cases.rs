//! The cases: what is done, how much of it, by whom, and how often.

use bench_support::Case;

/// The case whose turns are counted (system calls, allocations), and the number of descriptors in
/// it.
pub(crate) const TURNS_CASE: &str = "dispatch-16";
/// The words of the counted case, up to the number of turns.
pub(crate) const TURNS_WORDS: [&str; 2] = ["turns", "16"];

const LEVEL: &[&str] =
    &["raw", "mainspring", "mainspring-timed", "libev", "libuv", "libevent", "polling", "calloop"];
const ALL: &[&str] =
    &["raw", "mainspring", "libev", "libuv", "libevent", "mio", "polling", "calloop", "tokio"];
const PIPE: &[&str] = &[
    "raw",
    "raw-level",
    "mainspring",
    "mainspring-level",
    "libev",
    "libuv",
    "libevent",
    "mio",
    "polling",
    "calloop",
    "tokio",
];
const REPLACING: &[&str] = &["raw", "mainspring", "libev", "libuv", "libevent", "mio", "polling", "calloop"];
const TIMERS: &[&str] = &["mainspring", "mainspring-boxed", "libev", "libuv", "libevent", "tokio"];
const TIMERS_WITH_CALLOOP: &[&str] =
    &["mainspring", "mainspring-boxed", "libev", "libuv", "libevent", "tokio", "calloop"];

/// Who is asked for the number of system calls and allocations.
pub(crate) const COUNTED: &[&str] =
    &["raw", "mainspring", "libev", "libuv", "libevent", "polling", "calloop"];

/// The suite; `quick` makes the same cases with fewer rounds and samples.
pub(crate) fn all(quick: bool) -> Vec<Case> {
    let pick = |full: u64, short: u64| if quick { short } else { full };
    let rounds = |full: u32, short: u32| if quick { short } else { full };
    // dispatch: descriptors, turns a batch, batches. pipe: pairs, active, writes, runs. rewatch:
    // pairs, runs. timers: count, spread in ms, repeats. lateness: delay in ns, samples.
    vec![
        Case::new("dispatch-1", "dispatch", &[1, 3000, pick(40, 20)], LEVEL, rounds(30, 8)),
        Case::new("dispatch-16", "dispatch", &[16, 500, pick(40, 20)], LEVEL, rounds(30, 8)),
        Case::new("dispatch-256", "dispatch", &[256, 40, pick(40, 20)], LEVEL, rounds(30, 8)),
        Case::new("dispatch-edge-1", "dispatch-edge", &[1, 2000, 15], ALL, rounds(10, 3)),
        Case::new("dispatch-edge-16", "dispatch-edge", &[16, 200, 15], ALL, rounds(10, 3)),
        Case::new("dispatch-edge-256", "dispatch-edge", &[256, 15, 15], ALL, rounds(10, 3)),
        Case::new("pipe-100-1", "pipe", &[100, 1, 1000, pick(30, 15)], PIPE, rounds(20, 6)),
        Case::new("pipe-1000-100", "pipe", &[1000, 100, 2000, pick(20, 10)], PIPE, rounds(20, 6)),
        Case::new("pipe-9000-1000", "pipe", &[9000, 1000, 10_000, pick(8, 4)], PIPE, rounds(20, 3)),
        Case::new("pipe-rewatch-9000", "rewatch", &[9000, pick(12, 5)], REPLACING, rounds(12, 2)),
        Case::new("pipe-unwatch-watch-9000", "unwatch-watch", &[9000, pick(12, 5)], ALL, rounds(12, 2)),
        Case::new("timers-30000", "timers", &[30_000, 100, 1], TIMERS_WITH_CALLOOP, 1),
        Case::new("timers-100000", "timers", &[100_000, 100, pick(2, 1)], TIMERS, rounds(15, 3)),
        Case::new("timers-1000000", "timers", &[1_000_000, 300, 1], TIMERS, rounds(8, 1)),
        Case::new("lateness-0.3ms", "lateness", &[300_000, pick(60, 25)], ALL, rounds(10, 3)),
        Case::new("lateness-1.3ms", "lateness", &[1_300_000, pick(60, 25)], ALL, rounds(10, 3)),
        Case::new("lateness-5ms", "lateness", &[5_000_000, pick(40, 10)], ALL, rounds(10, 3)),
    ]
}
