//! What a guest has done, in numbers: enough to answer "why is this guest awake?".

use crate::limits::Limit;
#[cfg(feature = "wasi")]
use crate::limits::denial::{Denial, Denials};
use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a guest is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GuestPhase {
    /// It has not run yet.
    #[default]
    Starting,
    /// It runs, or was preempted and will run on the next turn.
    Running,
    /// It waits, in `POLL` or in one of WASI's calls.
    Waiting,
    /// It has ended.
    Ended,
}

/// What a guest has done since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuestStats {
    /// What it is doing now.
    pub phase: GuestPhase,
    /// `POLL`s, and calls of `poll-socket`.
    pub polls: u64,
    /// Those that returned no event.
    pub empty_polls: u64,
    /// `POLL`s that did not want to wait: a busy loop, if there are many.
    pub zero_timeout_polls: u64,
    /// Events delivered by `POLL`s.
    pub events: u64,
    /// Times it was resumed from waiting.
    pub wakeups: u64,
    /// Calls that were told to come back when the handle is ready.
    pub agains: u64,
    /// Bytes that it read from its handles, network and standard streams alike.
    pub bytes_read: u64,
    /// Bytes that it wrote to its handles.
    pub bytes_written: u64,
    /// CPU time that it used, its host calls included.
    pub cpu_time: Duration,
    /// Times it used up its slice and was made to wait for its neighbours.
    pub preemptions: u64,
    /// Its linear memory now. It never shrinks.
    pub memory_bytes: u64,
    /// Bytes that the host holds for it now.
    pub buffered_bytes: u64,
    /// Handles open now.
    pub handles: u64,
    /// Watches in place now.
    pub watches: u64,
    /// Timers armed now.
    pub timers: u64,
    refused: [u64; Limit::ALL.len()],
}

impl GuestStats {
    /// How often it ran into a limit.
    pub fn refused(&self, limit: Limit) -> u64 {
        self.refused[limit as usize]
    }

    /// How often it ran into any limit.
    pub fn refused_total(&self) -> u64 {
        self.refused.iter().sum()
    }
}

/// [`GuestStats`] as they are kept.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) phase: Cell<GuestPhase>,
    pub(crate) polls: Cell<u64>,
    pub(crate) empty_polls: Cell<u64>,
    pub(crate) zero_timeout_polls: Cell<u64>,
    pub(crate) events: Cell<u64>,
    pub(crate) wakeups: Cell<u64>,
    pub(crate) agains: Cell<u64>,
    pub(crate) bytes_read: Cell<u64>,
    pub(crate) bytes_written: Cell<u64>,
    pub(crate) cpu_time: Cell<Duration>,
    pub(crate) preemptions: Cell<u64>,
    pub(crate) memory_bytes: Cell<u64>,
    pub(crate) buffered_bytes: Cell<u64>,
    pub(crate) handles: Cell<u64>,
    pub(crate) watches: Cell<u64>,
    pub(crate) timers: Cell<u64>,
    pub(crate) refused: [Cell<u64>; Limit::ALL.len()],
    /// Refusals that are counted where this cannot be reached.
    refused_elsewhere: OnceCell<Arc<Refused>>,
    /// It made way for its neighbours, and does not wait for anything.
    pub(crate) makes_way: Cell<bool>,
}

type Refused = [AtomicU64; Limit::ALL.len()];

/// Counts refusals of one guest from code that wants to be `Send`.
#[derive(Clone, Debug)]
#[cfg(feature = "wasi")]
pub(crate) struct SharedRefusals {
    guest: Arc<Refused>,
    host: Arc<HostCounters>,
    denials: Option<Arc<Denials>>,
}

#[cfg(feature = "wasi")]
impl SharedRefusals {
    pub(crate) fn new(
        counters: &Counters,
        host: &Arc<HostCounters>,
        denials: &Option<Arc<Denials>>,
    ) -> SharedRefusals {
        let guest = counters.refused_elsewhere.get_or_init(Arc::default).clone();
        SharedRefusals { guest, host: host.clone(), denials: denials.clone() }
    }

    /// Counts that the guest may not reach something, and tells of it.
    pub(crate) fn deny(&self, denial: Denial) {
        self.count(Limit::Network);
        if let Some(denials) = &self.denials {
            denials.tell(denial);
        }
    }

    pub(crate) fn count(&self, limit: Limit) {
        self.guest[limit as usize].fetch_add(1, Ordering::Relaxed);
        self.host.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// Adds to a counter.
pub(crate) fn count(counter: &Cell<u64>, amount: u64) {
    counter.set(counter.get().wrapping_add(amount));
}

/// Takes from a gauge.
pub(crate) fn uncount(gauge: &Cell<u64>, amount: u64) {
    gauge.set(gauge.get().saturating_sub(amount));
}

impl Counters {
    fn refused_elsewhere(&self, index: usize) -> u64 {
        self.refused_elsewhere.get().map_or(0, |refused| refused[index].load(Ordering::Relaxed))
    }

    pub(crate) fn snapshot(&self) -> GuestStats {
        GuestStats {
            phase: self.phase.get(),
            polls: self.polls.get(),
            empty_polls: self.empty_polls.get(),
            zero_timeout_polls: self.zero_timeout_polls.get(),
            events: self.events.get(),
            wakeups: self.wakeups.get(),
            agains: self.agains.get(),
            bytes_read: self.bytes_read.get(),
            bytes_written: self.bytes_written.get(),
            cpu_time: self.cpu_time.get(),
            preemptions: self.preemptions.get(),
            memory_bytes: self.memory_bytes.get(),
            buffered_bytes: self.buffered_bytes.get(),
            handles: self.handles.get(),
            watches: self.watches.get(),
            timers: self.timers.get(),
            refused: std::array::from_fn(|index| self.refused[index].get() + self.refused_elsewhere(index)),
        }
    }
}

/// What all guests of a host have done together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostStats {
    /// Guests alive now.
    pub guests: u64,
    /// Guests ever started.
    pub started: u64,
    /// Guests that returned.
    pub returned: u64,
    /// Guests that trapped.
    pub trapped: u64,
    /// Guests that were killed.
    pub killed: u64,
    /// Guests that were ended because they used up a limit.
    pub over_limit: u64,
    /// Guests that could not be started because too many were alive.
    pub not_admitted: u64,
    /// Refusals by limits, over all guests.
    pub refused: u64,
    /// Descriptors that guests hold now: their connections and listeners.
    pub descriptors: u64,
}

/// [`HostStats`] as they are kept: loops on several threads may share a host.
#[derive(Debug, Default)]
pub(crate) struct HostCounters {
    pub(crate) guests: AtomicU64,
    pub(crate) started: AtomicU64,
    pub(crate) returned: AtomicU64,
    pub(crate) trapped: AtomicU64,
    pub(crate) killed: AtomicU64,
    pub(crate) over_limit: AtomicU64,
    pub(crate) not_admitted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) descriptors: AtomicU64,
}

impl HostCounters {
    pub(crate) fn snapshot(&self) -> HostStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HostStats {
            guests: read(&self.guests),
            started: read(&self.started),
            returned: read(&self.returned),
            trapped: read(&self.trapped),
            killed: read(&self.killed),
            over_limit: read(&self.over_limit),
            not_admitted: read(&self.not_admitted),
            refused: read(&self.refused),
            descriptors: read(&self.descriptors),
        }
    }
}
