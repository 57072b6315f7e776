//! Rounds: every load on every subject once, again and again; and what the daemon has to reach.

use crate::subjects::{self, Subject};
use bench_support::{Keep, OURS, Options, Results, Target, measure, publish, run_rounds};
use std::process::Command;
use std::time::Duration;

/// How long one load lasts, and how often it is repeated; both for when time is short, too.
const LOAD_MS: u64 = 1000;
const LOAD_MS_QUICK: u64 = 250;
const ROUNDS: u32 = 9;
const ROUNDS_QUICK: u32 = 2;
/// A load that takes longer hangs.
const LOAD_TIME_LIMIT: Duration = Duration::from_secs(60);
/// Connections, each with one request at a time.
const CONNECTIONS: [usize; 2] = [1, 64];

/// The bare echo.
const HYPER: &str = "hyper";
/// What a command may cost at 64 connections: so many times the echo, and so many microseconds.
const TIMES_ECHO: f64 = 1.3;
const PLUS_US: f64 = 2.0;

fn case(connections: usize) -> String {
    format!("connections-{connections}")
}

/// Runs the suite, prints the report and writes the rows.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let mut measured = Vec::new();
    for name in subjects::NAMES.into_iter().filter(|name| options.wants_subject(name)) {
        match subjects::start(name) {
            Ok(subject) => measured.push(subject),
            Err(problem) => eprintln!("{name}: not measured: {problem}"),
        }
    }
    let mut cases = CONNECTIONS.to_vec();
    cases.retain(|connections| options.wants_case(&case(*connections)));
    let mut results = Results::new("http");
    let rounds = options.rounds.unwrap_or(if options.quick { ROUNDS_QUICK } else { ROUNDS });
    let load_ms = if options.quick { LOAD_MS_QUICK } else { LOAD_MS };
    run_rounds(
        &cases,
        |_| rounds,
        Duration::MAX,
        |connections, round| {
            for position in 0..measured.len() {
                let subject = &measured[(position + round) % measured.len()];
                if let Err(problem) = put_under_load(subject, *connections, load_ms, &mut results) {
                    eprintln!("{} {}: {problem}", case(*connections), subject.name);
                }
            }
        },
    );
    derive(&mut results);
    publish(&results, &targets(), options);
    Ok(())
}

fn targets() -> Vec<Target> {
    vec![
        Target::within(&case(1), "requests_per_s", 0.8, &[HYPER]).of_rate(),
        Target::at_most(&case(64), "cpu_over_allowed", 1.0),
    ]
}

/// Adds the figure that is made of others: the cost of a command as a part of what it may cost.
fn derive(results: &mut Results) {
    for connections in CONNECTIONS {
        let name = case(connections);
        let cost = |subject| results.value(&name, subject, "cpu_per_request");
        if let (Some(ours), Some(echo)) = (cost(OURS), cost(HYPER)) {
            let part = ours / (TIMES_ECHO * echo + PLUS_US);
            results.record(&name, OURS, "cpu_over_allowed", "times", Keep::Minimum, part);
        }
    }
}

/// One load on one subject; the figures go to the results.
fn put_under_load(
    subject: &Subject,
    connections: usize,
    load_ms: u64,
    results: &mut Results,
) -> Result<(), String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(this);
    command.args(["load", &subject.address, &connections.to_string(), &load_ms.to_string()]);
    let before_ns = subject.server.cpu_ns()?;
    let time_limit = LOAD_TIME_LIMIT + Duration::from_millis(load_ms);
    let measurements = measure(&mut command, time_limit).map_err(|failure| failure.to_string())?;
    let cpu_ns = subject.server.cpu_ns()? - before_ns;
    let name = case(connections);
    for measurement in &measurements {
        let (metric, sample) = (measurement.metric.as_str(), measurement.samples[0]);
        let keep = match metric {
            "requests" => {
                let each_us = cpu_ns as f64 / sample / 1_000.0;
                results.record(&name, subject.name, "cpu_per_request", "us", Keep::Minimum, each_us);
                continue;
            }
            "requests_per_s" => Keep::Maximum,
            _ => Keep::Median,
        };
        results.record(&name, subject.name, metric, &measurement.unit, keep, sample);
    }
    Ok(())
}
