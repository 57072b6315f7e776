//! Signals as callbacks.
//!
//! A signal handler counts what arrives and wakes the loop, on every backend and in whichever
//! thread the kernel picks. No signal is blocked, so nothing changes for other threads or for
//! programs that are started meanwhile. A signal that every thread blocks arrives when one of them
//! lets it through.
//!
//! A signal number belongs to one loop of the process at a time; within that loop any number of
//! callbacks may watch it.

use crate::core::Core;
use crate::sys::signal_intake::{Intake, SIGNALS_MAX};
use crate::sys::wake_fd::WakeFd;
use crate::{Error, Handle, Interest, Result, Watcher};
use std::collections::VecDeque;

/// A signal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(i32);

impl Signal {
    /// Interrupt from the keyboard.
    pub const INT: Signal = Signal(libc::SIGINT);
    /// Request to end.
    pub const TERM: Signal = Signal(libc::SIGTERM);
    /// The terminal hung up; by custom, a request to read the configuration again.
    pub const HUP: Signal = Signal(libc::SIGHUP);
    /// Quit from the keyboard.
    pub const QUIT: Signal = Signal(libc::SIGQUIT);
    /// For the program's own use.
    pub const USR1: Signal = Signal(libc::SIGUSR1);
    /// For the program's own use.
    pub const USR2: Signal = Signal(libc::SIGUSR2);
    /// A child has ended or stopped.
    pub const CHLD: Signal = Signal(libc::SIGCHLD);
    /// The terminal's window has changed its size.
    pub const WINCH: Signal = Signal(libc::SIGWINCH);
    /// A pipe or socket has no reader.
    pub const PIPE: Signal = Signal(libc::SIGPIPE);

    /// The signal with this number.
    pub const fn from_raw(number: i32) -> Signal {
        Signal(number)
    }

    /// Its number.
    pub const fn as_raw(self) -> i32 {
        self.0
    }

    fn is_watchable(self) -> bool {
        let fatal = [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
        (1..=SIGNALS_MAX).contains(&self.0) && !fatal.contains(&self.0)
    }
}

/// One delivery of a signal.
#[derive(Debug)]
pub struct SignalEvent<'a> {
    handle: &'a Handle,
    signal: Signal,
    count: u32,
}

impl<'a> SignalEvent<'a> {
    /// The loop that makes the call.
    pub fn reactor(&self) -> &'a Handle {
        self.handle
    }

    /// Which signal.
    pub fn signal(&self) -> Signal {
        self.signal
    }

    /// How many have arrived since the loop last looked. The kernel itself folds those that arrive
    /// while one is pending.
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// Names a signal callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignalWatcher {
    key: usize,
    serial: u64,
}

