//! The state of a loop, shared by its owner, its handles and the callbacks that run on it.
//!
//! Every cell is borrowed for the length of one bookkeeping step and never while user code runs: a
//! callback, a future, or the drop of either. So anything may be called from anywhere, and no
//! borrow can fail (decision R9).

use crate::observe::Observer;
use crate::observe::labels::{Label, LabelNames, Labels};
use crate::observe::stall::Pulse;
use crate::observe::stats::{Counters, Timing};
use crate::process::children::ChildTable;
use crate::process::signals::SignalTable;
use crate::sys::{Poller, WAKE};
use crate::tasks::pool::Pool;
use crate::tasks::remote::{RemoteSide, Wakeup};
use crate::time::clock::{Clock, VirtualClock};
use crate::time::timers::TimerTable;
use crate::watch::fds::{CurrentCall, FdTable};
use crate::{Backend, Error, Handle, Instant, Interest, Mode, Result, Timer, Watcher};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Waker;

mod closing;
mod deadlines;
mod forking;
mod watchers;

/// A call that the loop makes once, on a later turn.
pub(crate) type Deferred = Box<dyn FnOnce(&Handle)>;
/// The callback of a [`Wakeup`], absent while it runs.
pub(crate) type WakeupCallback = Option<Box<dyn FnMut(&Handle)>>;

pub(crate) struct WakeupSlot {
    pub(crate) signalled: Arc<AtomicBool>,
    pub(crate) callback: WakeupCallback,
}

pub(crate) struct Core {
    pub(crate) poller: RefCell<Poller>,
    pub(crate) backend: Backend,
    pub(crate) fds: RefCell<FdTable>,
    current_call: CurrentCall,
    pub(crate) timers: RefCell<TimerTable>,
    pub(crate) deferred: RefCell<VecDeque<Deferred>>,
    pub(crate) wakeups: RefCell<Slab<WakeupSlot>>,
    pub(crate) signals: RefCell<SignalTable>,
    pub(crate) children: RefCell<ChildTable>,
    /// A waker for each live task, by which all can be ended when the loop is.
    tasks: RefCell<Slab<Option<Waker>>>,
    /// How many of them are being polled: more than one if a task runs others.
    polls_under_way: Cell<usize>,
    pool: RefCell<Pool>,
    labels: RefCell<Labels>,
    observer: RefCell<Observer>,
    remote_side: Arc<RemoteSide>,
    pub(crate) clock: Clock,
    pub(crate) counters: Counters,
    pub(crate) observed: Cell<bool>,
    pub(crate) running: Cell<bool>,
    embedded: Cell<bool>,
    closed: Cell<bool>,
    /// The latest time that was read: what is due by it is due without reading the clock again.
    pub(crate) latest_now: Cell<Instant>,
    /// The fork generation in which the kernel objects were made: see `forking.rs`.
    fork_generation: Cell<u32>,
    /// The fork generation in which the loop was made.
    born_in: u32,
}

