//! Calls on a later turn, and from other threads.

use crate::arguments;
use crate::boundary::enter;
use crate::error::Error;
use crate::registry::{self, Key, SharedWakeup, find, find_shared, find_wakeup};
use crate::types::{CallCallback, Name, Traveller, store};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name of a loop on its way to the loop's own thread.
struct TravellingName(Name);

// SAFETY: a name is a number in the form of a pointer and is never dereferenced.
unsafe impl Send for TravellingName {}

/// Calls back on a later turn.
///
/// # Safety
/// The callback may be called once with `data` on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_defer(
    reactor: Name,
    callback: Option<CallCallback>,
    data: *mut c_void,
) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        let callback = arguments::callback(callback)?;
        // SAFETY: by this function's contract.
        event_loop.handle.defer(move |_| unsafe { callback(reactor, data) })?;
        Ok(0)
    })
}

/// Has a loop make a call, from any thread.
///
/// # Safety
/// The callback may be called once with `data` on the loop's thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_call(
    reactor: Name,
    callback: Option<CallCallback>,
    data: *mut c_void,
) -> c_int {
    enter(|| {
        let shared = find_shared(reactor)?;
        let callback = arguments::callback(callback)?;
        let (name, call) = (TravellingName(reactor), Traveller { callback, data });
        shared.remote.call(move |_| {
            // Whole values travel, not their fields.
            let (TravellingName(name), Traveller { callback, data }) = ({ name }, { call });
            // SAFETY: by this function's contract.
            unsafe { callback(name, data) };
        })?;
        Ok(0)
    })
}

/// Makes a waiting loop take a turn, from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_wake(reactor: Name) -> c_int {
    enter(|| {
        find_shared(reactor)?.remote.wake();
        Ok(0)
    })
}

/// Makes a callback that any thread can have called.
///
/// # Safety
/// The callback may be called with `data` on this thread until the wake-up or its loop ends. `out`
/// is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_wakeup_create(
    reactor: Name,
    callback: Option<CallCallback>,
    data: *mut c_void,
    out: *mut u64,
) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        let callback = arguments::callback(callback)?;
        arguments::out_pointer(out)?;
        let ended = Arc::new(AtomicBool::new(false));
        let silent = ended.clone();
        let wakeup = event_loop.handle.wakeup(move |_| {
            if !silent.load(Ordering::Acquire) {
                // SAFETY: by this function's contract, and it has not ended.
                unsafe { callback(reactor, data) };
            }
        })?;
        let key = registry::announce_wakeup(SharedWakeup { wakeup, ended })?;
        event_loop.remember_wakeup(key);
        // SAFETY: by this function's contract.
        unsafe { store(out, key.to_bits()) };
        Ok(0)
    })
}

/// Signals a wake-up, from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_wakeup_signal(wakeup: u64) -> c_int {
    enter(|| {
        let shared = Key::from_bits(wakeup).and_then(find_wakeup).ok_or(Error::GONE)?;
        shared.wakeup.signal();
        Ok(0)
    })
}

/// Ends a wake-up, from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_wakeup_destroy(wakeup: u64) -> c_int {
    enter(|| {
        let Some(shared) = Key::from_bits(wakeup).and_then(registry::retract_wakeup) else { return Ok(0) };
        shared.ended.store(true, Ordering::Release);
        Ok(1)
    })
}
