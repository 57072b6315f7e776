//! Timers as the user sees them.

use crate::time::timers::Action;
use crate::{Error, Handle, Instant, Result};
use std::mem::needs_drop;
use std::time::Duration;

/// The callback of a one-shot timer.
pub(crate) type Once = Box<dyn FnOnce(&Handle)>;

/// Names a timer. Copying it does not copy the timer; once the timer has fired for the last time or
/// was cancelled, the name stays dead for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timer {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Timer {
    /// The name as a number, which is never zero: for callers that cannot hold a `Timer`, such as C
    /// programs.
    pub fn to_bits(self) -> u64 {
        ((u64::from(self.slot) + 1) << 32) | u64::from(self.generation)
    }

    /// The name with this number. A number that never came from [`to_bits`](Timer::to_bits) names
    /// no timer.
    pub fn from_bits(bits: u64) -> Timer {
        Timer { slot: (bits >> 32).wrapping_sub(1) as u32, generation: bits as u32 }
    }
}

/// One call of a repeating timer.
#[derive(Debug)]
pub struct Tick<'a> {
    handle: &'a Handle,
    timer: Timer,
    deadline: Instant,
    missed: u64,
}

impl<'a> Tick<'a> {
    /// The loop that makes the call.
    pub fn reactor(&self) -> &'a Handle {
        self.handle
    }

    /// The timer, to cancel or move it.
    pub fn timer(&self) -> Timer {
        self.timer
    }

    /// When this call was due.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// How many further ticks had become due by the time of the call and were folded into it.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

/// A repeating timer's interval and callback.
pub(crate) struct Repeat {
    interval_nanos: i64,
    /// Ticks folded into the call that is about to be made.
    missed: u64,
    callback: Box<dyn FnMut(&Tick<'_>)>,
}

impl Repeat {
    /// Counts the ticks that `now` has overrun and says when the next one is due: a fixed rate from
    /// the first deadline. `None` when that is beyond the range of time.
    pub(crate) fn advance(&mut self, deadline: Instant, now: Instant) -> Option<Instant> {
        let ticks = mainspring_ticks::fold(deadline.as_nanos(), self.interval_nanos, now.as_nanos());
        self.missed = ticks.missed;
        ticks.next.map(Instant::from_nanos)
    }

    pub(crate) fn call(&mut self, handle: &Handle, timer: Timer, deadline: Instant) {
        (self.callback)(&Tick { handle, timer, deadline, missed: self.missed });
    }
}

/// Whether a callback has nothing to drop: it captures nothing, so that its box is no memory
/// either.
fn is_inert<F>(_callback: &F) -> bool {
    size_of::<F>() == 0 && !needs_drop::<F>()
}

/// Timers (clauses M1.4.1 to M1.4.8).
///
/// A timer never fires before its deadline. Timers fire in the order of their deadlines and, among
/// equals, in the order in which they were set. A timer set from a callback fires on a later turn,
/// even if it is due at once.
impl Handle {
    /// Calls `callback` once, at `deadline`. A deadline in the past is due at once.
    ///
    /// # Errors
    /// [`Error::Closed`] if the reactor is gone.
    pub fn at(&self, deadline: Instant, callback: impl FnOnce(&Handle) + 'static) -> Result<Timer> {
        let inert = is_inert(&callback);
        self.core().add_once(deadline, Box::new(callback), inert)
    }

    /// Calls `callback` once, `delay` from now.
    ///
    /// # Errors
    /// [`Error::DeadlineOutOfRange`] if the deadline cannot be expressed; [`Error::Closed`] if the
    /// reactor is gone.
    ///
    /// # Examples
    /// ```
    /// use mainspring_reactor::Reactor;
    /// use std::time::Duration;
    ///
    /// let mut reactor = Reactor::new()?;
    /// reactor.after(Duration::from_millis(5), |reactor| reactor.stop())?;
    /// reactor.run()?;
    /// # Ok::<(), mainspring_reactor::Error>(())
    /// ```
    pub fn after(&self, delay: Duration, callback: impl FnOnce(&Handle) + 'static) -> Result<Timer> {
        self.at(self.deadline_after(delay)?, callback)
    }

    /// Calls `callback` every `interval`, first after one interval.
    ///
    /// The rate is fixed: ticks are due at whole intervals from the first deadline, however late a
    /// call was. Ticks that are missed while the loop is busy fold into one call, which is told how
    /// many. A timer whose next tick would lie beyond the range of time ends.
    ///
    /// # Errors
    /// [`Error::ZeroInterval`], [`Error::DeadlineOutOfRange`], [`Error::Closed`].
    pub fn every(&self, interval: Duration, callback: impl FnMut(&Tick<'_>) + 'static) -> Result<Timer> {
        self.every_from(self.deadline_after(interval)?, interval, callback)
    }

    /// Calls `callback` at `first` and every `interval` from then on.
    ///
    /// # Errors
    /// As [`every`](Handle::every).
    pub fn every_from(
        &self,
        first: Instant,
        interval: Duration,
        callback: impl FnMut(&Tick<'_>) + 'static,
    ) -> Result<Timer> {
        let interval_nanos = i64::try_from(interval.as_nanos()).map_err(|_| Error::DeadlineOutOfRange)?;
        if interval_nanos == 0 {
            return Err(Error::ZeroInterval);
        }
        let repeat = Repeat { interval_nanos, missed: 0, callback: Box::new(callback) };
        self.core().add_timer(first, Action::Repeat(Box::new(repeat)))
    }

    /// Cancels a timer. True if it was still to fire; cancelling it again, or after its last call,
    /// does nothing.
    pub fn cancel(&self, timer: Timer) -> bool {
        self.core().cancel_timer(timer)
    }

    /// Moves a timer to another deadline, keeping its callback, name and interval. A timer that is
    /// due but has not been called yet is moved as well. False if it has fired for the last time or
    /// was cancelled.
    pub fn reschedule_at(&self, timer: Timer, deadline: Instant) -> bool {
        self.core().reschedule_timer(timer, deadline)
    }

    /// Moves a timer to `delay` from now: see [`reschedule_at`](Handle::reschedule_at).
    ///
    /// # Errors
    /// [`Error::DeadlineOutOfRange`] if the deadline cannot be expressed; the timer then stays as
    /// it was.
    pub fn reschedule_after(&self, timer: Timer, delay: Duration) -> Result<bool> {
        Ok(self.reschedule_at(timer, self.deadline_after(delay)?))
    }

    /// Whether the timer has yet to fire, or to fire again.
    pub fn has_timer(&self, timer: Timer) -> bool {
        self.core().has_timer(timer)
    }

    /// How many timers have yet to fire, or to fire again.
    pub fn timer_count(&self) -> usize {
        self.core().timer_count()
    }

    /// The earliest deadline among all timers.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.core().next_deadline()
    }

    /// The instant `delay` from now.
    pub(crate) fn deadline_after(&self, delay: Duration) -> Result<Instant> {
        self.now().checked_add(delay).ok_or(Error::DeadlineOutOfRange)
    }
}
