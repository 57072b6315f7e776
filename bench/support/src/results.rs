//! The figures of a suite, gathered over rounds.

use crate::Row;

/// How the figures of several rounds become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The smallest: for costs, since noise only ever adds to them.
    Minimum,
    /// The largest: for rates, for the same reason.
    Maximum,
    /// The middle one: for latencies, where the machine's usual state is the question.
    Median,
    /// The 99th percentile of all samples.
    P99,
}

/// One figure in the making: its name and all samples so far.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The work.
    pub case: String,
    /// Who did it.
    pub subject: String,
    /// What was measured.
    pub metric: String,
    /// The unit of the value.
    pub unit: String,
    /// How samples become one value.
    pub keep: Keep,
    samples: Vec<f64>,
}

impl Entry {
    /// The figure, by this entry's [`Keep`] rule.
    #[must_use]
    pub fn value(&self) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len() - 1;
        match self.keep {
            Keep::Minimum => sorted[0],
            Keep::Maximum => sorted[last],
            Keep::Median => sorted[last / 2],
            Keep::P99 => sorted[(last as f64 * 0.99).round() as usize],
        }
    }

    /// How many samples stand behind the figure.
    #[must_use]
    pub fn sample_count(&self) -> usize {
        self.samples.len()
    }
}

/// All figures of one suite, in the order in which they first came.
#[derive(Clone, Debug)]
pub struct Results {
    suite: String,
    entries: Vec<Entry>,
}

impl Results {
    /// Nothing measured yet.
    #[must_use]
    pub fn new(suite: &str) -> Results {
        Results { suite: suite.into(), entries: Vec::new() }
    }

    /// Adds one sample to a figure.
    pub fn record(&mut self, case: &str, subject: &str, metric: &str, unit: &str, keep: Keep, sample: f64) {
        if let Some(entry) = self.find_mut(case, subject, metric) {
            entry.samples.push(sample);
            return;
        }
        self.entries.push(Entry {
            case: case.into(),
            subject: subject.into(),
            metric: metric.into(),
            unit: unit.into(),
            keep,
            samples: vec![sample],
        });
    }

    fn find_mut(&mut self, case: &str, subject: &str, metric: &str) -> Option<&mut Entry> {
        self.entries
            .iter_mut()
            .find(|entry| entry.case == case && entry.subject == subject && entry.metric == metric)
    }

    /// The figure of one subject, if it was measured.
    #[must_use]
    pub fn value(&self, case: &str, subject: &str, metric: &str) -> Option<f64> {
        self.figures(case, metric).find(|entry| entry.subject == subject).map(Entry::value)
    }

    /// The figures of all subjects for one metric of one case.
    pub fn figures<'a>(&'a self, case: &'a str, metric: &'a str) -> impl Iterator<Item = &'a Entry> + 'a {
        self.entries.iter().filter(move |entry| entry.case == case && entry.metric == metric)
    }

    /// Every case measured, in order.
    #[must_use]
    pub fn cases(&self) -> Vec<&str> {
        distinct(self.entries.iter().map(|entry| entry.case.as_str()))
    }

    /// Every metric of a case, in order.
    #[must_use]
    pub fn metrics<'a>(&'a self, case: &'a str) -> Vec<&'a str> {
        distinct(self.of_case(case).map(|entry| entry.metric.as_str()))
    }

    /// Every subject of a case, in order.
    #[must_use]
    pub fn subjects<'a>(&'a self, case: &'a str) -> Vec<&'a str> {
        distinct(self.of_case(case).map(|entry| entry.subject.as_str()))
    }

    fn of_case<'a>(&'a self, case: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.case == case)
    }

    /// The figures as rows.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let row = |entry: &Entry| Row {
            suite: self.suite.clone(),
            case: entry.case.clone(),
            subject: entry.subject.clone(),
            metric: entry.metric.clone(),
            unit: entry.unit.clone(),
            value: entry.value(),
        };
        self.entries.iter().map(row).collect()
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(keep: Keep, samples: &[f64]) -> f64 {
        let mut results = Results::new("s");
        for &sample in samples {
            results.record("c", "raw", "m", "ns", keep, sample);
        }
        results.value("c", "raw", "m").unwrap()
    }

    #[test]
    fn a_cost_keeps_its_minimum_and_a_latency_its_median() {
        assert_eq!(results(Keep::Minimum, &[3.0, 1.0, 2.0]), 1.0);
        assert_eq!(results(Keep::Maximum, &[3.0, 1.0, 2.0]), 3.0);
        assert_eq!(results(Keep::Median, &[9.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn the_99th_percentile_leaves_one_in_a_hundred_above() {
        let samples: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!(results(Keep::P99, &samples), 99.0);
    }

    #[test]
    fn cases_are_listed_once_in_order_of_arrival() {
        let mut results = Results::new("s");
        results.record("b", "raw", "m", "ns", Keep::Minimum, 1.0);
        results.record("a", "raw", "m", "ns", Keep::Minimum, 1.0);
        results.record("b", "libev", "m", "ns", Keep::Minimum, 1.0);
        assert_eq!(results.cases(), ["b", "a"]);
        assert_eq!(results.subjects("b"), ["raw", "libev"]);
        assert_eq!(results.metrics("a"), ["m"]);
    }
}
