//! How a daemon tells that it is up, or why it is not.

use mainspring_message::Envelope;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// How the boot is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Report {
    /// A summary for people, on standard output; a failure on standard error.
    #[default]
    Human,
    /// The message `Sys.BootComplete` or `Sys.BootFailed`, on standard output.
    Json,
    /// Nothing but a failure, on standard error: standard output belongs to somebody else.
    Quiet,
}

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
struct Failure {
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

pub(crate) fn failed(report: Report, failure: &Envelope) {
    if report == Report::Json {
        return print(&format!("{}\n", failure.line()));
    }
    let text = failure.data_as().map_or_else(|_| failure.data().to_owned(), |data: Failure| data.message);
    // Nobody may be there to read it.
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("mainspring: the boot failed in {text}\n").as_bytes(),
    );
}

fn for_people(summary: &Summary, took: Duration) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "mainspring {} is ready after {} ms", env!("CARGO_PKG_VERSION"), took.as_millis());
    for adapter in &summary.adapters {
        let (kind, address) = adapter.split_once(':').unwrap_or((adapter, ""));
        let _ = writeln!(text, "  {kind:<14}{address}");
    }
    for capability in &summary.capabilities {
        let names: Vec<&str> = capability
            .handles
            .iter()
            .map(|handle| handle.split_once(':').map_or(&**handle, |(_, name)| name))
            .collect();
        let _ = writeln!(text, "  {:<14}{}", capability.id, names.join(", "));
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
