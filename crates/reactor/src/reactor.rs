//! The reactor itself: how a loop is driven, by single turns or until something ends it.

use crate::observe::stats::count;
use crate::sys::Wait;
use crate::tasks::remote::RemoteSide;
use crate::turn::{Batch, run_deferred, run_tasks};
use crate::{Builder, Error, Handle, Instant, Result};
use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// An event loop. It belongs to the thread that made it; [`Remote`](crate::Remote) is for the
/// others.
///
/// The reactor owns the loop and drives it; everything else is done through its [`Handle`], to
/// which it derefs. Dropping it drops every callback, timer and task.
///
/// # Examples
/// ```
/// use mainspring_reactor::Reactor;
/// use std::time::Duration;
///
/// let mut reactor = Reactor::new()?;
/// let mut left = 3;
/// reactor.every(Duration::from_millis(1), move |tick| {
///     left -= 1;
///     if left == 0 {
///         tick.reactor().stop();
///     }
/// })?;
/// reactor.run()?;
/// # Ok::<(), mainspring_reactor::Error>(())
/// ```
#[derive(Debug)]
pub struct Reactor {
    handle: Handle,
    batch: Batch,
    /// Whether the last turn that looked after more than descriptors did anything.
    busy: bool,
}

/// What a turn did.
#[derive(Clone, Copy, Default)]
struct Outcome {
    callbacks: usize,
    /// Whether tasks ran or another thread asked for a turn.
    had_other_work: bool,
}

impl Reactor {
    /// A reactor with the default settings: see [`Builder`].
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the system is out of descriptors or memory.
    pub fn new() -> Result<Reactor> {
        Builder::new().build()
    }

    pub(crate) fn from_handle(handle: Handle) -> Reactor {
        Reactor { handle, batch: Batch::new(), busy: false }
    }

    /// A handle to keep.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until something happens, for at most `timeout` (`None`: for ever), and makes one turn
    /// of it. Returns how many callbacks ran.
    ///
    /// It returns 0 when the timeout passed (or never would, on a virtual clock that stands still),
    /// when another thread called [`Remote::wake`](crate::Remote::wake) or
    /// [`Remote::stop`](crate::Remote::stop), or when only tasks ran.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the loop is closed already;
    /// [`Error::Io`](crate::Error::Io) if waiting fails;
    /// [`Error::DeadlineOutOfRange`](crate::Error::DeadlineOutOfRange) never: a timeout beyond the
    /// clock's range means for ever.
    pub fn poll(&mut self, timeout: Option<Duration>) -> Result<usize> {
        self.handle.core().check_open()?;
        if timeout == Some(Duration::ZERO) {
            return Ok(self.turn(Wait::Now, None)?.callbacks);
        }
        let deadline = timeout.and_then(|timeout| self.handle.now().checked_add(timeout));
        loop {
            let outcome = self.turn(Wait::Block, deadline)?;
            let core = self.handle.core();
            let expired = deadline.is_some_and(|deadline| self.has_passed(deadline));
            let over = expired || core.time_stands_still() || core.is_closed();
            if outcome.callbacks > 0 || outcome.had_other_work || over {
                return Ok(outcome.callbacks);
            }
        }
    }

    /// Runs until [`stop`](Handle::stop) or [`close`](Handle::close) is called. With nothing
    /// registered it waits without using the processor.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the loop is closed already;
    /// [`Error::Io`](crate::Error::Io) if waiting fails.
    pub fn run(&mut self) -> Result<()> {
        self.run_while(|_| true)
    }

    /// Runs until [`stop`](Handle::stop) is called or nothing is left that could lead to a
    /// callback: no armed watcher, no timer, deferred call, task, child or blocking call. Signals
    /// and [`Wakeup`](crate::Wakeup)s do not keep it running.
    ///
    /// # Errors
    /// As [`run`](Reactor::run).
    pub fn run_until_idle(&mut self) -> Result<()> {
        self.run_while(|handle| !handle.core().is_idle())
    }

    fn run_while(&mut self, keep_going: impl Fn(&Handle) -> bool) -> Result<()> {
        self.handle.core().check_open()?;
        let _running = RunGuard::begin(&self.handle);
        if self.handle.core().remote_side().take_stop() {
            return self.turn(Wait::Now, None).map(drop);
        }
        while keep_going(&self.handle) {
            self.turn(Wait::Block, None)?;
            if self.handle.core().remote_side().take_stop() || self.handle.core().is_closed() {
                break;
            }
        }
        Ok(())
    }

