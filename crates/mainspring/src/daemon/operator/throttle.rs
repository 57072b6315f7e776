//! So many lines of the log per second about one thing, and then one line that tells how many were
//! left out.

use mainspring_reactor::{Handle, Instant, Timer};
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// How long lines are counted before the count begins anew.
const PERIOD: Duration = Duration::from_secs(1);

/// Lets so many lines through in one period. The others are counted, and told when the period is
/// over or the throttle is dropped. While none are left out it has no timer.
#[derive(Debug)]
pub(crate) struct Throttle {
    reactor: Handle,
    tally: Rc<ThrottleTally>,
}

/// What was logged in this period and what was not.
struct ThrottleTally {
    lines_max: u32,
    tell: Box<dyn Fn(u64)>,
    period_began: Cell<Option<Instant>>,
    logged: Cell<u32>,
    left_out: Cell<u64>,
    /// Set while something is left out that nobody was told of.
    timer: Cell<Option<Timer>>,
}

impl Throttle {
    /// Lets `lines_max` lines through per period; `tell` logs how many were left out.
    pub(crate) fn new(reactor: &Handle, lines_max: u32, tell: impl Fn(u64) + 'static) -> Throttle {
        let tally = Rc::new(ThrottleTally {
            lines_max,
            tell: Box::new(tell),
            period_began: Cell::new(None),
            logged: Cell::new(0),
            left_out: Cell::new(0),
            timer: Cell::new(None),
        });
        Throttle { reactor: reactor.clone(), tally }
    }

    /// Has a line logged by `log`, or counts it.
    pub(crate) fn line(&self, now: Instant, log: impl FnOnce()) {
        let tally = &self.tally;
        let mut began = tally.period_began.get().unwrap_or(now);
        if now.saturating_duration_since(began) >= PERIOD {
            self.finish();
            began = now;
            tally.logged.set(0);
        }
        tally.period_began.set(Some(began));
        if tally.logged.get() < tally.lines_max {
            tally.logged.set(tally.logged.get() + 1);
            return log();
        }
        tally.left_out.set(tally.left_out.get() + 1);
        self.tell_when_over(PERIOD.saturating_sub(now.saturating_duration_since(began)));
    }

    /// Tells what was left out so far.
    pub(crate) fn finish(&self) {
        if let Some(timer) = self.tally.timer.take() {
            self.reactor.cancel(timer);
        }
        self.tally.tell();
    }

    /// Has what was left out told when the period is over, whether or not there is another line.
    fn tell_when_over(&self, left: Duration) {
        if self.tally.timer.get().is_some() {
            return;
        }
        let tally = Rc::clone(&self.tally);
        let timer = self.reactor.after(left, move |_| {
            tally.timer.set(None);
            tally.tell();
        });
        // Without a timer it is told with the next line, or at the end.
        self.tally.timer.set(timer.ok());
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.finish();
    }
}

impl ThrottleTally {
    fn tell(&self) {
        let left_out = self.left_out.take();
        if left_out > 0 {
            (self.tell)(left_out);
        }
    }
}

impl fmt::Debug for ThrottleTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleTally")
            .field("lines_max", &self.lines_max)
            .field("logged", &self.logged)
            .field("left_out", &self.left_out)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainspring_reactor::{Builder, Reactor, VirtualClock};
    use std::cell::RefCell;

    const LINES_MAX: u32 = 3;

    /// A throttle on a virtual clock, and what it has logged: lines, and numbers of lines left out.
    struct Rig {
        reactor: Reactor,
        clock: VirtualClock,
        throttle: Throttle,
        log: Rc<RefCell<Vec<String>>>,
    }

    impl Rig {
        fn new() -> Rig {
            let clock = VirtualClock::new();
            let reactor = Builder::new().virtual_clock(&clock).build().unwrap();
            let log: Rc<RefCell<Vec<String>>> = Rc::default();
            let told = Rc::clone(&log);
            let throttle = Throttle::new(&reactor, LINES_MAX, move |count| {
                told.borrow_mut().push(format!("{count} more"));
            });
            Rig { reactor, clock, throttle, log }
        }

        fn lines(&self, count: usize) {
            for _ in 0..count {
                self.throttle.line(self.reactor.now(), || self.log.borrow_mut().push("line".into()));
            }
        }

        fn logged(&self) -> Vec<String> {
            self.log.take()
        }
    }

    #[test]
    fn a_flood_is_cut_off_and_counted_and_the_next_period_begins_anew() {
        let rig = Rig::new();
        rig.lines(1000);
        assert_eq!(rig.logged(), ["line"; 3]);
        rig.clock.advance(PERIOD);
        rig.lines(1);
        assert_eq!(rig.logged(), ["997 more", "line"]);
        assert_eq!(rig.reactor.next_deadline(), None, "all was told");
    }

    #[test]
    fn what_was_held_back_is_told_when_the_period_is_over_and_an_idle_loop_has_no_timer() {
        let mut rig = Rig::new();
        rig.lines(3);
        assert_eq!(rig.reactor.next_deadline(), None, "nothing is held back yet");
        rig.lines(2);
        let due = rig.reactor.next_deadline().expect("a timer");
        assert_eq!(due.saturating_duration_since(rig.clock.now()), PERIOD);
        rig.clock.advance(PERIOD);
        rig.reactor.poll(Some(Duration::ZERO)).unwrap();
        assert_eq!(rig.logged(), ["line", "line", "line", "2 more"]);
        assert_eq!(rig.reactor.next_deadline(), None);
        rig.lines(1);
        assert_eq!(rig.logged(), ["line"]);
    }

    #[test]
    fn the_end_tells_what_was_held_back_and_leaves_no_timer() {
        let rig = Rig::new();
        rig.lines(10);
        assert!(rig.reactor.next_deadline().is_some());
        let Rig { reactor, throttle, log, .. } = rig;
        drop(throttle);
        assert_eq!(log.take().last().map(String::as_str), Some("7 more"));
        assert_eq!(reactor.next_deadline(), None);
    }
}
