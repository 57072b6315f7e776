//! What stands in for the host where a guest's code runs natively: in its own tests.
//!
//! # Examples
//!
//! ```
//! use mainspring_guest::backend::{Backend, install};
//! use std::rc::Rc;
//!
//! struct OnlyStandardOutput;
//!
//! impl Backend for OnlyStandardOutput {
//!     fn write(&self, handle: i32, bytes: &[u8]) -> i32 {
//!         if handle == 1 { bytes.len() as i32 } else { mainspring_guest::zi::ErrorCode::NoSys.as_raw() }
//!     }
//! }
//!
//! let _installed = install(Rc::new(OnlyStandardOutput));
//! assert_eq!(mainspring_guest::zi::write(1, b"hello"), Ok(5));
//! ```

use mainspring_zcl::abi::ErrorCode;
use std::cell::RefCell;
use std::rc::Rc;

/// The calls that a host answers. Each has a default that refuses with [`ErrorCode::NoSys`].
pub trait Backend {
    /// `zi_read`.
    fn read(&self, _handle: i32, _buffer: &mut [u8]) -> i32 {
        ErrorCode::NoSys.as_raw()
    }

    /// `zi_write`.
    fn write(&self, _handle: i32, _bytes: &[u8]) -> i32 {
        ErrorCode::NoSys.as_raw()
    }

    /// `zi_end`.
    fn end(&self, _handle: i32) -> i32 {
        ErrorCode::NoSys.as_raw()
    }

    /// `zi_ctl`.
    fn ctl(&self, _request: &[u8], _response: &mut [u8]) -> i32 {
        ErrorCode::NoSys.as_raw()
    }

    /// `zi_cap_open`. Addresses inside the parameters are native ones.
    fn cap_open(&self, _kind: &str, _name: &str, _parameters: &[u8]) -> i32 {
        ErrorCode::NoSys.as_raw()
    }
}

thread_local! {
    static BACKEND: RefCell<Option<Rc<dyn Backend>>> = const { RefCell::new(None) };
}

/// Keeps a backend installed on its thread; dropping it takes the backend away.
#[derive(Debug)]
#[must_use = "dropping it takes the backend away"]
pub struct Installed(());

impl Drop for Installed {
    fn drop(&mut self) {
        BACKEND.with(|slot| slot.borrow_mut().take());
    }
}

/// Answers every call of this thread from `backend`.
pub fn install(backend: Rc<dyn Backend>) -> Installed {
    BACKEND.with(|slot| *slot.borrow_mut() = Some(backend));
    Installed(())
}

fn with(call: impl FnOnce(&dyn Backend) -> i32) -> i32 {
    // The reference is cloned so that a backend may itself install another.
    let backend = BACKEND.try_with(|slot| slot.borrow().clone()).ok().flatten();
    backend.map_or(ErrorCode::NoSys.as_raw(), |backend| call(&*backend))
}

pub(crate) fn read(handle: i32, buffer: &mut [u8]) -> i32 {
    with(|backend| backend.read(handle, buffer))
}

pub(crate) fn write(handle: i32, bytes: &[u8]) -> i32 {
    with(|backend| backend.write(handle, bytes))
}

pub(crate) fn end(handle: i32) -> i32 {
    with(|backend| backend.end(handle))
}

pub(crate) fn ctl(request: &[u8], response: &mut [u8]) -> i32 {
    with(|backend| backend.ctl(request, response))
}

pub(crate) fn cap_open(kind: &str, name: &str, parameters: &[u8]) -> i32 {
    with(|backend| backend.cap_open(kind, name, parameters))
}
