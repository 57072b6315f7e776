//! zABI 2.5: the numbers that the `zi_*` calls are given and return.
//!
//! Imports live in the module [`IMPORT_MODULE`]. Pointers are 64 bits wide and hold an offset into
//! the guest's memory; sizes and handles are 32 bits wide. A call returns a count or a handle (zero
//! and up), or an [`ErrorCode`] (negative).

use core::fmt;

/// What `zi_abi_version` returns.
pub const ABI_VERSION: u32 = 0x0002_0005;
/// The module that guests import the `zi_*` calls from.
pub const IMPORT_MODULE: &str = "env";
/// Standard input.
pub const STDIN: i32 = 0;
/// Standard output.
pub const STDOUT: i32 = 1;
/// Standard error.
pub const STDERR: i32 = 2;
/// The lowest handle that opening something returns.
pub const FIRST_FREE_HANDLE: i32 = 3;

/// Why a `zi_*` call did not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum ErrorCode {
    /// An argument makes no sense.
    Invalid = -1,
    /// A pointer or a length leads outside the guest's memory, or a buffer is too small.
    Bounds = -2,
    /// There is no such thing.
    NoEntry = -3,
    /// Policy forbids it.
    Denied = -4,
    /// It has been closed.
    Closed = -5,
    /// It would have to wait: watch the handle, `POLL`, and try again.
    Again = -6,
    /// There is no such handle, or it cannot do this.
    NoSys = -7,
    /// A limit on memory or on the number of things is reached.
    OutOfMemory = -8,
    /// Input or output failed.
    Io = -9,
    /// The host failed.
    Internal = -10,
}

impl ErrorCode {
    /// Every code there is.
    pub const ALL: [ErrorCode; 10] = [
        ErrorCode::Invalid,
        ErrorCode::Bounds,
        ErrorCode::NoEntry,
        ErrorCode::Denied,
        ErrorCode::Closed,
        ErrorCode::Again,
        ErrorCode::NoSys,
        ErrorCode::OutOfMemory,
        ErrorCode::Io,
        ErrorCode::Internal,
    ];

    /// The number that calls return.
    pub const fn as_raw(self) -> i32 {
        self as i32
    }

    /// The code behind a number; `None` for zero and up. A negative number that is not listed is
    /// [`ErrorCode::Internal`].
    pub const fn from_raw(raw: i32) -> Option<ErrorCode> {
        Some(match raw {
            0.. => return None,
            -1 => ErrorCode::Invalid,
            -2 => ErrorCode::Bounds,
            -3 => ErrorCode::NoEntry,
            -4 => ErrorCode::Denied,
            -5 => ErrorCode::Closed,
            -6 => ErrorCode::Again,
            -7 => ErrorCode::NoSys,
            -8 => ErrorCode::OutOfMemory,
            -9 => ErrorCode::Io,
            _ => ErrorCode::Internal,
        })
    }

    /// Splits what a call returned into a count and an error.
    ///
    /// # Errors
    /// The code, if the number is negative.
    pub const fn check(raw: i32) -> Result<u32, ErrorCode> {
        match ErrorCode::from_raw(raw) {
            Some(code) => Err(code),
            None => Ok(raw.cast_unsigned()),
        }
    }

    /// The name that C programs know it by.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorCode::Invalid => "ZI_E_INVALID",
            ErrorCode::Bounds => "ZI_E_BOUNDS",
            ErrorCode::NoEntry => "ZI_E_NOENT",
            ErrorCode::Denied => "ZI_E_DENIED",
            ErrorCode::Closed => "ZI_E_CLOSED",
            ErrorCode::Again => "ZI_E_AGAIN",
            ErrorCode::NoSys => "ZI_E_NOSYS",
            ErrorCode::OutOfMemory => "ZI_E_OOM",
            ErrorCode::Io => "ZI_E_IO",
            ErrorCode::Internal => "ZI_E_INTERNAL",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for ErrorCode {}

/// What `zi_handle_hflags` says about a handle.
pub mod handle_flags {
    /// `zi_read` may succeed.
    pub const READABLE: u32 = 1;
    /// `zi_write` may succeed.
    pub const WRITABLE: u32 = 2;
    /// `zi_end` closes it.
    pub const ENDABLE: u32 = 4;
    /// It has a position that can be moved.
    pub const SEEKABLE: u32 = 8;
}

/// What a capability's listing says about it.
pub mod cap_flags {
    /// `zi_cap_open` may open it.
    pub const CAN_OPEN: u32 = 1;
    /// It has no effect outside the guest.
    pub const PURE: u32 = 2;
    /// Some call on it may suspend the guest.
    pub const MAY_BLOCK: u32 = 4;
}
