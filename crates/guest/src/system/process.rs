//! The guest's arguments and environment, through `proc/argv@v1` and `proc/env@v1`.

use crate::error::io_error;
use crate::runtime::executor;
use crate::zi::{self, ErrorCode};
use mainspring_zcl::Reader;
use std::future::Future;
use std::io;

const READ_BYTES: usize = 1024;

/// The arguments, the first of which is the guest's name.
///
/// # Errors
///
/// If the host has no `proc/argv@v1`.
pub fn args() -> io::Result<Vec<String>> {
    strings("argv")
}

/// The environment. Entries that are not `name=value` are left out.
///
/// # Errors
///
/// If the host has no `proc/env@v1`.
pub fn vars() -> io::Result<Vec<(String, String)>> {
    let pair = |entry: String| entry.split_once('=').map(|(name, value)| (name.into(), value.into()));
    Ok(strings("env")?.into_iter().filter_map(pair).collect())
}

/// One variable of the environment.
#[must_use]
pub fn var(name: &str) -> Option<String> {
    vars().ok()?.into_iter().find(|(other, _)| other == name).map(|(_, value)| value)
}

/// Resolves when the host shuts down and lets the guest finish by itself.
pub fn shutdown_requested() -> impl Future<Output = ()> {
    std::future::poll_fn(|context| {
        let interrupted = executor::with_driver(|driver| driver.wait_interrupted(context.waker()));
        if interrupted { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
}

fn strings(name: &str) -> io::Result<Vec<String>> {
    let handle = zi::open("proc", name, &[]).map_err(io_error)?;
    let bytes = read_to_end(handle);
    let _ = zi::end(handle);
    decode(&bytes?).ok_or_else(|| io_error(ErrorCode::Internal))
}

fn read_to_end(handle: i32) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let length = bytes.len();
        bytes.resize(length + READ_BYTES, 0);
        let read = zi::read(handle, &mut bytes[length..]).map_err(io_error)?;
        bytes.truncate(length + read);
        if read == 0 {
            return Ok(bytes);
        }
    }
}

fn decode(bytes: &[u8]) -> Option<Vec<String>> {
    let mut reader = Reader::new(bytes);
    let (version, count) = (reader.u32().ok()?, reader.u32().ok()?);
    if version != 1 {
        return None;
    }
    (0..count).map(|_| Some(String::from_utf8_lossy(reader.string().ok()?).into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_and_a_count_that_lies_is_refused() {
        let bytes = b"\x01\0\0\0\x02\0\0\0\x01\0\0\0a\x02\0\0\0bc";
        assert_eq!(decode(bytes).unwrap(), ["a", "bc"]);
        let mut lying = bytes.to_vec();
        lying[4] = 3;
        assert_eq!(decode(&lying), None);
    }
}
