//! Tasks: futures that the loop runs between its turns' callbacks.

use crate::core::Core;
use crate::{Handle, Result};
use async_task::FallibleTask;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Weak;
use std::task::{Context, Poll};

/// The other end of a spawned task: await it for the task's result.
///
/// Dropping it lets the task run on by itself; [`abort`](JoinHandle::abort) ends the task.
pub struct JoinHandle<T> {
    /// Present until the handle is dropped or aborted.
    task: Option<FallibleTask<T>>,
}

/// The task ended without a result: it was aborted, it panicked, or its loop was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the task ended without a result: it was aborted, it panicked, or its loop was dropped")]
pub struct JoinError;

impl<T> JoinHandle<T> {
    /// Ends the task: its future is dropped on the loop's next turn and never polled again.
    pub fn abort(mut self) {
        drop(self.task.take());
    }

    /// Whether the task has ended, in whatever way.
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(FallibleTask::is_finished)
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = std::result::Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.task {
            Some(task) => Pin::new(task).poll(context).map(|result| result.ok_or(JoinError)),
            None => Poll::Ready(Err(JoinError)),
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish()
    }
}

/// A task's future, known to its loop for as long as it may be polled.
struct Tracked<F> {
    /// Dropped first: a future that is being dropped is no task any more.
    entry: TaskEntry,
    future: F,
}

impl<F: Future> Future for Tracked<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let core = self.entry.core.upgrade();
        // SAFETY: the future is pinned with the rest: nothing here moves it, and it is dropped
        // where it is.
        let future = unsafe { self.map_unchecked_mut(|tracked| &mut tracked.future) };
        match core {
            Some(core) => core.poll_task(|| future.poll(context)),
            None => future.poll(context),
        }
    }
}

/// Takes a task off the list of live tasks when its future ends.
struct TaskEntry {
    core: Weak<Core>,
    key: usize,
}

impl Drop for TaskEntry {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            core.task_ended(self.key);
        }
    }
}

/// Tasks.
impl Handle {
    /// Runs a future on the loop. It need not be `Send`; its wakers work from any thread.
    ///
    /// Tasks run after the turn's descriptors, timers and deferred calls, a bounded number per
    /// turn. A panic in a task propagates out of the turn, as one in a callback does; the task is
    /// then gone.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the reactor is gone.
    ///
    /// # Examples
    /// ```
    /// use mainspring_reactor::Reactor;
    /// use std::time::Duration;
    ///
    /// let mut reactor = Reactor::new()?;
    /// let handle = reactor.handle();
    /// let answer = reactor.spawn(async move {
    ///     handle.sleep(Duration::from_millis(1)).await.unwrap();
    ///     42
    /// })?;
    /// assert_eq!(reactor.block_on(answer)?, Ok(42));
    /// # Ok::<(), mainspring_reactor::Error>(())
    /// ```
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let core = self.core();
        core.check_open()?;
        let key = core.task_begun();
        let entry = TaskEntry { core: self.downgrade(), key };
        let tracked = Tracked { entry, future };
        let remote_side = core.remote_side().clone();
        let (runnable, task) =
            async_task::spawn_local(tracked, move |runnable| remote_side.schedule(runnable));
        core.task_waker(key, runnable.waker());
        runnable.schedule();
        Ok(JoinHandle { task: Some(task.fallible()) })
    }

    /// How many tasks have not ended.
    pub fn task_count(&self) -> usize {
        self.core().task_count()
    }
}
