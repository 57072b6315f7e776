//! How everything on a loop ends.

use super::Core;
use crate::time::timers::Action;
use std::task::Waker;
use std::time::Duration;

/// How long a closing loop waits for a thread that has begun to wake a task and has not handed it
/// over yet. That takes a thread some instructions; this is for one that is not scheduled
/// meanwhile.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(10);
/// The same in a forked child, where the thread may have stayed behind in the parent.
const HANDOVER_TIMEOUT_FORKED: Duration = Duration::from_millis(100);

impl Core {
    /// Ends everything on the loop. What is dropped may run user code, which finds the loop closed.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        let left = {
            let mut inbox = self.remote_side.inbox();
            inbox.closed = true;
            inbox.signalled.clear();
            inbox.ended.clear();
            std::mem::take(&mut inbox.calls)
        };
        drop(left);
        self.end_tasks();
        crate::process::signals::close(self);
        let children = std::mem::take(&mut *self.children.borrow_mut());
        drop(children);
        let watchers = self.fds.borrow().watchers();
        for watcher in watchers {
            self.unwatch(watcher);
        }
        let timers = std::mem::take(&mut *self.timers.borrow_mut());
        for action in timers.into_actions() {
            // A wait that somebody else drives must hear that its timer will not come.
            if let Action::Wake(waker) = action {
                waker.wake();
            }
        }
        let deferred = std::mem::take(&mut *self.deferred.borrow_mut());
        drop(deferred);
        let wakeups = std::mem::take(&mut *self.wakeups.borrow_mut());
        drop(wakeups);
    }

    /// Wakes every task and drops it instead of running it. Dropping one may wake or end others, or
    /// close the loop again.
    ///
    /// A task that another thread is about to wake belongs to that thread until it has been handed
    /// over, so this waits for it: the future must be dropped here and nowhere else. One that is
    /// being polled further up the stack follows when its poll returns.
    pub(crate) fn end_tasks(&self) {
        loop {
            let wakers: Vec<Waker> =
                self.tasks.borrow_mut().iter_mut().filter_map(|(_, waker)| waker.take()).collect();
            for waker in wakers {
                waker.wake();
            }
            // One at a time: whatever else is ready must be in sight of a close that this drop may
            // lead to.
            while let Some(runnable) =
                self.remote_side.pop_ready().or_else(|| self.remote_side.pop_handed_over())
            {
                drop(runnable);
            }
            let under_way = self.tasks.borrow().len() > self.polls_under_way.get();
            if !under_way || !self.remote_side.await_handover(self.handover_timeout()) {
                break;
            }
        }
        self.remote_side.inbox().tasks_ended = true;
    }

    fn handover_timeout(&self) -> Duration {
        if self.born_in == crate::process::fork::generation() {
            HANDOVER_TIMEOUT
        } else {
            HANDOVER_TIMEOUT_FORKED
        }
    }
}
