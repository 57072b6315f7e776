//! The five requests.

use super::{OP_POLL, OP_TIMER_ARM, OP_TIMER_CANCEL, OP_UNWATCH, OP_WATCH, Readiness};
use crate::frame::{Frame, HEADER_BYTES, Header};
use crate::wire::{Reader, put};
use core::fmt;

/// Why a request is refused before anything is looked up. The words are those of the protocol's
/// first implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BadRequest {
    /// No such operation.
    UnknownOp,
    /// A `WATCH` payload of the wrong size.
    WatchPayload,
    /// An `UNWATCH` payload of the wrong size.
    UnwatchPayload,
    /// A `TIMER_ARM` payload of the wrong size.
    TimerArmPayload,
    /// A `TIMER_CANCEL` payload of the wrong size.
    TimerCancelPayload,
    /// A `POLL` payload of the wrong size.
    PollPayload,
    /// `WATCH` flags other than 0.
    WatchFlags,
    /// A watch for no event.
    NoEvents,
    /// An event bit that version 1 does not define.
    UnknownEvents,
    /// A watch with the id 0.
    ZeroWatchId,
    /// A timer with the id 0.
    ZeroTimerId,
    /// A `TIMER_ARM` flag that version 1 does not define.
    TimerFlags,
    /// A `POLL` for no event.
    ZeroMaxEvents,
    /// A status other than a request's.
    NotARequest,
}

impl BadRequest {
    /// The same in words.
    pub const fn message(self) -> &'static str {
        match self {
            BadRequest::UnknownOp => "unknown op",
            BadRequest::WatchPayload => "bad WATCH payload",
            BadRequest::UnwatchPayload => "bad UNWATCH payload",
            BadRequest::TimerArmPayload => "bad TIMER_ARM payload",
            BadRequest::TimerCancelPayload => "bad TIMER_CANCEL payload",
            BadRequest::PollPayload => "bad POLL payload",
            BadRequest::WatchFlags => "flags must be 0",
            BadRequest::NoEvents => "events must not be 0",
            BadRequest::UnknownEvents => "unknown event bits",
            BadRequest::ZeroWatchId => "watch_id must not be 0",
            BadRequest::ZeroTimerId => "timer_id must not be 0",
            BadRequest::TimerFlags => "unknown timer flags",
            BadRequest::ZeroMaxEvents => "max_events must be >= 1",
            BadRequest::NotARequest => "status must be 0",
        }
    }
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl core::error::Error for BadRequest {}

/// Any request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Registers interest in a handle.
    Watch(Watch),
    /// Removes a watch.
    Unwatch(Unwatch),
    /// Arms a timer.
    TimerArm(TimerArm),
    /// Cancels a timer.
    TimerCancel(TimerCancel),
    /// Waits for events.
    Poll(Poll),
}

impl Request {
    /// How many bytes the payload of an operation has; `None` for an unknown one.
    pub const fn payload_bytes(op: u16) -> Option<usize> {
        Some(match op {
            OP_WATCH => Watch::PAYLOAD_BYTES,
            OP_UNWATCH => Unwatch::PAYLOAD_BYTES,
            OP_TIMER_ARM => TimerArm::PAYLOAD_BYTES,
            OP_TIMER_CANCEL => TimerCancel::PAYLOAD_BYTES,
            OP_POLL => Poll::PAYLOAD_BYTES,
            _ => return None,
        })
    }

    /// Checks what a header alone can tell: that it is a request, its operation, and the exact size
    /// of its payload.
    ///
    /// # Errors
    /// What is wrong.
    pub const fn check_header(header: &Header) -> Result<(), BadRequest> {
        if header.status != 0 {
            return Err(BadRequest::NotARequest);
        }
        match Request::payload_bytes(header.op) {
            None => Err(BadRequest::UnknownOp),
            Some(bytes) if bytes == header.payload_len as usize => Ok(()),
            Some(_) => Err(match header.op {
                OP_WATCH => BadRequest::WatchPayload,
                OP_UNWATCH => BadRequest::UnwatchPayload,
                OP_TIMER_ARM => BadRequest::TimerArmPayload,
                OP_TIMER_CANCEL => BadRequest::TimerCancelPayload,
                _ => BadRequest::PollPayload,
            }),
        }
    }

