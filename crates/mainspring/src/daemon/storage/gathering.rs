//! When facts are handed over to the thread that writes: a flush takes the same whether it carries
//! one or a hundred, and takes a core while it does, so what comes together goes together.
//!
//! Whoever is alone never waits: what rests on facts of one client is handed over after each turn,
//! and so is everything when the loop has nothing else to do. While a busy loop serves many, it
//! goes on with what is there until there is enough for a flush, or for a moment.

use mainspring_reactor::Instant;
use std::cell::Cell;
use std::time::Duration;

/// So many bytes of facts are worth a flush of their own: what two large reads make, a few hundred
/// small commands.
const ENOUGH_BYTES: usize = 40 << 10;
/// How long facts wait for others at most: about two flushes of a quick disk.
const TIME_MAX: Duration = Duration::from_micros(300);

/// How long facts have waited to be handed over.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// When they were first left for later.
    since: Cell<Option<Instant>>,
}

impl Gathering {
    /// Whether so many bytes of facts, more than none, are to be handed over now; if not, they are
    /// asked for again after the next turn. `expects_more` tells that others may come soon.
    #[inline]
    pub(super) fn is_over(&self, bytes: usize, expects_more: bool, now: impl FnOnce() -> Instant) -> bool {
        if !expects_more || bytes >= ENOUGH_BYTES {
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
    fn j1_3_facts_gather_while_a_busy_loop_serves_many_until_there_are_enough_or_for_a_moment() {
        let gathering = Gathering::default();
        // Nobody else: at once, and no clock is read.
        assert!(gathering.is_over(1, false, || unreachable!()));
        assert!(gathering.is_over(ENOUGH_BYTES, true, || unreachable!()));
        for (us, is_over) in [(10, false), (200, false), (309, false), (310, true)] {
            assert_eq!(gathering.is_over(100, true, at_us(us)), is_over, "{us}");
        }
        // The next ones wait from their own beginning, whatever ended the waiting before.
        assert!(!gathering.is_over(100, true, at_us(311)));
        assert!(gathering.is_over(100, false, || unreachable!()));
        assert!(!gathering.is_over(100, true, at_us(700)));
        assert!(gathering.is_over(ENOUGH_BYTES, true, || unreachable!()));
        assert!(!gathering.is_over(100, true, at_us(10_000)));
        assert!(gathering.is_over(100, true, at_us(10_300)));
    }
}
