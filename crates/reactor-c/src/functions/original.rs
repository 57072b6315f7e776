//! The names of the library that the callback API comes from, with its types and limits.
//!
//! There, `i32` is an unsigned 32-bit integer, `b32` and `integer` are `int`, and failure is
//! `FALSUM` (0) or the highest `i32`. Programs compiled against that library's header link against
//! this one unchanged; what they gain, and the few things that differ, are in
//! `docs/contracts/reactor-c.md`. `include/reactor.h` declares the same names in plain C.
//!
//! A reactor made here is the same as any other: the `ms_reactor_*` names may be used on it as
//! well.

use crate::arguments;
use crate::boundary::enter_or;
use crate::error::{Error, Result};
use crate::event_loop::EventLoop;
use crate::registry::{find, find_shared};
use crate::types::Name;
use reactor::{Backend, Instant, Interest, Reactor, Readiness, Timer, Watcher};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::io::Write;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Most descriptors that may be registered at the same time.
pub const REACTOR_FD_MAXIMA: usize = 1000;
/// Most timers that may be active at the same time.
pub const REACTOR_TIMER_MAXIMA: usize = 128;
/// No timer has this id.
pub const REACTOR_TIMER_ERROR: u32 = u32::MAX;

const LEGERE: u32 = 1;
const SCRIBERE: u32 = 2;
const ERROR: u32 = 4;
const CLAUSUM: u32 = 8;

const FALSUM: c_int = 0;
const VERUM: c_int = 1;

/// `ReactorCallback`.
pub type Callback = unsafe extern "C-unwind" fn(c_int, u32, *mut c_void);
/// `ReactorTimerCallback`.
pub type OriginalTimerCallback = unsafe extern "C-unwind" fn(*mut c_void);

/// Whom a registered descriptor's events go to. Registering it again changes this in place, so that
/// an event that was fetched already is not lost.
#[derive(Clone, Copy)]
struct Target {
    callback: Callback,
    data: *mut c_void,
}

struct Registration {
    watcher: Watcher,
    target: Rc<Cell<Target>>,
}

/// What only these names need to know of a loop.
#[derive(Default)]
pub struct Originals {
    registrations: BTreeMap<c_int, Registration>,
    timers: BTreeMap<u32, Timer>,
    next_timer: u32,
}

impl Originals {
    /// The next id that no active timer has.
    fn next_timer_id(&mut self) -> u32 {
        loop {
            let id = self.next_timer;
            self.next_timer = if id + 1 == REACTOR_TIMER_ERROR { 0 } else { id + 1 };
            if !self.timers.contains_key(&id) {
                return id;
            }
        }
    }
}

fn interest_from(eventus: u32) -> Result<Interest> {
    arguments::known_bits(eventus, LEGERE | SCRIBERE | ERROR | CLAUSUM, "eventus")?;
    let mut interest = Interest::empty();
    interest.set(Interest::READ, eventus & LEGERE != 0);
    interest.set(Interest::WRITE, eventus & SCRIBERE != 0);
    interest.set(Interest::ERROR, eventus & (ERROR | CLAUSUM) != 0);
    Ok(interest)
}

fn eventus_from(readiness: Readiness) -> u32 {
    let bit = |flags: Readiness, bit: u32| if readiness.intersects(flags) { bit } else { 0 };
    // A peer that will send no more leaves an end to read.
    bit(Readiness::READ | Readiness::READ_CLOSED, LEGERE)
        | bit(Readiness::WRITE, SCRIBERE)
        | bit(Readiness::ERROR, ERROR)
        | bit(Readiness::HANGUP, CLAUSUM)
}

/// Makes a loop of this thread. The arena must not be null; nothing is taken from it.
#[unsafe(no_mangle)]
pub extern "C" fn reactor_creare(piscina: *mut c_void) -> Name {
    enter_or(std::ptr::null_mut(), || {
        arguments::not_null(piscina, "piscina")?;
        EventLoop::create(Backend::best(), None)
    })
}

/// Ends a loop and frees what it used. Null is fine.
#[unsafe(no_mangle)]
pub extern "C" fn reactor_destruere(reactor: Name) {
    enter_or((), || {
        if !reactor.is_null() {
            find(reactor)?.end();
        }
        Ok(())
    });
}

