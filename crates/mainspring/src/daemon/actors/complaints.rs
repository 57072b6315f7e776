//! What capabilities write to standard error: lines of the log, with their name, as many as a person can read.

use super::super::lines::{Cut, LineCutter};
use mainspring_reactor::Instant;
use std::rc::Rc;
use std::time::Duration;

/// The longest line that is logged.
const LINE_BYTES_MAX: usize = 4096;
/// Lines of one capability that are logged in one period. Beyond: they are dropped, and counted in the next one.
const LINES_PER_PERIOD_MAX: u32 = 100;
const PERIOD: Duration = Duration::from_secs(1);

/// Standard error of one capability.
#[derive(Debug)]
pub(super) struct Complaints {
    name: Rc<str>,
    lines: LineCutter,
    period_began: Option<Instant>,
    logged: u32,
    dropped: u64,
}

impl Complaints {
    pub(super) fn new(name: &Rc<str>) -> Complaints {
        Complaints {
            name: Rc::clone(name),
            lines: LineCutter::default(),
            period_began: None,
            logged: 0,
            dropped: 0,
        }
    }

    /// Logs the lines that end in these bytes.
    pub(super) fn hear(&mut self, bytes: &[u8], now: Instant) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.cut(bytes, LINE_BYTES_MAX, |cut| self.log(&cut, now));
        self.lines = lines;
    }

    /// Logs what is left: nothing more will come.
    pub(super) fn finish(&mut self, now: Instant) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.finish(|cut| self.log(&cut, now));
        self.tell_dropped();
    }

    fn log(&mut self, cut: &Cut<'_>, now: Instant) {
        let began = *self.period_began.get_or_insert(now);
        if now.saturating_duration_since(began) >= PERIOD {
            self.tell_dropped();
            (self.period_began, self.logged) = (Some(now), 0);
        }
        if self.logged >= LINES_PER_PERIOD_MAX {
            self.dropped += 1;
            return;
        }
        self.logged += 1;
        let capability = &*self.name;
        match cut {
            Cut::Line(line) => tracing::info!(capability, "{}", printable(line)),
            Cut::TooLong => tracing::info!(capability, "(a line longer than {LINE_BYTES_MAX} bytes)"),
        }
    }

    fn tell_dropped(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            tracing::warn!(capability = &*self.name, "({dropped} more lines on standard error)");
        }
    }
}

/// A line that does to a terminal what a line should do.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.trim_end().chars().map(|it| if it.is_control() && it != '\t' { '\u{fffd}' } else { it }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_flood_is_cut_off_and_counted_and_the_next_period_begins_anew() {
        let mut complaints = Complaints::new(&"it".into());
        for _ in 0..1000 {
            complaints.hear(b"again\n", at(0));
        }
        assert_eq!((complaints.logged, complaints.dropped), (LINES_PER_PERIOD_MAX, 1000 - 100));
        complaints.hear(b"later\n", at(1000));
        assert_eq!((complaints.logged, complaints.dropped), (1, 0));
    }

    #[test]
    fn an_endless_line_holds_no_memory() {
        let mut complaints = Complaints::new(&"it".into());
        for _ in 0..1000 {
            complaints.hear(&[b'x'; 1000], at(0));
        }
        assert_eq!((complaints.lines.held_bytes(), complaints.logged), (0, 1));
        complaints.finish(at(0));
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_shown_to_it() {
        assert_eq!(printable(b"\x1b[2Jred\talert\xff\r"), "\u{fffd}[2Jred\talert\u{fffd}");
    }
}
