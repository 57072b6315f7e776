//! The kernel as the rest of the daemon reaches it: inputs go in here, stamped with the time.

use mainspring_kernel::{Kernel, Now};
use mainspring_reactor::{Handle, Instant};
use std::cell::{Cell, RefCell};
use std::time::{SystemTime, UNIX_EPOCH};

/// The kernel and its clock.
///
/// The kernel never calls out, so it is borrowed for the length of one input and never while a
/// callback, an actor or a listener runs.
pub(crate) struct KernelCell {
    kernel: RefCell<Kernel>,
    reactor: Handle,
    /// The time of this turn of the reactor, once somebody has asked for it.
    now: Cell<Option<Now>>,
    /// Whether there was an input since the last turn of the kernel.
    stirred: Cell<bool>,
    /// Turns of the kernel.
    turns: Cell<u64>,
}

impl KernelCell {
    pub(crate) fn new(kernel: Kernel, reactor: Handle) -> KernelCell {
        KernelCell {
            kernel: RefCell::new(kernel),
            reactor,
            now: Cell::new(None),
            stirred: Cell::new(false),
            turns: Cell::new(0),
        }
    }

    /// Feeds the kernel one input.
    pub(crate) fn feed<R>(&self, input: impl FnOnce(&mut Kernel, Now) -> R) -> R {
        self.stirred.set(true);
        self.with(input)
    }

    /// Uses the kernel without stirring it.
    pub(crate) fn with<R>(&self, call: impl FnOnce(&mut Kernel, Now) -> R) -> R {
        let now = self.now();
        call(&mut self.kernel.borrow_mut(), now)
    }

    /// Whether there was an input since this was last asked.
    pub(crate) fn take_stirred(&self) -> bool {
        self.stirred.replace(false)
    }

    /// Makes a turn of the kernel.
    pub(crate) fn turn<R>(&self, turn: impl FnOnce(&mut Kernel, Now) -> R) -> R {
        self.turns.set(self.turns.get() + 1);
        self.with(turn)
    }

    /// How many turns the kernel has made: what it was told before the last one it has seen.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.get()
    }

    /// The time, read once per turn of the reactor.
    pub(crate) fn now(&self) -> Now {
        if let Some(now) = self.now.get() {
            return now;
        }
        let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
        let now = Now {
            mono_ns: self.reactor.now().as_nanos(),
            unix_ms: u64::try_from(unix_ms).unwrap_or(u64::MAX),
        };
        self.now.set(Some(now));
        now
    }

    /// When this turn of the reactor began, as it is stamped on what happens in it.
    pub(crate) fn turn_began(&self) -> Instant {
        Instant::from_nanos(self.now().mono_ns)
    }

    /// Time has passed: the next who asks reads the clocks.
    pub(crate) fn forget_now(&self) {
        self.now.set(None);
    }
}
