//! When facts are handed over to the thread that writes: a flush takes the same whether it carries
//! one or a hundred, and takes a core while it does, so what comes together goes together.
//!
//! A loop with nothing else to do hands over at once: whoever is alone never waits. A busy one goes
//! on with what is there, until there is enough for a flush, or for a moment.

use mainspring_reactor::Instant;
use std::cell::Cell;
use std::time::Duration;

/// So many bytes of facts are worth a flush of their own: what the requests of one large read make.
/// With twice as many, the disk would wait for the loop and the loop for the disk.
const ENOUGH_BYTES: usize = 20 << 10;
/// How long facts wait for others at most: about two flushes of a quick disk.
const TIME_MAX: Duration = Duration::from_micros(250);

/// How long facts have waited to be handed over.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// When they were first left for later.
    since: Cell<Option<Instant>>,
}

impl Gathering {
    /// Whether so many bytes of facts, more than none, are to be handed over now; if not, they are
    /// asked for again after the next turn.
    #[inline]
    pub(super) fn is_over(&self, bytes: usize, is_idle: bool, now: impl FnOnce() -> Instant) -> bool {
        if is_idle || bytes >= ENOUGH_BYTES {
            self.since.set(None);
            return true;
        }
        let now = now();
        let since = self.since.get().unwrap_or(now);
        let is_over = now.saturating_duration_since(since) >= TIME_MAX;
        self.since.set((!is_over).then_some(since));
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_us(us: i64) -> impl FnOnce() -> Instant {
        move || Instant::from_nanos(us * 1000)
    }

    #[test]
    fn j1_3_facts_gather_while_the_loop_is_busy_until_there_are_enough_or_for_a_moment() {
        let gathering = Gathering::default();
        // Nothing else to do: at once, and no clock is read.
        assert!(gathering.is_over(1, true, || unreachable!()));
        assert!(gathering.is_over(ENOUGH_BYTES, false, || unreachable!()));
        for (us, is_over) in [(10, false), (200, false), (259, false), (260, true)] {
            assert_eq!(gathering.is_over(100, false, at_us(us)), is_over, "{us}");
        }
        // The next ones wait from their own beginning, whatever ended the waiting before.
        assert!(!gathering.is_over(100, false, at_us(261)));
        assert!(gathering.is_over(100, true, || unreachable!()));
        assert!(!gathering.is_over(100, false, at_us(600)));
        assert!(gathering.is_over(ENOUGH_BYTES, false, || unreachable!()));
        assert!(!gathering.is_over(100, false, at_us(10_000)));
        assert!(gathering.is_over(100, false, at_us(10_250)));
    }
}
