//! The thread that makes spans and sends them.

use super::lineage::Places;
use super::post;
use super::spans::{self, Tapped, text};
use super::{Batch, Counters, add};
use crate::client::fresh_id;
use crate::settings::Collector;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Batches that one request carries.
const BATCHES_MAX: usize = 16;

pub(super) struct Exporter {
    collector: Collector,
    /// What every request says of the daemon.
    resource: Value,
    counters: Arc<Counters>,
    places: Places,
    is_failing: bool,
}

impl Exporter {
    pub(super) fn new(collector: Collector, service: &str, counters: Arc<Counters>) -> Exporter {
        let resource = json!({ "attributes": [
            text("service.name", service),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", &fresh_id()),
        ] });
        Exporter { collector, resource, counters, places: Places::default(), is_failing: false }
    }

    /// Sends what comes, until nothing more will.
    pub(super) fn run(mut self, batches: &Receiver<Batch>) {
        while let Ok(first) = batches.recv() {
            let more = batches.try_iter().take(BATCHES_MAX - 1);
            let spans: Vec<Value> =
                std::iter::once(first).chain(more).flat_map(|batch| self.spans(&batch)).collect();
            if !spans.is_empty() {
                self.send(spans);
            }
        }
    }

    fn spans(&mut self, batch: &Batch) -> Vec<Value> {
        // The tap writes nothing else; if it ever does, a record is lost and not the daemon.
        let Ok(tapped) = serde_json::from_str::<Tapped>(&batch.records) else {
            add(&self.counters.dropped, 1);
            return Vec::new();
        };
        add(&self.counters.dropped, tapped.skipped);
        let mut spans = Vec::new();
        for record in &tapped.records {
            let made = spans::of_record(record, batch.epoch_ns, &mut self.places);
            add(&self.counters.unsampled, u64::from(made.is_empty()));
            spans.extend(made);
        }
        spans
    }

    fn send(&mut self, spans: Vec<Value>) {
        let count = spans.len() as u64;
        let scope = json!({ "name": "mainspring", "version": env!("CARGO_PKG_VERSION") });
        let body = json!({ "resourceSpans": [{
            "resource": self.resource,
            "scopeSpans": [{ "scope": scope, "spans": spans }],
        }] });
        add(&self.counters.posts, 1);
        match post::post(&self.collector, &body.to_string()) {
            Ok(answer) => {
                let rejected = rejected(&answer).min(count);
                add(&self.counters.exported, count - rejected);
                add(&self.counters.dropped, rejected);
                if std::mem::replace(&mut self.is_failing, false) {
                    tracing::info!("the collector at {} takes spans again", self.collector);
                }
            }
            Err(reason) => {
                add(&self.counters.posts_failed, 1);
                add(&self.counters.dropped, count);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(
                        "the collector at {} does not take spans: {reason}; they are dropped and counted (Sys.Stats, floors.telemetry)",
                        self.collector
                    );
                }
            }
        }
    }
}

/// Spans that the collector says it did not take.
fn rejected(answer: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let count = &answer["partialSuccess"]["rejectedSpans"];
    count.as_u64().or_else(|| count.as_str()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_collector_rejects_is_read_as_text_or_number() {
        assert_eq!(rejected(br#"{"partialSuccess":{"rejectedSpans":"3"}}"#), 3);
        assert_eq!(rejected(br#"{"partialSuccess":{"rejectedSpans":4}}"#), 4);
        for nothing in [&b"{}"[..], b"", b"ok", br#"{"partialSuccess":{}}"#] {
            assert_eq!(rejected(nothing), 0);
        }
    }
}
