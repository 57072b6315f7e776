//! The imports of a guest: module `env`, addresses as 64-bit numbers.

use mainspring_zcl::cap::CapOpen;

mod env {
    #[link(wasm_import_module = "env")]
    unsafe extern "C" {
        pub(super) fn zi_read(handle: i32, destination: u64, capacity: u32) -> i32;
        pub(super) fn zi_write(handle: i32, source: u64, length: u32) -> i32;
        pub(super) fn zi_end(handle: i32) -> i32;
        pub(super) fn zi_ctl(request: u64, request_length: u32, response: u64, capacity: u32) -> i32;
        pub(super) fn zi_cap_open(request: u64) -> i32;
    }
}

pub(crate) fn read(handle: i32, buffer: &mut [u8]) -> i32 {
    // SAFETY: the host writes at most `len` bytes from the address on, and both describe `buffer`.
    unsafe { env::zi_read(handle, buffer.as_mut_ptr() as u64, length(buffer)) }
}

pub(crate) fn write(handle: i32, bytes: &[u8]) -> i32 {
    // SAFETY: the host only reads `len` bytes from the address on, and both describe `bytes`.
    unsafe { env::zi_write(handle, bytes.as_ptr() as u64, length(bytes)) }
}

pub(crate) fn end(handle: i32) -> i32 {
    // SAFETY: touches no memory of the guest.
    unsafe { env::zi_end(handle) }
}

pub(crate) fn ctl(request: &[u8], response: &mut [u8]) -> i32 {
    // SAFETY: the host reads the first slice and writes within the second.
    unsafe {
        env::zi_ctl(request.as_ptr() as u64, length(request), response.as_mut_ptr() as u64, length(response))
    }
}

pub(crate) fn cap_open(kind: &str, name: &str, parameters: &[u8]) -> i32 {
    let request = CapOpen {
        kind_ptr: kind.as_ptr() as u64,
        kind_len: length(kind.as_bytes()),
        name_ptr: name.as_ptr() as u64,
        name_len: length(name.as_bytes()),
        mode: 0,
        params_ptr: parameters.as_ptr() as u64,
        params_len: length(parameters),
    }
    .encode();
    // SAFETY: the request and what it points to live until the call returns. Addresses inside
    // `parameters` (a host name, the place for a port) are kept alive by whoever built them.
    unsafe { env::zi_cap_open(request.as_ptr() as u64) }
}

/// A slice of a 32-bit memory is never longer.
fn length(bytes: &[u8]) -> u32 {
    bytes.len() as u32
}
