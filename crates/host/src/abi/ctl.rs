//! `zi_ctl`: requests that are answered at once, in the guest's own buffer.

use crate::abi::memory::GuestMemory;
use crate::capabilities::CapabilityId;
use crate::guest::context::GuestContext;
use mainspring_zcl::abi::ErrorCode;
use mainspring_zcl::ctl::{HANDLE_OP_SHUT_WR, HandleOp, OP_CAPS_LIST, OP_HANDLE_OP, trace};
use mainspring_zcl::{ErrorPayload, Frame, HEADER_BYTES, STATUS_ERROR, STATUS_OK};

/// The longest request: a frame with a `HANDLE_OP`.
const REQUEST_BYTES_MAX: u32 = 256;
/// The longest answer to anything but `CAPS_LIST`.
const ERROR_BYTES_MAX: usize = 256;

/// An error as the guest gets it.
struct Failure {
    trace: &'static str,
    message: &'static str,
}

/// Where the answer goes.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) offset: u64,
    pub(crate) capacity: u32,
}

/// Carries out a request. Returns the length of the answer.
pub(crate) fn ctl(
    guest: &GuestContext,
    memory: &mut GuestMemory<'_>,
    request: (u64, u32),
    answer: Answer,
) -> Result<usize, ErrorCode> {
    let (offset, length) = request;
    // Both ends are checked before anything happens.
    memory.get(answer.offset, answer.capacity)?;
    let bytes = memory.get(offset, length)?;
    let (op, rid, outcome) = match parse(bytes, length) {
        Some(frame) => (frame.op, frame.rid, carry_out(guest, &frame)),
        None => (0, 0, Err(Failure { trace: trace::BAD_FRAME, message: "not a request frame" })),
    };
    let outcome = outcome.and_then(|payload| {
        if HEADER_BYTES + payload.len() > answer.capacity as usize {
            return Err(Failure { trace: trace::OVERFLOW, message: "the answer does not fit" });
        }
        Ok(payload)
    });
    let target = memory.get_mut(answer.offset, answer.capacity)?;
    let written = match outcome {
        Ok(payload) => Frame { op, rid, status: STATUS_OK, payload: &payload }.encode(target),
        Err(Failure { trace, message }) => {
            let mut buffer = [0; ERROR_BYTES_MAX];
            let error = ErrorPayload { trace, message, detail: "" };
            let length = error.encode(&mut buffer).map_err(|_| ErrorCode::Internal)?;
            Frame { op, rid, status: STATUS_ERROR, payload: &buffer[..length] }.encode(target)
        }
    };
    written.map_err(|_| ErrorCode::Bounds)
}

/// One whole request and nothing else.
fn parse(bytes: &[u8], length: u32) -> Option<Frame<'_>> {
    if length > REQUEST_BYTES_MAX {
        return None;
    }
    match Frame::decode(bytes) {
        Ok(Some((frame, []))) if frame.status == 0 => Some(frame),
        _ => None,
    }
}

fn carry_out(guest: &GuestContext, frame: &Frame<'_>) -> Result<Vec<u8>, Failure> {
    match frame.op {
        OP_CAPS_LIST if frame.payload.is_empty() => Ok(list(guest)),
        OP_CAPS_LIST => Err(Failure { trace: trace::BAD_FRAME, message: "payload must be empty" }),
        OP_HANDLE_OP => handle_op(guest, frame.payload).map(|()| Vec::new()),
        _ => Err(Failure { trace: trace::UNKNOWN_OP, message: "unknown op" }),
    }
}

fn list(guest: &GuestContext) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend_from_slice(&1u32.to_le_bytes());
    payload.extend_from_slice(&(guest.host.capabilities.len() as u32).to_le_bytes());
    for capability in &guest.host.capabilities {
        payload.extend_from_slice(&record(capability.id(), capability.flags()));
        // No metadata.
        payload.extend_from_slice(&0u32.to_le_bytes());
    }
    payload
}

/// A capability as listings show it.
pub(crate) fn record(id: CapabilityId, flags: u32) -> Vec<u8> {
    let (kind, name) = (id.kind(), id.name());
    let mut bytes = Vec::with_capacity(12 + kind.len() + name.len());
    for text in [kind, name] {
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes
}

fn handle_op(guest: &GuestContext, payload: &[u8]) -> Result<(), Failure> {
    let bad = Failure { trace: trace::BAD_HANDLE_OP, message: "bad HANDLE_OP payload" };
    let request = HandleOp::decode(payload).map_err(|_| bad)?;
    let number = i32::try_from(request.handle).ok();
    let entry = number.and_then(|number| guest.entry(number).ok());
    let entry = entry.ok_or(Failure { trace: trace::BAD_HANDLE, message: "unknown handle" })?;
    if request.op != HANDLE_OP_SHUT_WR {
        return Err(Failure { trace: trace::BAD_HANDLE_OP, message: "unknown handle op" });
    }
    entry.resource().shut_write(guest).map_err(|code| match code {
        ErrorCode::NoSys => Failure { trace: trace::NO_SYS, message: "the handle has no sending side" },
        code => Failure { trace: trace::HANDLE_OP_FAILED, message: code.name() },
    })
}
