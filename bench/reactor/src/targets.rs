//! What the reactor has to reach, case by case.

use bench_support::Target;

/// Libraries that dispatch callbacks, as Mainspring does; mio and polling leave that to their user.
const CALLBACK_LOOPS: &[&str] = &["libev", "libuv", "libevent", "calloop"];
const PEERS: &[&str] = &["libev", "libuv", "libevent", "mio", "polling", "calloop", "tokio"];
const SLOWER_TIMERS: &[&str] = &["libuv", "libevent", "tokio"];
const MILLISECOND_LOOPS: &[&str] = &["libev", "libuv", "libevent", "mio", "tokio"];

/// Every target of the suite.
pub(crate) fn all() -> Vec<Target> {
    let mut targets = Vec::new();
    for (case, times) in [("dispatch-1", 1.05), ("dispatch-16", 1.03), ("dispatch-256", 1.03)] {
        targets.push(Target::within(case, "cpu_per_event", times, &["raw"]));
        targets.push(Target::ahead_of(case, "cpu_per_event", CALLBACK_LOOPS));
    }
    for case in ["pipe-100-1", "pipe-1000-100", "pipe-9000-1000"] {
        targets.push(Target::within(case, "cpu_per_event", 1.05, PEERS));
    }
    targets.push(Target::within("pipe-rewatch-9000", "cpu_per_fd", 1.2, &["libev"]));
    targets.push(Target::within("pipe-unwatch-watch-9000", "cpu_per_fd", 1.1, &["raw"]));
    for case in ["timers-100000", "timers-1000000"] {
        for metric in ["insert", "cancel", "reschedule", "fire"] {
            targets.push(Target::ahead_of(case, metric, SLOWER_TIMERS));
        }
        for metric in ["cancel", "reschedule", "fire"] {
            targets.push(Target::within(case, metric, 1.2, &["libev"]));
        }
    }
    for case in ["lateness-0.3ms", "lateness-1.3ms", "lateness-5ms"] {
        targets.push(Target::within(case, "median", 1.3, &["raw"]));
        targets.push(Target::ahead_of(case, "median", MILLISECOND_LOOPS));
    }
    targets.push(Target::at_most("dispatch-16", "system_calls_per_turn", 1.0));
    targets.push(Target::at_most("dispatch-16", "allocations_per_turn", 0.0));
    targets
}
