//! One look at a daemon, as text.

use super::asker::Sample;
use crate::cli::support::text;
use crate::text::units;
use serde_json::Value;
use std::fmt::Write as _;

impl Sample {
    fn counter(&self, name: &str) -> u64 {
        self.stats["counters"][name].as_u64().unwrap_or(0)
    }

    fn gauge(&self, name: &str) -> u64 {
        self.stats["gauges"][name].as_u64().unwrap_or(0)
    }
}

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";

/// Everything, as lines.
pub(in crate::cli::inspect::top) fn page(earlier: Option<&Sample>, now: &Sample, colour: bool) -> String {
    let mut page = String::new();
    let title = |name: &str| if colour { format!("{BOLD}{name}{PLAIN}") } else { name.to_owned() };
    let _ = writeln!(
        page,
        "{}  {}, {}",
        title("mainspring"),
        text::count(now.gauge("connections"), "connection", "connections"),
        text::count(now.gauge("peers"), "peer", "peers")
    );
    let _ = writeln!(page);
    let rates = [
        ("requests/s", "requestsAccepted"),
        ("replies/s", "requestsReplied"),
        ("errors/s", "requestsFailed"),
        ("refused/s", "refused"),
        ("events/s", "eventsAccepted"),
        ("turns/s", "turns"),
    ];
    let cells = rates.map(|(label, name)| format!("{label} {}", rate(earlier, now, name)));
    let _ = writeln!(page, "{:<8}  {}", title("rates"), cells.join("   "));
    let _ = writeln!(page, "{:<8}  {}", title("latency"), latency(&now.stats["latencyNs"]));
    for (name, gauges) in [
        (
            "lanes",
            &[
                ("system", "systemLane"),
                ("completions", "completionsLane"),
                ("user", "userLane"),
                ("mailboxes", "mailboxes"),
                ("working", "inFlight"),
                ("overdue", "overdue"),
            ][..],
        ),
        (
            "kept",
            &[
                ("timers", "schedules"),
                ("dead letters", "deadLetters"),
                ("answers", "windowAnswers"),
                ("waiting events", "waitingEvents"),
                ("unwritten bytes", "egressBytes"),
            ][..],
        ),
    ] {
        let cells: Vec<String> =
            gauges.iter().map(|(label, gauge)| format!("{label} {}", now.gauge(gauge))).collect();
        let _ = writeln!(page, "{:<8}  {}", title(name), cells.join("   "));
    }
    if let Some(journal) = journal(&now.stats["floors"]["journal"]) {
        let _ = writeln!(page, "{:<8}  {journal}", title("journal"));
    }
    let _ = writeln!(page);
    page += &actors(now, colour);
    page
}

/// What the journal takes and how it is, if there is one.
fn journal(of: &Value) -> Option<String> {
    of.as_object()?;
    let number = |name: &str| of[name].as_u64().unwrap_or(0);
    let state = match (of["failed"].as_str(), of["full"].as_bool()) {
        (Some(reason), _) => format!("   failed: {}", text::visible(reason)),
        (None, Some(true)) => "   the disk is full".to_owned(),
        _ => String::new(),
    };
    Some(format!(
        "{}   facts {}   flushes {}   mean {}   max {}   waiting {}{state}",
        units::show_bytes(number("bytes")),
        number("facts"),
        number("flushes"),
        text::nanoseconds(number("flushMeanUs") * 1000),
        text::nanoseconds(number("flushMaxUs") * 1000),
        number("held"),
    ))
}

/// How long requests took that capabilities were given.
fn latency(ns: &Value) -> String {
    if ns.is_null() {
        return "no request of late".into();
    }
    let cells = ["mean", "p50", "p99", "max"].map(|name| format!("{name} {}", time(&ns[name])));
    format!("{}   requests {}", cells.join("   "), ns["requests"].as_u64().unwrap_or(0))
}

/// A time in nanoseconds, if there is one.
fn time(ns: &Value) -> String {
    ns.as_u64().map_or("-".into(), text::nanoseconds)
}

/// How often something happens in a second.
fn rate(earlier: Option<&Sample>, now: &Sample, name: &str) -> String {
    let Some(earlier) = earlier else { return "-".into() };
    let seconds = now.at.duration_since(earlier.at).as_secs_f64();
    let count = now.counter(name).saturating_sub(earlier.counter(name));
    if seconds <= 0.0 { "-".into() } else { format!("{:.0}", count as f64 / seconds) }
}

