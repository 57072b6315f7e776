//! The load generator: a process that keeps so many requests under way and says what became of
//! them.

mod nats;
mod sockets;
mod wire;

use crate::durable::commits;
use bench_support::{monotonic_ns, process_cpu_ns};
use std::time::Duration;

/// What to send, where to, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) address: String,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    pub(crate) duration: Duration,
}

/// What came back.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Latencies of the requests that count, in nanoseconds.
    pub(crate) latencies_ns: Vec<u64>,
    /// All requests, with those of the warm-up.
    pub(crate) requests: u64,
    /// Flushes of the disk, where the load makes them itself.
    pub(crate) flushes: u64,
    /// How long those that count were sent and answered.
    pub(crate) counted_ns: u64,
}

/// The part of the duration, at its start, whose requests do not count.
pub(crate) const WARM_UP_PART: u32 = 5;

pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let [protocol, address, connections, depth, duration_ms] = words else {
        return Err("load needs: PROTOCOL ADDRESS CONNECTIONS DEPTH MILLISECONDS".into());
    };
    let number = |text: &String| text.parse::<usize>().map_err(|_| format!("{text} is no number"));
    let load = Load {
        address: address.clone(),
        connections: number(connections)?,
        depth: number(depth)?,
        duration: Duration::from_millis(number(duration_ms)? as u64),
    };
    let (start_ns, start_cpu_ns) = (monotonic_ns(), process_cpu_ns());
    let outcome = match protocol.as_str() {
        "nats" => nats::run(&load)?,
        "jetstream" => nats::run_jetstream(&load)?,
        "commit" => commits::raw(&load)?,
        "sqlite" => commits::sqlite(&load)?,
        protocol => sockets::run(&load, wire::of(protocol)?)?,
    };
    let busy = (process_cpu_ns() - start_cpu_ns) as f64 / (monotonic_ns() - start_ns) as f64;
    print(outcome, busy)
}

fn print(mut outcome: Outcome, busy: f64) -> Result<(), String> {
    let latencies = &mut outcome.latencies_ns;
    if latencies.is_empty() {
        return Err("no request was answered in time to count".into());
    }
    latencies.sort_unstable();
    let at = |part: f64| latencies[((latencies.len() - 1) as f64 * part) as usize] as f64 / 1_000.0;
    println!("p50 us {:.2}", at(0.5));
    println!("p99 us {:.2}", at(0.99));
    println!("p99.9 us {:.2}", at(0.999));
    println!("requests_per_s 1/s {:.0}", latencies.len() as f64 * 1e9 / outcome.counted_ns as f64);
    println!("generator_busy % {:.0}", busy * 100.0);
    println!("requests count {}", outcome.requests);
    if outcome.flushes > 0 {
        println!("flushes count {}", outcome.flushes);
    }
    Ok(())
}
