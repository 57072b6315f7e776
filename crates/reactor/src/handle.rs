//! The handle: what callbacks, futures and the rest of the program hold of a loop.

use crate::core::Core;
use crate::observe::stats::{Stats, Timing};
use crate::tasks::remote::{Remote, Wakeup};
use crate::{Backend, Instant, Result, Timer, Watcher};
use std::fmt;
use std::os::fd::RawFd;
use std::rc::Rc;

/// A cheap, cloneable reference to a loop, for use on the loop's own thread.
///
/// Every callback is handed one. Everything here may be called from inside any callback. When the
/// [`Reactor`](crate::Reactor) is dropped, whatever would start something returns
/// [`Error::Closed`](crate::Error::Closed).
#[derive(Clone)]
pub struct Handle(pub(crate) Rc<Core>);

impl Handle {
    pub(crate) fn core(&self) -> &Core {
        &self.0
    }

    /// Whether both refer to the same loop.
    pub fn is_same(&self, other: &Handle) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// The time on the loop's clock.
    pub fn now(&self) -> Instant {
        self.0.now()
    }

    /// Calls `call` on a later turn, never from inside this call: after descriptors and timers, in
    /// the order of asking. A call deferred by a deferred call waits for the next turn.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the reactor is gone.
    pub fn defer(&self, call: impl FnOnce(&Handle) + 'static) -> Result<()> {
        self.0.defer(Box::new(call))
    }

    /// Makes a callback that any thread can have called: see [`Wakeup`].
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the reactor is gone.
    pub fn wakeup(&self, callback: impl FnMut(&Handle) + 'static) -> Result<Wakeup> {
        self.0.add_wakeup(Box::new(callback))
    }

    /// Runs the tasks that have been woken, those that they wake included, as the last part of a
    /// turn does; nothing is waited for. True if any ran.
    ///
    /// For whoever wakes tasks between two turns and can use what they do before the kernel is
    /// asked again. Like a turn it runs a bounded number; call it a bounded number of times, or
    /// descriptors and timers wait.
    pub fn run_woken_tasks(&self) -> bool {
        crate::turn::run_tasks(self)
    }

    /// A handle for other threads.
    pub fn remote(&self) -> Remote {
        Remote { remote_side: self.0.remote_side().clone() }
    }

    /// Stops the loop: the turn in progress ends, then [`run`](crate::Reactor::run) returns.
    /// Requested while no run is in progress, it makes the next one return after a single turn that
    /// does not block.
    pub fn stop(&self) {
        self.0.remote_side().request_stop();
    }

    /// Ends everything on the loop there and then, as dropping the [`Reactor`](crate::Reactor)
    /// does, and stops it.
    ///
    /// From inside a callback, that callback is the last one that runs, whatever this turn has
    /// fetched. From inside a task, that task is not polled again: its future is dropped when its
    /// poll returns. A [`block_on`](crate::Reactor::block_on) in progress ends with its future's
    /// output or [`Error::Closed`](crate::Error::Closed); whoever waits elsewhere for something on
    /// this loop is woken and told the same. Driving a closed loop is refused.
    pub fn close(&self) {
        self.0.remote_side().request_stop();
        self.0.close();
    }

    /// Whether a [`run`](crate::Reactor::run), [`run_until_idle`](crate::Reactor::run_until_idle)
    /// or [`block_on`](crate::Reactor::block_on) is in progress.
    pub fn is_running(&self) -> bool {
        self.0.running.get()
    }

    /// The backend that the loop runs on.
    pub fn backend(&self) -> Backend {
        self.0.backend
    }

    /// A descriptor that becomes readable when the loop has something to do: watch it in a foreign
    /// loop and call [`poll`](crate::Reactor::poll) with a zero timeout when it is.
    ///
    /// It stays the same for as long as the reactor lives. Do not read from it or close it.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) on [`Backend::Poll`];
    /// [`Error::Io`](crate::Error::Io).
    pub fn embedding_fd(&self) -> Result<RawFd> {
        let fd = self.0.embedding_fd()?;
        self.0.prepare_for_embedder()?;
        Ok(fd)
    }

    /// What the loop has done so far.
    pub fn stats(&self) -> Stats {
        self.0.counters.snapshot()
    }

    /// Starts timing, from zero, or ends it. It reads the clock twice per callback.
    pub fn set_timing(&self, on: bool) {
        self.0.set_timing(on);
    }

    /// Where the time went since timing was started; `None` while it is off.
    pub fn timing(&self) -> Option<Timing> {
        self.0.timing()
    }

    /// Gives a watcher a name for [`Timing`] and stall reports, as
    /// [`Watch::label`](crate::Watch::label) does. False if the watch has ended.
    pub fn label_watcher(&self, watcher: Watcher, label: &str) -> bool {
        let label = self.0.intern(label);
        self.0.label_watcher(watcher, label)
    }

    /// Gives a timer a name for [`Timing`] and stall reports. False if the timer is gone.
    pub fn label_timer(&self, timer: Timer, label: &str) -> bool {
        let label = self.0.intern(label);
        self.0.label_timer(timer, label)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("backend", &self.backend())
            .field("watchers", &self.watcher_count())
            .field("timers", &self.timer_count())
            .field("tasks", &self.task_count())
            .finish_non_exhaustive()
    }
}
