//! `mainspring status`: what runs, since when, where, and how it is, on one screen.

use crate::cli::support::read_command::ReadCommand;
use crate::cli::support::target::Failure;
use crate::cli::support::{actor_health, local_time, output, text};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Capabilities that are listed: the sick ones first.
const ROWS_MAX: usize = 12;
const MIB: u64 = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  mainspring status
  mainspring status --json | jq .stats.floors.daemon
  mainspring status > /dev/null && echo well

Exit code: 0 it runs and every capability is well, 1 one is not, or the daemon refuses or does not answer, 2 the command line is wrong, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct StatusArguments {
    #[command(flatten)]
    look: ReadCommand,
}

pub(in crate::cli) fn run(arguments: &StatusArguments) -> ExitCode {
    status(&arguments.look).unwrap_or_else(|failure| failure.report())
}

fn status(look: &ReadCommand) -> Result<ExitCode, Failure> {
    let stats = look.target.ask("Sys.Stats", json!({}))?;
    let actors = look.target.ask("Sys.Actors", json!({}))?;
    let page = match look.json {
        true => format!("{}\n", json!({ "stats": stats, "actors": actors["actors"] })),
        false => page(&stats, &actors, look.target.http_run_file()),
    };
    let printed = output::print(&page);
    let is_well = actors["actors"].as_array().into_iter().flatten().all(|it| !actor_health::is_sick(it));
    Ok(if is_well { printed } else { ExitCode::FAILURE })
}

fn page(stats: &Value, actors: &Value, http: Option<PathBuf>) -> String {
    let (daemon, gauges, counters) = (&stats["floors"]["daemon"], &stats["gauges"], &stats["counters"]);
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let word = |value: &Value| text::visible(value.as_str().unwrap_or_default()).into_owned();
    let mut page = format!("mainspring {} runs as process {}\n", word(&daemon["version"]), daemon["pid"]);
    let mut row = |name: &str, words: String| {
        let _ = writeln!(page, "  {name:<14} {words}");
    };
    let (since, up) =
        (local_time::moment(number(&daemon["startedAt"])), text::span(number(&daemon["uptimeMs"])));
    row("since", format!("{since} ({up})"));
    for listener in daemon["listeners"].as_array().into_iter().flatten() {
        row("listens", format!("{} {}", word(&listener["kind"]), word(&listener["address"])));
    }
    if let Some(file) = http {
        row("http token", text::visible(&file.display().to_string()).into_owned());
    }
    match daemon["configuration"].as_str() {
        Some(path) => row("configuration", text::visible(path).into_owned()),
        None => row("configuration", "none: the built-in defaults".into()),
    }
    row("clients", text::count(number(&gauges["connections"]), "connection", "connections"));
    let [taken, failed] = ["requestsAccepted", "requestsFailed"].map(|name| number(&counters[name]));
    let [unfinished, overdue] = ["requests", "overdue"].map(|name| number(&gauges[name]));
    // The question itself is one of them.
    let unfinished = unfinished.saturating_sub(1);
    row("requests", format!("{taken} taken, {failed} failed, {unfinished} unfinished, {overdue} overdue"));
    row("latency", latency(&stats["latencyNs"]));
    row("events", format!("{} taken", number(&counters["eventsAccepted"])));
    let timers = text::count(number(&gauges["schedules"]), "timer", "timers");
    let letters = text::count(number(&gauges["deadLetters"]), "dead letter", "dead letters");
    row("kept", format!("{timers}, {letters}"));
    let [memory, cpu_ms] = ["memoryBytes", "cpuMs"].map(|name| number(&daemon[name]));
    let (open, open_max) = (number(&daemon["descriptors"]), number(&daemon["descriptorsMax"]));
    let cpu = text::span(cpu_ms);
    row("uses", format!("{} MiB of memory, {cpu} of CPU, {open} of {open_max} descriptors", memory / MIB));
    page + "\n" + &capabilities(actors)
}

fn latency(ns: &Value) -> String {
    let time = |name: &str| text::nanoseconds(ns[name].as_u64().unwrap_or(0));
    match ns.is_null() {
        true => "no request of late".into(),
        false => format!("p50 {}, p99 {}, longest {}", time("p50"), time("p99"), time("max")),
    }
}

fn capabilities(actors: &Value) -> String {
    let mut list: Vec<&Value> = actors["actors"].as_array().into_iter().flatten().collect();
    list.sort_by_key(|actor| !actor_health::is_sick(actor));
    let sick = list.iter().filter(|actor| actor_health::is_sick(actor)).count();
    let verdict = match sick as u64 {
        0 => "all are well".into(),
        sick => format!("{} not well", text::count(sick, "is", "are")),
    };
    let mut page = format!("{}, {verdict}\n", text::count(list.len() as u64, "capability", "capabilities"));
    let mut rows =
        vec![["CAPABILITY", "STATE", "FOR", "REQUESTS", "FAULTS", "WHY"].map(String::from).to_vec()];
    for actor in list.iter().take(ROWS_MAX) {
        let number = |key: &str| actor[key].as_u64().unwrap_or(0).to_string();
        rows.push(vec![
            text::visible(actor["capabilityId"].as_str().unwrap_or_default()).into_owned(),
            actor["state"].as_str().unwrap_or_default().to_owned(),
            text::span(actor["sinceMs"].as_u64().unwrap_or(0)),
            number("handled"),
            number("faults"),
            actor_health::why(actor),
        ]);
    }
    for line in text::table(&rows).lines() {
        let _ = writeln!(page, "  {line}");
    }
    if list.len() > ROWS_MAX {
        let _ = writeln!(page, "  and {} more; see `mainspring actors`", list.len() - ROWS_MAX);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sick_ones_come_first_with_their_reason() {
        let actors = json!({ "actors": [
            { "capabilityId": "well", "state": "up", "sinceMs": 5, "handled": 3, "faults": 0, "overdue": 0 },
            { "capabilityId": "stuck", "state": "up", "sinceMs": 5, "handled": 3, "faults": 0, "overdue": 2 },
            { "capabilityId": "gone", "state": "unhealthy", "sinceMs": 5, "handled": 3, "faults": 4, "overdue": 0,
              "probeInMs": 29_000, "lastFault": { "message": "it ended with exit code 1" } },
        ]});
        assert_eq!(
            capabilities(&actors),
            "3 capabilities, 2 are not well
  CAPABILITY  STATE      FOR  REQUESTS  FAULTS  WHY
  stuck       up         5ms         3       0  2 overdue requests
  gone        unhealthy  5ms         3       4  it ended with exit code 1; next try in 29.0s
  well        up         5ms         3       0
"
        );
        assert!(capabilities(&json!({})).starts_with("0 capabilities, all are well\n"));
    }
}
