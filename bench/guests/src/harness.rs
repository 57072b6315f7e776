//! Rounds: every subject of every case once, again and again, each time in a process of its own.

use std::process::Command;
use std::time::Duration;

use bench_support::{Case, Keep, Measurement, Options, Results, measure, publish, run_rounds};

use crate::{cases, targets};

/// A subject that takes longer than this for one measurement hangs.
const SUBJECT_TIME_LIMIT: Duration = Duration::from_secs(120);

/// Runs the suite, prints the report and writes the rows.
pub(crate) fn run(options: &Options) {
    let mut cases = cases::all(options.quick);
    cases.retain(|case| options.wants_case(case.name));
    let mut results = Results::new("guests");
    let rounds = |case: &Case| options.rounds.unwrap_or(case.rounds);
    run_rounds(&cases, rounds, Duration::MAX, |case, round| run_case(case, round, options, &mut results));
    targets::derive(&mut results);
    publish(&results, &targets::all(), options);
}

/// One measurement of every subject. Each round begins with another subject, so that none always
/// follows the same one.
fn run_case(case: &Case, round: usize, options: &Options, results: &mut Results) {
    let this = std::env::current_exe().expect("a running program has a path");
    for position in 0..case.subjects.len() {
        let subject = case.subjects[(position + round) % case.subjects.len()];
        if !options.wants_subject(subject) {
            continue;
        }
        let mut command = Command::new(&this);
        match measure(command.args(["subject", subject]).args(&case.words), SUBJECT_TIME_LIMIT) {
            Ok(measurements) => measurements.iter().for_each(|m| record(results, case.name, subject, m)),
            Err(failure) => eprintln!("{} {subject}: {failure}", case.name),
        }
    }
}

/// Costs keep their minimum, rates their maximum.
fn record(results: &mut Results, case: &str, subject: &str, measurement: &Measurement) {
    let Measurement { metric, unit, samples } = measurement;
    let keep = if metric.ends_with("_per_s") { Keep::Maximum } else { Keep::Minimum };
    for &sample in samples {
        results.record(case, subject, metric, unit, keep, sample);
    }
}
