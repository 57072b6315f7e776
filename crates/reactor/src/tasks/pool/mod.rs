//! Bounded pools of threads for calls that block: name resolution, files, compiling.
//!
//! Each kind of call has a lane with threads of its own, and in a lane no owner holds the others
//! up. The queues are not bounded by count, because every entry belongs to a future that somebody
//! awaits; the threads are. They start when they are needed and end after a while without work.

mod lane;
mod workers;

use crate::{Handle, Result};
pub use lane::{BlockingLane, BlockingOwner};
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use workers::Workers;

/// How many threads a loop may use for blocking calls unless told otherwise.
pub const BLOCKING_THREADS_DEFAULT: usize = 4;

/// The name of the lane of calls that are given none.
const PLAIN: &str = "blocking";

pub(crate) struct Pool {
    threads_max: usize,
    /// The lanes that were used so far: a handful.
    lanes: RefCell<Vec<Arc<Workers>>>,
    in_flight: Arc<AtomicUsize>,
}

impl Pool {
    pub(crate) fn new(threads_max: usize) -> Pool {
        Pool { threads_max, lanes: RefCell::default(), in_flight: Arc::default() }
    }

    /// Calls that were asked for and have not ended.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// The threads stayed in the parent process. What they shared may be locked by one of them for
    /// ever, so it is left untouched, unless there never were any.
    pub(crate) fn after_fork(&mut self) {
        let parents = std::mem::replace(self, Pool::new(self.threads_max));
        for workers in parents.lanes.take() {
            if Arc::strong_count(&workers) > 1 {
                std::mem::forget(workers);
            }
        }
    }

    fn workers(&self, lane: Option<&BlockingLane>) -> Arc<Workers> {
        let plain = BlockingLane::new(PLAIN, self.threads_max);
        let wanted = lane.unwrap_or(&plain);
        let mut lanes = self.lanes.borrow_mut();
        if let Some(known) = lanes.iter().find(|workers| workers.is_of(wanted)) {
            return known.clone();
        }
        let workers = Workers::new(*wanted, lane.is_some());
        lanes.push(workers.clone());
        workers
    }
}

impl Drop for Pool {
    /// Queued calls are dropped; a running one ends on its own, heard by nobody.
    fn drop(&mut self) {
        for workers in self.lanes.take() {
            workers.close();
        }
    }
}

/// The future of a blocking call. If it is dropped, the call's result is.
pub struct Blocking<T> {
    slot: Arc<Mutex<PoolSlot<T>>>,
}

struct PoolSlot<T> {
    result: Option<std::result::Result<T, Box<dyn Any + Send>>>,
    waker: Option<Waker>,
}

impl<T> Future for Blocking<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.result.take() {
            Some(Ok(value)) => Poll::Ready(value),
            Some(Err(panic)) => {
                drop(slot);
                resume_unwind(panic)
            }
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> fmt::Debug for Blocking<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").finish_non_exhaustive()
    }
}

impl Handle {
    /// Runs a call that blocks on a thread of the loop's pool; await the result. A panic in the
    /// call propagates to whoever awaits it.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if there is no thread and none can be started;
    /// [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Examples
    /// ```
    /// use mainspring_reactor::Reactor;
    ///
    /// let mut reactor = Reactor::new()?;
    /// let length = reactor.blocking(|| std::fs::metadata(".").map(|data| data.len()))?;
    /// assert!(reactor.block_on(length)?.is_ok());
    /// # Ok::<(), mainspring_reactor::Error>(())
    /// ```
    pub fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Blocking<T>> {
        self.block(None, BlockingOwner::NOBODY, call)
    }

    /// Runs a call that blocks on a thread of a lane, on an owner's account: see [`BlockingLane`].
    /// Otherwise as [`blocking`](Handle::blocking).
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the lane has no thread and none can be started;
    /// [`Error::Closed`](crate::Error::Closed).
    pub fn blocking_on<T: Send + 'static>(
        &self,
        lane: &BlockingLane,
        owner: BlockingOwner,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Blocking<T>> {
        self.block(Some(lane), owner, call)
    }

    fn block<T: Send + 'static>(
        &self,
        lane: Option<&BlockingLane>,
        owner: BlockingOwner,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Blocking<T>> {
        self.core().check_open()?;
        self.core().renew_after_fork()?;
        let slot = Arc::new(Mutex::new(PoolSlot { result: None, waker: None }));
        let target = slot.clone();
        let (workers, in_flight) = {
            let pool = self.core().pool().borrow();
            (pool.workers(lane), InFlight::new(&pool.in_flight, self.remote()))
        };
        workers.submit(
            owner,
            Box::new(move || {
                let result = catch_unwind(AssertUnwindSafe(call));
                let mut slot = target.lock().unwrap_or_else(PoisonError::into_inner);
                slot.result = Some(result);
                let waker = slot.waker.take();
                drop(slot);
                if let Some(waker) = waker {
                    waker.wake();
                }
                // Last, so that a loop on virtual time does not move on before whoever waits has
                // been woken.
                drop(in_flight);
            }),
        )?;
        Ok(Blocking { slot })
    }
}

/// Counts a call from here on until it has been made, or dropped unmade; then it wakes the loop,
/// which may be idle now.
struct InFlight {
    count: Arc<AtomicUsize>,
    remote: crate::Remote,
}

impl InFlight {
    fn new(count: &Arc<AtomicUsize>, remote: crate::Remote) -> InFlight {
        count.fetch_add(1, Ordering::AcqRel);
        InFlight { count: count.clone(), remote }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
        self.remote.wake();
    }
}
