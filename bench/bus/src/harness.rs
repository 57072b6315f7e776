//! Rounds: every load on every subject once, again and again.

use crate::cases::{self, Case};
use crate::subjects::{self, Subject};
use crate::targets;
use bench_support::{Keep, Options, Results, measure, publish, run_rounds};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long one load lasts, and how often it is repeated; both for when time is short, too.
const LOAD_MS: u64 = 1000;
const LOAD_MS_QUICK: u64 = 250;
const ROUNDS: u32 = 7;
const ROUNDS_QUICK: u32 = 2;
/// A load that takes longer hangs.
pub(crate) const LOAD_TIME_LIMIT: Duration = Duration::from_secs(60);

/// A folder for sockets and settings, removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Result<Folder, String> {
        let path = std::env::temp_dir().join(format!("mainspring-bus-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .map_err(|error| format!("cannot create {}: {error}", path.display()))?;
        Ok(Folder(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Says with which settings the daemon runs.
pub(crate) fn print_defaults() {
    let config = mainspring_kernel::Config::default();
    println!("shipped defaults, validation of both sides on: {config:?}\n");
}

/// Runs the suite, prints the report and writes the rows.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    print_defaults();
    let folder = Folder::new()?;
    let mut measured = Vec::new();
    for name in subjects::NAMES.into_iter().filter(|name| options.wants_subject(name)) {
        match subjects::start(name, folder.path()) {
            Ok(subject) => measured.push(subject),
            Err(problem) => eprintln!("{name}: not measured: {problem}"),
        }
    }
    let mut cases = cases::all();
    cases.retain(|case| options.wants_case(&case.name));
    let mut results = Results::new("bus");
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
    targets::derive(&mut results, &cases);
    publish(&results, &targets::all(), options);
    Ok(())
}

/// One load on one subject; the figures go to the results.
pub(crate) fn put_under_load(
    subject: &Subject,
    case: &Case,
    load_ms: u64,
    results: &mut Results,
) -> Result<(), String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(this);
    command.args(subject.words());
    command.args([case.connections.to_string(), case.depth.to_string(), load_ms.to_string()]);
    let (cpu_ns, programs_ns) = (subject.server.cpu_ns()?, subject.server.children_cpu_ns());
    let time_limit = LOAD_TIME_LIMIT + Duration::from_millis(load_ms);
    let measurements = measure(&mut command, time_limit).map_err(|failure| failure.to_string())?;
    let cpu_ns = subject.server.cpu_ns()? - cpu_ns;
    let programs_ns = subject.server.children_cpu_ns().saturating_sub(programs_ns);
    let mut requests = 0.0;
    for measurement in &measurements {
        let (metric, sample) = (measurement.metric.as_str(), measurement.samples[0]);
        let keep = match metric {
            "requests" => {
                requests = sample;
                continue;
            }
            "requests_per_s" => Keep::Maximum,
            _ => Keep::Median,
        };
        results.record(&case.name, subject.name, metric, &measurement.unit, keep, sample);
    }
    let mut cost = |metric: &str, cpu_ns: u64| {
        let each_us = cpu_ns as f64 / requests / 1_000.0;
        results.record(&case.name, subject.name, metric, "us", Keep::Minimum, each_us);
    };
    cost("cpu_per_request", cpu_ns);
    if programs_ns > 0 {
        cost("program_cpu_per_request", programs_ns);
    }
    Ok(())
}
