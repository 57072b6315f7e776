//! Timers.

use crate::arguments;
use crate::boundary::{count, enter};
use crate::error::{Error, Result};
use crate::event_loop::EventLoop;
use crate::registry::find;
use crate::types::{Name, TimerCallback, store};
use reactor::{Handle, Instant, Timer};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// A one-shot callback as the loop wants it. It is told its own name, which exists only once it is
/// set.
fn once(name: Name, callback: TimerCallback, data: *mut c_void, own: Rc<Cell<u64>>) -> impl FnOnce(&Handle) {
    move |_| {
        // SAFETY: whoever set the timer has promised that the callback may be called with its data.
        unsafe { callback(name, own.get(), 0, data) };
    }
}

/// Sets a one-shot timer and stores its name.
///
/// # Safety
/// The callback may be called with `data` on this thread until the timer has fired or is cancelled.
/// `out` is null or valid for writing.
unsafe fn set_once(
    event_loop: &EventLoop,
    deadline: impl FnOnce(&Handle) -> Result<Instant>,
    callback: Option<TimerCallback>,
    data: *mut c_void,
    out: *mut u64,
) -> Result<c_int> {
    let callback = arguments::callback(callback)?;
    let own = Rc::new(Cell::new(0));
    let deadline = deadline(&event_loop.handle)?;
    let timer = event_loop.handle.at(deadline, once(event_loop.name(), callback, data, own.clone()))?;
    own.set(timer.to_bits());
    // SAFETY: by this function's contract.
    unsafe { store(out, timer.to_bits()) };
    Ok(0)
}

/// Sets a repeating timer and stores its name.
///
/// # Safety
/// As [`set_once`], until it is cancelled.
unsafe fn set_repeating(
    event_loop: &EventLoop,
    first: impl FnOnce(&Handle) -> Result<Instant>,
    interval_ns: i64,
    callback: Option<TimerCallback>,
    data: *mut c_void,
    out: *mut u64,
) -> Result<c_int> {
    let callback = arguments::callback(callback)?;
    let interval = arguments::duration(interval_ns, "interval")?;
    let (name, first) = (event_loop.name(), first(&event_loop.handle)?);
    let timer = event_loop.handle.every_from(first, interval, move |tick| {
        // SAFETY: whoever set the timer has promised that the callback may be called with its data.
        unsafe { callback(name, tick.timer().to_bits(), tick.missed(), data) };
    })?;
    // SAFETY: by this function's contract.
    unsafe { store(out, timer.to_bits()) };
    Ok(0)
}

fn after(delay_ns: i64, what: &'static str) -> impl FnOnce(&Handle) -> Result<Instant> {
    move |handle| {
        let delay = arguments::duration(delay_ns, what)?;
        Ok(handle.now().checked_add(delay).ok_or(reactor::Error::DeadlineOutOfRange)?)
    }
}

/// The time on the loop's clock.
///
/// # Safety
/// `out_ns` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_now(reactor: Name, out_ns: *mut i64) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        arguments::out_pointer(out_ns)?;
        // SAFETY: by this function's contract.
        unsafe { store(out_ns, event_loop.handle.now().as_nanos()) };
        Ok(0)
    })
}

/// Calls once, at an instant.
///
/// # Safety
/// The callback may be called with `data` on this thread until the timer has fired or is cancelled.
/// `out` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_at(
    reactor: Name,
    deadline_ns: i64,
    callback: Option<TimerCallback>,
    data: *mut c_void,
    out: *mut u64,
) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        // SAFETY: by this function's contract.
        unsafe { set_once(&event_loop, |_| Ok(Instant::from_nanos(deadline_ns)), callback, data, out) }
    })
}

/// Calls once, after a delay.
///
/// # Safety
/// As [`ms_reactor_at`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_after(
    reactor: Name,
    delay_ns: i64,
    callback: Option<TimerCallback>,
    data: *mut c_void,
    out: *mut u64,
) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        // SAFETY: by this function's contract.
        unsafe { set_once(&event_loop, after(delay_ns, "delay"), callback, data, out) }
    })
}

/// Calls again and again.
///
/// # Safety
/// The callback may be called with `data` on this thread until the timer is cancelled. `out` is
/// null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_every(
    reactor: Name,
    interval_ns: i64,
    callback: Option<TimerCallback>,
    data: *mut c_void,
    out: *mut u64,
) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        let first = after(interval_ns, "interval");
        // SAFETY: by this function's contract.
        unsafe { set_repeating(&event_loop, first, interval_ns, callback, data, out) }
    })
}

/// Calls again and again from an instant on.
///
/// # Safety
/// As [`ms_reactor_every`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_every_from(
    reactor: Name,
    first_deadline_ns: i64,
    interval_ns: i64,
    callback: Option<TimerCallback>,
    data: *mut c_void,
    out: *mut u64,
) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        let first = |_: &Handle| Ok(Instant::from_nanos(first_deadline_ns));
        // SAFETY: by this function's contract.
        unsafe { set_repeating(&event_loop, first, interval_ns, callback, data, out) }
    })
}

/// Cancels a timer.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_cancel(reactor: Name, timer: u64) -> c_int {
    enter(|| Ok(c_int::from(find(reactor)?.handle.cancel(Timer::from_bits(timer)))))
}

/// Moves a timer to an instant.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_reschedule_at(reactor: Name, timer: u64, deadline_ns: i64) -> c_int {
    enter(|| {
        let (event_loop, deadline) = (find(reactor)?, Instant::from_nanos(deadline_ns));
        arguments::was_there(event_loop.handle.reschedule_at(Timer::from_bits(timer), deadline))
    })
}

/// Moves a timer to a delay from now.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_reschedule_after(reactor: Name, timer: u64, delay_ns: i64) -> c_int {
    enter(|| {
        let (event_loop, delay) = (find(reactor)?, arguments::duration(delay_ns, "delay")?);
        arguments::was_there(event_loop.handle.reschedule_after(Timer::from_bits(timer), delay)?)
    })
}

/// Whether a timer has yet to fire.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_has_timer(reactor: Name, timer: u64) -> c_int {
    enter(|| Ok(c_int::from(find(reactor)?.handle.has_timer(Timer::from_bits(timer)))))
}

/// How many timers there are.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_timer_count(reactor: Name) -> c_int {
    enter(|| Ok(count(find(reactor)?.handle.timer_count())))
}

/// The earliest deadline.
///
/// # Safety
/// `out_ns` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_next_deadline(reactor: Name, out_ns: *mut i64) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        arguments::out_pointer(out_ns)?;
        let Some(deadline) = event_loop.handle.next_deadline() else { return Ok(0) };
        // SAFETY: by this function's contract.
        unsafe { store(out_ns, deadline.as_nanos()) };
        Ok(1)
    })
}

/// Moves a virtual clock.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_advance(reactor: Name, by_ns: i64) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        let clock = event_loop.clock.as_ref().ok_or(Error::RealClock)?;
        clock.advance(arguments::duration(by_ns, "step")?);
        Ok(0)
    })
}
