//! What the wheel costs as the kernel uses it, beside a binary heap:
//! `cargo bench -p mainspring-kernel --bench wheel`.
//!
//! Peers that bring dependencies are in the workspace of benchmarks: `cargo xtask bench wheel` runs
//! the same work on them, too.

mod heap;
mod workload;

use std::sync::LazyLock;
use std::time::Instant;

/// The time since the first call. There is no clock of CPU time without another dependency; that of
/// the machine will do for the mean, if little else runs.
fn elapsed_ns() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn main() {
    workload::print_head();
    for load in workload::LOADS {
        workload::measure(&load, elapsed_ns, workload::TimingWheel::default);
        workload::measure(&load, elapsed_ns, heap::LazyHeap::default);
    }
}
