//! The types that cross the boundary, as the header declares them.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// What C knows of a loop: nothing. Pointers to it are names; nothing lives at the address.
#[derive(Debug)]
pub enum Opaque {}

/// `ms_reactor *`.
pub type Name = *mut Opaque;
/// `ms_reactor_fd_callback`. Callbacks may not unwind; that they could, as far as the compiler
/// knows, turns a C++ exception into an orderly abort.
pub type FdCallback = unsafe extern "C-unwind" fn(Name, u64, c_int, c_uint, *mut c_void);
/// `ms_reactor_timer_callback`.
pub type TimerCallback = unsafe extern "C-unwind" fn(Name, u64, u64, *mut c_void);
/// `ms_reactor_call_callback`.
pub type CallCallback = unsafe extern "C-unwind" fn(Name, *mut c_void);
/// `ms_reactor_signal_callback`.
pub type SignalCallback = unsafe extern "C-unwind" fn(Name, c_int, c_uint, *mut c_void);
/// `ms_reactor_child_callback`.
pub type ChildCallback = unsafe extern "C-unwind" fn(Name, c_int, c_int, *mut c_void);
/// `ms_reactor_stall_callback`.
pub type StallCallback = unsafe extern "C-unwind" fn(*const c_char, u64, *mut c_void);

/// A call that may travel to another thread.
#[derive(Clone, Copy, Debug)]
pub struct Traveller<F> {
    /// What to call.
    pub callback: F,
    /// What to call it with.
    pub data: *mut c_void,
}

// SAFETY: the header says on which thread each callback runs; whoever passes `data` to a function
// that calls on another thread hands it over.
unsafe impl<F: Send> Send for Traveller<F> {}
// SAFETY: as above; the pointer is only ever passed on.
unsafe impl<F: Sync> Sync for Traveller<F> {}

/// Stores a value where a caller wants it, if it does.
///
/// # Safety
/// `out` is null or valid for writing one `T`.
pub unsafe fn store<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: not null, and valid by this function's contract.
        unsafe { out.write(value) };
    }
}
