//! The `zi_*` calls of zABI 2.5, in Rust's own types.
//!
//! Every call returns at once, but for a write to a loop handle whose last frame is a POLL. On a
//! target other than WebAssembly they go to the [`backend`](crate::backend) that a test has
//! installed.

pub use mainspring_zcl::abi::ErrorCode;

#[cfg(target_family = "wasm")]
use super::imports as calls;

#[cfg(not(target_family = "wasm"))]
use super::backend as calls;

/// A handle of the host: 0, 1 and 2 are the standard streams, others are opened.
pub type RawHandle = i32;

/// Reads into `buffer`; 0 is the end of the stream.
///
/// # Errors
///
/// [`ErrorCode::Again`] where nothing is there yet, and whatever else the host answers.
pub fn read(handle: RawHandle, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
    check(calls::read(handle, buffer))
}

/// Writes the beginning of `bytes`, and says how many were taken.
///
/// # Errors
///
/// [`ErrorCode::Again`] where nothing can be taken yet, and whatever else the host answers.
pub fn write(handle: RawHandle, bytes: &[u8]) -> Result<usize, ErrorCode> {
    check(calls::write(handle, bytes))
}

/// Closes a handle.
///
/// # Errors
///
/// [`ErrorCode::Closed`] for one that is not open.
pub fn end(handle: RawHandle) -> Result<(), ErrorCode> {
    check(calls::end(handle)).map(|_| ())
}

/// A request frame to the host itself, answered in `response`; returns the length of the answer.
///
/// # Errors
///
/// Whatever the host answers instead of a frame.
pub fn ctl(request: &[u8], response: &mut [u8]) -> Result<usize, ErrorCode> {
    check(calls::ctl(request, response))
}

/// Opens a capability, for example `sys` and `loop`.
///
/// # Errors
///
/// [`ErrorCode::NoEntry`] for a capability that the host does not have, [`ErrorCode::Denied`] for
/// one that policy forbids.
pub fn open(kind: &str, name: &str, parameters: &[u8]) -> Result<RawHandle, ErrorCode> {
    let handle = calls::cap_open(kind, name, parameters);
    check(handle).map(|_| handle)
}

fn check(returned: i32) -> Result<usize, ErrorCode> {
    ErrorCode::check(returned).map(|count| count as usize)
}
