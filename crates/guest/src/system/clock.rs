//! The host's clocks and randomness, through `sys/info@v1`.

use crate::error::io_error;
use crate::zi::{self, ErrorCode, RawHandle};
use mainspring_zcl::info::{OP_RANDOM_SEED, OP_TIME_NOW, RandomSeed, TimeNow};
use mainspring_zcl::{Frame, HEADER_BYTES, Header, STATUS_OK};
use std::cell::Cell;
use std::io;
use std::time::{Duration, SystemTime};

/// Answers are no longer than this.
const ANSWER_BYTES_MAX: usize = HEADER_BYTES + RandomSeed::PAYLOAD_BYTES;

thread_local! {
    static INFO: Cell<Option<RawHandle>> = const { Cell::new(None) };
}

fn handle() -> Result<RawHandle, ErrorCode> {
    if let Some(handle) = INFO.get() {
        return Ok(handle);
    }
    let handle = zi::open("sys", "info", &[])?;
    INFO.set(Some(handle));
    Ok(handle)
}

fn ask<T>(op: u16, read: impl FnOnce(&[u8]) -> Option<T>) -> Result<T, ErrorCode> {
    let handle = handle()?;
    zi::write(handle, &Header::request(op, 0, 0).encode())?;
    let mut answer = [0; ANSWER_BYTES_MAX];
    let length = zi::read(handle, &mut answer)?;
    let frame = Frame::decode(&answer[..length]).ok().flatten();
    frame
        .filter(|(frame, _)| frame.status == STATUS_OK)
        .and_then(|(frame, _)| read(frame.payload))
        .ok_or(ErrorCode::Internal)
}

/// Both clocks. A guest without a clock cannot wait for a time either.
pub(crate) fn now() -> TimeNow {
    match ask(OP_TIME_NOW, |payload| TimeNow::decode(payload).ok()) {
        Ok(time) => time,
        Err(code) => panic!("this host has no clock: sys/info@v1 says {code}"),
    }
}

/// The time of day. Bare WebAssembly has no `SystemTime::now`; this works everywhere.
///
/// # Panics
///
/// If the host has no `sys/info@v1`.
#[must_use]
pub fn system_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(now().realtime_ns)
}

/// Random bytes from the host, to seed a generator with.
///
/// # Errors
///
/// If the host has no `sys/info@v1`.
pub fn random_seed() -> io::Result<[u8; RandomSeed::SEED_BYTES]> {
    let seed = ask(OP_RANDOM_SEED, |payload| RandomSeed::decode(payload).ok()).map_err(io_error)?;
    Ok(seed.0)
}
