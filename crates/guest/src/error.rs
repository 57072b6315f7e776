//! The host's error codes as errors of `std::io`.

use mainspring_zcl::abi::ErrorCode;
use std::io;

/// The same refusal in the terms of `std::io`; the code stays inside as the source.
#[must_use]
pub fn io_error(code: ErrorCode) -> io::Error {
    let kind = match code {
        ErrorCode::Invalid | ErrorCode::Bounds => io::ErrorKind::InvalidInput,
        ErrorCode::NoEntry => io::ErrorKind::NotFound,
        ErrorCode::Denied => io::ErrorKind::PermissionDenied,
        ErrorCode::Closed => io::ErrorKind::NotConnected,
        ErrorCode::Again => io::ErrorKind::WouldBlock,
        ErrorCode::NoSys => io::ErrorKind::Unsupported,
        ErrorCode::OutOfMemory => io::ErrorKind::OutOfMemory,
        ErrorCode::Io | ErrorCode::Internal => io::ErrorKind::Other,
    };
    io::Error::new(kind, code)
}
