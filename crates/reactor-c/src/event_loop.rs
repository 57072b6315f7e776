//! A loop as this library keeps it.

use crate::error::{Error, Result};
use crate::functions::original::Originals;
use crate::registry::{self, Key, Shared};
use crate::types::Name;
use reactor::{Backend, Builder, ChildWatcher, Handle, Reactor, SignalWatcher, StallWatch, VirtualClock};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A loop with what C needs around it.
pub struct EventLoop {
    key: Key,
    /// Borrowed for as long as a poll or run is on the stack.
    reactor: RefCell<Reactor>,
    /// For everything that is not polling.
    pub handle: Handle,
    /// The clock, if it is virtual.
    pub clock: Option<VirtualClock>,
    /// Signal callbacks by the numbers that C knows.
    pub signals: Numbered<SignalWatcher>,
    /// Child callbacks by the numbers that C knows.
    pub children: Numbered<ChildWatcher>,
    /// The wake-ups that end with this loop.
    wakeups: RefCell<Vec<Key>>,
    /// The watch over stalls, if there is one.
    pub stalls: RefCell<Option<StallWatch>>,
    /// What only the original names need.
    pub originals: RefCell<Originals>,
    running: Arc<AtomicBool>,
    ended: Cell<bool>,
}

impl EventLoop {
    /// Makes a loop of this thread and returns its name.
    ///
    /// # Errors
    /// Whatever the system refuses.
    pub fn create(backend: Backend, clock: Option<VirtualClock>) -> Result<Name> {
        let mut builder = Builder::new().backend(backend);
        if let Some(clock) = &clock {
            builder = builder.virtual_clock(clock);
        }
        let reactor = builder.build()?;
        let running = Arc::new(AtomicBool::new(false));
        let key = registry::announce(Shared { remote: reactor.remote(), running: running.clone() })?;
        let event_loop = EventLoop {
            key,
            handle: reactor.handle(),
            reactor: RefCell::new(reactor),
            clock,
            signals: Numbered::default(),
            children: Numbered::default(),
            wakeups: RefCell::default(),
            stalls: RefCell::default(),
            originals: RefCell::default(),
            running,
            ended: Cell::new(false),
        };
        registry::adopt(key, Rc::new(event_loop))?;
        Ok(key.to_name())
    }

    /// What C calls it.
    pub fn name(&self) -> Name {
        self.key.to_name()
    }

    /// Polls or runs the loop, unless that is being done already.
    ///
    /// # Errors
    /// [`Error::Reentrant`], or whatever the loop reports.
    pub fn drive<T>(&self, drive: impl FnOnce(&mut Reactor) -> reactor::Result<T>) -> Result<T> {
        let mut reactor = self.reactor.try_borrow_mut().map_err(|_| Error::Reentrant)?;
        Ok(drive(&mut reactor)?)
    }

    /// The same, known to all as running.
    ///
    /// # Errors
    /// As [`drive`](EventLoop::drive).
    pub fn run(&self, run: impl FnOnce(&mut Reactor) -> reactor::Result<()>) -> Result<()> {
        self.drive(|reactor| {
            let _running = RunningGuard::new(&self.running);
            run(reactor)
        })
    }

    /// Notes a wake-up that must end with this loop.
    pub fn remember_wakeup(&self, key: Key) {
        let mut wakeups = self.wakeups.borrow_mut();
        // Other threads may have ended some: forget those before taking more room.
        if wakeups.len() == wakeups.capacity() {
            wakeups.retain(|key| registry::find_wakeup(*key).is_some());
        }
        wakeups.push(key);
    }

    /// Ends everything on the loop and its name with it. The loop itself goes with the last
    /// reference, which a poll that is on the stack holds.
    pub fn end(&self) {
        if self.ended.replace(true) {
            return;
        }
        for wakeup in self.wakeups.take() {
            if let Some(shared) = registry::retract_wakeup(wakeup) {
                shared.ended.store(true, Ordering::Release);
            }
        }
        drop(self.stalls.take());
        self.handle.close();
        registry::retract(self.key);
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        self.end();
    }
}

/// Marks a loop as running for as long as it lives.
struct RunningGuard<'a>(&'a AtomicBool);

impl RunningGuard<'_> {
    fn new(running: &AtomicBool) -> RunningGuard<'_> {
        running.store(true, Ordering::Release);
        RunningGuard(running)
    }
}

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Names of the loop's by numbers that grow and are never reused.
pub struct Numbered<T> {
    next: Cell<u64>,
    names: RefCell<BTreeMap<u64, T>>,
}

impl<T> Numbered<T> {
    /// The number that the next name will have.
    pub fn reserve(&self) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        number
    }

    /// Enters a name under its number.
    pub fn enter(&self, number: u64, name: T) {
        self.names.borrow_mut().insert(number, name);
    }

    /// Takes a name out.
    pub fn take(&self, number: u64) -> Option<T> {
        self.names.borrow_mut().remove(&number)
    }
}

impl<T> Default for Numbered<T> {
    fn default() -> Numbered<T> {
        Numbered { next: Cell::new(1), names: RefCell::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::SharedWakeup;

    #[test]
    fn wake_ups_that_have_ended_are_forgotten() {
        let name = EventLoop::create(Backend::best(), None).expect("a loop");
        let event_loop = registry::find(name).expect("the loop");
        for _ in 0..1000 {
            let wakeup = event_loop.handle.wakeup(|_| ()).expect("a wake-up");
            let shared = SharedWakeup { wakeup, ended: Arc::default() };
            let key = registry::announce_wakeup(shared).expect("a name");
            event_loop.remember_wakeup(key);
            registry::retract_wakeup(key);
        }
        assert!(event_loop.wakeups.borrow().capacity() < 100);
        event_loop.end();
    }

    #[test]
    fn numbers_are_not_reused() {
        let names = Numbered::default();
        let (first, second) = (names.reserve(), names.reserve());
        names.enter(first, "first");
        assert_eq!((names.take(first), names.take(first), names.take(second)), (Some("first"), None, None));
        assert!(names.reserve() > second);
    }
}
