//! The timers of a `sys/loop` handle: by deadline, first come first served among equals.

use mainspring_reactor::Instant;
use mainspring_zcl::sys_loop::{Event, TimerArm};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

#[derive(Default)]
pub(super) struct Timers {
    by_deadline: BTreeMap<(Instant, u64), u64>,
    by_id: HashMap<u64, Timer>,
    sequence: u64,
    /// One-shot timers that were delivered since this was last asked.
    ended: u64,
}

struct Timer {
    place: (Instant, u64),
    interval_ns: i64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ArmError {
    InUse,
    OutOfRange,
}

impl Timers {
    /// Arms a timer. A deadline in the past is due at once.
    pub(super) fn arm(&mut self, arm: &TimerArm, now: Instant) -> Result<(), ArmError> {
        if self.by_id.contains_key(&arm.timer_id) {
            return Err(ArmError::InUse);
        }
        let deadline = if arm.relative {
            now.checked_add(Duration::from_nanos(arm.due_mono_ns))
        } else {
            i64::try_from(arm.due_mono_ns).ok().map(Instant::from_nanos)
        };
        let deadline = deadline.ok_or(ArmError::OutOfRange)?;
        let interval_ns = i64::try_from(arm.interval_ns).map_err(|_| ArmError::OutOfRange)?;
        self.place(arm.timer_id, deadline, interval_ns);
        Ok(())
    }

    fn place(&mut self, timer_id: u64, deadline: Instant, interval_ns: i64) {
        self.sequence += 1;
        let place = (deadline, self.sequence);
        self.by_deadline.insert(place, timer_id);
        self.by_id.insert(timer_id, Timer { place, interval_ns });
    }

    /// False if there is no such timer.
    pub(super) fn cancel(&mut self, timer_id: u64) -> bool {
        match self.by_id.remove(&timer_id) {
            Some(timer) => self.by_deadline.remove(&timer.place).is_some(),
            None => false,
        }
    }

    /// The earliest deadline.
    pub(super) fn first(&self) -> Option<Instant> {
        self.by_deadline.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.first().is_some_and(|deadline| deadline <= now)
    }

    /// Takes the earliest timer that is due. A repeating one goes on at its fixed rate; ticks that
    /// were missed are folded into this one, so however late the guest is, it gets one event.
    pub(super) fn next(&mut self, now: Instant) -> Option<Event> {
        let (&(deadline, _), &timer_id) = self.by_deadline.first_key_value()?;
        if deadline > now {
            return None;
        }
        self.by_deadline.pop_first();
        let timer = self.by_id.remove(&timer_id)?;
        let is_repeating = timer.interval_ns > 0;
        let ticks = mainspring_ticks::fold(deadline.as_nanos(), timer.interval_ns, now.as_nanos());
        match ticks.next.filter(|_| is_repeating) {
            Some(next) => self.place(timer_id, Instant::from_nanos(next), timer.interval_ns),
            None => self.ended += 1,
        }
        Some(Event::Timer { timer_id, now_mono_ns: now.as_nanos().max(0).cast_unsigned() })
    }

    pub(super) fn take_ended(&mut self) -> u64 {
        std::mem::take(&mut self.ended)
    }

    /// Cancels all. Says how many there were.
    pub(super) fn clear(&mut self) -> usize {
        self.by_deadline.clear();
        std::mem::take(&mut self.by_id).len()
    }
}
