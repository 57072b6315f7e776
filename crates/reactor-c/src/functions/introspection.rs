//! What a loop says about itself, and the descriptor by which another loop embeds it.

use crate::arguments;
use crate::boundary::enter;
use crate::registry::find;
use crate::types::{Name, StallCallback, Traveller};
use reactor::{Stall, Timer, Timing, Watcher};
use std::ffi::{CString, c_char, c_int, c_void};
use std::time::Duration;

/// Room for a label and its end.
const LABEL_SIZE: usize = 64;

/// `ms_reactor_stats`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CStats {
    /// Turns made.
    pub turns: u64,
    /// Events fetched from the kernel.
    pub events: u64,
    /// Callbacks run.
    pub callbacks: u64,
    /// Timers fired.
    pub timers: u64,
    /// Times another thread woke the loop.
    pub wakeups: u64,
    /// Events discarded because their registration was gone.
    pub stale_events: u64,
    /// Times the kernel's set was rebuilt.
    pub rebuilds: u64,
}

/// `ms_reactor_timing`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CTiming {
    /// Time in callbacks and between waits.
    pub busy_ns: u64,
    /// Time waiting.
    pub idle_ns: u64,
    /// How late the latest timer was called.
    pub lag_last_ns: u64,
    /// How late the latest of all was.
    pub lag_max_ns: u64,
    /// The longest callback.
    pub slowest_ns: u64,
    /// Its label, ended by a zero.
    pub slowest_label: [u8; LABEL_SIZE],
}

/// Copies as much of a value as its reader knows of, and clears what the reader knows of and this
/// library does not.
///
/// # Safety
/// `out` is valid for writing `size` bytes.
unsafe fn fill<T: Copy>(out: *mut T, size: usize, value: &T) {
    let known = size.min(size_of::<T>());
    // SAFETY: `known` is at most the size of both sides, which cannot overlap; the rest is within
    // `size`.
    unsafe {
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast::<u8>(), out.cast(), known);
        out.cast::<u8>().add(known).write_bytes(0, size - known);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// As much of a label as there is room for, cut between two characters.
fn cut_label(label: &str) -> [u8; LABEL_SIZE] {
    let mut room = [0; LABEL_SIZE];
    let mut length = label.len().min(LABEL_SIZE - 1);
    while !label.is_char_boundary(length) {
        length -= 1;
    }
    room[..length].copy_from_slice(&label.as_bytes()[..length]);
    room
}

fn c_timing(timing: &Timing) -> CTiming {
    let slowest = timing.slowest.as_ref();
    CTiming {
        busy_ns: nanos(timing.busy),
        idle_ns: nanos(timing.idle),
        lag_last_ns: nanos(timing.lag_last),
        lag_max_ns: nanos(timing.lag_max),
        slowest_ns: slowest.map_or(0, |slowest| nanos(slowest.duration)),
        slowest_label: cut_label(slowest.and_then(|slowest| slowest.label.as_deref()).unwrap_or("")),
    }
}

/// The counters.
///
/// # Safety
/// `out` is null or valid for writing `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_get_stats(reactor: Name, out: *mut CStats, size: usize) -> c_int {
    enter(|| {
        let stats = find(reactor)?.handle.stats();
        arguments::out_pointer(out)?;
        let stats = CStats {
            turns: stats.turns,
            events: stats.events,
            callbacks: stats.callbacks,
            timers: stats.timers,
            wakeups: stats.wakeups,
            stale_events: stats.stale_events,
            rebuilds: stats.rebuilds,
        };
        // SAFETY: by this function's contract.
        unsafe { fill(out, size, &stats) };
        Ok(0)
    })
}

/// Switches timing.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_set_timing(reactor: Name, on: c_int) -> c_int {
    enter(|| {
        find(reactor)?.handle.set_timing(on != 0);
        Ok(0)
    })
}

/// The times.
///
/// # Safety
/// `out` is null or valid for writing `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_get_timing(reactor: Name, out: *mut CTiming, size: usize) -> c_int {
    enter(|| {
        let timing = find(reactor)?.handle.timing();
        arguments::out_pointer(out)?;
        let Some(timing) = timing else { return Ok(0) };
        // SAFETY: by this function's contract.
        unsafe { fill(out, size, &c_timing(&timing)) };
        Ok(1)
    })
}

/// Names a watcher.
///
/// # Safety
/// `label` is null or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_label_watcher(
    reactor: Name,
    watcher: u64,
    label: *const c_char,
) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        // SAFETY: by this function's contract.
        let label = unsafe { arguments::label(label) }?;
        arguments::was_there(event_loop.handle.label_watcher(Watcher::from_bits(watcher), label))
    })
}

/// Names a timer.
///
/// # Safety
/// `label` is null or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_label_timer(reactor: Name, timer: u64, label: *const c_char) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        // SAFETY: by this function's contract.
        let label = unsafe { arguments::label(label) }?;
        arguments::was_there(event_loop.handle.label_timer(Timer::from_bits(timer), label))
    })
}

/// Watches for callbacks that take too long.
///
/// # Safety
/// The callback may be called with `data` on another thread until it is replaced or the loop ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_watch_stalls(
    reactor: Name,
    threshold_ns: i64,
    callback: Option<StallCallback>,
    data: *mut c_void,
) -> c_int {
    enter(|| {
        let event_loop = find(reactor)?;
        let Some(callback) = callback else {
            drop(event_loop.stalls.take());
            return Ok(0);
        };
        let threshold = arguments::positive_duration(threshold_ns, "threshold")?;
        let report = reporter(Traveller { callback, data });
        let watch = event_loop.handle.watch_stalls(threshold, report)?;
        drop(event_loop.stalls.replace(Some(watch)));
        Ok(0)
    })
}

fn reporter(call: Traveller<StallCallback>) -> impl Fn(Stall) + Send {
    move |stall| {
        let Traveller { callback, data } = { call };
        let label = stall.label.and_then(|label| CString::new(&*label).ok());
        let text = label.as_ref().map_or(std::ptr::null(), |label| label.as_ptr());
        // SAFETY: whoever set the watch has promised that the callback may be called with its data
        // on another thread.
        unsafe { callback(text, nanos(stall.running_for), data) };
    }
}

/// The descriptor for embedding.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_embedding_fd(reactor: Name) -> c_int {
    enter(|| Ok(find(reactor)?.handle.embedding_fd()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_cut_between_characters_and_always_end() {
        let long = "ä".repeat(50);
        let cut = cut_label(&long);
        assert_eq!(cut[LABEL_SIZE - 1], 0);
        assert_eq!(std::str::from_utf8(&cut[..62]), Ok("ä".repeat(31).as_str()));
        assert_eq!(&cut_label("short")[..6], b"short\0");
    }
}