/// Registers a descriptor, or changes its registration.
///
/// # Safety
/// The callback may be called with `data` on this thread while the descriptor is registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reactor_adicere(
    reactor: Name,
    fd: c_int,
    eventus: u32,
    callback: Option<Callback>,
    data: *mut c_void,
) -> c_int {
    enter_or(FALSUM, || {
        let event_loop = find(reactor)?;
        let callback = arguments::callback(callback)?;
        register(&event_loop, fd, interest_from(eventus)?, Target { callback, data })
    })
}

fn register(event_loop: &EventLoop, fd: c_int, interest: Interest, target: Target) -> Result<c_int> {
    let handle = &event_loop.handle;
    let current = handle.watcher_of(fd);
    let mut originals = event_loop.originals.borrow_mut();
    let known = originals.registrations.get(&fd).filter(|known| Some(known.watcher) == current);
    if let Some(known) = known {
        handle.modify(known.watcher, interest)?;
        known.target.set(target);
        return Ok(VERUM);
    }
    if current.is_none() && handle.watcher_count() >= REACTOR_FD_MAXIMA {
        return Err(Error::LimitReached { limit: REACTOR_FD_MAXIMA, what: "descriptors" });
    }
    let target = Rc::new(Cell::new(target));
    let watcher = handle.watch_raw(fd, target.clone()).start_with(interest, move |target, event| {
        let Target { callback, data } = target.get();
        // SAFETY: whoever registered has promised that the callback may be called with its data
        // meanwhile.
        unsafe { callback(fd, eventus_from(event.readiness()), data) };
    })?;
    originals.registrations.insert(fd, Registration { watcher, target });
    Ok(VERUM)
}

/// Changes what a registered descriptor is monitored for.
#[unsafe(no_mangle)]
pub extern "C" fn reactor_modificare(reactor: Name, fd: c_int, eventus: u32) -> c_int {
    enter_or(FALSUM, || {
        let event_loop = find(reactor)?;
        let watcher = event_loop.handle.watcher_of(fd).ok_or(Error::GONE)?;
        event_loop.handle.modify(watcher, interest_from(eventus)?)?;
        Ok(VERUM)
    })
}

/// Ends a registration.
#[unsafe(no_mangle)]
pub extern "C" fn reactor_removere(reactor: Name, fd: c_int) -> c_int {
    enter_or(FALSUM, || {
        let event_loop = find(reactor)?;
        let watcher = event_loop.handle.watcher_of(fd).ok_or(Error::GONE)?;
        event_loop.handle.unwatch(watcher);
        event_loop.originals.borrow_mut().registrations.remove(&fd);
        Ok(VERUM)
    })
}

/// Sets a timer.
///
/// # Safety
/// The callback may be called with `data` on this thread while the timer is active.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reactor_timer_adicere(
    reactor: Name,
    timeout_ms: u32,
    repetere: c_int,
    callback: Option<OriginalTimerCallback>,
    data: *mut c_void,
) -> u32 {
    enter_or(REACTOR_TIMER_ERROR, || {
        let event_loop = find(reactor)?;
        let callback = arguments::callback(callback)?;
        if event_loop.handle.timer_count() >= REACTOR_TIMER_MAXIMA {
            return Err(Error::LimitReached { limit: REACTOR_TIMER_MAXIMA, what: "timers" });
        }
        // SAFETY: by this function's contract.
        let call = move || unsafe { callback(data) };
        let timeout = Duration::from_millis(timeout_ms.into());
        let deadline = event_loop.handle.now().checked_add(timeout);
        let deadline = deadline.ok_or(reactor::Error::DeadlineOutOfRange)?;
        if repetere != FALSUM {
            set_repeating(&event_loop, deadline, timeout, call)
        } else {
            set_once(&event_loop, deadline, call)
        }
    })
}

fn set_once(event_loop: &Rc<EventLoop>, deadline: Instant, call: impl FnOnce() + 'static) -> Result<u32> {
    let id = event_loop.originals.borrow_mut().next_timer_id();
    let owner = Rc::downgrade(event_loop);
    let timer = event_loop.handle.at(deadline, move |_| {
        if let Some(event_loop) = owner.upgrade() {
            event_loop.originals.borrow_mut().timers.remove(&id);
        }
        call();
    })?;
    event_loop.originals.borrow_mut().timers.insert(id, timer);
    Ok(id)
}