    /// Reads a request and checks everything that can be checked without knowing the guest.
    ///
    /// # Errors
    /// What is wrong.
    pub fn decode(frame: &Frame<'_>) -> Result<Request, BadRequest> {
        let payload_len = u32::try_from(frame.payload.len()).unwrap_or(u32::MAX);
        Request::check_header(&Header { op: frame.op, rid: frame.rid, status: frame.status, payload_len })?;
        let mut reader = Reader::new(frame.payload);
        match frame.op {
            OP_WATCH => Watch::read(&mut reader).map(Request::Watch),
            OP_UNWATCH => {
                let watch_id = reader.u64().map_err(|_| BadRequest::UnwatchPayload)?;
                Ok(Request::Unwatch(Unwatch { watch_id }))
            }
            OP_TIMER_ARM => TimerArm::read(&mut reader).map(Request::TimerArm),
            OP_TIMER_CANCEL => {
                let timer_id = reader.u64().map_err(|_| BadRequest::TimerCancelPayload)?;
                Ok(Request::TimerCancel(TimerCancel { timer_id }))
            }
            _ => Poll::read(&mut reader).map(Request::Poll),
        }
    }
}

/// A request frame whose payload is `payload`.
const fn request_frame<const N: usize, const PAYLOAD: usize>(
    op: u16,
    rid: u32,
    payload: [u8; PAYLOAD],
) -> [u8; N] {
    assert!(N == HEADER_BYTES + PAYLOAD);
    let header = Header::request(op, rid, PAYLOAD as u32).encode();
    put(put([0; N], 0, header), HEADER_BYTES, payload)
}

/// Asks to be told about a handle until [`Unwatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Watch {
    /// The handle.
    pub handle: u32,
    /// What to be told about; at least one bit.
    pub events: Readiness,
    /// Chosen by the guest: not 0, and not in use.
    pub watch_id: u64,
}

impl Watch {
    /// Bytes of its payload.
    pub const PAYLOAD_BYTES: usize = 20;
    /// Bytes of its frame.
    pub const FRAME_BYTES: usize = HEADER_BYTES + Watch::PAYLOAD_BYTES;

    fn read(reader: &mut Reader<'_>) -> Result<Watch, BadRequest> {
        let short = |_| BadRequest::WatchPayload;
        let handle = reader.u32().map_err(short)?;
        let events = reader.u32().map_err(short)?;
        let watch_id = reader.u64().map_err(short)?;
        if reader.u32().map_err(short)? != 0 {
            return Err(BadRequest::WatchFlags);
        }
        let events = Readiness::from_bits(events).ok_or(BadRequest::UnknownEvents)?;
        if events.is_empty() {
            return Err(BadRequest::NoEvents);
        }
        if watch_id == 0 {
            return Err(BadRequest::ZeroWatchId);
        }
        Ok(Watch { handle, events, watch_id })
    }

    /// The whole request.
    pub const fn to_frame(&self, rid: u32) -> [u8; Watch::FRAME_BYTES] {
        let payload = put([0; Watch::PAYLOAD_BYTES], 0, self.handle.to_le_bytes());
        let payload = put(payload, 4, self.events.bits().to_le_bytes());
        request_frame(OP_WATCH, rid, put(payload, 8, self.watch_id.to_le_bytes()))
    }
}

/// Ends a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unwatch {
    /// The id that it was given.
    pub watch_id: u64,
}

impl Unwatch {
    /// Bytes of its payload.
    pub const PAYLOAD_BYTES: usize = 8;
    /// Bytes of its frame.
    pub const FRAME_BYTES: usize = HEADER_BYTES + Unwatch::PAYLOAD_BYTES;

    /// The whole request.
    pub const fn to_frame(&self, rid: u32) -> [u8; Unwatch::FRAME_BYTES] {
        request_frame(OP_UNWATCH, rid, self.watch_id.to_le_bytes())
    }
}

