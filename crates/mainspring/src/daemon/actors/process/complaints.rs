//! What a child says on standard error: into the log, a bounded number of lines a second.

use super::super::super::lines::{Cut, LineCutter};
use mainspring_reactor::Instant;
use std::rc::Rc;
use std::time::Duration;

/// Lines logged per second. Beyond: they are left out, and counted.
const LINES_PER_SECOND: u32 = 200;
/// Bytes read per second. Beyond: nothing is read until the second is over, and the child waits.
const BYTES_PER_SECOND: usize = 1 << 20;
/// The longest line that is logged whole.
const LINE_BYTES_MAX: usize = 16 << 10;

/// The lines of one child.
pub(super) struct Complaints {
    name: Rc<str>,
    lines: LineCutter,
    since: Instant,
    logged: u32,
    left_out: u64,
    bytes: usize,
}

impl Complaints {
    pub(super) fn new(name: Rc<str>, now: Instant) -> Complaints {
        Complaints { name, lines: LineCutter::default(), since: now, logged: 0, left_out: 0, bytes: 0 }
    }

    /// Takes what the child said. Returns for how long to read no more of it.
    pub(super) fn take(&mut self, bytes: &[u8], now: Instant) -> Option<Duration> {
        let second = Duration::from_secs(1);
        if now.saturating_duration_since(self.since) >= second {
            self.tell_left_out();
            (self.since, self.logged, self.bytes) = (now, 0, 0);
        }
        self.bytes += bytes.len();
        let (name, logged, left_out) = (&self.name, &mut self.logged, &mut self.left_out);
        self.lines.cut(bytes, LINE_BYTES_MAX, |cut| {
            if *logged >= LINES_PER_SECOND {
                *left_out += 1;
                return;
            }
            *logged += 1;
            log(name, &cut);
        });
        let left = second.saturating_sub(now.saturating_duration_since(self.since));
        (self.bytes >= BYTES_PER_SECOND).then_some(left)
    }

    /// The child will say no more.
    pub(super) fn finish(&mut self) {
        self.tell_left_out();
        let name = &self.name;
        self.lines.finish(|cut| log(name, &cut));
    }

    fn tell_left_out(&mut self) {
        let count = std::mem::take(&mut self.left_out);
        if count > 0 {
            tracing::warn!(capability = &*self.name, "{count} more lines of standard error were left out");
        }
    }
}

fn log(name: &str, cut: &Cut<'_>) {
    match cut {
        Cut::Line(line) => {
            let text = String::from_utf8_lossy(line);
            // Whatever a program prints must not be able to steer a terminal or forge a line of the log.
            let text: String = text
                .trim_end()
                .chars()
                .map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c })
                .collect();
            tracing::info!(capability = name, "{text}");
        }
        Cut::TooLong => tracing::info!(capability = name, "(a line longer than {LINE_BYTES_MAX} bytes)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_off_for_the_rest_of_the_second() {
        let start = Instant::from_nanos(0);
        let mut complaints = Complaints::new("loud".into(), start);
        let flood = b"no\n".repeat(1000);
        assert_eq!(complaints.take(&flood, start), None);
        assert_eq!((complaints.logged, complaints.left_out), (LINES_PER_SECOND, 800));
        let half = Instant::from_nanos(500_000_000);
        let pause = complaints.take(&vec![b'x'; BYTES_PER_SECOND], half);
        assert_eq!(pause, Some(Duration::from_millis(500)));
        let next = Instant::from_nanos(1_000_000_000);
        assert_eq!(complaints.take(b"\nagain\n", next), None);
        assert_eq!((complaints.logged, complaints.left_out), (1, 0));
    }
}
