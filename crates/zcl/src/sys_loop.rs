//! `sys/loop@v1`: how a guest waits for everything at once.
//!
//! Five requests ([`Watch`], [`Unwatch`], [`TimerArm`], [`TimerCancel`], [`Poll`]), and the response to a poll: a
//! [`PollResponse`] with [`Event`]s. The other four are answered by an empty payload.

use crate::frame::{Frame, HEADER_BYTES, Header, STATUS_OK};
use crate::wire::{BufferFull, Reader, Writer, put};
use core::fmt;

/// Registers interest in a handle.
pub const OP_WATCH: u16 = 1;
/// Removes a watch.
pub const OP_UNWATCH: u16 = 2;
/// Arms a timer.
pub const OP_TIMER_ARM: u16 = 3;
/// Cancels a timer.
pub const OP_TIMER_CANCEL: u16 = 4;
/// Waits for events.
pub const OP_POLL: u16 = 5;

/// The trace of every error that the loop reports.
pub const TRACE: &str = "sys.loop";

/// The longest payload of a request.
pub const REQUEST_PAYLOAD_BYTES_MAX: usize = TimerArm::PAYLOAD_BYTES;

/// A `timeout_ms` without end.
pub const TIMEOUT_FOREVER: u32 = u32::MAX;

/// A set of readiness bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Readiness(u32);

impl Readiness {
    /// Nothing.
    pub const NONE: Readiness = Readiness(0);
    /// A read makes progress.
    pub const READABLE: Readiness = Readiness(1);
    /// A write makes progress.
    pub const WRITABLE: Readiness = Readiness(2);
    /// The peer has closed.
    pub const HANGUP: Readiness = Readiness(4);
    /// There is an error to report.
    pub const ERROR: Readiness = Readiness(8);
    /// Every bit that version 1 defines.
    pub const ALL: Readiness = Readiness(15);

    /// The set as a number.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set that a number stands for, or `None` if it has bits that version 1 does not define.
    pub const fn from_bits(bits: u32) -> Option<Readiness> {
        if bits & !Readiness::ALL.0 == 0 { Some(Readiness(bits)) } else { None }
    }

    /// Whether it has every bit of `other`.
    pub const fn contains(self, other: Readiness) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether it has any bit of `other`.
    pub const fn intersects(self, other: Readiness) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it has no bit.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The bits of either.
    #[must_use]
    pub const fn union(self, other: Readiness) -> Readiness {
        Readiness(self.0 | other.0)
    }

    /// The bits of both.
    #[must_use]
    pub const fn intersection(self, other: Readiness) -> Readiness {
        Readiness(self.0 & other.0)
    }

    /// The bits that `other` lacks.
    #[must_use]
    pub const fn difference(self, other: Readiness) -> Readiness {
        Readiness(self.0 & !other.0)
    }
}

impl core::ops::BitOr for Readiness {
    type Output = Readiness;

    fn bitor(self, other: Readiness) -> Readiness {
        self.union(other)
    }
}

impl core::ops::BitOrAssign for Readiness {
    fn bitor_assign(&mut self, other: Readiness) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(1, "READABLE"), (2, "WRITABLE"), (4, "HANGUP"), (8, "ERROR")];
        let mut set = f.debug_set();
        for (bit, name) in names {
            if self.0 & bit != 0 {
                set.entry(&format_args!("{name}"));
            }
        }
        set.finish()
    }
}

/// Why a request is refused before anything is looked up. The words are those of the protocol's first implementation.
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

    /// Checks what a header alone can tell: that it is a request, its operation, and the exact size of its payload.
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
    /// How long to wait; 0 not at all, [`TIMEOUT_FOREVER`] for ever.
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

/// Something that a poll reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A watched handle is ready.
    Ready {
        /// Which watch.
        watch_id: u64,
        /// Its handle.
        handle: u32,
        /// What it asked for and what is true.
        events: Readiness,
    },
    /// A timer was due.
    Timer {
        /// Which timer.
        timer_id: u64,
        /// The host's monotonic clock when this was delivered.
        now_mono_ns: u64,
    },
}

/// Why a poll's response cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MalformedResponse;

impl fmt::Display for MalformedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the response to a poll is malformed")
    }
}

impl core::error::Error for MalformedResponse {}

impl Event {
    /// Bytes of an event.
    pub const BYTES: usize = 32;
    const KIND_READY: u32 = 1;
    const KIND_TIMER: u32 = 2;

