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
/// How long facts wait for others, counted from the beginning of their turn: about two flushes of a
/// quick disk. Then they go at the end of the turn that goes on.
const TIME_MAX: Duration = Duration::from_micros(300);

/// How long facts have waited to be handed over.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// When the turn began in which they were first left for later.
    since: Cell<Option<Instant>>,
}

impl Gathering {
    /// Whether so many bytes of facts are to be handed over now; if not, this is asked again after
    /// the next turn. `expects_more` tells that others may come soon, and `turn_began` when this
    /// turn began.
    #[inline]
    pub(super) fn is_over(
        &self,
        bytes: usize,
        expects_more: bool,
        turn_began: Instant,
        now: impl FnOnce() -> Instant,
    ) -> bool {
        if !expects_more || bytes >= ENOUGH_BYTES {
            self.since.set(None);
            return true;
        }
        let since = self.since.get().unwrap_or(turn_began);
        let is_over = now().saturating_duration_since(since) >= TIME_MAX;
        self.since.set((!is_over).then_some(since));
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_us(us: i64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    #[test]
    fn j1_3_facts_gather_while_a_busy_loop_serves_many_until_there_are_enough_or_for_a_moment() {
        let gathering = Gathering::default();
        let is_over = |began_us, ends_us| gathering.is_over(100, true, at_us(began_us), || at_us(ends_us));
        // No clock is read.
        let is_over_at_once = |bytes, expects_more| {
            gathering.is_over(bytes, expects_more, at_us(0), || unreachable!("nothing is left for later"))
        };
        assert!(is_over_at_once(1, false));
        assert!(is_over_at_once(ENOUGH_BYTES, true));
        for (began_us, ends_us, expected) in [(10, 60, false), (60, 309, false), (309, 310, true)] {
            assert_eq!(is_over(began_us, ends_us), expected, "{ends_us}");
        }
        // The next ones wait from their own beginning, whatever ended the waiting before.
        assert!(!is_over(320, 330));
        assert!(is_over_at_once(100, false));
        assert!(!is_over(700, 900));
        assert!(is_over_at_once(ENOUGH_BYTES, true));
        assert!(!is_over(10_000, 10_100));
        assert!(is_over(10_200, 10_300));
        assert!(is_over(20_000, 20_300), "a long turn is long enough");
    }
}
