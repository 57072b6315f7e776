//! `bus-bench --observed`: what it costs to be looked at, and who pays for it.
//!
//! The daemon is measured with nobody looking and with one tap, in turn, at 10,000 messages a
//! second and at full load; then beside four operators who tap, trace and list all the time.

mod lookers;
mod paced;

use crate::cases::Case;
use crate::harness::{Folder, print_defaults, put_under_load};
use crate::subjects::{self, Subject};
use bench_support::{Keep, OURS, Options, Results, Target, publish};
use lookers::{Looker, Work};
use std::time::Duration;

const PACED: &str = "10000-a-second";
const FULL: &str = "full-load";
const BYSTANDER: &str = "beside-four-operators";
/// Messages a second of the paced load.
const RATE: u64 = 10_000;
const ROUNDS: u32 = 7;
const ROUNDS_QUICK: u32 = 2;

/// What a tap may cost, as a share of a core, at each load.
const PACED_SHARE_MAX: f64 = 2.0;
const FULL_SHARE_MAX: f64 = 5.0;
/// What a bystander may wait at the 99th percentile, in microseconds.
const BYSTANDER_P99_MAX: f64 = 10_000.0;

/// Runs the suite, prints the report and writes the rows.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    print_defaults();
    let folder = Folder::new()?;
    let subject = subjects::start("mainspring", folder.path())?;
    let mut results = Results::new("observed");
    let rounds = options.rounds.unwrap_or(if options.quick { ROUNDS_QUICK } else { ROUNDS });
    let time = Duration::from_millis(if options.quick { 500 } else { 2_000 });
    for _ in 0..rounds {
        for is_tapped in [false, true] {
            let tap = is_tapped.then(|| Looker::start(subject.address(), Work::Tap)).transpose()?;
            if options.wants_case(PACED) {
                paced_load(&subject, name(is_tapped), time, &mut results)?;
            }
            if options.wants_case(FULL) {
                full_load(&subject, name(is_tapped), time, &mut results)?;
            }
            if let Some(tap) = tap {
                let records = tap.end()? as f64;
                results.record(PACED, name(true), "records", "count", Keep::Median, records);
            }
        }
        if options.wants_case(BYSTANDER) {
            beside_operators(&subject, time, &mut results)?;
        }
    }
    derive(&mut results);
    publish(
        &results,
        &[
            Target::at_most(PACED, "tap_share_of_core", PACED_SHARE_MAX),
            Target::at_most(FULL, "tap_share_of_core", FULL_SHARE_MAX),
            Target::at_most(BYSTANDER, "p99", BYSTANDER_P99_MAX),
        ],
        options,
    );
    Ok(())
}

fn name(is_tapped: bool) -> &'static str {
    if is_tapped { "one-tap" } else { "no-tap" }
}

/// The daemon's share of a core at so many messages a second.
fn paced_load(subject: &Subject, name: &str, time: Duration, results: &mut Results) -> Result<(), String> {
    let before_ns = subject.server.cpu_ns()?;
    let load = paced::run(subject.address(), RATE, time)?;
    let used_ns = subject.server.cpu_ns()? - before_ns;
    let share = used_ns as f64 / load.took.as_nanos() as f64 * 100.0;
    results.record(PACED, name, "share_of_core", "%", Keep::Minimum, share);
    results.record(PACED, name, "messages_per_s", "1/s", Keep::Median, load.per_second());
    Ok(())
}

/// The daemon's CPU time for a request when it gets as many as it can serve.
fn full_load(subject: &Subject, name: &str, time: Duration, results: &mut Results) -> Result<(), String> {
    let case = Case { name: FULL.into(), connections: 64, depth: 64 };
    let mut one = Results::new("observed");
    put_under_load(subject, &case, time.as_millis() as u64, &mut one)?;
    for (metric, unit, keep) in
        [("cpu_per_request", "us", Keep::Minimum), ("requests_per_s", "1/s", Keep::Maximum)]
    {
        if let Some(value) = one.value(FULL, subject.name, metric) {
            results.record(FULL, name, metric, unit, keep, value);
        }
    }
    Ok(())
}

/// What somebody waits for a query while four operators look at everything.
fn beside_operators(subject: &Subject, time: Duration, results: &mut Results) -> Result<(), String> {
    let works = [Work::TapAndTrace, Work::TapAndTrace, Work::TapAndList, Work::TapAndList];
    let operators = works.map(|work| Looker::start(subject.address(), work));
    let operators: Vec<Looker> = operators.into_iter().collect::<Result<_, _>>()?;
    let load = paced::run(subject.address(), RATE, time)?;
    let looks: u64 = operators.into_iter().map(Looker::end).sum::<Result<u64, String>>()?;
    for (metric, part) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        results.record(BYSTANDER, OURS, metric, "us", Keep::Median, load.latency_us(part));
    }
    results.record(BYSTANDER, OURS, "messages_per_s", "1/s", Keep::Median, load.per_second());
    results.record(BYSTANDER, OURS, "answers_to_operators", "count", Keep::Median, looks as f64);
    Ok(())
}

/// The cost of the tap as a share of a core. At full load the daemon uses a whole one, so that what
/// each request costs more is that share.
fn derive(results: &mut Results) {
    let pair = |case: &str, metric: &str| {
        Some((results.value(case, name(false), metric)?, results.value(case, name(true), metric)?))
    };
    let paced = pair(PACED, "share_of_core").map(|(without, with)| with - without);
    let full = pair(FULL, "cpu_per_request").map(|(without, with)| (with / without - 1.0) * 100.0);
    for (case, share) in [(PACED, paced), (FULL, full)] {
        if let Some(share) = share {
            results.record(case, OURS, "tap_share_of_core", "%", Keep::Median, share);
        }
    }
}