    /// Writes the event.
    pub const fn encode(&self) -> [u8; Event::BYTES] {
        let (kind, events, handle, id, data) = match *self {
            Event::Ready { watch_id, handle, events } => {
                (Event::KIND_READY, events.bits(), handle, watch_id, 0)
            }
            Event::Timer { timer_id, now_mono_ns } => (Event::KIND_TIMER, 0, 0, timer_id, now_mono_ns),
        };
        let bytes = put([0; Event::BYTES], 0, kind.to_le_bytes());
        let bytes = put(bytes, 4, events.to_le_bytes());
        let bytes = put(bytes, 8, handle.to_le_bytes());
        let bytes = put(bytes, 16, id.to_le_bytes());
        put(bytes, 24, data.to_le_bytes())
    }

    /// Reads an event.
    ///
    /// # Errors
    /// [`MalformedResponse`] if the kind is unknown or a field that must be zero is not.
    pub fn decode(bytes: &[u8; Event::BYTES]) -> Result<Event, MalformedResponse> {
        let mut reader = Reader::new(bytes);
        let mut word = || reader.u32().map_err(|_| MalformedResponse);
        let (kind, events, handle, reserved) = (word()?, word()?, word()?, word()?);
        let id = reader.u64().map_err(|_| MalformedResponse)?;
        let data = reader.u64().map_err(|_| MalformedResponse)?;
        match (kind, reserved) {
            (Event::KIND_READY, 0) if data == 0 => {
                let events = Readiness::from_bits(events).ok_or(MalformedResponse)?;
                Ok(Event::Ready { watch_id: id, handle, events })
            }
            (Event::KIND_TIMER, 0) if events == 0 && handle == 0 => {
                Ok(Event::Timer { timer_id: id, now_mono_ns: data })
            }
            _ => Err(MalformedResponse),
        }
    }
}

/// The response to a poll, borrowed from its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollResponse<'a> {
    /// Whether more events are pending.
    pub more: bool,
    events: &'a [[u8; Event::BYTES]],
}

impl<'a> PollResponse<'a> {
    /// Bytes before the first event.
    pub const PREFIX_BYTES: usize = 16;
    /// The flag that says that more events are pending.
    pub const FLAG_MORE: u32 = 1;
    const VERSION: u32 = 1;

    /// Bytes of the frame of a response with `events` events.
    pub const fn frame_bytes(events: usize) -> usize {
        HEADER_BYTES + PollResponse::PREFIX_BYTES + events * Event::BYTES
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// [`MalformedResponse`] if the version, the flags, the reserved field or the size is wrong.
    pub fn decode(payload: &'a [u8]) -> Result<PollResponse<'a>, MalformedResponse> {
        let mut reader = Reader::new(payload);
        let mut word = || reader.u32().map_err(|_| MalformedResponse);
        let (version, flags, count, reserved) = (word()?, word()?, word()?, word()?);
        if version != PollResponse::VERSION || flags & !PollResponse::FLAG_MORE != 0 || reserved != 0 {
            return Err(MalformedResponse);
        }
        let (events, trailing) = reader.rest().as_chunks::<{ Event::BYTES }>();
        if events.len() != count as usize || !trailing.is_empty() {
            return Err(MalformedResponse);
        }
        Ok(PollResponse { more: flags != 0, events })
    }

    /// How many events there are.
    pub const fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The events, in order.
    pub fn events(&self) -> impl ExactSizeIterator<Item = Result<Event, MalformedResponse>> + use<'a> {
        self.events.iter().map(Event::decode)
    }

    /// What stands before the events of a response frame: its header and the fixed part of its payload.
    pub const fn frame_prefix(
        rid: u32,
        more: bool,
        events: u32,
    ) -> [u8; HEADER_BYTES + PollResponse::PREFIX_BYTES] {
        let payload_len = PollResponse::PREFIX_BYTES as u32 + events * Event::BYTES as u32;
        let header = Header { op: OP_POLL, rid, status: STATUS_OK, payload_len };
        let bytes = put([0; HEADER_BYTES + PollResponse::PREFIX_BYTES], 0, header.encode());
        let bytes = put(bytes, HEADER_BYTES, PollResponse::VERSION.to_le_bytes());
        let flags = if more { PollResponse::FLAG_MORE } else { 0 };
        let bytes = put(bytes, HEADER_BYTES + 4, flags.to_le_bytes());
        put(bytes, HEADER_BYTES + 8, events.to_le_bytes())
    }

    /// Writes a whole response frame into `buffer` and says how long it is.
    ///
    /// # Errors
    /// [`BufferFull`].
    pub fn encode_frame(
        rid: u32,
        more: bool,
        events: &[Event],
        buffer: &mut [u8],
    ) -> Result<usize, BufferFull> {
        let count = u32::try_from(events.len()).map_err(|_| BufferFull)?;
        let mut writer = Writer::new(buffer);
        writer.bytes(&PollResponse::frame_prefix(rid, more, count))?;
        for event in events {
            writer.bytes(&event.encode())?;
        }
        Ok(writer.written())
    }
}
