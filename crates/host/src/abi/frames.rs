//! ZCL1 over `zi_write` and `zi_read`: requests cut out of whatever pieces a guest writes, responses kept until it reads them.

use crate::guest::context::GuestContext;
use crate::limits::Limit;
use mainspring_zcl::abi::ErrorCode;
use mainspring_zcl::{ErrorPayload, Frame, HEADER_BYTES, Header, MalformedFrame, STATUS_ERROR, STATUS_OK};

/// The longest payload of any request.
pub(crate) const PAYLOAD_BYTES_MAX: usize = mainspring_zcl::sys_loop::REQUEST_PAYLOAD_BYTES_MAX;
/// The longest request.
const REQUEST_BYTES_MAX: usize = HEADER_BYTES + PAYLOAD_BYTES_MAX;
/// Most bytes of unread responses per handle.
pub(crate) const RESPONSES_BYTES_MAX: usize = 64 * 1024;
/// Room that must be left before another request is taken: every response but a poll's fits.
pub(crate) const RESPONSE_ROOM_MIN: usize = 256;
/// A response buffer larger than this is given back once it has been read.
const IDLE_BUFFER_BYTES: usize = 4 * 1024;

/// A whole request, copied out of guest memory: requests are a few dozen bytes.
pub(crate) struct Request {
    pub(crate) op: u16,
    pub(crate) rid: u32,
    payload: [u8; PAYLOAD_BYTES_MAX],
    payload_len: usize,
}

impl Request {
    pub(crate) fn frame(&self) -> Frame<'_> {
        Frame { op: self.op, rid: self.rid, status: STATUS_ERROR, payload: &self.payload[..self.payload_len] }
    }
}

/// What a piece of input has come to.
pub(crate) enum Input {
    /// More bytes are needed.
    Incomplete,
    /// A whole request.
    Request(Request),
    /// Not a frame, or one that its header says cannot be understood.
    Malformed { op: u16, rid: u32, message: &'static str },
}

/// Cuts requests out of a byte stream.
///
/// Bytes that cannot become a frame cost the bytes written so far: the rest of that write is dropped with them, and the next write
/// starts a new frame. A header whose magic and version are right tells its length: whatever else is wrong with it, it costs its announced
/// payload, as far as that write goes. So nothing that a guest writes can make the stream lose its footing for longer than one write.
pub(crate) struct Inbox {
    bytes: [u8; REQUEST_BYTES_MAX],
    length: usize,
    /// Checks an otherwise valid header: operation and size.
    check: fn(&Header) -> Result<(), &'static str>,
}

impl Inbox {
    pub(crate) fn new(check: fn(&Header) -> Result<(), &'static str>) -> Inbox {
        Inbox { bytes: [0; REQUEST_BYTES_MAX], length: 0, check }
    }

    /// Takes bytes until a request is complete. Returns how many it took.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> (usize, Input) {
        let taken = self.fill(bytes, HEADER_BYTES);
        let Some(header) = self.bytes[..self.length].first_chunk::<HEADER_BYTES>() else {
            return match Header::check_prefix(&self.bytes[..self.length]) {
                Ok(()) => (taken, Input::Incomplete),
                Err(malformed) => (bytes.len(), self.reject(0, malformed.message())),
            };
        };
        let header = match Header::decode(header) {
            Ok(header) => header,
            Err(malformed) => {
                // With the magic and the version that are known, the length is where it always is.
                let announced = match malformed {
                    MalformedFrame::Status | MalformedFrame::Reserved => payload_length(header),
                    _ => usize::MAX,
                };
                let skipped = announced.min(bytes.len() - taken);
                return (taken + skipped, self.reject(HEADER_BYTES, malformed.message()));
            }
        };
        let checked = match (self.check)(&header) {
            Ok(()) if header.payload_len as usize > PAYLOAD_BYTES_MAX => Err("payload too long"),
            checked => checked,
        };
        if let Err(message) = checked {
            let skipped = (header.payload_len as usize).min(bytes.len() - taken);
            return (taken + skipped, self.reject(HEADER_BYTES, message));
        }
        let total = HEADER_BYTES + header.payload_len as usize;
        let taken = taken + self.fill(&bytes[taken..], total);
        if self.length < total {
            return (taken, Input::Incomplete);
        }
        self.length = 0;
        let mut payload = [0; PAYLOAD_BYTES_MAX];
        payload.copy_from_slice(&self.bytes[HEADER_BYTES..]);
        let payload_len = header.payload_len as usize;
        (taken, Input::Request(Request { op: header.op, rid: header.rid, payload, payload_len }))
    }

