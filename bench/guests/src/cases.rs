//! The cases: what is done, how much of it, by whom, and how often.

use bench_support::Case;

const OURS: &[&str] = &["mainspring"];
const ECHO: &[&str] = &["native", "mainspring"];
const POLL: &[&str] = &["mainspring", "wasi-poll"];

/// The suite; `quick` makes the same cases with fewer rounds and samples.
pub(crate) fn all(quick: bool) -> Vec<Case> {
    let pick = |full: u64, short: u64| if quick { short } else { full };
    let rounds = |full: u32, short: u32| if quick { short } else { full };
    // park: guests, milliseconds. echo: connections, active at a time, round trips a batch,
    // batches. poll: the same. start: guests.
    vec![
        Case::new("park-1000", "park", &[1000, pick(10_000, 2000)], OURS, 1),
        Case::new("park-10000", "park", &[10_000, pick(10_000, 2000)], OURS, 1),
        Case::new("echo-1", "echo", &[1, 1, 500, pick(40, 20)], ECHO, rounds(10, 3)),
        Case::new("echo-32", "echo", &[32, 32, 50, pick(40, 20)], ECHO, rounds(10, 3)),
        Case::new("poll-10", "poll", &[10, 1, 500, pick(40, 20)], POLL, rounds(8, 2)),
        Case::new("poll-1000", "poll", &[1000, 1, 500, pick(40, 20)], POLL, rounds(8, 2)),
        Case::new("poll-10000", "poll", &[10_000, 1, 500, pick(20, 10)], POLL, rounds(8, 2)),
        Case::new("start-warm", "start-warm", &[pick(5000, 2000)], OURS, rounds(10, 3)),
        Case::new("start-fresh", "start-fresh", &[pick(5000, 2000)], OURS, rounds(10, 3)),
    ]
}
