//! The columns of each page: which there are for a width, and what stands in them.

use super::model::Tab;
use crate::cli::support::{actor_health, local_time, text, trace_tree};
use ratatui::layout::Constraint;
use ratatui::style::{Color, Style};
use serde_json::Value;
use std::borrow::Cow;

/// From this width on a page shows more.
const WIDE: u16 = 120;

pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) width: Constraint,
    pub(super) cell: fn(&Value) -> Cow<'static, str>,
}

const fn column(title: &'static str, width: u16, cell: fn(&Value) -> Cow<'static, str>) -> Column {
    Column { title, width: Constraint::Length(width), cell }
}

const fn rest(title: &'static str, least: u16, cell: fn(&Value) -> Cow<'static, str>) -> Column {
    Column { title, width: Constraint::Min(least), cell }
}

/// The columns of a page on a screen of this width.
pub(super) fn of(tab: Tab, width: u16) -> Vec<Column> {
    let is_wide = width >= WIDE;
    match tab {
        Tab::Overview | Tab::Capabilities => capabilities(is_wide),
        Tab::Stream => vec![
            column("TIME", 12, |row| local_time::clock(number(&row["at"])).into()),
            column("KIND", 7, |row| word(&row["kind"])),
            rest("TYPE", 16, |row| word(&row["type"])),
            column("FROM", if is_wide { 24 } else { 12 }, |row| trace_tree::author(&row["from"]).into()),
            column("TO", if is_wide { 24 } else { 12 }, |row| trace_tree::audience(&row["to"]).into()),
            column("OUTCOME", 9, outcome),
            column("TOOK", 7, took),
        ],
        Tab::Traces => vec![
            rest("TYPE", 16, |row| word(&row["type"])),
            column("KIND", 7, |row| word(&row["kind"])),
            column("FROM", if is_wide { 24 } else { 10 }, |row| trace_tree::author(&row["from"]).into()),
            column("TO", if is_wide { 24 } else { 12 }, |row| trace_tree::audience(&row["to"]).into()),
            column("OUTCOME", 9, outcome),
            column("TOOK", 7, took),
            column("MESSAGES", 8, |row| number(&row["messages"]).to_string().into()),
        ],
        Tab::DeadLetters => vec![
            column("NUMBER", 6, |row| number(&row["number"]).to_string().into()),
            column("TIME", 19, |row| local_time::moment(number(&row["timestamp"])).into()),
            column("KIND", 7, |row| word(&row["kind"])),
            column("TYPE", if is_wide { 40 } else { 18 }, |row| word(&row["type"])),
            column("TRIES", 5, |row| number(&row["attempts"]).to_string().into()),
            rest("REASON", 16, |row| word(&row["reason"])),
        ],
        Tab::Timers => vec![
            rest("TIMER", 12, |row| word(&row["timerId"])),
            column("WHOSE", if is_wide { 30 } else { 14 }, |row| word(&row["peer"])),
            column("DUE IN", 7, |row| text::span(number(&row["dueInMs"])).into()),
            column("KIND", 7, |row| word(&row["kind"])),
            column("TYPE", if is_wide { 40 } else { 18 }, |row| word(&row["type"])),
            column("EVERY", 7, |row| row["repeat"].as_u64().map_or("-".into(), |ms| text::span(ms).into())),
            column("FIRED", 6, |row| number(&row["fired"]).to_string().into()),
        ],
    }
}

fn capabilities(is_wide: bool) -> Vec<Column> {
    let mut columns = vec![
        rest("CAPABILITY", 12, |row| word(&row["capabilityId"])),
        column("STATE", 9, |row| word(&row["state"])),
        column("FOR", 6, |row| text::span(number(&row["sinceMs"])).into()),
        column("MAIL", 5, |row| number(&row["mailbox"]).to_string().into()),
        column("BUSY", 4, |row| number(&row["inFlight"]).to_string().into()),
        column("LATE", 4, |row| number(&row["overdue"]).to_string().into()),
        column("HANDLED", 8, |row| number(&row["handled"]).to_string().into()),
        column("P50", 7, |row| time(&row["latencyNs"]["p50"])),
        column("P99", 7, |row| time(&row["latencyNs"]["p99"])),
        column("FAULTS", 6, |row| number(&row["faults"]).to_string().into()),
    ];
    if is_wide {
        columns.extend([
            column("RUN", 4, |row| number(&row["incarnation"]).to_string().into()),
            column("MEMORY", 8, |row| {
                row["memoryBytes"].as_u64().map_or("-".into(), |bytes| format!("{}MiB", bytes >> 20).into())
            }),
            column("CPU", 7, |row| row["cpuMs"].as_u64().map_or("-".into(), |ms| text::span(ms).into())),
            column("PID", 8, |row| row["pid"].as_u64().map_or("-".into(), |pid| pid.to_string().into())),
            rest("WHY", 10, |row| actor_health::why(row).into()),
        ]);
    }
    columns
}

/// How a row stands out.
pub(super) fn style(tab: Tab, row: &Value) -> Style {
    match tab {
        Tab::Overview | Tab::Capabilities if actor_health::is_sick(row) => Style::new().fg(Color::Red),
        Tab::Stream | Tab::Traces if row["outcome"]["kind"] == "error" => Style::new().fg(Color::Red),
        Tab::Stream | Tab::Traces => match row["kind"].as_str() {
            Some("event") => Style::new().fg(Color::Cyan),
            Some("query") => Style::new().fg(Color::Green),
            _ => Style::new(),
        },
        _ => Style::new(),
    }
}

fn word(value: &Value) -> Cow<'static, str> {
    text::visible(value.as_str().unwrap_or_default()).into_owned().into()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn time(ns: &Value) -> Cow<'static, str> {
    ns.as_u64().map_or("-".into(), |ns| text::nanoseconds(ns).into())
}

fn took(row: &Value) -> Cow<'static, str> {
    row["tookUs"].as_u64().map_or("".into(), |us| text::nanoseconds(us.saturating_mul(1000)).into())
}

fn outcome(row: &Value) -> Cow<'static, str> {
    match (&row["outcome"], row["kind"].as_str()) {
        (Value::Null, Some("event")) => "".into(),
        (Value::Null, _) => "under way".into(),
        (outcome, _) if outcome["kind"] == "error" => format!("error {}", outcome["code"]).into(),
        _ => "reply".into(),
    }
}
