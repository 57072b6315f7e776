//! Where a call from C enters and leaves.

use crate::error::{Error, Result, remember};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of an exported function. An error becomes its code, and a panic becomes an error:
/// it must not reach C, whose frames cannot be unwound.
pub fn enter(body: impl FnOnce() -> Result<c_int>) -> c_int {
    attempt(body).unwrap_or_else(|error| remember(&error))
}

/// The same for functions whose failure is a value of their own.
pub fn enter_or<T>(failure: T, body: impl FnOnce() -> Result<T>) -> T {
    attempt(body).unwrap_or_else(|error| {
        remember(&error);
        failure
    })
}

fn attempt<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    // The loop is consistent after a panic (its contract), and nothing else is kept across calls.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Error::Internal))
}

/// A count as C gets it.
pub fn count(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_code() {
        assert_eq!(enter(|| panic!("on purpose")), Error::Internal.code());
        assert_eq!(enter_or(7, || panic!("on purpose")), 7);
        assert_eq!(enter(|| Ok(3)), 3);
    }
}
