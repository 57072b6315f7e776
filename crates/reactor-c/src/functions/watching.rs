//! Watching descriptors.

use crate::arguments;
use crate::boundary::{count, enter, enter_or};
use crate::registry::find;
use crate::types::{FdCallback, Name, store};
use reactor::Watcher;
use std::ffi::{c_int, c_uint, c_void};

/// A callback of C's as the loop wants it.
fn adapt(name: Name, fd: c_int, callback: FdCallback) -> impl FnMut(&mut *mut c_void, &reactor::Event<'_>) {
    move |data, event| {
        let (watcher, readiness) = (event.watcher().to_bits(), c_uint::from(event.readiness().bits()));
        // SAFETY: whoever watched has promised that the callback may be called with its data while
        // the watch lasts.
        unsafe { callback(name, watcher, fd, readiness, *data) };
    }
}

/// Watches with one callback.
///
/// # Safety
/// The callback may be called with `data` on this thread until the watch ends. `out` is null or
/// valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_watch(
    reactor: Name,
    fd: c_int,
    interest: c_uint,
    mode: c_int,
    callback: Option<FdCallback>,
    data: *mut c_void,
    out: *mut u64,
) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        let callback = arguments::callback(callback)?;
        let (interest, mode) = (arguments::interest(interest)?, arguments::mode(mode)?);
        let watch = event_loop.handle.watch_raw(fd, data).mode(mode);
        let watcher = watch.start_with(interest, adapt(reactor, fd, callback))?;
        // SAFETY: by this function's contract.
        unsafe { store(out, watcher.to_bits()) };
        Ok(0)
    })
}

/// Watches with separate callbacks.
///
/// # Safety
/// As [`ms_reactor_watch`], for each callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_watch_separate(
    reactor: Name,
    fd: c_int,
    mode: c_int,
    on_read: Option<FdCallback>,
    on_write: Option<FdCallback>,
    on_error: Option<FdCallback>,
    data: *mut c_void,
    out: *mut u64,
) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        let adapted = |callback: Option<FdCallback>| callback.map(|callback| adapt(reactor, fd, callback));
        let watch = event_loop.handle.watch_raw(fd, data).mode(arguments::mode(mode)?);
        let watch = watch.on(adapted(on_read), adapted(on_write), adapted(on_error));
        let watcher = watch.start()?;
        // SAFETY: by this function's contract.
        unsafe { store(out, watcher.to_bits()) };
        Ok(0)
    })
}

/// Changes the interest of a watcher.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_modify(reactor: Name, watcher: u64, interest: c_uint) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        event_loop.handle.modify(Watcher::from_bits(watcher), arguments::interest(interest)?)?;
        Ok(0)
    })
}

/// Arms a oneshot watcher again.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_rearm(reactor: Name, watcher: u64) -> c_int {
    enter(|| {
        find(reactor)?.handle.rearm(Watcher::from_bits(watcher))?;
        Ok(0)
    })
}

/// Ends a watch.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_unwatch(reactor: Name, watcher: u64) -> c_int {
    enter(|| Ok(c_int::from(find(reactor)?.handle.unwatch(Watcher::from_bits(watcher)))))
}

/// The watcher of a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_watcher_of(reactor: Name, fd: c_int) -> u64 {
    enter_or(0, || Ok(find(reactor)?.handle.watcher_of(fd).map_or(0, Watcher::to_bits)))
}

/// Whether a watch is still there.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_is_watching(reactor: Name, watcher: u64) -> c_int {
    enter(|| Ok(c_int::from(find(reactor)?.handle.is_watching(Watcher::from_bits(watcher)))))
}

/// How many descriptors are watched.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_watcher_count(reactor: Name) -> c_int {
    enter(|| Ok(count(find(reactor)?.handle.watcher_count())))
}