impl Core {
    pub(crate) fn new(backend: Backend, clock: Clock, pool: Pool) -> Result<Core> {
        crate::process::fork::watch();
        let mut poller = Poller::new(backend)?;
        let wake_fd = crate::sys::wake_fd::WakeFd::new(backend)?;
        poller.add(wake_fd.raw_fd(), WAKE, Interest::READ, Mode::Level)?;
        Ok(Core {
            poller: RefCell::new(poller),
            backend,
            fds: RefCell::default(),
            current_call: CurrentCall::default(),
            timers: RefCell::default(),
            deferred: RefCell::default(),
            wakeups: RefCell::default(),
            signals: RefCell::default(),
            children: RefCell::default(),
            tasks: RefCell::default(),
            polls_under_way: Cell::new(0),
            pool: RefCell::new(pool),
            labels: RefCell::default(),
            observer: RefCell::default(),
            remote_side: Arc::new(RemoteSide::new(wake_fd)),
            clock,
            counters: Counters::default(),
            observed: Cell::new(false),
            running: Cell::new(false),
            embedded: Cell::new(false),
            closed: Cell::new(false),
            latest_now: Cell::new(Instant::MIN),
            fork_generation: Cell::new(crate::process::fork::generation()),
            born_in: crate::process::fork::generation(),
        })
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.get() { Err(Error::Closed) } else { Ok(()) }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    pub(crate) fn remote_side(&self) -> &Arc<RemoteSide> {
        &self.remote_side
    }

    pub(crate) fn pool(&self) -> &RefCell<Pool> {
        &self.pool
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        let now = self.clock.now();
        self.latest_now.set(now);
        now
    }

    pub(crate) fn virtual_clock(&self) -> Option<&VirtualClock> {
        match &self.clock {
            Clock::Virtual(clock) => Some(clock),
            Clock::Monotonic => None,
        }
    }

    /// Whether only a test can move the clock on.
    pub(crate) fn time_stands_still(&self) -> bool {
        self.virtual_clock().is_some_and(|clock| !clock.auto_advances())
    }

    // Deferred calls, wake-ups, tasks

    pub(crate) fn defer(&self, call: Deferred) -> Result<()> {
        self.check_open()?;
        self.remote_side.set_attention(true);
        self.deferred.borrow_mut().push_back(call);
        self.remote_side.notify_embedder();
        Ok(())
    }

    pub(crate) fn add_wakeup(&self, callback: Box<dyn FnMut(&Handle)>) -> Result<Wakeup> {
        self.check_open()?;
        let signalled = Arc::new(AtomicBool::new(false));
        let slot = WakeupSlot { signalled: signalled.clone(), callback: Some(callback) };
        let key = self.wakeups.borrow_mut().insert(slot);
        Ok(Wakeup::new(self.remote_side.clone(), key, signalled))
    }

    pub(crate) fn task_begun(&self) -> usize {
        self.tasks.borrow_mut().insert(None)
    }

    pub(crate) fn task_waker(&self, key: usize, waker: Waker) {
        if let Some(entry) = self.tasks.borrow_mut().get_mut(key) {
            *entry = Some(waker);
        }
    }

    /// Polls a task's future. A close from inside knows by this that the task is not another
    /// thread's.
    pub(crate) fn poll_task<R>(&self, poll: impl FnOnce() -> R) -> R {
        struct Guard<'a>(&'a Cell<usize>);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() - 1);
            }
        }
        self.polls_under_way.set(self.polls_under_way.get() + 1);
        let _guard = Guard(&self.polls_under_way);
        poll()
    }

    pub(crate) fn task_ended(&self, key: usize) {
        let entry = self.tasks.borrow_mut().try_remove(key);
        drop(entry);
    }

    pub(crate) fn task_count(&self) -> usize {
        self.tasks.borrow().len()
    }

    // The turn's questions

    /// Whether the next turn must not block.
    pub(crate) fn has_immediate_work(&self) -> bool {
        !self.deferred.borrow().is_empty() || self.remote_side.has_ready() || self.timer_known_due()
    }

    /// Whether the next turn must look after more than ready descriptors.
    pub(crate) fn needs_full_turn(&self) -> bool {
        self.timers.borrow().len() > 0
            || self.has_immediate_work()
            || self.fds.borrow().has_fresh()
            || self.observed.get()
            || self.embedded.get()
            || self.virtual_clock().is_some()
    }

    /// Whether a timer is due by the time that was last read.
    #[inline]
    pub(crate) fn timer_known_due(&self) -> bool {
        self.timers.borrow().first_deadline().is_some_and(|deadline| deadline <= self.latest_now.get())
    }

    /// Whether anything is left that could lead to a callback without another thread's doing.
    pub(crate) fn is_idle(&self) -> bool {
        self.fds.borrow().armed() == self.signals.borrow().armed_watchers()
            && self.timers.borrow().len() == 0
            && self.deferred.borrow().is_empty()
            && self.children.borrow().is_empty()
            && self.tasks.borrow().is_empty()
            && self.pool.borrow().in_flight() == 0
            && self.remote_side.inbox().calls.is_empty()
    }

    // Observation

    pub(crate) fn intern(&self, label: &str) -> Label {
        self.labels.borrow_mut().intern(label)
    }

    pub(crate) fn label_watcher(&self, watcher: Watcher, label: Label) -> bool {
        self.fds.borrow_mut().set_label(watcher, label)
    }

    pub(crate) fn label_timer(&self, timer: Timer, label: Label) -> bool {
        self.timers.borrow_mut().set_label(timer, label)
    }

    pub(crate) fn label_names(&self) -> LabelNames {
        self.labels.borrow().names()
    }

    /// Changes what is observed, and notes whether anything is.
    fn observe_with(&self, change: impl FnOnce(&mut Observer)) {
        let mut observer = self.observer.borrow_mut();
        change(&mut observer);
        self.observed.set(observer.is_on());
        self.remote_side.set_attention(true);
    }

    pub(crate) fn set_timing(&self, on: bool) {
        self.observe_with(|observer| observer.set_timing(on));
    }

    pub(crate) fn timing(&self) -> Option<Timing> {
        self.observer.borrow().timing(&self.label_names())
    }

    pub(crate) fn set_pulse(&self, pulse: Arc<Pulse>) {
        self.observe_with(|observer| observer.set_pulse(pulse));
    }

    pub(crate) fn clear_pulse(&self, pulse: &Arc<Pulse>) {
        self.observe_with(|observer| observer.clear_pulse(pulse));
    }

    /// Notes something, if anything is observed at all.
    #[inline]
    pub(crate) fn note<R: Default>(&self, note: impl FnOnce(&mut Observer) -> R) -> R {
        if self.observed.get() { note(&mut self.observer.borrow_mut()) } else { R::default() }
    }
}

impl Handle {
    pub(crate) fn downgrade(&self) -> Weak<Core> {
        Rc::downgrade(&self.0)
    }
}
