//! Futures that wait for time to pass.

use crate::time::timers::Action;
use crate::{Handle, Instant, Result, Timer};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Ready at its deadline, never before. Dropping it cancels its timer.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    handle: Handle,
    deadline: Result<Instant>,
    timer: Option<Timer>,
}

impl Future for Sleep {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let deadline = match &self.deadline {
            Ok(deadline) => *deadline,
            Err(_) => {
                return Poll::Ready(std::mem::replace(&mut self.deadline, Err(crate::Error::Gone)).map(drop));
            }
        };
        match self.timer {
            None => {
                let action = Action::Wake(context.waker().clone());
                match self.handle.core().add_timer(deadline, action) {
                    Ok(timer) => self.timer = Some(timer),
                    Err(error) => return Poll::Ready(Err(error)),
                }
                Poll::Pending
            }
            Some(timer) if self.handle.has_timer(timer) => {
                self.handle.core().set_timer_waker(timer, context.waker());
                Poll::Pending
            }
            Some(_) => Poll::Ready(self.handle.core().check_open()),
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.handle.cancel(timer);
        }
    }
}

/// The time ran out before the future was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time limit passed")]
pub struct Elapsed;

/// A future with a time limit: see [`Handle::timeout`].
#[must_use = "futures do nothing unless awaited"]
pub struct Timeout<F> {
    future: Pin<Box<F>>,
    limit: Sleep,
}

impl<F: Future> Future for Timeout<F> {
    type Output = std::result::Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        // A limit beyond the clock's range never passes.
        if self.limit.deadline.is_err() {
            return Poll::Pending;
        }
        Pin::new(&mut self.limit).poll(context).map(|_| Err(Elapsed))
    }
}

impl<F> fmt::Debug for Timeout<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("limit", &self.limit.deadline).finish_non_exhaustive()
    }
}

/// Time in futures.
impl Handle {
    /// Waits for `duration`. Its output is an error if the deadline cannot be expressed or the
    /// reactor is gone.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep { handle: self.clone(), deadline: self.deadline_after(duration), timer: None }
    }

    /// Waits until `deadline`.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep { handle: self.clone(), deadline: Ok(deadline), timer: None }
    }

    /// Gives a future at most `limit` to be done; then it is dropped together with this.
    ///
    /// # Examples
    /// ```
    /// use mainspring_reactor::{Elapsed, Reactor};
    /// use std::time::Duration;
    ///
    /// let mut reactor = Reactor::new()?;
    /// let forever = std::future::pending::<()>();
    /// let outcome = reactor.timeout(Duration::from_millis(1), forever);
    /// assert_eq!(reactor.block_on(outcome)?, Err(Elapsed));
    /// # Ok::<(), mainspring_reactor::Error>(())
    /// ```
    pub fn timeout<F: Future>(&self, limit: Duration, future: F) -> Timeout<F> {
        Timeout { future: Box::pin(future), limit: self.sleep(limit) }
    }
}
