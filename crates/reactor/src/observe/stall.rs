//! A thread that notices when the loop is stuck in one callback.
//!
//! The loop only bumps a counter when a callback begins and ends; the watching thread looks at it
//! now and then and does all the timekeeping. So a stall is reported while it lasts, even if the
//! callback never returns.

use crate::observe::labels::{Label, LabelNames};
use crate::{Error, Handle, Result};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the loop shares with the watching thread.
#[derive(Default)]
pub(crate) struct Pulse {
    /// Odd while a callback runs.
    count: AtomicU64,
    label: AtomicU32,
}

impl Pulse {
    pub(crate) fn enter(&self, label: Label) {
        self.label.store(label.0, Ordering::Relaxed);
        self.count.fetch_or(1, Ordering::Release);
    }

    pub(crate) fn leave(&self) {
        let count = self.count.load(Ordering::Relaxed);
        self.count.store((count | 1).wrapping_add(1), Ordering::Release);
    }
}

/// A callback that has been running for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The name its watcher or timer was given, if any.
    pub label: Option<Arc<str>>,
    /// How long it has been running, at least.
    pub running_for: Duration,
}

/// Keeps a stall watch alive; dropping it ends the watch and its thread.
#[must_use = "dropping it ends the stall watch"]
pub struct StallWatch {
    handle: Handle,
    pulse: Arc<Pulse>,
    done: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
    fork_generation: u32,
}

impl Handle {
    /// Reports, from a thread of its own, every callback that runs longer than `threshold`: once
    /// per callback, while it is still running. Labels tell which
    /// ([`Watch::label`](crate::Watch::label), [`label_timer`](Handle::label_timer)).
    ///
    /// There is one stall watch per loop: a new one replaces the old.
    ///
    /// # Errors
    /// [`Error::Io`] if no thread can be started.
    pub fn watch_stalls(
        &self,
        threshold: Duration,
        report: impl Fn(Stall) + Send + 'static,
    ) -> Result<StallWatch> {
        let pulse = Arc::new(Pulse::default());
        let done = Arc::new((Mutex::new(false), Condvar::new()));
        let sampler = Sampler { pulse: pulse.clone(), names: self.core().label_names(), threshold };
        let signal = done.clone();
        let thread = crate::sys::threads::spawn("mainspring-stalls", move || sampler.run(&signal, &report))
            .map_err(|source| Error::Io { action: "starting the stall watch", source })?;
        self.core().set_pulse(pulse.clone());
        let fork_generation = crate::process::fork::generation();
        Ok(StallWatch { handle: self.clone(), pulse, done, thread: Some(thread), fork_generation })
    }
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        self.handle.core().clear_pulse(&self.pulse);
        if self.fork_generation != crate::process::fork::generation() {
            // The thread stayed in the parent process: there is nobody to tell and nobody to wait
            // for.
            return;
        }
        *self.done.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.done.1.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Sampler {
    pulse: Arc<Pulse>,
    names: LabelNames,
    threshold: Duration,
}

impl Sampler {
    fn run(&self, done: &(Mutex<bool>, Condvar), report: &dyn Fn(Stall)) {
        let period = (self.threshold / 4).max(Duration::from_micros(100));
        let mut seen = self.pulse.count.load(Ordering::Acquire);
        let mut since = Instant::now();
        let mut reported = false;
        let mut finished = done.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*finished {
            finished = done.1.wait_timeout(finished, period).unwrap_or_else(PoisonError::into_inner).0;
            let count = self.pulse.count.load(Ordering::Acquire);
            if count != seen {
                (seen, since, reported) = (count, Instant::now(), false);
            } else if count % 2 == 1 && !reported && since.elapsed() >= self.threshold {
                let label = self.names.get(Label(self.pulse.label.load(Ordering::Relaxed)));
                report(Stall { label, running_for: since.elapsed() });
                reported = true;
            }
        }
    }
}
