//! How much of a child's standard error is listened to.

use mainspring_reactor::Instant;
use std::time::Duration;

/// A budget of bytes per second. Beyond: nothing is read until the second is over, and the child
/// waits.
pub(super) struct StderrBudget {
    since: Instant,
    bytes: usize,
}

impl StderrBudget {
    pub(super) fn new(now: Instant) -> StderrBudget {
        StderrBudget { since: now, bytes: 0 }
    }

    /// Bytes per second.
    const BYTES: usize = 1 << 20;

    /// So much was read. Returns for how long to read no more.
    pub(super) fn spend(&mut self, bytes: usize, now: Instant) -> Option<Duration> {
        let second = Duration::from_secs(1);
        if now.saturating_duration_since(self.since) >= second {
            (self.since, self.bytes) = (now, 0);
        }
        self.bytes += bytes;
        let left = second.saturating_sub(now.saturating_duration_since(self.since));
        (self.bytes >= StderrBudget::BYTES).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_says_too_much_in_a_second_waits_for_the_next() {
        let at = |ms: i64| Instant::from_nanos(ms * 1_000_000);
        let mut stderr_budget = StderrBudget::new(at(0));
        assert_eq!(stderr_budget.spend(StderrBudget::BYTES - 1, at(400)), None);
        assert_eq!(stderr_budget.spend(1, at(600)), Some(Duration::from_millis(400)));
        assert_eq!(stderr_budget.spend(1, at(1000)), None);
    }
}
