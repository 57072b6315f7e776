//! Rounds: every subject of every case once, again and again, each time in a process of its own.

use crate::cases::{self, Case};
use crate::targets;
use bench_support::{Keep, Measurement, Options, Results, measure, report, write_json};
use std::process::Command;
use std::time::{Duration, Instant};

/// A subject that takes longer than this for one measurement hangs.
const SUBJECT_TIME_LIMIT: Duration = Duration::from_secs(180);

/// Runs the suite, prints the report and writes the rows.
pub(crate) fn run(options: &Options) {
    prepare(cases::rows(options.quick));
    let mut cases = cases::all(options.quick);
    cases.retain(|case| options.wants_case(case.name));
    let started = Instant::now();
    let mut results = Results::new("postgres");
    let rounds = |case: &Case| options.rounds.unwrap_or(case.rounds);
    let last = cases.iter().map(rounds).max().unwrap_or(0);
    for round in 0..last {
        eprintln!("round {} of {last}, after {:.0} s", round + 1, started.elapsed().as_secs_f64());
        for case in cases.iter().filter(|case| round < rounds(case)) {
            run_case(case, round as usize, options, &mut results);
        }
    }
    print!("{}", report(&results, &targets::all()));
    if let Some(path) = &options.json
        && let Err(error) = write_json(path, &results.rows())
    {
        eprintln!("cannot write {}: {error}", path.display());
        std::process::exit(1);
    }
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

/// One measurement of every subject. Each round begins with another subject, so that none always follows the same one.
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
