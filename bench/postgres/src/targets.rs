//! What has to be reached, case by case.

use bench_support::Target;

/// Every target of the suite.
pub(crate) fn all() -> Vec<Target> {
    let mut targets = Vec::new();
    for case in ["rows", "load"] {
        targets.push(Target::within(case, "time", 2.0, &["native"]));
    }
    targets.push(Target::within("queries", "time", 1.3, &["native"]));
    targets.push(Target::at_most("idle", "guest_cpu", 0.0));
    targets.push(Target::at_most("idle", "guest_wake_ups", 0.0));
    for case in ["old-rows", "old-load", "old-queries"] {
        targets.push(Target::within(case, "time", 1.05, &["plan"]));
    }
    // A query takes two such calls at least, whoever waits; the plan waits in both.
    targets.push(Target::within("old-queries", "calls_that_would_block", 1.1, &["plan"]));
    // About a hundred calls in a second; the plan makes about a thousand.
    targets.push(Target::within("old-idle", "calls_that_would_block", 0.15, &["plan"]));
    for case in ["old-beside-idle", "old-two-guests"] {
        targets.push(Target::ahead_of(case, "time", &["plan"]));
    }
    targets
}
