//! A bar on standard error that fills while a case is measured, if anybody is there to see it.

use crate::cli::project::bench::load::Case;
use crate::cli::support::text;
use indicatif::{ProgressBar, ProgressStyle};

/// Steps of a full bar.
const STEPS: u64 = 1000;

pub(in crate::cli::project::bench) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for one of so many cases. It is hidden where standard error is no terminal.
    pub(in crate::cli::project::bench) fn new(at: usize, cases: usize, case: Case) -> Progress {
        let connections = text::count(case.connections as u64, "connection", "connections");
        let bar = ProgressBar::new(STEPS);
        if let Ok(style) = ProgressStyle::with_template("{prefix}  [{bar:40}]  {msg}") {
            bar.set_style(style.progress_chars("#>-"));
        }
        bar.set_prefix(format!("{}/{cases}  {connections}, {} deep", at + 1, case.depth));
        Progress { bar }
    }

    /// Shows how much is done, from 0 to 1, and what was reached so far.
    pub(in crate::cli::project::bench) fn show(&self, done: f64, requests_per_s: f64) {
        self.bar.set_message(format!("{requests_per_s:.0}/s"));
        self.bar.set_position((done.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }

    pub(in crate::cli::project::bench) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