    /// Runs the loop until `future` is done and returns its output. The future may borrow; its
    /// waker works from any thread.
    ///
    /// On a loop that is closed, meanwhile or before, the future is polled once more, and again for
    /// as long as it is woken at once; then it would wait for ever, and this ends.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the loop is closed before the future is done;
    /// [`Error::Io`](crate::Error::Io) if waiting fails.
    pub fn block_on<F: Future>(&mut self, future: F) -> Result<F::Output> {
        let _running = RunGuard::begin(&self.handle);
        let remote_side = self.handle.core().remote_side().clone();
        let main = Arc::new(MainTask { woken: AtomicBool::new(true), remote_side });
        let waker = Waker::from(main.clone());
        let mut future = pin!(future);
        // Whether the future has been polled since the loop was closed, so that it could find out.
        let mut told = false;
        loop {
            let (closed, woken) = (self.handle.core().is_closed(), main.woken.swap(false, Ordering::AcqRel));
            if closed && told && !woken {
                return Err(Error::Closed);
            }
            told = closed;
            if (woken || closed)
                && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return Ok(output);
            }
            if !self.handle.core().is_closed() {
                let wait = if main.woken.load(Ordering::Acquire) { Wait::Now } else { Wait::Block };
                self.turn(wait, None)?;
            }
        }
    }

    fn has_passed(&self, deadline: Instant) -> bool {
        self.handle.core().now() >= deadline
    }

    /// One turn.
    #[inline]
    fn turn(&mut self, wait: Wait, deadline: Option<Instant>) -> Result<Outcome> {
        let core = self.handle.core();
        count(&core.counters.turns, 1);
        let plain = wait == Wait::Block && deadline.is_none() && core.is_own() && self.batch.events_done();
        if !plain || core.remote_side().needs_attention() {
            return self.full_turn(wait, deadline);
        }
        // The usual turn of a busy loop: nothing but descriptors, so nothing else is asked for,
        // neither clock nor queues. Whatever makes more work (a timer, a deferred call, a woken
        // task, another thread) sets the flag that is asked before and after.
        self.batch.fetch_events(&self.handle)?;
        let callbacks = self.batch.dispatch_events::<false>(&self.handle);
        let core = self.handle.core();
        if core.remote_side().needs_attention() {
            return self.finish_turn(callbacks, Wait::Block);
        }
        count(&core.counters.callbacks, callbacks as u64);
        Ok(Outcome { callbacks, had_other_work: false })
    }

    fn full_turn(&mut self, wait: Wait, deadline: Option<Instant>) -> Result<Outcome> {
        self.handle.core().renew_after_fork()?;
        let mut wait = wait;
        if self.batch.is_done() {
            if wait == Wait::Block && self.batch.has_stale_set() && !self.busy {
                Batch::pause(&self.handle, deadline);
            }
            wait = self.batch.fetch(&self.handle, wait, deadline)?;
        }
        let callbacks = if self.handle.core().observed.get() {
            self.batch.dispatch_events::<true>(&self.handle)
        } else {
            self.batch.dispatch_events::<false>(&self.handle)
        };
        self.finish_turn(callbacks, wait)
    }

    /// Everything that comes after the descriptors.
    fn finish_turn(&mut self, callbacks: usize, waited: Wait) -> Result<Outcome> {
        let mut outcome = Outcome { callbacks, had_other_work: self.batch.take_woken() };
        self.batch.rebuild_if_stale(&self.handle);
        outcome.callbacks += self.batch.run_wakeups(&self.handle);
        outcome.callbacks += self.batch.run_timers(&self.handle, waited);
        outcome.callbacks += run_deferred(&self.handle);
        outcome.had_other_work |= run_tasks(&self.handle);
        let core = self.handle.core();
        count(&core.counters.callbacks, outcome.callbacks as u64);
        self.busy = outcome.callbacks > 0 || outcome.had_other_work;
        core.remote_side().set_attention(core.needs_full_turn() || self.batch.has_stale_set());
        core.prepare_for_embedder()?;
        Ok(outcome)
    }
}

impl Deref for Reactor {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.handle.core().close();
    }
}

/// Marks the loop as running for as long as it lives.
struct RunGuard(Handle);

impl RunGuard {
    fn begin(handle: &Handle) -> RunGuard {
        handle.core().running.set(true);
        RunGuard(handle.clone())
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.0.core().running.set(false);
    }
}

/// The future of a [`Reactor::block_on`].
struct MainTask {
    woken: AtomicBool,
    remote_side: Arc<RemoteSide>,
}

impl Wake for MainTask {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        if !self.remote_side.is_owner() {
            self.remote_side.notify();
        }
    }
}
