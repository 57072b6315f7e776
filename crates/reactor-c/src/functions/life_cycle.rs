//! Making and ending loops.

use crate::arguments::{self, BACKEND_EPOLL, BACKEND_POLL};
use crate::boundary::enter;
use crate::error::Result;
use crate::event_loop::EventLoop;
use crate::registry::find;
use crate::types::{Name, store};
use reactor::{Backend, VirtualClock};
use std::ffi::{CStr, c_char, c_int, c_uint};

const VIRTUAL_CLOCK: c_uint = 1;

const VERSION: &CStr = {
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"unknown",
    }
};

/// The version of this library.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Makes a loop that belongs to this thread.
///
/// # Safety
/// `out` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reactor_create(out: *mut Name, backend: c_int, flags: c_uint) -> c_int {
    enter(|| {
        arguments::out_pointer(out)?;
        let created = create(backend, flags);
        let name = created.as_ref().copied().unwrap_or(std::ptr::null_mut());
        // SAFETY: by this function's contract.
        unsafe { store(out, name) };
        created.map(|_| 0)
    })
}

fn create(backend: c_int, flags: c_uint) -> Result<Name> {
    let backend = arguments::backend(backend)?;
    arguments::known_bits(flags, VIRTUAL_CLOCK, "flags")?;
    let clock = (flags & VIRTUAL_CLOCK != 0).then(VirtualClock::new);
    EventLoop::create(backend, clock)
}

/// Ends a loop.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_destroy(reactor: Name) -> c_int {
    enter(|| {
        if !reactor.is_null() {
            find(reactor)?.end();
        }
        Ok(0)
    })
}

/// The backend of a loop.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_backend_of(reactor: Name) -> c_int {
    enter(|| {
        Ok(match find(reactor)?.handle.backend() {
            Backend::Epoll => BACKEND_EPOLL,
            _ => BACKEND_POLL,
        })
    })
}
