//! Rounds: every subject of every case once, again and again, each time in a process of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bench_support::{Case, Keep, Measurement, Options, Results, measure, publish, run_rounds};

use crate::{c_subjects, cases, subjects, system_calls, targets};

/// A subject that takes longer than this for one measurement hangs.
const SUBJECT_TIME_LIMIT: Duration = Duration::from_secs(120);

/// In a quick run no further round begins after this, so that a busy machine gets fewer rounds
/// rather than a longer run.
const QUICK_TIME_LIMIT: Duration = Duration::from_secs(40);

/// How to start each subject: its program and the words that come before the case.
struct Programs(BTreeMap<&'static str, (PathBuf, Vec<String>)>);

impl Programs {
    /// Compiles what needs compiling. A subject that cannot be had is left out, with one line that
    /// says why.
    fn prepare(options: &Options) -> Programs {
        let mut programs = BTreeMap::new();
        for subject in c_subjects::C_SUBJECTS.iter().filter(|subject| options.wants_subject(subject.name)) {
            match subject.build() {
                Ok(program) => _ = programs.insert(subject.name, (program, subject.words())),
                Err(problem) => eprintln!("{}: not measured: {problem}", subject.name),
            }
        }
        let this = std::env::current_exe().expect("a running program has a path");
        for name in subjects::IN_RUST.into_iter().filter(|name| options.wants_subject(name)) {
            programs.insert(name, (this.clone(), vec!["subject".into(), name.into()]));
        }
        Programs(programs)
    }

    fn start_of(&self, subject: &str) -> Option<(&Path, &[String])> {
        self.0.get(subject).map(|(program, words)| (program.as_path(), words.as_slice()))
    }
}

/// Runs the suite, prints the report and writes the rows.
pub(crate) fn run(options: &Options) {
    let programs = Programs::prepare(options);
    let mut cases = cases::all(options.quick);
    cases.retain(|case| options.wants_case(case.name));
    let mut results = Results::new("reactor");
    let rounds = |case: &Case| options.rounds.unwrap_or(case.rounds);
    let time_limit = if options.quick { QUICK_TIME_LIMIT } else { Duration::MAX };
    run_rounds(&cases, rounds, time_limit, |case, round| run_case(case, round, &programs, &mut results));
    if options.wants_case(cases::TURNS_CASE) {
        count_turns(&programs, &mut results);
    }
    publish(&results, &targets::all(), options);
}

/// One measurement of every subject. Each round begins with another subject, so that none always
/// follows the same one.
fn run_case(case: &Case, round: usize, programs: &Programs, results: &mut Results) {
    for position in 0..case.subjects.len() {
        let subject = case.subjects[(position + round) % case.subjects.len()];
        let Some((program, words)) = programs.start_of(subject) else { continue };
        match measure(Command::new(program).args(words).args(&case.words), SUBJECT_TIME_LIMIT) {
            Ok(measurements) => measurements.iter().for_each(|m| record(results, case.name, subject, m)),
            Err(failure) => eprintln!("{} {subject}: {failure}", case.name),
        }
    }
}

/// Costs keep their minimum; lateness becomes its median and its 99th percentile.
fn record(results: &mut Results, case: &str, subject: &str, measurement: &Measurement) {
    let Measurement { metric, unit, samples } = measurement;
    for &sample in samples {
        if metric == "lateness" {
            results.record(case, subject, "median", unit, Keep::Median, sample);
            results.record(case, subject, "p99", unit, Keep::P99, sample);
        } else {
            results.record(case, subject, metric, unit, Keep::Minimum, sample);
        }
    }
}

/// System calls and allocations per turn: counts, not times, so once is enough.
fn count_turns(programs: &Programs, results: &mut Results) {
    let strace = system_calls::prepare();
    if let Err(problem) = &strace {
        eprintln!("system calls per turn: not counted: {problem}");
    }
    for &subject in cases::COUNTED {
        let Some((program, words)) = programs.start_of(subject) else { continue };
        let words: Vec<String> = words.iter().cloned().chain(cases::TURNS_WORDS.map(String::from)).collect();
        match measure(Command::new(program).args(&words).arg("1000"), SUBJECT_TIME_LIMIT) {
            Ok(measurements) => {
                measurements.iter().for_each(|m| record(results, cases::TURNS_CASE, subject, m));
            }
            Err(failure) => eprintln!("allocations per turn, {subject}: {failure}"),
        }
        if strace.is_ok() {
            match system_calls::per_turn(program, &words) {
                Ok(calls) => {
                    let metric = "system_calls_per_turn";
                    results.record(cases::TURNS_CASE, subject, metric, "count", Keep::Minimum, calls);
                }
                Err(problem) => eprintln!("system calls per turn, {subject}: {problem}"),
            }
        }
    }
}
