//! The printed report: a table per figure, then all targets in one list.

use std::fmt::Write as _;

use crate::{Entry, Keep, OURS, RAW, Results, Target};

/// Renders every figure with its ratio to the bare system calls and to the best peer, then the targets.
///
/// Variants of Mainspring (`mainspring-timed`, ...) are shown but are nobody's peer.
#[must_use]
pub fn report(results: &Results, targets: &[Target]) -> String {
    let mut out = String::new();
    for (case, metric, unit) in results.tables() {
        table(&mut out, results, (case, metric, unit));
        for target in targets.iter().filter(|target| target.case == case && target.metric == metric) {
            target_line(&mut out, results, target, false);
        }
        out.push('\n');
    }
    summary(&mut out, results, targets);
    out
}

fn table(out: &mut String, results: &Results, (case, metric, unit): (&str, &str, &str)) {
    let entries: Vec<&Entry> = results.figures(case, metric).collect();
    let best_peer = best_peer(&entries);
    let raw = results.value(case, RAW, metric);
    let _ = writeln!(out, "{case}: {}, {unit} ({})", metric.replace('_', " "), rule(entries[0]));
    let _ = writeln!(out, "  {:<20}{:>12}{:>9}{:>13}", "subject", unit, "x raw", "x best peer");
    for entry in entries {
        let value = entry.value();
        let to = |reference: Option<f64>| match reference {
            Some(reference) if reference > 0.0 => format!("{:.2}", value / reference),
            _ => String::new(),
        };
        let (to_raw, to_peer) = (to(raw), to(best_peer));
        let _ = writeln!(out, "  {:<20}{:>12}{to_raw:>9}{to_peer:>13}", entry.subject, figure(value));
    }
}

/// The best figure of whoever is neither Mainspring nor the bare system calls.
fn best_peer(entries: &[&Entry]) -> Option<f64> {
    let peers = entries.iter().filter(|entry| entry.subject != RAW && !entry.subject.starts_with(OURS));
    let best = if entries[0].keep == Keep::Maximum { f64::max } else { f64::min };
    peers.map(|entry| entry.value()).reduce(best)
}

fn rule(entry: &Entry) -> String {
    let samples = entry.sample_count();
    match entry.keep {
        Keep::Minimum => format!("minimum of {samples} runs"),
        Keep::Maximum => format!("maximum of {samples} runs"),
        Keep::Median => format!("median of {samples} samples"),
        Keep::P99 => format!("99th percentile of {samples} samples"),
    }
}

fn figure(value: f64) -> String {
    match value.abs() {
        0.0..10.0 => format!("{value:.2}"),
        10.0..1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn target_line(out: &mut String, results: &Results, target: &Target, with_name: bool) {
    let Some(verdict) = target.judge(results) else { return };
    let mark = if verdict.reached { "ok  " } else { "MISS" };
    let name = if with_name { format!("{} {}: ", target.case, target.metric) } else { String::new() };
    let _ = writeln!(out, "  {mark} {name}{} (measured {:.2})", verdict.wording, verdict.measured);
}

fn summary(out: &mut String, results: &Results, targets: &[Target]) {
    let judged: Vec<&Target> = targets.iter().filter(|target| target.judge(results).is_some()).collect();
    if judged.is_empty() {
        return;
    }
    let reached = judged.iter().filter(|target| target.judge(results).is_some_and(|v| v.reached)).count();
    let _ = writeln!(out, "targets: {reached} of {} reached", judged.len());
    for target in judged {
        target_line(out, results, target, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_shows_ratios_and_marks_a_missed_target() {
        let mut results = Results::new("s");
        for (subject, value) in [("raw", 100.0), ("mainspring", 110.0), ("libev", 200.0)] {
            results.record("c-1", subject, "cpu", "ns", Keep::Minimum, value);
        }
        let text = report(&results, &[Target::within("c-1", "cpu", 1.05, &["raw"])]);
        assert!(text.contains("mainspring                 110.0     1.10         0.55"), "{text}");
        assert!(text.contains("MISS c-1 cpu: at most 1.05 x raw (measured 1.10)"), "{text}");
        assert!(text.contains("targets: 0 of 1 reached"), "{text}");
    }

    #[test]
    fn variants_of_mainspring_are_not_peers() {
        let mut results = Results::new("s");
        for (subject, value) in [("mainspring", 2.0), ("mainspring-timed", 1.0), ("libev", 4.0)] {
            results.record("c", subject, "cpu", "ns", Keep::Minimum, value);
        }
        let entries: Vec<&Entry> = results.figures("c", "cpu").collect();
        assert_eq!(best_peer(&entries), Some(4.0));
    }
}
