//! The clock that preempts guests: a thread that advances the engine's epoch while any guest runs.
//!
//! It cannot be a timer of the reactor, because a guest that never calls out would keep the reactor
//! from ever looking at it. While no guest has run for a whole tick the thread is parked, so idle
//! guests cause no wake-ups; a guest that is resumed unparks it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;
use wasmtime::{Engine, EngineWeak};

/// How often the epoch advances, and so how exactly a slice is measured.
const TICK: Duration = Duration::from_millis(1);

/// How many ticks a stretch of time takes, at least one.
pub(crate) fn ticks_in(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u64::MAX).clamp(1, 1 << 32)
}

/// One guest running, in [`TickerState::state`].
const RUNNING_ONE: u64 = 1;
/// One resumption, in [`TickerState::state`].
const ENTERED_ONE: u64 = 1 << 32;

pub(crate) struct Ticker {
    shared: Arc<TickerState>,
    thread: Thread,
}

struct TickerState {
    /// Low half: how many guests run now. High half: how many were ever resumed, wrapping.
    state: AtomicU64,
    parked: AtomicBool,
    stopped: AtomicBool,
    /// Another engine whose epoch advances as well.
    other: OnceLock<EngineWeak>,
}

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Ticker> {
        let shared = Arc::new(TickerState {
            state: AtomicU64::new(0),
            parked: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            other: OnceLock::new(),
        });
        let (theirs, engine) = (shared.clone(), engine.weak());
        let builder = std::thread::Builder::new().name("mainspring-epochs".into()).stack_size(64 * 1024);
        let thread = mainspring_reactor::spawn_without_signals(builder, move || theirs.tick(&engine))?;
        Ok(Ticker { shared, thread: thread.thread().clone() })
    }

    /// Advances the epoch of one more engine.
    #[cfg(feature = "wasi")]
    pub(crate) fn also(&self, engine: &Engine) {
        self.shared.other.get_or_init(|| engine.weak());
    }

    /// A guest is about to run. It stops running when the returned value is dropped.
    pub(crate) fn enter(&self) -> Running<'_> {
        self.shared.state.fetch_add(ENTERED_ONE + RUNNING_ONE, Ordering::SeqCst);
        if self.shared.parked.load(Ordering::SeqCst) {
            self.shared.parked.store(false, Ordering::SeqCst);
            self.thread.unpark();
        }
        Running(&self.shared)
    }

    /// Whether the thread is parked. For tests and for whoever wonders who is awake.
    pub(crate) fn is_parked(&self) -> bool {
        self.shared.parked.load(Ordering::SeqCst)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.shared.parked.store(false, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// A guest that runs.
pub(crate) struct Running<'a>(&'a TickerState);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_sub(RUNNING_ONE, Ordering::Release);
    }
}

impl TickerState {
    fn tick(&self, engine: &EngineWeak) {
        let mut seen = self.state.load(Ordering::SeqCst);
        while !self.stopped.load(Ordering::SeqCst) {
            let state = self.state.load(Ordering::SeqCst);
            if state == seen && is_idle(state) {
                self.park(seen);
            }
            seen = self.state.load(Ordering::SeqCst);
            std::thread::sleep(TICK);
            match engine.upgrade() {
                Some(engine) => engine.increment_epoch(),
                None => return,
            }
            if let Some(other) = self.other.get().and_then(EngineWeak::upgrade) {
                other.increment_epoch();
            }
        }
    }

    /// Sleeps until a guest runs. The flag is raised before the state is looked at again, and a
    /// guest looks at the flag after it has changed the state, so one of the two always notices the
    /// other.
    fn park(&self, seen: u64) {
        self.parked.store(true, Ordering::SeqCst);
        while self.parked.load(Ordering::SeqCst)
            && self.state.load(Ordering::SeqCst) == seen
            && !self.stopped.load(Ordering::SeqCst)
        {
            std::thread::park();
        }
        self.parked.store(false, Ordering::SeqCst);
    }
}

fn is_idle(state: u64) -> bool {
    state.is_multiple_of(ENTERED_ONE)
}
