//! What capabilities write to standard error: lines of the log, with their name, as many as a
//! person can read. The kernel keeps the last of them, for the operator whose request a capability
//! fails over.

use crate::daemon::actors::Port;
use crate::daemon::operator::capability_lines;
use crate::daemon::operator::throttle::Throttle;
use mainspring_message::lines::{Line, LineSplitter};
use mainspring_reactor::{Handle, Instant};
use std::rc::Rc;

/// The longest line that is logged.
const LINE_BYTES_MAX: usize = 4096;
/// Lines of one capability that are logged in one second. Beyond: they are left out, and counted.
const LINES_PER_SECOND_MAX: u32 = 100;

/// Who keeps lines.
type Keep = Box<dyn Fn(&[u8])>;

/// Standard error of one incarnation of a capability.
pub(super) struct StderrLog {
    name: Rc<str>,
    lines: LineSplitter,
    throttle: Throttle,
    /// Takes every line, also those that are left out of the log.
    keep: Keep,
}

impl StderrLog {
    /// The standard error of the actor behind a port.
    pub(super) fn of(port: &Port, reactor: &Handle) -> StderrLog {
        capability_lines::introduce(port.name());
        let kernel = port.clone();
        StderrLog::new(port.name(), reactor, move |line| kernel.complained(line))
    }

    fn new(name: &Rc<str>, reactor: &Handle, keep: impl Fn(&[u8]) + 'static) -> StderrLog {
        let capability = Rc::clone(name);
        let throttle = Throttle::new(reactor, LINES_PER_SECOND_MAX, move |count| {
            let lines = if count == 1 { "line" } else { "lines" };
            tracing::warn!(capability = &*capability, "({count} more {lines} on standard error)");
        });
        StderrLog { name: Rc::clone(name), lines: LineSplitter::default(), throttle, keep: Box::new(keep) }
    }

    /// Logs the lines that end in these bytes.
    pub(super) fn hear(&mut self, bytes: &[u8], now: Instant) {
        let (name, throttle, keep) = (&self.name, &self.throttle, &self.keep);
        self.lines.split(bytes, LINE_BYTES_MAX, |line| take(name, throttle, keep, now, &line));
    }

    /// Logs what is left: nothing more will come.
    pub(super) fn finish(&mut self, now: Instant) {
        let (name, throttle, keep) = (&self.name, &self.throttle, &self.keep);
        if let Some(line) = self.lines.finish().filter(|line| !line.is_blank()) {
            take(name, throttle, keep, now, &line);
        }
        self.throttle.finish();
    }
}

fn take(name: &str, throttle: &Throttle, keep: &dyn Fn(&[u8]), now: Instant, line: &Line<'_>) {
    if let Line::Whole(line) = line {
        keep(line);
    }
    throttle.line(now, || log(name, line));
}

fn log(capability: &str, line: &Line<'_>) {
    match line {
        Line::Whole(line) => {
            tracing::info!(target: capability_lines::TARGET, capability, "{}", printable(line))
        }
        Line::TooLong => {
            tracing::info!(target: capability_lines::TARGET, capability, "(a line longer than {LINE_BYTES_MAX} bytes)");
        }
    }
}

/// A line that does to a terminal what a line should do.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.trim_end().chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainspring_reactor::Reactor;
    use std::cell::RefCell;

    #[test]
    fn an_endless_line_holds_no_memory() {
        let reactor = Reactor::new().unwrap();
        let mut stderr_log = StderrLog::new(&"it".into(), &reactor, |_| {});
        for _ in 0..1000 {
            stderr_log.hear(&[b'x'; 1000], reactor.now());
        }
        assert_eq!(stderr_log.lines.held_bytes(), 0);
        stderr_log.finish(reactor.now());
    }

    #[test]
    fn the_last_lines_are_kept_also_those_that_are_left_out_of_the_log() {
        let reactor = Reactor::new().unwrap();
        let kept: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
        let keep = Rc::clone(&kept);
        let mut stderr_log =
            StderrLog::new(&"it".into(), &reactor, move |line| keep.borrow_mut().push(line.to_vec()));
        for number in 0..2 * LINES_PER_SECOND_MAX {
            stderr_log.hear(format!("{number}\n").as_bytes(), reactor.now());
        }
        stderr_log.hear(b"the last one, without an end", reactor.now());
        stderr_log.finish(reactor.now());
        assert_eq!(kept.borrow().len() as u32, 2 * LINES_PER_SECOND_MAX + 1);
        assert_eq!(kept.borrow().last().unwrap(), b"the last one, without an end");
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_shown_to_it() {
        assert_eq!(printable(b"\x1b[2Jred\talert\xff\r"), "\u{fffd}[2Jred\talert\u{fffd}");
    }
}