fn set_repeating(
    event_loop: &EventLoop,
    first: Instant,
    interval: Duration,
    mut call: impl FnMut() + 'static,
) -> Result<u32> {
    // An interval of nothing means once per poll: the shortest interval there is has become due by
    // the next one.
    let interval = interval.max(Duration::from_nanos(1));
    let timer = event_loop.handle.every_from(first, interval, move |_| call())?;
    let mut originals = event_loop.originals.borrow_mut();
    let id = originals.next_timer_id();
    originals.timers.insert(id, timer);
    Ok(id)
}

/// Cancels a timer.
#[unsafe(no_mangle)]
pub extern "C" fn reactor_timer_cancellare(reactor: Name, id: u32) -> c_int {
    enter_or(FALSUM, || {
        let event_loop = find(reactor)?;
        let timer = event_loop.originals.borrow_mut().timers.remove(&id).ok_or(Error::GONE)?;
        Ok(c_int::from(event_loop.handle.cancel(timer)))
    })
}

/// Makes one turn. Returns how many events were processed: descriptors and timers.
#[unsafe(no_mangle)]
pub extern "C" fn reactor_poll(reactor: Name, timeout_ms: u32) -> u32 {
    enter_or(0, || {
        // In a signed integer, which is how poll(2) takes it, these are negative.
        let timeout = (timeout_ms <= i32::MAX as u32).then(|| Duration::from_millis(timeout_ms.into()));
        let processed = find(reactor)?.drive(|reactor| reactor.poll(timeout))?;
        Ok(u32::try_from(processed).unwrap_or(u32::MAX))
    })
}

/// Runs until stopped. It has no result, so what ends it otherwise is said on standard error as
/// well.
#[unsafe(no_mangle)]
pub extern "C" fn reactor_currere(reactor: Name) {
    enter_or((), || {
        let run = find(reactor)?.run(Reactor::run);
        if let Err(error @ Error::Reactor(_)) = &run {
            // A closed standard error is no reason to fail.
            let _ = writeln!(std::io::stderr(), "reactor_currere: {error}");
        }
        run
    });
}

/// Stops a run, from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn reactor_sistere(reactor: Name) {
    enter_or((), || {
        find_shared(reactor)?.remote.stop();
        Ok(())
    });
}

/// Whether a run is in progress, from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn reactor_est_currens(reactor: Name) -> c_int {
    enter_or(FALSUM, || Ok(c_int::from(find_shared(reactor)?.running.load(Ordering::Acquire))))
}

/// How many descriptors are registered.
#[unsafe(no_mangle)]
pub extern "C" fn reactor_numerus_fd(reactor: Name) -> u32 {
    enter_or(0, || Ok(find(reactor)?.handle.watcher_count() as u32))
}

/// How many timers are active.
#[unsafe(no_mangle)]
pub extern "C" fn reactor_numerus_timer(reactor: Name) -> u32 {
    enter_or(0, || Ok(find(reactor)?.handle.timer_count() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_ids_skip_the_error_value_and_those_in_use_when_they_wrap() {
        let mut originals = Originals { next_timer: REACTOR_TIMER_ERROR - 1, ..Originals::default() };
        originals.timers.insert(0, Timer::from_bits(1 << 32));
        assert_eq!(originals.next_timer_id(), REACTOR_TIMER_ERROR - 1);
        assert_eq!(originals.next_timer_id(), 1);
        assert_eq!(originals.next_timer_id(), 2);
    }

    unsafe extern "C-unwind" fn ignore(_: *mut c_void) {}

    #[test]
    fn a_fired_timer_leaves_nothing_behind() {
        let arena = std::ptr::without_provenance_mut(1);
        let reactor = reactor_creare(arena);
        for _ in 0..1000 {
            // SAFETY: the callback ignores its data.
            unsafe { reactor_timer_adicere(reactor, 0, FALSUM, Some(ignore), std::ptr::null_mut()) };
            assert_eq!(reactor_poll(reactor, 0), 1);
        }
        let event_loop = find(reactor).expect("the loop");
        assert!(event_loop.originals.borrow().timers.is_empty());
        reactor_destruere(reactor);
    }
}
