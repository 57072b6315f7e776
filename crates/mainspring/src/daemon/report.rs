//! How a daemon tells that it is up, or why it is not.

use crate::config::Phase;
use mainspring_kernel::Level;
use mainspring_message::{Envelope, ErrorData, Failure, Kind, Parts, Started};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How the boot is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Report {
    /// A summary for people, on standard output; a failure on standard error.
    #[default]
    Human,
    /// The message `Sys.BootComplete` or `Sys.BootFailed`, on standard output; a failure on standard error as well.
    Json,
    /// Nothing but a failure, on standard error: standard output belongs to somebody else.
    Quiet,
}

/// The least width of the first column.
const COLUMN_MIN: usize = 12;

#[derive(Deserialize)]
struct Summary {
    capabilities: Vec<Capability>,
    subscriptions: BTreeMap<String, Vec<String>>,
    adapters: Vec<String>,
}

#[derive(Deserialize)]
struct Capability {
    id: String,
    handles: Vec<String>,
}

#[derive(Deserialize)]
struct Told {
    message: String,
}

pub(crate) fn ready(report: Report, summary: &Envelope, took: Duration) {
    match report {
        Report::Quiet => {}
        Report::Json => print(&format!("{}\n", summary.line())),
        Report::Human => {
            if let Ok(data) = summary.data_as() {
                print(&for_people(&data, took));
            }
        }
    }
}

/// Tells that the settings cannot be used, and which phase of the boot that fails.
pub(crate) fn unreadable(report: Report, phase: Phase, problems: &str) {
    let mut data = String::new();
    let error = ErrorData {
        failure: Failure::Boot,
        message: &format!("{phase}: {problems}"),
        original_id: None,
        original_type: None,
        started: Started::No,
    };
    error.write(&mut data);
    let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
    let parts = Parts {
        kind: Kind::Error,
        type_name: Failure::Boot.type_name(),
        data: &data,
        id: "boot-failed",
        timestamp_ms: unix_ms,
        causation: Some("boot"),
        correlation: None,
        timeout_ms: None,
        extra: "",
    };
    if report == Report::Json {
        print(&format!("{}\n", parts.compose(&mut String::new()).line()));
    }
    complain(&format!("mainspring: the boot failed in {phase}:\n{problems}\n"));
}

pub(crate) fn failed(report: Report, failure: &Envelope) {
    if report == Report::Json {
        print(&format!("{}\n", failure.line()));
    }
    let text = failure.data_as().map_or_else(|_| failure.data().to_owned(), |data: Told| data.message);
    complain(&format!("mainspring: the boot failed in {text}\n"));
}

/// Writes a line of the kernel's to the log; whatever is about a capability has its id as a field, as its own lines have.
pub(crate) fn log(level: Level, capability: Option<&str>, text: &str) {
    match level {
        Level::Info => tracing::info!(capability, "{text}"),
        Level::Warn => tracing::warn!(capability, "{text}"),
        Level::Error => tracing::error!(capability, "{text}"),
    }
}

fn complain(text: &str) {
    // Nobody may be there to read it.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}

fn for_people(summary: &Summary, took: Duration) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "mainspring {} is ready after {} ms", env!("CARGO_PKG_VERSION"), took.as_millis());
    let ids = summary.capabilities.iter().map(|it| it.id.chars().count());
    let width = ids.max().unwrap_or(0).max(COLUMN_MIN) + 2;
    for adapter in &summary.adapters {
        let (kind, address) = adapter.split_once(':').unwrap_or((adapter, ""));
        let _ = writeln!(text, "  {kind:<width$}{address}");
    }
    for capability in &summary.capabilities {
        // What is taken as a command and as a query is one thing for whoever reads this.
        let mut names: Vec<&str> = Vec::new();
        for handle in &capability.handles {
            let name = handle.split_once(':').map_or(&**handle, |(_, name)| name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let _ = writeln!(text, "  {:<width$}{}", capability.id, names.join(", "));
    }
    for (event, subscribers) in &summary.subscriptions {
        let _ = writeln!(text, "  {event} goes to {}", subscribers.join(", "));
    }
    text
}

fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    // Nobody may be there to read it.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
