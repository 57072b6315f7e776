//! What the loop's state does about timers, and about the alarm that a foreign loop needs.

use super::Core;
use crate::sys::Poller;
use crate::time::timer::Once;
use crate::time::timers::Action;
use crate::{Error, Instant, Result, Timer};
use std::os::fd::RawFd;
use std::task::Waker;

impl Core {
    /// A timer that calls once; `inert` if its callback has nothing to drop. Apart from the other
    /// kinds, because what it takes fits into registers.
    pub(crate) fn add_once(&self, deadline: Instant, call: Once, inert: bool) -> Result<Timer> {
        self.insert_timer(deadline, Action::Once(call), inert)
    }

    pub(crate) fn add_timer(&self, deadline: Instant, action: Action) -> Result<Timer> {
        self.insert_timer(deadline, action, false)
    }

    #[inline(always)]
    fn insert_timer(&self, deadline: Instant, action: Action, inert: bool) -> Result<Timer> {
        self.check_open()?;
        self.remote_side.set_attention(true);
        let turn = self.counters.turns.get();
        let timer = self.timers.borrow_mut().insert(deadline, action, inert, turn);
        self.arm_for_embedder(deadline)?;
        Ok(timer)
    }

    pub(crate) fn cancel_timer(&self, timer: Timer) -> bool {
        let action = self.timers.borrow_mut().remove(timer);
        match action {
            None => false,
            Some(None) => true,
            Some(Some(action)) => {
                drop(action);
                true
            }
        }
    }

    pub(crate) fn reschedule_timer(&self, timer: Timer, deadline: Instant) -> bool {
        let moved = self.timers.borrow_mut().reschedule(timer, deadline, self.counters.turns.get());
        if moved {
            let _ = self.arm_for_embedder(deadline);
        }
        moved
    }

    pub(crate) fn set_timer_waker(&self, timer: Timer, waker: &Waker) {
        let replaced = self.timers.borrow_mut().set_waker(timer, waker);
        drop(replaced);
    }

    pub(crate) fn has_timer(&self, timer: Timer) -> bool {
        self.timers.borrow().contains(timer)
    }

    pub(crate) fn timer_count(&self) -> usize {
        self.timers.borrow().len()
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.timers.borrow().first_deadline()
    }

    /// A foreign loop waits for us, so the alarm must be right at all times, not just when we wait
    /// ourselves.
    #[inline]
    fn arm_for_embedder(&self, deadline: Instant) -> Result<()> {
        if self.embedded.get() { self.arm_now(deadline) } else { Ok(()) }
    }

    #[cold]
    fn arm_now(&self, deadline: Instant) -> Result<()> {
        if self.virtual_clock().is_some() || deadline <= self.latest_now.get() {
            self.remote_side.notify_embedder();
            return Ok(());
        }
        self.renew_after_fork()?;
        self.poller.borrow_mut().arm(deadline)
    }

    /// Leaves everything as a foreign loop that waits for us needs it.
    pub(crate) fn prepare_for_embedder(&self) -> Result<()> {
        if !self.embedded.get() {
            return Ok(());
        }
        if self.has_immediate_work() || self.poller.borrow().has_always_ready() {
            self.remote_side.notify_embedder();
        }
        self.next_deadline().map_or(Ok(()), |deadline| self.arm_for_embedder(deadline))
    }

    pub(crate) fn embedding_fd(&self) -> Result<RawFd> {
        self.check_open()?;
        self.renew_after_fork()?;
        match &mut *self.poller.borrow_mut() {
            #[cfg(target_os = "linux")]
            Poller::Epoll(epoll) => {
                use std::os::fd::AsRawFd;
                self.embedded.set(true);
                self.remote_side.set_embedded();
                self.remote_side.set_attention(true);
                return epoll.embedding_fd().map(|fd| fd.as_raw_fd());
            }
            Poller::Poll(_) => {}
        }
        Err(Error::Unsupported { what: "a descriptor for embedding", backend: self.backend })
    }
}
