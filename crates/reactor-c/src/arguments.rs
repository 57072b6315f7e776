//! The checks that arguments from C pass, each in one place. What does not pass becomes an error
//! that names the argument, and nothing has changed.

use crate::error::{Error, Result};
use reactor::{Backend, Interest, Mode, Readiness};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::time::Duration;

// The bits of `Readiness` are C's as well: nothing stands between the kernel and a callback.
const READ: c_uint = Readiness::READ.bits() as c_uint;
const WRITE: c_uint = Readiness::WRITE.bits() as c_uint;
const PRIORITY: c_uint = Readiness::PRIORITY.bits() as c_uint;
const ERROR: c_uint = Readiness::ERROR.bits() as c_uint;

/// `MS_REACTOR_BACKEND_BEST`: whichever backend is best on this system.
pub const BACKEND_BEST: c_int = 0;
/// `MS_REACTOR_BACKEND_EPOLL`.
pub const BACKEND_EPOLL: c_int = 1;
/// `MS_REACTOR_BACKEND_POLL`.
pub const BACKEND_POLL: c_int = 2;

/// A callback that must be there.
pub fn callback<F>(callback: Option<F>) -> Result<F> {
    callback.ok_or(Error::Null { what: "callback" })
}

/// A pointer that must not be null.
pub fn not_null<T>(pointer: *const T, what: &'static str) -> Result<()> {
    if pointer.is_null() { Err(Error::Null { what }) } else { Ok(()) }
}

/// A place for a result that the caller must want.
pub fn out_pointer<T>(out: *mut T) -> Result<()> {
    not_null(out, "out pointer")
}

/// Bits none of which may be unknown.
pub fn known_bits(bits: c_uint, known: c_uint, what: &'static str) -> Result<()> {
    let unknown = bits & !known;
    if unknown == 0 { Ok(()) } else { Err(Error::UnknownBits { what, bits: unknown }) }
}

/// The interest that C's bits ask for.
pub fn interest(bits: c_uint) -> Result<Interest> {
    known_bits(bits, READ | WRITE | PRIORITY | ERROR, "interest")?;
    let mut interest = Interest::empty();
    interest.set(Interest::READ, bits & READ != 0);
    interest.set(Interest::WRITE, bits & WRITE != 0);
    interest.set(Interest::PRIORITY, bits & PRIORITY != 0);
    interest.set(Interest::ERROR, bits & ERROR != 0);
    Ok(interest)
}

/// `enum ms_reactor_mode`.
pub fn mode(value: c_int) -> Result<Mode> {
    match value {
        0 => Ok(Mode::Level),
        1 => Ok(Mode::Edge),
        2 => Ok(Mode::Oneshot),
        3 => Ok(Mode::EdgeOneshot),
        value => Err(Error::UnknownValue { what: "mode", value }),
    }
}

/// `enum ms_reactor_backend`.
pub fn backend(value: c_int) -> Result<Backend> {
    match value {
        BACKEND_BEST => Ok(Backend::best()),
        BACKEND_EPOLL => Ok(Backend::Epoll),
        BACKEND_POLL => Ok(Backend::Poll),
        value => Err(Error::UnknownValue { what: "backend", value }),
    }
}

/// A span in nanoseconds that must not be negative.
pub fn duration(nanos: i64, what: &'static str) -> Result<Duration> {
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| Error::TooSmall { what, value: nanos })
}

/// A span in nanoseconds that must be longer than nothing.
pub fn positive_duration(nanos: i64, what: &'static str) -> Result<Duration> {
    let duration = duration(nanos, what)?;
    if duration.is_zero() { Err(Error::TooSmall { what, value: nanos }) } else { Ok(duration) }
}

/// The number of a process.
pub fn pid(pid: c_int) -> Result<u32> {
    let positive = u32::try_from(pid).ok().filter(|pid| *pid > 0);
    positive.ok_or(Error::TooSmall { what: "pid", value: pid.into() })
}

/// A label.
///
/// # Safety
/// `label` is null or a text that ends with a zero and lives for `'a`.
pub unsafe fn label<'a>(label: *const c_char) -> Result<&'a str> {
    not_null(label, "label")?;
    // SAFETY: not null, and by this function's contract.
    unsafe { CStr::from_ptr(label) }.to_str().map_err(|_| Error::BadLabel)
}

/// Success, if what was named was there.
pub fn was_there(found: bool) -> Result<c_int> {
    if found { Ok(0) } else { Err(Error::GONE) }
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

    #[test]
    fn an_error_names_the_argument_and_what_is_wrong_with_it() {
        let text = |error: Error| error.to_string();
        assert_eq!(interest(0x80 | READ).map_err(text), Err("the interest has unknown bits: 0x80".into()));
        assert_eq!(mode(4).map_err(text), Err("there is no mode with the number 4".into()));
        assert_eq!(duration(-1, "delay").map_err(text), Err("the delay is too small: -1".into()));
        assert_eq!(
            positive_duration(0, "threshold").map_err(text),
            Err("the threshold is too small: 0".into())
        );
        assert_eq!(pid(0).map_err(text), Err("the pid is too small: 0".into()));
        assert_eq!(callback(None::<fn()>).map_err(text).map(|_| ()), Err("the callback is null".into()));
    }
}
