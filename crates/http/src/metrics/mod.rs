//! The daemon's numbers as OpenMetrics. They are the ones of `Sys.Stats` and `Sys.Actors`: nothing
//! is counted twice.

mod floors;

use floors::{GUEST_NUMBERS, NUMBERS, Number, Sort};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
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

/// The same in the older form of Prometheus: there a counter is called what its samples are called,
/// and units and the end are not told.
pub(crate) fn as_plain_text(open_metrics: &str) -> String {
    let mut counters = std::collections::BTreeSet::new();
    for line in open_metrics.lines() {
        if let Some(name) = line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_suffix(" counter")) {
            counters.insert(name);
        }
    }
    let mut plain = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("#"), Some("UNIT" | "EOF"), _) => continue,
            (Some("#"), Some(about), Some(name)) if counters.contains(name) => {
                plain.push_str(&format!("# {about} {name}_total {}", words.next().unwrap_or_default()));
            }
            _ => plain.push_str(line),
        }
        plain.push('\n');
    }
    plain
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.numbers(&mut encoder)?;
        self.requests(&mut encoder)?;
        self.latency(&mut encoder)?;
        self.floors(&mut encoder)?;
        self.guests(&mut encoder)?;
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

    /// Requests by how they ended.
    fn requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = ConstCounter::new(0_u64).metric_type();
        let help = "Requests that have ended, by their outcome";
        let mut family = encoder.encode_descriptor("requests_ended", help, None, kind)?;
        for (outcome, member) in [("reply", "requestsReplied"), ("error", "requestsFailed")] {
            let count = self.stats["counters"][member].as_u64().unwrap_or_default();
            ConstCounter::new(count).encode(family.encode_family(&[("outcome", outcome)])?)?;
        }
        Ok(())
    }

    /// Numbers of the floors below; what is not there is left out.
    fn floors(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let floors = &self.stats["floors"];
        for number in NUMBERS {
            let Some(value) = number.of(floors) else { continue };
            let metric = encoder.encode_descriptor(number.name, number.help, None, number.metric_type())?;
            number.encode(value, metric)?;
        }
        Ok(())
    }

    fn guests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let is_guest = |(_, actor): &(&String, &Value)| actor["kind"] == "guest";
        let guests: Vec<_> = members(&self.stats["floors"]["actors"]).filter(is_guest).collect();
        for number in GUEST_NUMBERS.iter().filter(|_| !guests.is_empty()) {
            let mut family =
                encoder.encode_descriptor(number.name, number.help, None, number.metric_type())?;
            for (id, guest) in &guests {
                let value = number.of(guest).unwrap_or(0.0);
                number.encode(value, family.encode_family(&[("capability", id.as_str())])?)?;
            }
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
        let total = Histogram::of(&self.stats["latencyTotal"]);
        let help = "How long requests took that a capability had";
        let kind = total.metric_type();
        total.encode(encoder.encode_descriptor("request_duration", help, Some(&Unit::Seconds), kind)?)
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

impl Number {
    fn of(&self, floors: &Value) -> Option<f64> {
        let value = self.path.iter().try_fold(floors, |value, member| value.get(member))?;
        Some(value.as_f64()? * self.scale)
    }

    fn metric_type(&self) -> MetricType {
        match self.sort {
            Sort::Counter => MetricType::Counter,
            Sort::Gauge => MetricType::Gauge,
        }
    }

    fn encode(&self, value: f64, encoder: MetricEncoder<'_>) -> fmt::Result {
        match self.sort {
            Sort::Counter => ConstCounter::new(value).encode(encoder),
            Sort::Gauge => ConstGauge::new(value).encode(encoder),
        }
    }
}

/// How long requests took since the start.
struct Histogram {
    sum_s: f64,
    count: u64,
    /// Where each bucket ends, in seconds, and what is in it.
    buckets: Vec<(f64, u64)>,
}

impl Histogram {
    fn of(total: &Value) -> Histogram {
        let numbers = |member: &str| total[member].as_array().into_iter().flatten().map(number);
        let bounds = numbers("boundsNs").map(|ns| ns / 1e9).chain(std::iter::once(f64::INFINITY));
        Histogram {
            sum_s: number(&total["sumNs"]) / 1e9,
            count: total["requests"].as_u64().unwrap_or_default(),
            buckets: bounds.zip(numbers("counts").map(|count| count as u64)).collect(),
        }
    }
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_histogram::<NoLabelSet>(self.sum_s, self.count, &self.buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
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
    fn in_plain_text_a_counter_has_the_name_of_its_samples() {
        let stats = json!({ "counters": { "retries": 3 }, "gauges": { "timers": 1 } });
        let text = as_plain_text(&encode(stats, json!({ "actors": [] })).unwrap());
        assert!(
            text.contains("# TYPE mainspring_retries_total counter\nmainspring_retries_total 3\n"),
            "{text}"
        );
        assert!(text.contains("# TYPE mainspring_timers gauge\nmainspring_timers 1.0\n"), "{text}");
        assert!(text.contains("# HELP mainspring_retries_total Counter retries"), "{text}");
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"), "{text}");
    }

    #[test]
    fn latencies_are_a_histogram_and_floors_are_told_where_they_are() {
        let stats = json!({
            "counters": { "requestsReplied": 7, "requestsFailed": 2 },
            "latencyTotal": { "requests": 9, "sumNs": 1_500_000_000, "boundsNs": [1024, 4096], "counts": [4, 3, 2] },
            "floors": {
                "loop": { "turns": 5, "lagNs": { "last": 1_000_000, "max": 2_000_000 } },
                "actors": { "g": { "kind": "guest", "wakeups": 3, "cpuUs": 1_500_000 }, "p": { "kind": "process" } },
            },
        });
        let text = encode(stats, json!({ "actors": [] })).unwrap();
        for line in [
            "mainspring_requests_ended_total{outcome=\"reply\"} 7",
            "mainspring_requests_ended_total{outcome=\"error\"} 2",
            "mainspring_request_duration_seconds_sum 1.5",
            "mainspring_request_duration_seconds_count 9",
            "mainspring_request_duration_seconds_bucket{le=\"0.000004096\"} 7",
            "mainspring_request_duration_seconds_bucket{le=\"+Inf\"} 9",
            "mainspring_loop_lag_seconds 0.001",
            "mainspring_loop_turns_total 5.0",
            "mainspring_guest_cpu_seconds_total{capability=\"g\"} 1.5",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("journal") && !text.contains("capability=\"p\""), "{text}");
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
