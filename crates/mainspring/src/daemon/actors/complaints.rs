//! What capabilities write to standard error: lines of the log, with their name, as many as a person can read.

use super::super::lines::{Cut, LineCutter};
use super::super::throttle::Throttle;
use mainspring_reactor::{Handle, Instant};
use std::rc::Rc;

/// The longest line that is logged.
const LINE_BYTES_MAX: usize = 4096;
/// Lines of one capability that are logged in one second. Beyond: they are left out, and counted.
const LINES_PER_SECOND_MAX: u32 = 100;

/// Standard error of one capability.
#[derive(Debug)]
pub(super) struct Complaints {
    name: Rc<str>,
    lines: LineCutter,
    throttle: Throttle,
}

impl Complaints {
    pub(super) fn new(name: &Rc<str>, reactor: &Handle) -> Complaints {
        let capability = Rc::clone(name);
        let throttle = Throttle::new(reactor, LINES_PER_SECOND_MAX, move |count| {
            tracing::warn!(capability = &*capability, "({count} more lines on standard error)");
        });
        Complaints { name: Rc::clone(name), lines: LineCutter::default(), throttle }
    }

    /// Logs the lines that end in these bytes.
    pub(super) fn hear(&mut self, bytes: &[u8], now: Instant) {
        let (name, throttle) = (&self.name, &self.throttle);
        self.lines.cut(bytes, LINE_BYTES_MAX, |cut| throttle.line(now, || log(name, &cut)));
    }

    /// Logs what is left: nothing more will come.
    pub(super) fn finish(&mut self, now: Instant) {
        let (name, throttle) = (&self.name, &self.throttle);
        self.lines.finish(|cut| throttle.line(now, || log(name, &cut)));
        self.throttle.finish();
    }
}

fn log(capability: &str, cut: &Cut<'_>) {
    match cut {
        Cut::Line(line) => tracing::info!(capability, "{}", printable(line)),
        Cut::TooLong => tracing::info!(capability, "(a line longer than {LINE_BYTES_MAX} bytes)"),
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
    use mainspring_reactor::Reactor;

    #[test]
    fn an_endless_line_holds_no_memory() {
        let reactor = Reactor::new().unwrap();
        let mut complaints = Complaints::new(&"it".into(), &reactor);
        for _ in 0..1000 {
            complaints.hear(&[b'x'; 1000], reactor.now());
        }
        assert_eq!(complaints.lines.held_bytes(), 0);
        complaints.finish(reactor.now());
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_shown_to_it() {
        assert_eq!(printable(b"\x1b[2Jred\talert\xff\r"), "\u{fffd}[2Jred\talert\u{fffd}");
    }
}
