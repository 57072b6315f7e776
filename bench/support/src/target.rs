//! What Mainspring has to reach, and whether it did.

use crate::{OURS, Results};

/// The bound of a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    /// At most this many times the best of these subjects; of a rate, at least.
    Times(f64, Vec<String>),
    /// Better than each of these subjects.
    AheadOf(Vec<String>),
    /// At most this value; of a rate, at least.
    AtMost(f64),
}

/// A bound on one figure of Mainspring. Smaller is better; for rates see [`Target::of_rate`].
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The case it is about.
    pub case: String,
    /// The metric it is about.
    pub metric: String,
    /// The bound.
    pub limit: Limit,
    rate: bool,
}

/// How a target was met.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Whether the bound holds.
    pub reached: bool,
    /// The ratio that was compared with the bound (the value itself for [`Limit::AtMost`]).
    pub measured: f64,
    /// The target in words.
    pub wording: String,
}

impl Target {
    /// At most `times` the best of `references`.
    #[must_use]
    pub fn within(case: &str, metric: &str, times: f64, references: &[&str]) -> Target {
        Target::new(case, metric, Limit::Times(times, owned(references)))
    }

    /// Ahead of each of `peers`.
    #[must_use]
    pub fn ahead_of(case: &str, metric: &str, peers: &[&str]) -> Target {
        Target::new(case, metric, Limit::AheadOf(owned(peers)))
    }

    /// At most `value`.
    #[must_use]
    pub fn at_most(case: &str, metric: &str, value: f64) -> Target {
        Target::new(case, metric, Limit::AtMost(value))
    }

    fn new(case: &str, metric: &str, limit: Limit) -> Target {
        Target { case: case.into(), metric: metric.into(), limit, rate: false }
    }

    /// The same bound on a figure of which more is better: "at most" becomes "at least".
    #[must_use]
    pub fn of_rate(mut self) -> Target {
        self.rate = true;
        self
    }

    /// Compares Mainspring's figure with the bound; `None` where it, or every reference, was not
    /// measured.
    #[must_use]
    pub fn judge(&self, results: &Results) -> Option<Verdict> {
        let ours = results.value(&self.case, OURS, &self.metric)?;
        let ratio_to_best = |names: &[String]| {
            let ratios = names.iter().filter_map(|name| results.value(&self.case, name, &self.metric));
            let ratios = ratios.map(|theirs| ours / theirs);
            if self.rate { ratios.min_by(f64::total_cmp) } else { ratios.max_by(f64::total_cmp) }
        };
        let (bound, holds): (_, fn(f64, f64) -> bool) = if self.rate {
            ("at least", |ours, limit| ours >= limit)
        } else {
            ("at most", |ours, limit| ours <= limit)
        };
        let (measured, reached, wording) = match &self.limit {
            Limit::Times(times, names) => {
                let ratio = ratio_to_best(names)?;
                (ratio, holds(ratio, *times), format!("{bound} {times} x {}", list(names)))
            }
            Limit::AheadOf(names) => {
                let ratio = ratio_to_best(names)?;
                (ratio, ratio != 1.0 && holds(ratio, 1.0), format!("ahead of {}", list(names)))
            }
            Limit::AtMost(value) => (ours, holds(ours, *value), format!("{bound} {value}")),
        };
        Some(Verdict { reached, measured, wording })
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_string()).collect()
}

fn list(names: &[String]) -> String {
    match names {
        [one] => one.clone(),
        _ => format!("the best of {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keep;

    fn results(figures: &[(&str, f64)]) -> Results {
        let mut results = Results::new("s");
        for &(subject, value) in figures {
            results.record("c", subject, "m", "ns", Keep::Minimum, value);
        }
        results
    }

    #[test]
    fn the_best_reference_is_the_one_that_counts() {
        let results = results(&[("mainspring", 10.0), ("slow", 100.0), ("fast", 9.0)]);
        let verdict = Target::within("c", "m", 1.05, &["slow", "fast"]).judge(&results).unwrap();
        assert!(!verdict.reached);
        assert!((verdict.measured - 10.0 / 9.0).abs() < 1e-9);
    }

    #[test]
    fn ahead_means_strictly_less_than_every_peer() {
        let results = results(&[("mainspring", 10.0), ("a", 10.0), ("b", 20.0)]);
        assert!(!Target::ahead_of("c", "m", &["a", "b"]).judge(&results).unwrap().reached);
        assert!(Target::ahead_of("c", "m", &["b"]).judge(&results).unwrap().reached);
    }

    #[test]
    fn a_rate_turns_the_comparison_round() {
        let results = results(&[("mainspring", 100.0), ("a", 90.0)]);
        assert!(Target::ahead_of("c", "m", &["a"]).of_rate().judge(&results).unwrap().reached);
        assert!(Target::at_most("c", "m", 100.0).of_rate().judge(&results).unwrap().reached);
        assert!(Target::within("c", "m", 1.1, &["a"]).of_rate().judge(&results).unwrap().reached);
        assert!(!Target::within("c", "m", 1.2, &["a"]).of_rate().judge(&results).unwrap().reached);
    }

    #[test]
    fn without_a_reference_there_is_no_verdict() {
        let results = results(&[("mainspring", 10.0)]);
        assert_eq!(Target::within("c", "m", 1.0, &["raw"]).judge(&results), None);
        assert!(Target::at_most("c", "m", 10.0).judge(&results).unwrap().reached);
    }
}
