//! System errors as guests see them.

use mainspring_zcl::abi::ErrorCode;
use rustix::io::Errno;

/// The code for a system error. An address in use is `IO`, not `AGAIN`: nothing that the guest
/// could watch would ever tell it that the address is free. Interrupted calls are retried by their
/// callers and never get here.
pub(crate) fn code_for(errno: Errno) -> ErrorCode {
    match errno {
        Errno::AGAIN => ErrorCode::Again,
        Errno::BADF => ErrorCode::Closed,
        Errno::ACCESS | Errno::PERM => ErrorCode::Denied,
        Errno::NOENT => ErrorCode::NoEntry,
        Errno::NOMEM | Errno::NOBUFS => ErrorCode::OutOfMemory,
        Errno::INVAL | Errno::ADDRNOTAVAIL => ErrorCode::Invalid,
        _ => ErrorCode::Io,
    }
}
