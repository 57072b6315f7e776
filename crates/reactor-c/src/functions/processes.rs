//! Signals and child processes.

use crate::arguments;
use crate::boundary::enter;
use crate::registry::find;
use crate::types::{ChildCallback, Name, SignalCallback, store};
use reactor::Signal;
use std::ffi::{c_int, c_uint, c_void};
use std::os::unix::process::ExitStatusExt;
use std::rc::Rc;

/// The status of a child that somebody else has reaped.
const STATUS_UNKNOWN: c_int = -1;

/// Calls back on a signal.
///
/// # Safety
/// The callback may be called with `data` on this thread until it is unwatched. `out` is null or
/// valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_on_signal(
    reactor: Name,
    signal_number: c_int,
    callback: Option<SignalCallback>,
    data: *mut c_void,
    out: *mut u64,
) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        let callback = arguments::callback(callback)?;
        let watcher = event_loop.handle.on_signal(Signal::from_raw(signal_number), move |event| {
            let (number, count): (c_int, c_uint) = (event.signal().as_raw(), event.count());
            // SAFETY: by this function's contract.
            unsafe { callback(reactor, number, count, data) };
        })?;
        let number = event_loop.signals.reserve();
        event_loop.signals.enter(number, watcher);
        // SAFETY: by this function's contract.
        unsafe { store(out, number) };
        Ok(0)
    })
}

/// Ends a signal callback.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_unwatch_signal(reactor: Name, signal: u64) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        let ended = event_loop.signals.take(signal);
        Ok(c_int::from(ended.is_some_and(|watcher| event_loop.handle.unwatch_signal(watcher))))
    })
}

/// Calls back when a child ends.
///
/// # Safety
/// The callback may be called once with `data` on this thread, until it is unwatched. `out` is null
/// or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_on_child_exit(
    reactor: Name,
    pid: c_int,
    callback: Option<ChildCallback>,
    data: *mut c_void,
    out: *mut u64,
) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        let callback = arguments::callback(callback)?;
        let checked_pid = arguments::pid(pid)?;
        let (number, owner) = (event_loop.children.reserve(), Rc::downgrade(&event_loop));
        let watcher = event_loop.handle.on_child_exit(checked_pid, move |_, status| {
            if let Some(event_loop) = owner.upgrade() {
                event_loop.children.take(number);
            }
            let status = status.map_or(STATUS_UNKNOWN, |status| status.into_raw());
            // SAFETY: by this function's contract.
            unsafe { callback(reactor, pid, status, data) };
        })?;
        event_loop.children.enter(number, watcher);
        // SAFETY: by this function's contract.
        unsafe { store(out, number) };
        Ok(0)
    })
}

/// Ends a child callback.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_unwatch_child(reactor: Name, child: u64) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        let ended = event_loop.children.take(child);
        Ok(c_int::from(ended.is_some_and(|watcher| event_loop.handle.unwatch_child(watcher))))
    })
}