type SignalCallback = Box<dyn FnMut(&SignalEvent<'_>)>;

struct SignalEntry {
    serial: u64,
    signal: Signal,
    /// Absent while it runs.
    callback: Option<SignalCallback>,
}

#[derive(Default)]
pub(crate) struct SignalTable {
    entries: slab::Slab<SignalEntry>,
    next_serial: u64,
    /// Where signals arrive, once any was asked for.
    intake: Option<Intake>,
    watcher: Option<Watcher>,
    /// Calls to be made for signals that have been read.
    due: VecDeque<DueCall>,
}

/// A callback, by key and serial, and what to tell it.
struct DueCall {
    key: usize,
    serial: u64,
    signal: Signal,
    count: u32,
}

impl SignalTable {
    /// How many of the armed descriptors are the signals' own.
    pub(crate) fn armed_watchers(&self) -> usize {
        usize::from(self.watcher.is_some())
    }
}

/// The number by which the table of signals, which all loops of the process share, knows this loop.
/// Never zero.
fn identity(core: &Core) -> usize {
    std::ptr::from_ref(core).addr()
}

/// Signals.
impl Handle {
    /// Calls `callback` whenever the process receives `signal`.
    ///
    /// Several callbacks may watch one signal; all are called. What a signal would otherwise do
    /// (ending the process, say) does not happen while it is watched. A program that is started
    /// meanwhile finds the signal as usual: the default action, and not blocked.
    ///
    /// # Errors
    /// [`Error::BadSignal`] if it cannot be caught; [`Error::SignalTaken`] if another loop watches
    /// it; [`Error::Io`]; [`Error::Closed`].
    pub fn on_signal(
        &self,
        signal: Signal,
        callback: impl FnMut(&SignalEvent<'_>) + 'static,
    ) -> Result<SignalWatcher> {
        let core = self.core();
        core.check_open()?;
        if !signal.is_watchable() {
            return Err(Error::BadSignal { signal: signal.0 });
        }
        self.hold_signal(signal)?;
        let mut table = core.signals.borrow_mut();
        table.next_serial += 1;
        let serial = table.next_serial;
        let key = table.entries.insert(SignalEntry { serial, signal, callback: Some(Box::new(callback)) });
        Ok(SignalWatcher { key, serial })
    }

    /// Ends a signal callback. True if it was there. When the last one for a signal ends, the
    /// signal does again what it did before it was watched, unless somebody else has installed a
    /// handler meanwhile: that one stays. What has arrived and was not delivered goes to nobody.
    pub fn unwatch_signal(&self, watcher: SignalWatcher) -> bool {
        let entry = {
            let mut table = self.core().signals.borrow_mut();
            let there = table.entries.get(watcher.key).is_some_and(|entry| entry.serial == watcher.serial);
            there.then(|| table.entries.remove(watcher.key))
        };
        let Some(entry) = entry else { return false };
        let unused = {
            let table = self.core().signals.borrow();
            !table.entries.iter().any(|(_, other)| other.signal == entry.signal)
        };
        if unused {
            let_go(self.core(), entry.signal);
        }
        true
    }

    /// Makes sure that the signal arrives at this loop.
    fn hold_signal(&self, signal: Signal) -> Result<()> {
        let core = self.core();
        self.open_intake()?;
        let mut table = core.signals.borrow_mut();
        table.intake.as_mut().map_or(Ok(()), |intake| intake.take_in(signal, identity(core)))
    }

    fn open_intake(&self) -> Result<()> {
        let core = self.core();
        if core.signals.borrow().intake.is_some() {
            return Ok(());
        }
        let intake = Intake::new(WakeFd::new(core.backend)?);
        let watcher = self
            .watch(intake.source())
            .internal()
            .start_with(Interest::READ, |_, event| deliver(event.reactor()))?;
        let mut table = core.signals.borrow_mut();
        table.intake = Some(intake);
        table.watcher = Some(watcher);
        Ok(())
    }
}

/// Reads what has arrived and calls everyone who asked.
fn deliver(handle: &Handle) {
    {
        let mut table = handle.core().signals.borrow_mut();
        let SignalTable { intake, entries, due, .. } = &mut *table;
        let Some(intake) = intake else { return };
        for (signal, count) in intake.read() {
            let watching = entries.iter().filter(|(_, entry)| entry.signal == signal);
            due.extend(watching.map(|(key, entry)| DueCall { key, serial: entry.serial, signal, count }));
        }
    }
    make_due_calls(handle);
}

fn make_due_calls(handle: &Handle) {
    let _rest = SignalRestGuard(handle);
    loop {
        let next = handle.core().signals.borrow_mut().due.pop_front();
        let Some(DueCall { key, serial, signal, count }) = next else { return };
        call(handle, key, serial, &SignalEvent { handle, signal, count });
    }
}

/// Leaves what a panic has kept from being called for the next turn: the signals have been read and
/// will not come again.
struct SignalRestGuard<'a>(&'a Handle);

impl Drop for SignalRestGuard<'_> {
    fn drop(&mut self) {
        if !self.0.core().signals.borrow().due.is_empty() {
            let _ = self.0.defer(make_due_calls);
        }
    }
}

fn call(handle: &Handle, key: usize, serial: u64, event: &SignalEvent<'_>) {
    let callback = {
        let mut table = handle.core().signals.borrow_mut();
        table
            .entries
            .get_mut(key)
            .filter(|entry| entry.serial == serial)
            .and_then(|entry| entry.callback.take())
    };
    let mut guard = SignalCallGuard { handle, key, serial, callback };
    if let Some(callback) = &mut guard.callback {
        callback(event);
    }
}

/// Puts a callback back after its call, even if the call panicked.
struct SignalCallGuard<'a> {
    handle: &'a Handle,
    key: usize,
    serial: u64,
    callback: Option<SignalCallback>,
}

impl Drop for SignalCallGuard<'_> {
    fn drop(&mut self) {
        let callback = self.callback.take();
        let ended = {
            let mut table = self.handle.core().signals.borrow_mut();
            match table.entries.get_mut(self.key).filter(|entry| entry.serial == self.serial) {
                Some(entry) => {
                    entry.callback = callback;
                    None
                }
                None => callback,
            }
        };
        drop(ended);
    }
}

fn let_go(core: &Core, signal: Signal) {
    if let Some(intake) = &mut core.signals.borrow_mut().intake {
        intake.let_go(signal);
    }
}

/// What a forked child needs to part from its parent, if any signal was asked for.
pub(crate) fn prepare_for_child(core: &Core) -> Result<Option<WakeFd>> {
    let needed = core.signals.borrow().intake.is_some();
    needed.then(|| WakeFd::new(core.backend)).transpose()
}

/// Replaces what the parent process goes on using.
pub(crate) fn after_fork(core: &Core, fresh: Option<WakeFd>) -> Result<()> {
    match (&core.signals.borrow().intake, fresh) {
        (Some(intake), Some(fresh)) => intake.after_fork(fresh),
        _ => Ok(()),
    }
}

/// Lets go of every signal when the loop ends.
pub(crate) fn close(core: &Core) {
    let mut table = std::mem::take(&mut *core.signals.borrow_mut());
    // Ahead of the callbacks, whose drop may run anything.
    drop(table.intake.take());
    if let Some(watcher) = table.watcher {
        core.unwatch(watcher);
    }
    drop(table);
}