/// Arms a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerArm {
    /// Chosen by the guest: not 0, and not armed.
    pub timer_id: u64,
    /// When it is due: on the host's monotonic clock, or from now.
    pub due_mono_ns: u64,
    /// The distance of its repetitions; 0 for none.
    pub interval_ns: u64,
    /// Whether `due_mono_ns` counts from now.
    pub relative: bool,
}

impl TimerArm {
    /// Bytes of its payload.
    pub const PAYLOAD_BYTES: usize = 28;
    /// Bytes of its frame.
    pub const FRAME_BYTES: usize = HEADER_BYTES + TimerArm::PAYLOAD_BYTES;
    /// The flag for a relative deadline.
    pub const FLAG_RELATIVE: u32 = 1;

    fn read(reader: &mut Reader<'_>) -> Result<TimerArm, BadRequest> {
        let short = |_| BadRequest::TimerArmPayload;
        let timer_id = reader.u64().map_err(short)?;
        let due_mono_ns = reader.u64().map_err(short)?;
        let interval_ns = reader.u64().map_err(short)?;
        let flags = reader.u32().map_err(short)?;
        if flags & !TimerArm::FLAG_RELATIVE != 0 {
            return Err(BadRequest::TimerFlags);
        }
        if timer_id == 0 {
            return Err(BadRequest::ZeroTimerId);
        }
        Ok(TimerArm { timer_id, due_mono_ns, interval_ns, relative: flags != 0 })
    }

    /// The whole request.
    pub const fn to_frame(&self, rid: u32) -> [u8; TimerArm::FRAME_BYTES] {
        let payload = put([0; TimerArm::PAYLOAD_BYTES], 0, self.timer_id.to_le_bytes());
        let payload = put(payload, 8, self.due_mono_ns.to_le_bytes());
        let payload = put(payload, 16, self.interval_ns.to_le_bytes());
        let flags = if self.relative { TimerArm::FLAG_RELATIVE } else { 0 };
        request_frame(OP_TIMER_ARM, rid, put(payload, 24, flags.to_le_bytes()))
    }
}

/// Cancels a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerCancel {
    /// The id that it was given.
    pub timer_id: u64,
}

impl TimerCancel {
    /// Bytes of its payload.
    pub const PAYLOAD_BYTES: usize = 8;
    /// Bytes of its frame.
    pub const FRAME_BYTES: usize = HEADER_BYTES + TimerCancel::PAYLOAD_BYTES;

    /// The whole request.
    pub const fn to_frame(&self, rid: u32) -> [u8; TimerCancel::FRAME_BYTES] {
        request_frame(OP_TIMER_CANCEL, rid, self.timer_id.to_le_bytes())
    }
}

/// Waits until something happens: the only request that suspends a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Poll {
    /// The most events to return; at least 1.
    pub max_events: u32,
    /// How long to wait; 0 not at all, [`TIMEOUT_FOREVER`](super::TIMEOUT_FOREVER) for ever.
    pub timeout_ms: u32,
}

impl Poll {
    /// Bytes of its payload.
    pub const PAYLOAD_BYTES: usize = 8;
    /// Bytes of its frame.
    pub const FRAME_BYTES: usize = HEADER_BYTES + Poll::PAYLOAD_BYTES;

    fn read(reader: &mut Reader<'_>) -> Result<Poll, BadRequest> {
        let short = |_| BadRequest::PollPayload;
        let max_events = reader.u32().map_err(short)?;
        let timeout_ms = reader.u32().map_err(short)?;
        if max_events == 0 {
            return Err(BadRequest::ZeroMaxEvents);
        }
        Ok(Poll { max_events, timeout_ms })
    }

    /// The whole request.
    pub const fn to_frame(&self, rid: u32) -> [u8; Poll::FRAME_BYTES] {
        let payload = put([0; Poll::PAYLOAD_BYTES], 0, self.max_events.to_le_bytes());
        request_frame(OP_POLL, rid, put(payload, 4, self.timeout_ms.to_le_bytes()))
    }
}
