//! The reactor against its peers: same work, CPU minima of interleaved processes, a table with the
//! targets.
//!
//! `reactor-bench [--quick] [--json FILE] [--filter TEXT] [--subject NAME] [--rounds N]` is the
//! harness. It starts itself as `reactor-bench subject NAME CASE NUMBERS...` for the Rust subjects,
//! and the programs compiled from `c/` for the others. See `bench/README.md` for how to read the
//! result.

mod c_subjects;
mod cases;
mod harness;
mod packages;
mod subjects;
mod system_calls;
mod targets;
mod workload;

use bench_support::{CountingAllocator, Options};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("subject", rest)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        subjects::run(rest);
        return;
    }
    harness::run(&Options::from_env("reactor-bench"));
}
