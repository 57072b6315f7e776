//! A bar on standard error that fills while a case is measured, if anybody is there to see it.

use crate::cli::project::bench::load::Case;
use crate::cli::support::text;
use std::io::{IsTerminal, Write};

/// Characters of a full bar.
const BAR_COLUMNS: usize = 40;

pub(in crate::cli::project::bench) struct Progress {
    label: String,
    is_seen: bool,
}

impl Progress {
    pub(in crate::cli::project::bench) fn new(at: usize, cases: usize, case: Case) -> Progress {
        let connections = text::count(case.connections as u64, "connection", "connections");
        let label = format!("{}/{cases}  {connections}, {} deep", at + 1, case.depth);
        Progress { label, is_seen: std::io::stderr().is_terminal() }
    }

    /// Shows how much is done, from 0 to 1, and what was reached so far.
    pub(in crate::cli::project::bench) fn show(&self, done: f64, requests_per_s: f64) {
        if self.is_seen {
            let line = bar(&self.label, done, requests_per_s);
            let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
        }
    }

    pub(in crate::cli::project::bench) fn clear(&self) {
        if self.is_seen {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn bar(label: &str, done: f64, requests_per_s: f64) -> String {
    let full = ((done.clamp(0.0, 1.0)) * BAR_COLUMNS as f64) as usize;
    format!("{label}  [{}{}]  {requests_per_s:.0}/s", "#".repeat(full), "-".repeat(BAR_COLUMNS - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_and_never_overflows() {
        assert_eq!(bar("x", 0.5, 10.0), format!("x  [{}{}]  10/s", "#".repeat(20), "-".repeat(20)));
        assert!(bar("x", 7.0, 0.0).contains(&"#".repeat(40)) && !bar("x", f64::NAN, 0.0).contains('#'));
    }
}
