//! How everything on a loop ends.

use super::Core;
use std::task::Waker;

impl Core {
    /// Ends everything on the loop. What is dropped may run user code, which finds the loop closed.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        let inbox = {
            let mut inbox = self.mailbox.inbox();
            inbox.closed = true;
            (
                std::mem::take(&mut inbox.calls),
                std::mem::take(&mut inbox.runnables),
                std::mem::take(&mut inbox.signalled),
                std::mem::take(&mut inbox.ended),
            )
        };
        drop(inbox);
        self.end_tasks();
        crate::signals::close(self);
        let children = std::mem::take(&mut *self.children.borrow_mut());
        drop(children);
        let watchers = self.fds.borrow().watchers();
        for watcher in watchers {
            self.unwatch(watcher);
        }
        let timers = std::mem::take(&mut *self.timers.borrow_mut());
        drop(timers);
        let deferred = std::mem::take(&mut *self.deferred.borrow_mut());
        drop(deferred);
        let wakeups = std::mem::take(&mut *self.wakeups.borrow_mut());
        drop(wakeups);
    }

    /// Wakes every task and drops it instead of running it. Dropping one may wake or end others.
    fn end_tasks(&self) {
        loop {
            let wakers: Vec<Waker> =
                self.tasks.borrow_mut().iter_mut().filter_map(|(_, waker)| waker.take()).collect();
            for waker in wakers {
                waker.wake();
            }
            let mut dropped = false;
            while let Some(runnable) = self.mailbox.pop_ready() {
                drop(runnable);
                dropped = true;
            }
            if !dropped {
                return;
            }
        }
    }
}
