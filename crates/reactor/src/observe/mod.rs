//! What is counted always, timed on request, and reported when a callback is stuck. Everything may
//! count here; nothing here changes what a loop does.

pub(crate) mod labels;
pub(crate) mod stall;
pub(crate) mod stats;

use crate::Instant;
use crate::observe::labels::{Label, LabelNames};
use crate::observe::stall::Pulse;
use crate::observe::stats::{SlowCallback, Timing};
use crate::time::clock::monotonic_now;
use std::sync::Arc;
use std::time::Duration;

/// What is being observed.
#[derive(Default)]
pub(crate) struct Observer {
    timing: Option<Times>,
    pulse: Option<Arc<Pulse>>,
}

struct Times {
    busy: Duration,
    idle: Duration,
    lag_last: Duration,
    lag_max: Duration,
    slowest: Option<(Label, Duration)>,
    /// When the loop last began or ended a wait.
    mark: Instant,
}

impl Observer {
    pub(crate) fn is_on(&self) -> bool {
        self.timing.is_some() || self.pulse.is_some()
    }

    pub(crate) fn set_timing(&mut self, on: bool) {
        self.timing = on.then(|| Times {
            busy: Duration::ZERO,
            idle: Duration::ZERO,
            lag_last: Duration::ZERO,
            lag_max: Duration::ZERO,
            slowest: None,
            mark: monotonic_now(),
        });
    }

    pub(crate) fn set_pulse(&mut self, pulse: Arc<Pulse>) {
        self.pulse = Some(pulse);
    }

    /// Ends a stall watch, unless another has replaced it.
    pub(crate) fn clear_pulse(&mut self, pulse: &Arc<Pulse>) {
        if self.pulse.as_ref().is_some_and(|current| Arc::ptr_eq(current, pulse)) {
            self.pulse = None;
        }
    }

    pub(crate) fn timing(&self, names: &LabelNames) -> Option<Timing> {
        let times = self.timing.as_ref()?;
        let slowest =
            times.slowest.map(|(label, duration)| SlowCallback { label: names.get(label), duration });
        Some(Timing {
            busy: times.busy,
            idle: times.idle,
            lag_last: times.lag_last,
            lag_max: times.lag_max,
            slowest,
        })
    }

    pub(crate) fn before_wait(&mut self) {
        if let Some(times) = &mut self.timing {
            let lap = times.lap();
            times.busy += lap;
        }
    }

    pub(crate) fn after_wait(&mut self) {
        if let Some(times) = &mut self.timing {
            let lap = times.lap();
            times.idle += lap;
        }
    }

    pub(crate) fn timer_lag(&mut self, lag: Duration) {
        if let Some(times) = &mut self.timing {
            times.lag_last = lag;
            times.lag_max = times.lag_max.max(lag);
        }
    }

    /// A callback begins. Returns when, if that is wanted.
    pub(crate) fn enter(&mut self, label: Label) -> Option<Instant> {
        if let Some(pulse) = &self.pulse {
            pulse.enter(label);
        }
        self.timing.as_ref().map(|_| monotonic_now())
    }

    /// The callback that began at `start` has ended.
    pub(crate) fn leave(&mut self, label: Label, start: Option<Instant>) {
        if let Some(pulse) = &self.pulse {
            pulse.leave();
        }
        if let (Some(times), Some(start)) = (&mut self.timing, start) {
            let duration = monotonic_now().saturating_duration_since(start);
            if times.slowest.is_none_or(|(_, slowest)| duration > slowest) {
                times.slowest = Some((label, duration));
            }
        }
    }
}

impl Times {
    fn lap(&mut self) -> Duration {
        let now = monotonic_now();
        now.saturating_duration_since(std::mem::replace(&mut self.mark, now))
    }
}
