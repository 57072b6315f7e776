//! The end of child processes.
//!
//! On [`Backend::Epoll`](crate::Backend::Epoll) each child is watched by a pidfd, so nothing
//! depends on SIGCHLD and no other child is ever reaped. On
//! [`Backend::Poll`](crate::Backend::Poll), and where the system has no pidfds, a SIGCHLD makes the
//! loop ask about every child it watches, and only about those.

use crate::process::signals::SignalWatcher;
#[cfg(target_os = "linux")]
use crate::{Backend, Interest};
use crate::{Error, Handle, Result, Signal, Watcher};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions};
use slab::Slab;
use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

type ChildCallback = Box<dyn FnOnce(&Handle, Option<ExitStatus>)>;

/// Names a child watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChildWatcher {
    key: usize,
    serial: u64,
}

struct ChildEntry {
    serial: u64,
    pid: Pid,
    /// The pidfd's watcher, where there is one.
    watcher: Option<Watcher>,
    callback: ChildCallback,
}

#[derive(Default)]
pub(crate) struct ChildTable {
    entries: Slab<ChildEntry>,
    next_serial: u64,
    /// The SIGCHLD watch, where there are no pidfds.
    signal: Option<SignalWatcher>,
}

impl ChildTable {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn take(&mut self, key: usize, serial: u64) -> Option<ChildEntry> {
        let there = self.entries.get(key).is_some_and(|entry| entry.serial == serial);
        there.then(|| self.entries.remove(key))
    }
}

/// Child processes.
impl Handle {
    /// Reaps the child `pid` when it ends and calls `callback` with its exit status, or with `None`
    /// if somebody else has reaped it (so do not call [`Child::wait`](std::process::Child::wait) as
    /// well). Works for a child that has ended already.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no such child, or it is not ours, or the system refuses;
    /// [`Error::SignalTaken`] on [`Backend::Poll`](crate::Backend::Poll) if another loop watches
    /// SIGCHLD; [`Error::Closed`].
    ///
    /// # Examples
    /// ```
    /// use mainspring_reactor::Reactor;
    ///
    /// let mut reactor = Reactor::new()?;
    /// let child = std::process::Command::new("true").spawn().unwrap();
    /// reactor.on_child_exit(child.id(), |_, status| assert!(status.unwrap().success()))?;
    /// reactor.run_until_idle()?;
    /// # Ok::<(), mainspring_reactor::Error>(())
    /// ```
    pub fn on_child_exit(
        &self,
        pid: u32,
        callback: impl FnOnce(&Handle, Option<ExitStatus>) + 'static,
    ) -> Result<ChildWatcher> {
        self.core().check_open()?;
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid =
            pid.filter(|pid| is_child(*pid)).ok_or_else(|| Error::io("watching a child")(Errno::CHILD))?;
        let name = {
            let mut table = self.core().children.borrow_mut();
            table.next_serial += 1;
            let serial = table.next_serial;
            let entry = ChildEntry { serial, pid, watcher: None, callback: Box::new(callback) };
            ChildWatcher { key: table.entries.insert(entry), serial }
        };
        let started = match self.backend() {
            #[cfg(target_os = "linux")]
            Backend::Epoll => match self.watch_pidfd(pid, name) {
                // A kernel before 5.3, or a sandbox (valgrind is one) that does not know the call.
                Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::ENOSYS) => {
                    self.watch_sigchld(name)
                }
                started => started,
            },
            _ => self.watch_sigchld(name),
        };
        if let Err(error) = started {
            self.unwatch_child(name);
            return Err(error);
        }
        Ok(name)
    }

    /// Ends a child watch, after which the child is yours to reap. True if the watch was there.
    pub fn unwatch_child(&self, watcher: ChildWatcher) -> bool {
        let entry = self.core().children.borrow_mut().take(watcher.key, watcher.serial);
        let Some(entry) = entry else { return false };
        if let Some(pidfd) = entry.watcher {
            self.unwatch(pidfd);
        }
        self.release_sigchld();
        true
    }

    #[cfg(target_os = "linux")]
    fn watch_pidfd(&self, pid: Pid, name: ChildWatcher) -> Result<()> {
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::NONBLOCK)
            .map_err(Error::io("pidfd_open"))?;
        let watcher = self
            .watch(pidfd)
            .internal()
            .start_with(Interest::READ, move |_, event| reap(event.reactor(), name))?;
        if let Some(entry) = self.core().children.borrow_mut().entries.get_mut(name.key) {
            entry.watcher = Some(watcher);
        }
        Ok(())
    }

    fn watch_sigchld(&self, name: ChildWatcher) -> Result<()> {
        let watched = self.core().children.borrow().signal.is_some();
        if !watched {
            let signal = self.on_signal(Signal::CHLD, |event| reap_all(event.reactor()))?;
            self.core().children.borrow_mut().signal = Some(signal);
        }
        // It may have ended before anyone listened.
        self.defer(move |handle| reap(handle, name))
    }

    fn release_sigchld(&self) {
        let signal = {
            let mut children = self.core().children.borrow_mut();
            if children.is_empty() { children.signal.take() } else { None }
        };
        if let Some(signal) = signal {
            self.unwatch_signal(signal);
        }
    }
}

/// Whether the process is a child of this one that nobody has reaped, ended or not.
fn is_child(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    rustix::process::waitid(WaitId::Pid(pid), options).is_ok()
}

fn reap_all(handle: &Handle) {
    let names = {
        let table = handle.core().children.borrow();
        table.entries.iter().map(|(key, entry)| ChildWatcher { key, serial: entry.serial }).collect()
    };
    let mut rest = ChildRestGuard { handle, names };
    while let Some(name) = rest.names.pop_front() {
        reap(handle, name);
    }
}

/// Leaves the children that a panic has kept from being asked about for the next turn: the signal
/// will not come again.
struct ChildRestGuard<'a> {
    handle: &'a Handle,
    names: VecDeque<ChildWatcher>,
}

impl Drop for ChildRestGuard<'_> {
    fn drop(&mut self) {
        for name in self.names.drain(..) {
            let _ = self.handle.defer(move |handle| reap(handle, name));
        }
    }
}

/// Asks whether the child has ended, and if so ends the watch and tells.
fn reap(handle: &Handle, name: ChildWatcher) {
    let pid = {
        let table = handle.core().children.borrow();
        match table.entries.get(name.key) {
            Some(entry) if entry.serial == name.serial => entry.pid,
            _ => return,
        }
    };
    let status = match rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
        Ok(Some((_, status))) => Some(ExitStatus::from_raw(status.as_raw())),
        Ok(None) => return,
        // Somebody else has reaped it.
        Err(_) => None,
    };
    let entry = handle.core().children.borrow_mut().take(name.key, name.serial);
    let Some(entry) = entry else { return };
    if let Some(pidfd) = entry.watcher {
        handle.unwatch(pidfd);
    }
    handle.release_sigchld();
    (entry.callback)(handle, status);
}
