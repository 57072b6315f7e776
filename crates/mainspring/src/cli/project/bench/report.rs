//! What is printed of a measurement.

use crate::cli::project::bench::load::LoadOutcome;
use crate::cli::project::bench::subject::Subject;
use crate::cli::support::text;
use crate::client::Address;
use crate::config;
use crate::text::units::{show_bytes, show_duration};
use serde_json::json;
use std::time::Duration;

/// What is measured, and with which settings.
pub(in crate::cli::project::bench) fn introduction(subject: &Subject) -> String {
    let cores = text::count(cores() as u64, "core", "cores");
    let mut page = format!("mainspring {}, {cores}", env!("CARGO_PKG_VERSION"));
    if cfg!(debug_assertions) {
        page += ", a build for development: its figures mean nothing";
    }
    let wire = match subject.address() {
        Address::Unix(_) => "a Unix socket",
        Address::Tcp { .. } => "TCP",
    };
    page += &format!("\nMemory.Set with a value of 64 bytes, over {wire}\n");
    if !subject.is_own() {
        page += &format!("the daemon at {}, as it is set\n\n", subject.address());
        return page;
    }
    let kernel = config::defaults().kernel();
    let limits = &kernel.limits;
    let time = |ms| show_duration(Duration::from_millis(ms));
    let size = |bytes: usize| show_bytes(bytes as u64);
    page += &format!(
        "shipped defaults: schemas checked both ways; repetitions remembered {} ({} answers, {}); timeout {}; lines to {}; {} requests ({} a peer) under way; history {}\n\n",
        time(kernel.window_ms),
        limits.window_answers_max,
        size(limits.window_bytes_max),
        time(kernel.default_timeout_ms),
        size(limits.line_bytes_max),
        limits.requests_max,
        limits.peer_requests_max,
        size(limits.history_bytes_max),
    );
    page
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

pub(in crate::cli::project::bench) fn table(outcomes: &[LoadOutcome]) -> String {
    let heading = ["CONNECTIONS", "DEEP", "REQUESTS/S", "P50", "P90", "P99", "P99.9", "MAX", "CPU/REQUEST"];
    let mut rows = vec![heading.map(String::from).to_vec()];
    for outcome in outcomes {
        let at = |share: f64| text::nanoseconds(outcome.latency.value_at_quantile(share));
        rows.push(vec![
            outcome.case.connections.to_string(),
            outcome.case.depth.to_string(),
            format!("{:.0}", outcome.requests_per_s()),
            at(0.5),
            at(0.9),
            at(0.99),
            at(0.999),
            text::nanoseconds(outcome.latency.max()),
            cpu_ns(outcome).map_or("-".into(), text::nanoseconds),
        ]);
    }
    let mut page = text::table(&rows);
    let errors: u64 = outcomes.iter().map(|outcome| outcome.errors).sum();
    if errors > 0 {
        let first = outcomes.iter().find_map(|outcome| outcome.first_error.as_deref()).unwrap_or_default();
        let requests = text::count(errors, "request", "requests");
        page += &format!("{requests} ended in an error, the first in {}\n", text::visible(first));
    }
    page
}

/// CPU time of the daemon for one request.
fn cpu_ns(outcome: &LoadOutcome) -> Option<u64> {
    let requests = outcome.replies + outcome.errors;
    let cpu_ns = u64::try_from(outcome.server_cpu?.as_nanos()).ok()?;
    cpu_ns.checked_div(requests)
}

pub(in crate::cli::project::bench) fn json(outcomes: &[LoadOutcome]) -> String {
    let rows: Vec<serde_json::Value> = outcomes
        .iter()
        .map(|outcome| {
            let at = |share: f64| outcome.latency.value_at_quantile(share);
            json!({
                "connections": outcome.case.connections,
                "depth": outcome.case.depth,
                "replies": outcome.replies,
                "errors": outcome.errors,
                "seconds": outcome.elapsed.as_secs_f64(),
                "requestsPerSecond": outcome.requests_per_s(),
                "latencyNs": { "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999), "max": outcome.latency.max() },
                "serverCpuNsPerRequest": cpu_ns(outcome),
            })
        })
        .collect();
    format!(
        "{}\n",
        json!({ "version": env!("CARGO_PKG_VERSION"), "debug": cfg!(debug_assertions), "cases": rows })
    )
}
