//! Reads and writes of preview 1, a bounded piece at a time.
//!
//! wasmtime-wasi moves the first buffer that is not empty, however large, and holds a copy of it on
//! the host meanwhile. Both are for the guest to choose; so its buffer is made shorter for the
//! length of the call. Every program knows what to do about a transfer that is short.

use super::{HasWasi, PREVIEW1};
use crate::guest::state::GuestState;
use wasmtime::{AsContextMut, Caller, Extern, Linker, Memory};
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as preview1, WasiSnapshotPreview1};
use wiggle::GuestMemory;

/// Most bytes that one call moves.
const TRANSFER_BYTES_MAX: u32 = 256 * 1024;
/// Most buffers that one call may name, as elsewhere (`IOV_MAX`).
const BUFFERS_MAX: u32 = 1024;
/// Bytes of a buffer's description: where it is, then how long.
const BUFFER_BYTES: u32 = 8;

/// What preview 1 says of memory that is not there.
const ERRNO_FAULT: i32 = 21;
/// What it says of too many buffers.
const ERRNO_INVAL: i32 = 28;

/// Replaces the calls.
pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    macro_rules! bounded {
        ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
            linker.func_wrap_async(
                PREVIEW1,
                stringify!($name),
                |mut caller: Caller<'_, GuestState>, (fd, buffers, count, $($argument,)* moved): (i32, i32, i32, $($type,)* i32)| {
                    Box::new(async move {
                        let shortened = match shorten(&mut caller, buffers.cast_unsigned(), count.cast_unsigned()) {
                            Ok(shortened) => shortened,
                            Err(errno) => return Ok(errno),
                        };
                        let memory = shortened.memory;
                        let fuel = caller.as_context_mut().hostcall_fuel();
                        let (bytes, state) = memory.data_and_store_mut(&mut caller);
                        let context = &mut state.wasi().preview1;
                        context.set_hostcall_fuel(fuel);
                        let mut view = GuestMemory::Unshared(bytes);
                        let errno =
                            preview1::$name(context, &mut view, fd, buffers, count, $($argument,)* moved).await;
                        shortened.restore(&mut caller);
                        errno
                    })
                },
            )?;
        )*};
    }
    linker.allow_shadowing(true);
    bounded! {
        fd_read();
        fd_pread(offset: i64);
        fd_write();
        fd_pwrite(offset: i64);
    }
    linker.allow_shadowing(false);
    Ok(())
}

/// A call's buffers, of which one may have been made shorter.
struct Shortened {
    memory: Memory,
    /// Where its length is, and what it was.
    length: Option<(usize, u32)>,
}

/// Makes the first buffer that is not empty as short as a call may move.
fn shorten(caller: &mut Caller<'_, GuestState>, buffers: u32, count: u32) -> Result<Shortened, i32> {
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else { return Err(ERRNO_FAULT) };
    if count > BUFFERS_MAX {
        return Err(ERRNO_INVAL);
    }
    let bytes = memory.data_mut(caller);
    for index in 0..count {
        let at = u64::from(buffers) + u64::from(index * BUFFER_BYTES + 4);
        let at = usize::try_from(at).map_err(|_| ERRNO_FAULT)?;
        let length = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>).ok_or(ERRNO_FAULT)?;
        let is = u32::from_le_bytes(*length);
        if is > TRANSFER_BYTES_MAX {
            *length = TRANSFER_BYTES_MAX.to_le_bytes();
            return Ok(Shortened { memory, length: Some((at, is)) });
        }
        if is > 0 {
            break;
        }
    }
    Ok(Shortened { memory, length: None })
}

impl Shortened {
    /// Leaves the guest's memory as it was, unless what was read has gone to that very place.
    fn restore(&self, caller: &mut Caller<'_, GuestState>) {
        let Some((at, was)) = self.length else { return };
        let length = self.memory.data_mut(caller).get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>);
        if let Some(length) = length.filter(|length| **length == TRANSFER_BYTES_MAX.to_le_bytes()) {
            *length = was.to_le_bytes();
        }
    }
}
