//! `bus-bench --durable`: commands that survive a power cut, beside the raw loop that no system can
//! beat, Redis with `appendfsync always`, JetStream with `sync_interval: always`, and SQLite with
//! `synchronous = FULL`.
//!
//! All of them write to the same disk in the same minute: only ratios mean something, and a flush
//! costs what it costs today.

pub(crate) mod commits;
mod start;
mod subjects;
mod targets;

use crate::cases::Case;
use crate::harness::{Folder, LOAD_TIME_LIMIT, print_defaults};
use bench_support::{Keep, Options, Results, measure, publish, run_rounds};
use std::process::{Command, Stdio};
use std::time::Duration;
use subjects::Subject;

const LOAD_MS: u64 = 2000;
const LOAD_MS_QUICK: u64 = 500;
const ROUNDS: u32 = 5;
const ROUNDS_QUICK: u32 = 1;
/// Requests that wait for no disk, beside those that do.
const BESIDE: &str = "ping-beside-256";

/// One at a time, and 256 under way on one connection and on 64.
pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, connections, depth| Case { name: name.to_owned(), connections, depth };
    vec![
        case("one-at-a-time", 1, 1),
        case("256-on-1-connection", 1, 256),
        case("256-on-64-connections", 64, 4),
    ]
}

/// Runs the suite, prints the report and writes the rows.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    print_defaults();
    let folder = Folder::new()?;
    println!("journals and data are in {}\n", folder.path().display());
    let mut measured = Vec::new();
    for name in subjects::NAMES.into_iter().filter(|name| options.wants_subject(name)) {
        match Subject::start(name, folder.path()) {
            Ok(subject) => measured.push(subject),
            Err(problem) => eprintln!("{name}: not measured: {problem}"),
        }
    }
    let mut cases = cases();
    cases.retain(|case| options.wants_case(&case.name));
    let mut results = Results::new("durable");
    let rounds = options.rounds.unwrap_or(if options.quick { ROUNDS_QUICK } else { ROUNDS });
    let load_ms = if options.quick { LOAD_MS_QUICK } else { LOAD_MS };
    run_rounds(
        &cases,
        |_| rounds,
        Duration::MAX,
        |case, round| {
            for position in 0..measured.len() {
                let subject = &measured[(position + round) % measured.len()];
                if let Err(problem) = put_under_load(subject, case, load_ms, &mut results) {
                    eprintln!("{} {}: {problem}", case.name, subject.name);
                }
            }
        },
    );
    if options.wants_case(BESIDE) {
        for subject in measured.iter().filter(|subject| subject.protocol == "memory") {
            for _ in 0..rounds {
                if let Err(problem) = beside_load(subject, load_ms, &mut results) {
                    eprintln!("{BESIDE} {}: {problem}", subject.name);
                }
            }
        }
    }
    drop(measured);
    for case in start::CASES.into_iter().filter(|case| options.wants_case(case)) {
        for _ in 0..rounds {
            if let Err(problem) = start::measure(case, folder.path(), options.quick, &mut results) {
                eprintln!("{case}: {problem}");
            }
        }
    }
    targets::derive(&mut results, &cases);
    publish(&results, &targets::all(), options);
    Ok(())
}

/// The load generator, with these words.
fn load(protocol: &str, address: &str, connections: usize, depth: usize, ms: u64) -> Result<Command, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(this);
    command.args(["load", protocol, address]);
    command.args([connections.to_string(), depth.to_string(), ms.to_string()]);
    Ok(command)
}

/// Requests that wait for no disk, one at a time, while others set keys as fast as they can.
fn beside_load(subject: &Subject, load_ms: u64, results: &mut Results) -> Result<(), String> {
    let mut others = load(subject.protocol, &subject.address, 64, 4, load_ms + 200)?;
    let mut others =
        others.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(|error| error.to_string())?;
    std::thread::sleep(Duration::from_millis(100));
    let time_limit = LOAD_TIME_LIMIT + Duration::from_millis(load_ms);
    let measured = measure(&mut load("ping", &subject.address, 1, 1, load_ms)?, time_limit);
    let ended = others.wait().map_err(|error| error.to_string())?;
    if !ended.success() {
        return Err(format!("the load beside it failed: {ended}"));
    }
    for measurement in measured.map_err(|failure| failure.to_string())? {
        if ["p50", "p99"].contains(&measurement.metric.as_str()) {
            let sample = measurement.samples[0];
            results.record(
                BESIDE,
                subject.name,
                &measurement.metric,
                &measurement.unit,
                Keep::Median,
                sample,
            );
        }
    }
    Ok(())
}

/// One load on one subject; the figures go to the results.
fn put_under_load(subject: &Subject, case: &Case, load_ms: u64, results: &mut Results) -> Result<(), String> {
    let mut command = load(subject.protocol, &subject.address, case.connections, case.depth, load_ms)?;
    let (cpu_ns, flushes) = (subject.cpu_ns()?, subject.flushes()?);
    let loop_ns = subject.loop_cpu_ns();
    let time_limit = LOAD_TIME_LIMIT + Duration::from_millis(load_ms);
    let measurements = measure(&mut command, time_limit).map_err(|failure| failure.to_string())?;
    let (mut requests, mut flushed) = (0.0, None);
    for measurement in &measurements {
        let (metric, sample) = (measurement.metric.as_str(), measurement.samples[0]);
        let keep = match metric {
            "requests" => {
                requests = sample;
                continue;
            }
            "flushes" => {
                flushed = Some(sample);
                continue;
            }
            "requests_per_s" => Keep::Maximum,
            _ => Keep::Median,
        };
        results.record(&case.name, subject.name, metric, &measurement.unit, keep, sample);
    }
    if let (Some(before), Some(after)) = (flushes, subject.flushes()?) {
        flushed = Some((after - before) as f64);
    }
    if let Some(flushes) = flushed.filter(|flushes| *flushes > 0.0) {
        let per_s = flushes * 1000.0 / load_ms as f64;
        results.record(&case.name, subject.name, "flushes_per_s", "1/s", Keep::Median, per_s);
        results.record(&case.name, subject.name, "acks_per_flush", "", Keep::Median, requests / flushes);
    }
    if let (Some(before), Some(after)) = (cpu_ns, subject.cpu_ns()?) {
        let each_us = (after - before) as f64 / requests / 1_000.0;
        results.record(&case.name, subject.name, "cpu_per_request", "us", Keep::Minimum, each_us);
    }
    if let (Some(before), Some(after)) = (loop_ns, subject.loop_cpu_ns()) {
        let each_us = (after - before) as f64 / requests / 1_000.0;
        results.record(&case.name, subject.name, "loop_cpu_per_request", "us", Keep::Minimum, each_us);
    }
    Ok(())
}
