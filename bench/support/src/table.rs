//! The printed report: a table per case, then all targets in one list.

use std::fmt::Write as _;

use crate::{Entry, Keep, OURS, RAW, Results, Target};

/// Renders every case with the ratios to the bare system calls and to the best peer, then the
/// targets.
///
/// Variants of Mainspring (`mainspring-timed`, ...) are shown but are nobody's peer.
#[must_use]
pub fn report(results: &Results, targets: &[Target]) -> String {
    let mut out = String::new();
    for case in results.cases() {
        case_table(&mut out, results, case);
        targets
            .iter()
            .filter(|target| target.case == case)
            .for_each(|target| verdict(&mut out, results, target));
        out.push('\n');
    }
    summary(&mut out, results, targets);
    out
}

/// One metric of a case: a column of figures, and what each is compared with.
struct Column<'a> {
    metric: &'a str,
    entries: Vec<&'a Entry>,
    raw: Option<f64>,
    best_peer: Option<f64>,
}

impl<'a> Column<'a> {
    fn new(results: &'a Results, case: &'a str, metric: &'a str) -> Column<'a> {
        let entries: Vec<&Entry> = results.figures(case, metric).collect();
        let best_peer = best_peer(&entries);
        Column { metric, entries, raw: results.value(case, RAW, metric), best_peer }
    }

    fn heading(&self) -> String {
        let mut line = format!("{:>12}", self.entries[0].unit);
        line += if self.raw.is_some() { "   x raw" } else { "" };
        line += if self.best_peer.is_some() { "  x peer" } else { "" };
        line
    }

    fn cells(&self, subject: &str) -> String {
        let value = self.entries.iter().find(|entry| entry.subject == subject).map(|entry| entry.value());
        let ratio = |reference: Option<f64>| match (reference, value) {
            (None, _) => String::new(),
            (Some(reference), Some(value)) if reference > 0.0 => format!("{:>8.2}", value / reference),
            (Some(_), _) => format!("{:>8}", ""),
        };
        let figure = value.map_or(String::new(), figure);
        format!("{figure:>12}{}{}", ratio(self.raw), ratio(self.best_peer))
    }
}

fn case_table(out: &mut String, results: &Results, case: &str) {
    let columns: Vec<Column<'_>> =
        results.metrics(case).into_iter().map(|metric| Column::new(results, case, metric)).collect();
    let (mut names, mut units) = (format!("  {:<22}", ""), format!("  {:<22}", "subject"));
    for column in &columns {
        let heading = column.heading();
        let name = column.metric.replace('_', " ");
        let _ = write!(names, "{name:>width$}  ", width = heading.len());
        let _ = write!(units, "{heading}  ");
    }
    let _ =
        writeln!(out, "{case} ({})\n{}\n{}", rule(columns[0].entries[0]), names.trim_end(), units.trim_end());
    for subject in results.subjects(case) {
        let cells: String = columns.iter().map(|column| column.cells(subject) + "  ").collect();
        let _ = writeln!(out, "  {subject:<22}{}", cells.trim_end());
    }
}

/// The best figure of whoever is neither Mainspring nor the bare system calls.
fn best_peer(entries: &[&Entry]) -> Option<f64> {
    let peers =
        entries.iter().filter(|entry| !entry.subject.starts_with(RAW) && !entry.subject.starts_with(OURS));
    let best = if entries[0].keep == Keep::Maximum { f64::max } else { f64::min };
    peers.map(|entry| entry.value()).reduce(best)
}

fn rule(entry: &Entry) -> String {
    let samples = entry.sample_count();
    match entry.keep {
        Keep::Minimum => format!("minima of {samples} processes"),
        Keep::Maximum => format!("maxima of {samples} processes"),
        Keep::Median | Keep::P99 => format!("{samples} samples"),
    }
}

fn figure(value: f64) -> String {
    match value.abs() {
        0.0..10.0 => format!("{value:.2}"),
        10.0..1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn verdict(out: &mut String, results: &Results, target: &Target) {
    let Some(verdict) = target.judge(results) else { return };
    let mark = if verdict.reached { "ok  " } else { "MISS" };
    let metric = target.metric.replace('_', " ");
    let _ = writeln!(out, "  {mark} {metric} {} (measured {:.2})", verdict.wording, verdict.measured);
}

fn summary(out: &mut String, results: &Results, targets: &[Target]) {
    let verdicts: Vec<_> =
        targets.iter().filter_map(|target| Some((target, target.judge(results)?))).collect();
    if verdicts.is_empty() {
        return;
    }
    let reached = verdicts.iter().filter(|(_, verdict)| verdict.reached).count();
    let _ = writeln!(out, "targets: {reached} of {} reached", verdicts.len());
    for (target, verdict) in verdicts.iter().filter(|(_, verdict)| !verdict.reached) {
        let (case, metric) = (&target.case, target.metric.replace('_', " "));
        let _ =
            writeln!(out, "  MISS {case}: {metric} {} (measured {:.2})", verdict.wording, verdict.measured);
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
        assert!(text.contains("mainspring                   110.0    1.10    0.55"), "{text}");
        assert!(text.contains("MISS c-1: cpu at most 1.05 x raw (measured 1.10)"), "{text}");
        assert!(text.contains("targets: 0 of 1 reached"), "{text}");
    }

    #[test]
    fn metrics_of_one_case_stand_side_by_side() {
        let mut results = Results::new("s");
        results.record("c", "libev", "insert", "ns", Keep::Minimum, 1.0);
        results.record("c", "libev", "fire", "ns", Keep::Minimum, 2.0);
        results.record("c", "calloop", "insert", "ns", Keep::Minimum, 3.0);
        let text = report(&results, &[]);
        assert!(text.contains("libev                         1.00    1.00          2.00    1.00"), "{text}");
        assert!(text.contains("calloop                       3.00    3.00\n"), "{text}");
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
