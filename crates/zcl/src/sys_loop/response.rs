//! The response to a poll, and its events.

use super::{OP_POLL, Readiness};
use crate::frame::{HEADER_BYTES, Header, STATUS_OK};
use crate::wire::{BufferFull, Reader, Writer, put};
use core::fmt;

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

    /// What stands before the events of a response frame: its header and the fixed part of its
    /// payload.
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