fn actors(now: &Sample, colour: bool) -> String {
    let heading = [
        "CAPABILITY",
        "STATE",
        "FOR",
        "MAILBOX",
        "WORKING",
        "OVERDUE",
        "HANDLED",
        "P50",
        "P99",
        "FAULTS",
        "RESTARTS",
        "MORE",
    ];
    let mut rows = vec![heading.map(String::from).to_vec()];
    let list: Vec<&Value> = now.actors["actors"].as_array().into_iter().flatten().collect();
    for actor in &list {
        let number = |key: &str| actor[key].as_u64().unwrap_or(0).to_string();
        let id = actor["capabilityId"].as_str().unwrap_or_default();
        rows.push(vec![
            text::visible(id).into_owned(),
            actor["state"].as_str().unwrap_or_default().to_owned(),
            text::span(actor["sinceMs"].as_u64().unwrap_or(0)),
            number("mailbox"),
            number("inFlight"),
            number("overdue"),
            number("handled"),
            time(&actor["latencyNs"]["p50"]),
            time(&actor["latencyNs"]["p99"]),
            number("faults"),
            number("restartsInWindow"),
            more(&now.stats["floors"]["actors"][id]),
        ]);
    }
    let table = text::table(&rows);
    let shown = table.lines().enumerate().map(|(at, line)| {
        let is_unwell = |actor: &&Value| actor["state"] != "up" || actor["overdue"].as_u64() > Some(0);
        let unwell = at > 0 && list.get(at - 1).is_some_and(is_unwell);
        match (colour, at, unwell) {
            (true, 0, _) => format!("{BOLD}{line}{PLAIN}\n"),
            (true, _, true) => format!("{RED}{line}{PLAIN}\n"),
            _ => format!("{line}\n"),
        }
    });
    shown.collect()
}

/// Numbers that a capability of its kind has: keys, wake-ups, memory.
fn more(numbers: &Value) -> String {
    let pairs = numbers.as_object().into_iter().flatten();
    let shown = pairs.filter(|(_, value)| value.is_number() || value.is_string());
    let cells: Vec<String> = shown
        .map(|(name, value)| {
            format!(
                "{name}={}",
                value.as_str().map_or_else(|| value.to_string(), |text| text::visible(text).into_owned())
            )
        })
        .collect();
    cells.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::{Duration, Instant};

    fn sample(at: Instant, replied: u64) -> Sample {
        Sample {
            at,
            stats: json!({ "counters": { "requestsReplied": replied }, "gauges": { "userLane": 3, "connections": 2 },
                "floors": { "actors": { "guest": { "wakeups": 9, "kind": "guest", "inner": {} } } } }),
            actors: json!({ "actors": [{ "capabilityId": "guest", "state": "backoff", "sinceMs": 10, "mailbox": 4 }] }),
        }
    }

    #[test]
    fn latencies_are_those_of_the_requests() {
        let mut now = sample(Instant::now(), 0);
        let none = page(None, &now, false);
        assert!(none.contains("latency   no request of late\n"), "{none}");
        let ns =
            json!({ "requests": 7, "mean": 12_000, "p50": 3_400, "p99": 1_500_000, "max": 2_000_000_000 });
        now.stats["latencyNs"] = ns.clone();
        now.actors["actors"][0]["latencyNs"] = ns;
        let shown = page(None, &now, false);
        assert!(
            shown.contains("latency   mean 12us   p50 3.40us   p99 1.5ms   max 2.0s   requests 7\n"),
            "{shown}"
        );
        let row = shown.lines().find(|line| line.starts_with("guest")).expect("a row");
        assert!(row.contains("  3.40us  1.5ms "), "{shown}");
    }

    #[test]
    fn rates_are_between_two_looks_and_who_is_unwell_stands_out() {
        let start = Instant::now();
        let (earlier, now) = (sample(start, 100), sample(start + Duration::from_secs(2), 1100));
        let shown = page(Some(&earlier), &now, false);
        assert!(
            shown.contains("replies/s 500") && shown.contains("user 3") && shown.contains("2 connections"),
            "{shown}"
        );
        assert!(shown.contains("guest       backoff  10ms        4"), "{shown}");
        assert!(shown.contains("kind=guest wakeups=9"), "{shown}");
        assert!(page(None, &now, false).contains("replies/s -"));
        let mut alone = sample(start, 0);
        alone.stats["gauges"]["connections"] = json!(1);
        assert!(page(None, &alone, false).contains("1 connection, 0 peers"));
        assert!(page(None, &now, true).contains("\x1b[31mguest"));
    }
}
