//! `random_get` of preview 1: straight into the guest's memory, a piece at a time.
//!
//! wasmtime-wasi's own makes all of the bytes first, outside of the guest's memory and without
//! letting anyone else run.

use super::PREVIEW1;
use crate::abi::imports::with_memory;
use crate::guest::confined::Confined;
use crate::guest::state::GuestState;
use mainspring_zcl::abi::ErrorCode;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::rc::Rc;
use wasmtime::{Caller, Linker};

/// Bytes that are made at a time, in some 50 µs.
const PIECE_BYTES: u32 = 16 * 1024;

/// What preview 1 says of memory that is not there.
const ERRNO_FAULT: i32 = 21;
/// What it says if the system has no randomness yet, as in its first seconds.
const ERRNO_IO: i32 = 29;

/// Replaces the call.
pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let added = linker.func_wrap_async(
        PREVIEW1,
        "random_get",
        |caller: Caller<'_, GuestState>, (pointer, length): (i32, i32)| {
            Box::new(Confined::new(random_get(caller, pointer.cast_unsigned(), length.cast_unsigned())))
        },
    );
    added?.allow_shadowing(false);
    Ok(())
}

async fn random_get(mut caller: Caller<'_, GuestState>, pointer: u32, length: u32) -> i32 {
    let guest = Rc::clone(&caller.data().context);
    let start = u64::from(pointer);
    // All of it or nothing.
    if with_memory(&mut caller, |_, memory| memory.get(start, length).map(drop)).is_err() {
        return ERRNO_FAULT;
    }
    let mut done = 0;
    while done < length {
        let piece = (length - done).min(PIECE_BYTES);
        let filled = with_memory(&mut caller, |_, memory| {
            fill(memory.get_mut(start + u64::from(done), piece)?).map_err(|_| ErrorCode::Io)
        });
        if filled.is_err() {
            return ERRNO_IO;
        }
        done += piece;
        guest.make_way_if_due().await;
    }
    0
}

fn fill(mut bytes: &mut [u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match getrandom(&mut *bytes, GetRandomFlags::NONBLOCK) {
            Ok(count) => bytes = &mut bytes[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
