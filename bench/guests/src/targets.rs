//! What the guests' floor has to reach, case by case.

use bench_support::{Keep, OURS, Results, Target};

/// The case that compares the largest POLL with the smallest.
const FLAT: &str = "poll-flat";

/// Every target of the suite.
pub(crate) fn all() -> Vec<Target> {
    let mut targets = Vec::new();
    for case in ["park-1000", "park-10000"] {
        // The clock is read at both ends, and the process wakes up once to stop waiting.
        targets.push(Target::at_most(case, "cpu_while_parked", 1.0));
        targets.push(Target::at_most(case, "wake_ups", 0.0));
        targets.push(Target::at_most(case, "memory_beside_heap", 20.0));
    }
    targets.push(Target::within("echo-1", "round_trip", 1.3, &["native"]));
    targets.push(Target::within("echo-32", "requests_per_s", 0.7, &["native"]).of_rate());
    targets.push(Target::at_most(FLAT, "last_over_first", 1.3));
    targets.push(Target::ahead_of("poll-1000", "cpu_per_wake", &["wasi-poll"]));
    targets.push(Target::ahead_of("poll-10000", "cpu_per_wake", &["wasi-poll"]));
    targets.push(Target::at_most("start-warm", "cpu_per_start", 10.0));
    targets.push(Target::at_most("start-fresh", "cpu_per_start", 30.0));
    targets
}

/// Adds the figures that are made of others.
pub(crate) fn derive(results: &mut Results) {
    for subject in [OURS, "wasi-poll"] {
        let figure = |case| results.value(case, subject, "cpu_per_wake");
        if let (Some(first), Some(last)) = (figure("poll-10"), figure("poll-10000")) {
            results.record(FLAT, subject, "last_over_first", "times", Keep::Minimum, last / first);
        }
    }
}
