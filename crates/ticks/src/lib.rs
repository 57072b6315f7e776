//! Late ticks of a repeating timer fold into one.
//!
//! Every floor has repeating timers: the reactor's own, those of a guest's `sys/loop`, the
//! intervals inside a guest, and the kernel's schedules. They share one rule. A timer keeps a fixed
//! rate from its first deadline, however late it is served; ticks that became due in the meantime
//! are not made up for, but counted. [`fold`] is that rule.
//!
//! ```
//! use mainspring_ticks::{Ticks, fold};
//!
//! // Due at 100 and every 10 after that, and served at 125: the ticks at 110 and 120 are missed.
//! assert_eq!(fold(100, 10, 125), Ticks { missed: 2, next: Some(130) });
//! ```

#![no_std]

/// What [`fold`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// Ticks after the one that is served now that are due already. They fold into it.
    pub missed: u64,
    /// The first deadline that is still to come, on the timer's grid. `None` if it lies beyond the
    /// range of time.
    pub next: Option<i64>,
}

/// Folds the ticks of a timer that are due at `now` into the one of `deadline`.
///
/// All times are in one unit of one clock, nanoseconds as a rule. `interval` is at least 1;
/// anything less counts as 1. A `deadline` that is still to come has missed nothing.
#[inline]
#[must_use]
pub fn fold(deadline: i64, interval: i64, now: i64) -> Ticks {
    let interval = interval.max(1);
    // A tick that is in time, as nearly all are, costs no division. The difference may saturate: it
    // is then longer than any interval, or negative.
    if now.saturating_sub(deadline) < interval {
        return Ticks { missed: 0, next: deadline.checked_add(interval) };
    }
    fold_late(deadline, interval, now)
}

/// Apart, because it is rare. Neither the distance between two times nor the next deadline need fit
/// into 64 bits.
#[cold]
fn fold_late(deadline: i64, interval: i64, now: i64) -> Ticks {
    let (deadline, interval) = (i128::from(deadline), i128::from(interval));
    let missed = (i128::from(now) - deadline) / interval;
    let next = deadline + interval * (missed + 1);
    Ticks { missed: u64::try_from(missed).unwrap_or(u64::MAX), next: i64::try_from(next).ok() }
}
