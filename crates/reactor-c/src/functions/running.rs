//! Driving a loop.

use crate::boundary::{count, enter};
use crate::registry::{find, find_shared};
use crate::types::Name;
use reactor::Reactor;
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn poll(reactor: Name, timeout: Option<Duration>) -> c_int {
    // The reference is held until the turn is over, so that a callback may destroy the loop.
    enter(|| Ok(count(find(reactor)?.drive(|reactor| reactor.poll(timeout))?)))
}

/// Makes one turn, waiting at most some milliseconds.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_poll(reactor: Name, timeout_ms: c_int) -> c_int {
    poll(reactor, u64::try_from(timeout_ms).ok().map(Duration::from_millis))
}

/// Makes one turn, waiting at most some nanoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_poll_ns(reactor: Name, timeout_ns: i64) -> c_int {
    poll(reactor, u64::try_from(timeout_ns).ok().map(Duration::from_nanos))
}

/// Runs until stopped.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_run(reactor: Name) -> c_int {
    enter(|| find(reactor)?.run(Reactor::run).map(|()| 0))
}

/// Runs until stopped or nothing is left to wait for.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_run_until_idle(reactor: Name) -> c_int {
    enter(|| find(reactor)?.run(Reactor::run_until_idle).map(|()| 0))
}

/// Stops a run, from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_stop(reactor: Name) -> c_int {
    enter(|| {
        find_shared(reactor)?.remote.stop();
        Ok(0)
    })
}

/// Whether a run is in progress, from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_is_running(reactor: Name) -> c_int {
    enter(|| Ok(c_int::from(find_shared(reactor)?.running.load(Ordering::Acquire))))
}
