//! The daemon's numbers as OpenMetrics. They are the ones of `Sys.Stats` and `Sys.Actors`: nothing
//! is counted twice.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use serde_json::Value;
use std::fmt;

/// Every number, as it was when it was asked for.
#[derive(Debug)]
struct Snapshot {
    stats: Value,
    actors: Value,
}

/// Labels are bounded by the configuration: a capability has one, a type has none.
const ACTOR_GAUGES: &[(&str, &str, &str)] = &[
    ("mailbox_messages", "mailbox", "Messages that wait for a capability"),
    ("in_progress_requests", "inFlight", "Requests that a capability works on"),
    ("overdue_requests", "overdue", "Requests that timed out and that a capability still works on"),
];

const ACTOR_COUNTERS: &[(&str, &str, &str)] = &[
    ("handled", "handled", "Requests that a capability ended"),
    ("faults", "faults", "Times that a capability broke its contract or ended unasked"),
    ("incarnations", "incarnation", "Times that a capability was started"),
];

/// Writes the numbers.
pub(crate) fn encode(stats: Value, actors: Value) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("mainspring");
    registry.register_collector(Box::new(Snapshot { stats, actors }));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.numbers(&mut encoder)?;
        self.latency(&mut encoder)?;
        self.actors(&mut encoder)
    }
}

impl Snapshot {
    /// Counters and gauges of the kernel, under their own names.
    fn numbers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, value) in members(&self.stats["counters"]) {
            let counter = ConstCounter::new(value.as_u64().unwrap_or_default());
            let help = format!("Counter {name} of Sys.Stats");
            counter.encode(encoder.encode_descriptor(&snake(name), &help, None, counter.metric_type())?)?;
        }
        for (name, value) in members(&self.stats["gauges"]) {
            gauge(encoder, &gauge_name(name), &format!("Gauge {name} of Sys.Stats"), None, number(value))?;
        }
        Ok(())
    }

    fn latency(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (member, name) in
            [("p50", "request_latency_p50"), ("p99", "request_latency_p99"), ("max", "request_latency_max")]
        {
            let seconds = self.stats["latencyNs"][member].as_f64().unwrap_or(0.0) / 1e9;
            let help = "How long requests took, over the last 10 to 20 seconds";
            gauge(encoder, name, help, Some(&Unit::Seconds), seconds)?;
        }
        Ok(())
    }

    fn actors(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let actors = self.actors["actors"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (name, member, help) in ACTOR_GAUGES {
            let kind = ConstGauge::new(0.0).metric_type();
            let name = format!("capability_{name}");
            let mut family = encoder.encode_descriptor(&name, help, None, kind)?;
            for actor in actors {
                ConstGauge::new(number(&actor[member]))
                    .encode(family.encode_family(&[("capability", id(actor))])?)?;
            }
        }
        for (name, member, help) in ACTOR_COUNTERS {
            let kind = ConstCounter::new(0_u64).metric_type();
            let name = format!("capability_{name}");
            let mut family = encoder.encode_descriptor(&name, help, None, kind)?;
            for actor in actors {
                let count = actor[member].as_u64().unwrap_or_default();
                ConstCounter::new(count).encode(family.encode_family(&[("capability", id(actor))])?)?;
            }
        }
        let kind = ConstGauge::new(0.0).metric_type();
        let help = "Whether a capability runs";
        let mut family = encoder.encode_descriptor("capability_up", help, None, kind)?;
        for actor in actors {
            let up = f64::from(u8::from(actor["state"] == "up"));
            ConstGauge::new(up).encode(family.encode_family(&[("capability", id(actor))])?)?;
        }
        Ok(())
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: f64,
) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, help, unit, gauge.metric_type())?)
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

fn id(actor: &Value) -> &str {
    actor["capabilityId"].as_str().unwrap_or_default()
}

/// A gauge's name. A counter is called `deadLetters` too, and OpenMetrics knows a name once.
fn gauge_name(name: &str) -> String {
    match name {
        "deadLetters" => "dead_letters_kept".into(),
        _ => snake(name),
    }
}

/// `deadLetterBytes` as `dead_letter_bytes`.
fn snake(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(character.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_keep_their_names_and_capabilities_are_labels() {
        let stats = json!({ "counters": { "repliesSent": 3 }, "gauges": { "deadLetterBytes": 7 }, "latencyNs": null });
        let actors =
            json!({ "actors": [{ "capabilityId": "Mem\"ory", "state": "up", "mailbox": 2, "handled": 5 }] });
        let text = encode(stats, actors).unwrap();
        for line in [
            "mainspring_replies_sent_total 3",
            "mainspring_dead_letter_bytes 7",
            "mainspring_capability_mailbox_messages{capability=\"Mem\\\"ory\"} 2",
            "mainspring_capability_handled_total{capability=\"Mem\\\"ory\"} 5",
            "mainspring_capability_up{capability=\"Mem\\\"ory\"} 1",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn a_counter_and_a_gauge_of_one_name_are_two_families() {
        let stats =
            json!({ "counters": { "deadLetters": 3 }, "gauges": { "deadLetters": 1 }, "latencyNs": null });
        let text = encode(stats, json!({ "actors": [] })).unwrap();
        let mut names: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{text}");
        assert!(
            text.contains("mainspring_dead_letters_total 3")
                && text.contains("mainspring_dead_letters_kept 1"),
            "{text}"
        );
    }
}
