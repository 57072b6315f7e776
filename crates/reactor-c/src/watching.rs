//! Watching descriptors.

use crate::boundary::{count, enter, enter_or};
use crate::error::{Error, Result};
use crate::registry::find;
use crate::types::{FdCallback, Name, store};
use reactor::{Interest, Mode, Readiness, Watcher};
use std::ffi::{c_int, c_uint, c_void};

// The bits of `Readiness` are C's as well: nothing stands between the kernel and a callback.
const READ: c_uint = Readiness::READ.bits() as c_uint;
const WRITE: c_uint = Readiness::WRITE.bits() as c_uint;
const PRIORITY: c_uint = Readiness::PRIORITY.bits() as c_uint;
const ERROR: c_uint = Readiness::ERROR.bits() as c_uint;

/// The interest that C's bits ask for.
fn interest_from(bits: c_uint) -> Result<Interest> {
    let unknown = bits & !(READ | WRITE | PRIORITY | ERROR);
    if unknown != 0 {
        return Err(Error::UnknownBits { what: "interest", bits: unknown });
    }
    let mut interest = Interest::empty();
    interest.set(Interest::READ, bits & READ != 0);
    interest.set(Interest::WRITE, bits & WRITE != 0);
    interest.set(Interest::PRIORITY, bits & PRIORITY != 0);
    interest.set(Interest::ERROR, bits & ERROR != 0);
    Ok(interest)
}

fn mode_from(value: c_int) -> Result<Mode> {
    match value {
        0 => Ok(Mode::Level),
        1 => Ok(Mode::Edge),
        2 => Ok(Mode::Oneshot),
        3 => Ok(Mode::EdgeOneshot),
        value => Err(Error::UnknownValue { what: "mode", value }),
    }
}

/// A callback of C's as the loop wants it.
fn adapt(name: Name, fd: c_int, callback: FdCallback) -> impl FnMut(&mut *mut c_void, &reactor::Event<'_>) {
    move |data, event| {
        let (watcher, readiness) = (event.watcher().to_bits(), c_uint::from(event.readiness().bits()));
        // SAFETY: whoever watched has promised that the callback may be called with its data while the watch lasts.
        unsafe { callback(name, watcher, fd, readiness, *data) };
    }
}

/// Watches with one callback.
///
/// # Safety
/// The callback may be called with `data` on this thread until the watch ends. `out` is null or valid for writing.
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
        let callback = callback.ok_or(Error::Null { what: "callback" })?;
        let (interest, mode) = (interest_from(interest)?, mode_from(mode)?);
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
        let watch = event_loop.handle.watch_raw(fd, data).mode(mode_from(mode)?);
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
        event_loop.handle.modify(Watcher::from_bits(watcher), interest_from(interest)?)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_bits_are_those_of_the_loop() {
        let header = include_str!("../include/mainspring_reactor.h");
        for (name, readiness) in Readiness::all().iter_names() {
            let line = format!("    MS_REACTOR_{name} = {:#x}", readiness.bits());
            assert!(header.contains(&line), "{line}");
        }
    }
}
