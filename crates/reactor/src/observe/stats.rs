//! What the loop counts, always, and what it times, when asked.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// What the loop has done since it was made. Always on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Turns made.
    pub turns: u64,
    /// Events fetched from the kernel, the loop's own included.
    pub events: u64,
    /// Callbacks run: watchers, timers, deferred calls, wake-ups, signals, child exits.
    pub callbacks: u64,
    /// Timers fired, those that wake tasks included.
    pub timers: u64,
    /// Times another thread woke the loop.
    pub wakeups: u64,
    /// Times a task was run.
    pub task_polls: u64,
    /// Events of registrations that no longer exist, discarded.
    pub stale_events: u64,
    /// Times the kernel's set was rebuilt to get rid of one that keeps reporting.
    pub rebuilds: u64,
}

/// [`Stats`] as the loop keeps them.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) turns: Cell<u64>,
    pub(crate) events: Cell<u64>,
    pub(crate) callbacks: Cell<u64>,
    pub(crate) timers: Cell<u64>,
    pub(crate) wakeups: Cell<u64>,
    pub(crate) task_polls: Cell<u64>,
    pub(crate) stale_events: Cell<u64>,
    pub(crate) rebuilds: Cell<u64>,
}

/// Adds to a counter.
#[inline]
pub(crate) fn count(counter: &Cell<u64>, amount: u64) {
    counter.set(counter.get().wrapping_add(amount));
}

impl Counters {
    pub(crate) fn snapshot(&self) -> Stats {
        Stats {
            turns: self.turns.get(),
            events: self.events.get(),
            callbacks: self.callbacks.get(),
            timers: self.timers.get(),
            wakeups: self.wakeups.get(),
            task_polls: self.task_polls.get(),
            stale_events: self.stale_events.get(),
            rebuilds: self.rebuilds.get(),
        }
    }
}

/// Where the loop's time goes. Measured only while [`set_timing`](crate::Handle::set_timing) is on,
/// because reading the clock around each callback costs more than calling it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timing {
    /// Time in callbacks and tasks, and in the loop's own work between two waits.
    pub busy: Duration,
    /// Time spent waiting.
    pub idle: Duration,
    /// How late the latest timer was called: the loop's lag.
    pub lag_last: Duration,
    /// How late the latest of all timers was called.
    pub lag_max: Duration,
    /// The callback that took longest.
    pub slowest: Option<SlowCallback>,
}

/// A callback and how long it took.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowCallback {
    /// The name its watcher or timer was given, if any.
    pub label: Option<Arc<str>>,
    /// How long it took.
    pub duration: Duration,
}
