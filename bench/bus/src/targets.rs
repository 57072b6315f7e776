//! What the daemon has to reach, case by case.

use crate::cases::{self, Case};
use bench_support::{Keep, OURS, RAW, Results, Target};

/// Every target of the suite.
pub(crate) fn all() -> Vec<Target> {
    let mut targets = Vec::new();
    for connections in [1, 64] {
        let pipelined = cases::name(64, connections);
        targets.push(Target::at_most(&pipelined, "cpu_per_request", 3.0));
        targets.push(Target::within(&pipelined, "requests_per_s", 3.0, &["nats"]).of_rate());
        targets.push(Target::at_most(&pipelined, "rate_over_wasm", 2.0));
    }
    let one_at_a_time = cases::name(1, 1);
    targets.push(Target::within(&one_at_a_time, "p50", 1.3, &[RAW]));
    targets.push(Target::ahead_of(&one_at_a_time, "p50", &["nats"]));
    targets
}

/// Adds the figures that are made of others.
pub(crate) fn derive(results: &mut Results, cases: &[Case]) {
    for case in cases {
        let rate = |subject| results.value(&case.name, subject, "requests_per_s");
        if let (Some(native), Some(wasm)) = (rate(OURS), rate("mainspring-wasm")) {
            results.record(&case.name, OURS, "rate_over_wasm", "times", Keep::Median, native / wasm);
        }
    }
}
