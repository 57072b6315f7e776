//! What capabilities write to standard error: lines of the log, with their name, as many as a person can read.

use super::super::lines::{Cut, LineCutter};
use mainspring_reactor::{Handle, Instant, Timer};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// The longest line that is logged.
const LINE_BYTES_MAX: usize = 4096;
/// Lines of one capability that are logged in one period. Beyond: they are dropped, and counted when the period is over.
const LINES_PER_PERIOD_MAX: u32 = 100;
const PERIOD: Duration = Duration::from_secs(1);

/// Standard error of one capability.
#[derive(Debug)]
pub(super) struct Complaints {
    reactor: Handle,
    lines: LineCutter,
    tally: Rc<Tally>,
}

/// What was logged in this period and what was not.
#[derive(Debug)]
struct Tally {
    name: Rc<str>,
    period_began: Cell<Option<Instant>>,
    logged: Cell<u32>,
    dropped: Cell<u64>,
    /// Set while something is dropped that nobody was told of.
    timer: Cell<Option<Timer>>,
}

impl Complaints {
    pub(super) fn new(name: &Rc<str>, reactor: &Handle) -> Complaints {
        let tally = Rc::new(Tally {
            name: Rc::clone(name),
            period_began: Cell::new(None),
            logged: Cell::new(0),
            dropped: Cell::new(0),
            timer: Cell::new(None),
        });
        Complaints { reactor: reactor.clone(), lines: LineCutter::default(), tally }
    }

    /// Logs the lines that end in these bytes.
    pub(super) fn hear(&mut self, bytes: &[u8], now: Instant) {
        let (tally, reactor) = (&self.tally, &self.reactor);
        self.lines.cut(bytes, LINE_BYTES_MAX, |cut| tally.log(&cut, now, reactor));
    }

    /// Logs what is left: nothing more will come.
    pub(super) fn finish(&mut self, now: Instant) {
        let (tally, reactor) = (&self.tally, &self.reactor);
        self.lines.finish(|cut| tally.log(&cut, now, reactor));
        self.tally.tell_dropped(&self.reactor);
    }
}

impl Drop for Complaints {
    fn drop(&mut self) {
        self.tally.tell_dropped(&self.reactor);
    }
}

impl Tally {
    fn log(self: &Rc<Tally>, cut: &Cut<'_>, now: Instant, reactor: &Handle) {
        let mut began = self.period_began.get().unwrap_or(now);
        if now.saturating_duration_since(began) >= PERIOD {
            self.tell_dropped(reactor);
            began = now;
            self.logged.set(0);
        }
        self.period_began.set(Some(began));
        if self.logged.get() >= LINES_PER_PERIOD_MAX {
            self.dropped.set(self.dropped.get() + 1);
            return self.tell_when_over(PERIOD.saturating_sub(now.saturating_duration_since(began)), reactor);
        }
        self.logged.set(self.logged.get() + 1);
        let capability = &*self.name;
        match cut {
            Cut::Line(line) => tracing::info!(capability, "{}", printable(line)),
            Cut::TooLong => tracing::info!(capability, "(a line longer than {LINE_BYTES_MAX} bytes)"),
        }
    }

    /// Has what was dropped told when the period is over, whether or not anything else is said.
    fn tell_when_over(self: &Rc<Tally>, left: Duration, reactor: &Handle) {
        if self.timer.get().is_some() {
            return;
        }
        let tally = Rc::clone(self);
        // Without a timer it is told with the next line, or at the end.
        self.timer.set(reactor.after(left, move |reactor| tally.tell_dropped(reactor)).ok());
    }

    fn tell_dropped(&self, reactor: &Handle) {
        if let Some(timer) = self.timer.take() {
            reactor.cancel(timer);
        }
        let dropped = self.dropped.take();
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
    use mainspring_reactor::{Builder, Reactor, VirtualClock};

    fn virtual_loop() -> (Reactor, VirtualClock) {
        let clock = VirtualClock::new();
        (Builder::new().virtual_clock(&clock).build().unwrap(), clock)
    }

    #[test]
    fn a_flood_is_cut_off_and_counted_and_the_next_period_begins_anew() {
        let (reactor, _) = virtual_loop();
        let mut complaints = Complaints::new(&"it".into(), &reactor);
        for _ in 0..1000 {
            complaints.hear(b"again\n", reactor.now());
        }
        let counted =
            |complaints: &Complaints| (complaints.tally.logged.get(), complaints.tally.dropped.get());
        assert_eq!(counted(&complaints), (LINES_PER_PERIOD_MAX, 1000 - 100));
        complaints.hear(b"later\n", reactor.now().checked_add(PERIOD).unwrap());
        assert_eq!(counted(&complaints), (1, 0));
    }

    #[test]
    fn what_was_held_back_is_told_when_the_period_is_over_and_an_idle_loop_has_no_timer() {
        let (mut reactor, clock) = virtual_loop();
        let mut complaints = Complaints::new(&"it".into(), &reactor);
        for _ in 0..LINES_PER_PERIOD_MAX {
            complaints.hear(b"again\n", reactor.now());
        }
        assert_eq!(reactor.next_deadline(), None, "nothing is held back yet");
        complaints.hear(b"one too many\n", reactor.now());
        complaints.hear(b"two\n", reactor.now());
        let due = reactor.next_deadline().expect("a timer");
        assert_eq!(due.saturating_duration_since(clock.now()), PERIOD);
        clock.advance(PERIOD);
        reactor.poll(Some(Duration::ZERO)).unwrap();
        assert_eq!((complaints.tally.dropped.get(), reactor.next_deadline()), (0, None));
    }

    #[test]
    fn the_end_tells_what_was_held_back_and_leaves_no_timer() {
        let (reactor, _) = virtual_loop();
        let mut complaints = Complaints::new(&"it".into(), &reactor);
        complaints.hear(&b"again\n".repeat(200), reactor.now());
        assert!(reactor.next_deadline().is_some());
        let tally = Rc::clone(&complaints.tally);
        drop(complaints);
        assert_eq!((tally.dropped.get(), reactor.next_deadline()), (0, None));
    }

    #[test]
    fn an_endless_line_holds_no_memory() {
        let (reactor, _) = virtual_loop();
        let mut complaints = Complaints::new(&"it".into(), &reactor);
        for _ in 0..1000 {
            complaints.hear(&[b'x'; 1000], reactor.now());
        }
        assert_eq!((complaints.lines.held_bytes(), complaints.tally.logged.get()), (0, 1));
        complaints.finish(reactor.now());
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_shown_to_it() {
        assert_eq!(printable(b"\x1b[2Jred\talert\xff\r"), "\u{fffd}[2Jred\talert\u{fffd}");
    }
}
