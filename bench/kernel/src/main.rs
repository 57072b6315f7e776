//! The kernel's cost per message: a line in, an echo actor, a line out; no sockets, shipped
//! defaults.
//!
//! `kernel-bench [--quick] [--json FILE] [--filter TEXT] [--subject NAME] [--rounds N]`. Everything
//! runs in this one thread, round after round, each subject once per round; the CPU time of the
//! least round counts.

mod cases;
mod echo;
mod payload;
mod peers;

use bench_support::{CountingAllocator, Keep, Options, Results, Target, process_cpu_ns, publish};

use crate::cases::Case;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Rounds when everything is wanted, and when time is short.
const ROUNDS: u32 = 200;
const ROUNDS_QUICK: u32 = 60;

fn main() {
    let options = Options::from_env("kernel-bench");
    echo::print_defaults();
    let mut cases = cases::all(options.quick);
    cases.retain(|case| options.wants_case(&case.name) && options.wants_subject(&case.subject));
    let mut results = Results::new("kernel");
    let rounds = options.rounds.unwrap_or(if options.quick { ROUNDS_QUICK } else { ROUNDS });
    for round in 0..rounds as usize {
        for position in 0..cases.len() {
            let at = (position + round) % cases.len();
            measure(&mut cases[at], &mut results);
        }
    }
    for case in &mut cases {
        count_allocations(case, &mut results);
    }
    derive(&mut results);
    publish(&results, &targets(), &options);
}

fn measure(case: &mut Case, results: &mut Results) {
    let start_ns = process_cpu_ns();
    (case.work)(case.messages);
    let each_us = (process_cpu_ns() - start_ns) as f64 / case.messages as f64 / 1_000.0;
    results.record(&case.name, &case.subject, "cpu_per_message", "us", Keep::Minimum, each_us);
}

fn count_allocations(case: &mut Case, results: &mut Results) {
    if case.counts_allocations {
        let count = bench_support::count_allocations(|| (case.work)(case.messages));
        let each = count as f64 / case.messages as f64;
        results.record(&case.name, &case.subject, "allocations", "per message", Keep::Minimum, each);
    }
}

/// What follows from several figures: the cost of a JSON node, and what pending requests change.
fn derive(results: &mut Results) {
    let empty = results.value("nodes-0", "mainspring", "cpu_per_message");
    for nodes in cases::NODES.into_iter().filter(|nodes| *nodes > 0) {
        let case = format!("nodes-{nodes}");
        if let (Some(empty), Some(cost)) = (empty, results.value(&case, "mainspring", "cpu_per_message")) {
            let each_ns = (cost - empty) * 1_000.0 / nodes as f64;
            results.record(&case, "mainspring", "cpu_per_node", "ns", Keep::Minimum, each_ns);
        }
    }
}

fn targets() -> Vec<Target> {
    vec![
        Target::at_most("echo", "cpu_per_message", 1.5),
        Target::at_most("echo-lines", "cpu_per_message", 2.5),
        Target::at_most("echo", "allocations", 8.0),
        Target::within("pending-100000", "cpu_per_message", 1.4, &["nothing-pending"]),
    ]
}
