//! What a durable daemon has to reach, case by case.

use super::BESIDE;
use crate::cases::Case;
use bench_support::{Keep, OURS, RAW, Results, Target};

/// Ours, with the same without a journal, and how often a request waits for the disk.
const DURABLE: [(&str, &str, f64); 2] =
    [(OURS, "mainspring-not-durable", 1.0), ("mainspring-process", "mainspring-process-not-durable", 2.0)];

/// Every target of the suite.
pub(super) fn all() -> Vec<Target> {
    let mut targets = Vec::new();
    for case in ["256-on-1-connection", "256-on-64-connections"] {
        targets.push(Target::within(case, "requests_per_s", 20.0, &["jetstream"]).of_rate());
        targets.push(Target::within(case, "requests_per_s", 1.0, &["redis"]).of_rate());
        targets.push(Target::at_most(case, "rate_of_limit", 0.8).of_rate());
    }
    targets.push(Target::at_most("one-at-a-time", "p50_over_limit", 1.3));
    for case in ["256-on-1-connection", "256-on-64-connections"] {
        targets.push(Target::at_most(case, "loop_cpu_added", 0.5));
    }
    targets.push(Target::within(BESIDE, "p99", 1.2, &["mainspring-not-durable"]));
    targets.push(Target::at_most("start-of-facts", "facts_per_s", 1e6).of_rate());
    targets.push(Target::at_most("start-at-all-bounds", "start", 1000.0));
    targets
}

/// Adds the figures that are made of others: how near a rate comes to what the disk and the daemon
/// allow, and how far a single request is from the flushes that it waits for.
pub(super) fn derive(results: &mut Results, cases: &[Case]) {
    for case in cases {
        let in_flight = (case.connections * case.depth) as f64;
        for (ours, not_durable, flushes) in DURABLE {
            let value = |subject, metric| results.value(&case.name, subject, metric);
            let rate = (
                value(ours, "requests_per_s"),
                value(RAW, "flushes_per_s"),
                value(not_durable, "requests_per_s"),
            );
            let p50 = (value(ours, "p50"), value(RAW, "p50"), value(not_durable, "p50"));
            let of_loop = (value(ours, "loop_cpu_per_request"), value(not_durable, "loop_cpu_per_request"));
            if let (Some(with), Some(without)) = of_loop {
                let added = with - without;
                results.record(&case.name, ours, "loop_cpu_added", "us", Keep::Median, added);
            }
            if let (Some(rate), Some(raw), Some(without)) = rate {
                let limit = (raw * in_flight / flushes).min(0.6 * without);
                results.record(&case.name, ours, "rate_of_limit", "times", Keep::Median, rate / limit);
            }
            if let ((Some(p50), Some(raw), Some(without)), 1) = (p50, case.depth * case.connections) {
                let limit = flushes * raw + without;
                results.record(&case.name, ours, "p50_over_limit", "times", Keep::Median, p50 / limit);
            }
        }
    }
}
