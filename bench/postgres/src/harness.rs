//! Rounds: every subject of every case once, again and again, each time in a process of its own.

use crate::cases::{self, Case};
use crate::targets;
use bench_support::{Keep, Measurement, Options, Results, measure, publish, run_rounds};
use std::process::Command;
use std::time::Duration;

/// A subject that takes longer than this for one measurement hangs.
const SUBJECT_TIME_LIMIT: Duration = Duration::from_secs(180);

/// Runs the suite, prints the report and writes the rows.
pub(crate) fn run(options: &Options) {
    prepare(cases::rows(options.quick));
    let mut cases = cases::all(options.quick);
    cases.retain(|case| options.wants_case(case.name));
    let mut results = Results::new("postgres");
    let rounds = |case: &Case| options.rounds.unwrap_or(case.rounds);
    run_rounds(&cases, rounds, Duration::MAX, |case, round| run_case(case, round, options, &mut results));
    publish(&results, &targets::all(), options);
}

/// Fills the table that is read.
fn prepare(rows: u64) {
    let filled = subject().args(["native", "prepare", &rows.to_string(), "1"]).status();
    if !filled.is_ok_and(|status| status.success()) {
        eprintln!("cannot fill the table that is read");
        std::process::exit(1);
    }
}

fn subject() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a running program has a path"));
    command.arg("subject");
    command
}

/// One measurement of every subject. Each round begins with another subject, so that none always
/// follows the same one.
fn run_case(case: &Case, round: usize, options: &Options, results: &mut Results) {
    for position in 0..case.subjects.len() {
        let (name, who) = case.subjects[(position + round) % case.subjects.len()];
        if !options.wants_subject(name) {
            continue;
        }
        match measure(subject().arg(who).args(&case.words), SUBJECT_TIME_LIMIT) {
            Ok(measurements) => measurements.iter().for_each(|m| record(results, case.name, name, m)),
            Err(failure) => eprintln!("{} {name}: {failure}", case.name),
        }
    }
}

fn record(results: &mut Results, case: &str, subject: &str, measurement: &Measurement) {
    let Measurement { metric, unit, samples } = measurement;
    for &sample in samples {
        results.record(case, subject, metric, unit, Keep::Minimum, sample);
    }
}
