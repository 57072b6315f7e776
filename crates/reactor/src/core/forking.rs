//! What the loop's state does in a process that was forked from the one that made it.
//!
//! The kernel objects are then the parent's: what this process did to them, it would do to its
//! parent's loop. Nothing is done to them before this process has its own, under the same numbers;
//! and if those cannot be made, nothing is done to them at all.

use super::Core;
use crate::Result;
use crate::sys::wake_fd::WakeFd;

impl Core {
    /// Whether the kernel objects are this process's own.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.fork_generation.get() == crate::process::fork::generation()
    }

    /// Makes every kernel object anew in a forked child.
    #[inline]
    pub(crate) fn renew_after_fork(&self) -> Result<()> {
        if self.is_own() { Ok(()) } else { self.after_fork() }
    }

    #[cold]
    fn after_fork(&self) -> Result<()> {
        let generation = crate::process::fork::generation();
        // All of them, before any takes its place: a child that is out of descriptors stays as it
        // is, and can try again.
        let wake = WakeFd::new(self.backend)?;
        let signals = crate::process::signals::prepare_for_child(self)?;
        let poller = self.poller.borrow().prepare_for_child()?;
        self.poller.borrow_mut().after_fork(poller)?;
        self.remote_side.after_fork(wake)?;
        crate::process::signals::after_fork(self, signals)?;
        self.pool.borrow_mut().after_fork();
        self.labels.borrow_mut().after_fork();
        self.fill_set()?;
        self.fork_generation.set(generation);
        Ok(())
    }
}
