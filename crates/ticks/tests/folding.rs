//! The rule against the loop that it stands for.

use mainspring_ticks::{Ticks, fold};
use proptest::prelude::*;

/// Steps from tick to tick, as one would by hand.
fn step_by_step(deadline: i64, interval: i64, now: i64) -> Ticks {
    let (mut missed, mut next) = (0, deadline.checked_add(interval));
    while let Some(due) = next.filter(|due| *due <= now) {
        missed += 1;
        next = due.checked_add(interval);
    }
    Ticks { missed, next }
}

proptest! {
    #[test]
    fn folding_is_stepping_from_tick_to_tick(
        deadline in prop_oneof![-1000_i64..1000, i64::MIN..i64::MIN + 1000, i64::MAX - 1000..=i64::MAX],
        interval in 1_i64..50,
        late in -10_i64..2000,
    ) {
        let now = deadline.saturating_add(late);
        prop_assert_eq!(fold(deadline, interval, now), step_by_step(deadline, interval, now));
    }
}

#[test]
fn a_tick_in_time_misses_nothing() {
    assert_eq!(fold(100, 10, 100), Ticks { missed: 0, next: Some(110) });
    assert_eq!(fold(100, 10, 109), Ticks { missed: 0, next: Some(110) });
    assert_eq!(fold(100, 10, 50), Ticks { missed: 0, next: Some(110) });
}

#[test]
fn a_tick_that_is_due_now_is_missed_and_not_next() {
    assert_eq!(fold(100, 10, 110), Ticks { missed: 1, next: Some(120) });
}

#[test]
fn the_whole_range_of_time_is_folded_without_a_wrap() {
    assert_eq!(fold(i64::MIN, 1, i64::MAX), Ticks { missed: u64::MAX, next: None });
    assert_eq!(fold(i64::MIN, i64::MAX, i64::MAX), Ticks { missed: 2, next: None });
    assert_eq!(fold(0, i64::MAX, 0), Ticks { missed: 0, next: Some(i64::MAX) });
}

#[test]
fn an_interval_of_nothing_is_one_of_the_smallest_step() {
    assert_eq!(fold(100, 0, 100), Ticks { missed: 0, next: Some(101) });
    assert_eq!(fold(100, -5, 103), Ticks { missed: 3, next: Some(104) });
}
