//! A bounded pool of threads for calls that block: name resolution, files.
//!
//! The queue is not bounded by count, because every entry belongs to a future that somebody awaits; the threads are.
//! Threads start when they are needed and end after a while without work.

use crate::{Error, Handle, Result};
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How many threads a loop may use for blocking calls unless told otherwise.
pub const BLOCKING_THREADS_DEFAULT: usize = 4;
/// How long a thread waits for work before it ends.
const IDLE_THREAD_LIFETIME: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

pub(crate) struct Pool {
    threads_max: usize,
    shared: Arc<Workers>,
}

#[derive(Default)]
struct Workers {
    state: Mutex<State>,
    work: Condvar,
    in_flight: AtomicUsize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Pool {
    pub(crate) fn new(threads_max: usize) -> Pool {
        Pool { threads_max, shared: Arc::default() }
    }

    /// Calls that were asked for and have not ended.
    pub(crate) fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::Acquire)
    }

    /// The threads stayed in the parent process. What they shared may be locked by one of them for ever, so it is left
    /// untouched, unless there never were any.
    pub(crate) fn after_fork(&mut self) {
        let parents = std::mem::replace(self, Pool::new(self.threads_max));
        if Arc::strong_count(&parents.shared) > 1 {
            std::mem::forget(parents);
        }
    }

    fn submit(&self, job: Job) -> Result<()> {
        let mut state = self.shared.lock();
        if state.idle == 0 && state.threads < self.threads_max {
            let workers = self.shared.clone();
            let spawned =
                std::thread::Builder::new().name("mainspring-blocking".into()).spawn(move || workers.work());
            match spawned {
                Ok(_) => state.threads += 1,
                // With one thread at least, the job will be done, only later.
                Err(_) if state.threads > 0 => {}
                Err(source) => {
                    return Err(Error::Io { action: "starting a thread for blocking calls", source });
                }
            }
        }
        self.shared.in_flight.fetch_add(1, Ordering::AcqRel);
        state.jobs.push_back(job);
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }
}

impl Drop for Pool {
    /// Queued calls are dropped; a running one ends on its own, heard by nobody.
    fn drop(&mut self) {
        let jobs = {
            let mut state = self.shared.lock();
            state.closed = true;
            std::mem::take(&mut state.jobs)
        };
        self.shared.work.notify_all();
        drop(jobs);
    }
}

impl Workers {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(job) = self.next_job() {
            job();
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let waited = self.work.wait_timeout(state, IDLE_THREAD_LIFETIME);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        None
    }
}

/// The future of a blocking call. If it is dropped, the call's result is.
pub struct Blocking<T> {
    slot: Arc<Mutex<Slot<T>>>,
}

struct Slot<T> {
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
    /// Runs a call that blocks on a thread of the loop's pool; await the result. A panic in the call propagates to whoever
    /// awaits it.
    ///
    /// # Errors
    /// [`Error::Io`] if no thread can be started; [`Error::Closed`].
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
        self.core().check_open()?;
        self.core().renew_after_fork()?;
        let slot = Arc::new(Mutex::new(Slot { result: None, waker: None }));
        let (target, pool) = (slot.clone(), self.core().pool().borrow());
        let finished = InFlight { workers: pool.shared.clone(), remote: self.remote() };
        pool.submit(Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(call));
            let mut slot = target.lock().unwrap_or_else(PoisonError::into_inner);
            slot.result = Some(result);
            let waker = slot.waker.take();
            drop(slot);
            if let Some(waker) = waker {
                waker.wake();
            }
            // Last, so that a loop on virtual time does not move on before whoever waits has been woken.
            drop(finished);
        }))?;
        Ok(Blocking { slot })
    }
}

/// Counts a call as finished when it is, or when it is dropped unstarted, and has the loop look.
struct InFlight {
    workers: Arc<Workers>,
    remote: crate::Remote,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.workers.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.remote.wake();
    }
}