    /// Appends bytes until there are `total`. Returns how many it took.
    fn fill(&mut self, bytes: &[u8], total: usize) -> usize {
        let count = total.saturating_sub(self.length).min(bytes.len());
        self.bytes[self.length..self.length + count].copy_from_slice(&bytes[..count]);
        self.length += count;
        count
    }

    /// Starts over. The operation and the request's id are repeated in the error if there are any.
    fn reject(&mut self, known: usize, message: &'static str) -> Input {
        self.length = 0;
        let (op, rid) = if known >= HEADER_BYTES && self.bytes.starts_with(&mainspring_zcl::MAGIC) {
            let rid = [self.bytes[8], self.bytes[9], self.bytes[10], self.bytes[11]];
            (u16::from_le_bytes([self.bytes[6], self.bytes[7]]), u32::from_le_bytes(rid))
        } else {
            (0, 0)
        };
        Input::Malformed { op, rid, message }
    }
}

/// The length that a header announces, valid or not.
fn payload_length(header: &[u8; HEADER_BYTES]) -> usize {
    let [.., a, b, c, d] = *header;
    u32::from_le_bytes([a, b, c, d]) as usize
}

/// Responses that the guest has not read.
#[derive(Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    read: usize,
}

impl Outbox {
    fn unread(&self) -> usize {
        self.bytes.len() - self.read
    }

    /// How much more it may hold, or why it may hold nothing: a guest with something to read here is told to come back when it
    /// has; one that has used up its buffers elsewhere has run into its limit.
    pub(crate) fn room(&self, guest: &GuestContext) -> Result<usize, ErrorCode> {
        let budget = guest.buffer_room();
        let room = (RESPONSES_BYTES_MAX - self.unread().min(RESPONSES_BYTES_MAX)).min(budget);
        if room >= RESPONSE_ROOM_MIN {
            return Ok(room);
        }
        if budget < RESPONSE_ROOM_MIN {
            guest.refuse(Limit::BufferedBytes);
        }
        Err(if self.unread() > 0 { ErrorCode::Again } else { ErrorCode::OutOfMemory })
    }

    /// Appends bytes, for which there must be room.
    pub(crate) fn push(&mut self, guest: &GuestContext, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        guest.buffered(bytes.len());
    }

    /// Leaves `count` bytes to be filled in later. Says where.
    pub(crate) fn reserve(&mut self, guest: &GuestContext, count: usize) -> usize {
        let at = self.bytes.len();
        self.bytes.resize(at + count, 0);
        guest.buffered(count);
        at
    }

    pub(crate) fn fill(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn push_ok(&mut self, guest: &GuestContext, op: u16, rid: u32, payload: &[u8]) {
        let header = Header { op, rid, status: STATUS_OK, payload_len: payload.len() as u32 };
        self.push(guest, &header.encode());
        self.push(guest, payload);
    }

    pub(crate) fn push_error(&mut self, guest: &GuestContext, op: u16, rid: u32, trace: &str, message: &str) {
        let error = ErrorPayload { trace, message, detail: "" };
        let header = Header { op, rid, status: STATUS_ERROR, payload_len: error.len() as u32 };
        self.push(guest, &header.encode());
        for text in [error.trace, error.message, error.detail] {
            self.push(guest, &(text.len() as u32).to_le_bytes());
            self.push(guest, text.as_bytes());
        }
    }

    /// `zi_read`.
    pub(crate) fn read(&mut self, guest: &GuestContext, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
        let unread = &self.bytes[self.read..];
        if unread.is_empty() {
            return Err(ErrorCode::Again);
        }
        let count = unread.len().min(buffer.len());
        buffer[..count].copy_from_slice(&unread[..count]);
        self.read += count;
        guest.unbuffered(count);
        if self.unread() == 0 {
            self.read = 0;
            self.bytes.clear();
            if self.bytes.capacity() > IDLE_BUFFER_BYTES {
                self.bytes = Vec::new();
            }
        } else if self.read >= RESPONSES_BYTES_MAX {
            // A guest that never quite catches up must not make the buffer grow.
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        Ok(count)
    }

    /// The handle is closed: what was not read is not held any more.
    pub(crate) fn close(&mut self, guest: &GuestContext) {
        guest.unbuffered(self.unread());
        *self = Outbox::default();
    }
}
