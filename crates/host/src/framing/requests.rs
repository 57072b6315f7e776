//! Requests: frames cut out of the pieces that a guest writes.

use crate::guest::context::GuestContext;
use crate::limits::Limit;
use mainspring_zcl::{Frame, HEADER_BYTES, Header, MalformedFrame};

/// What a piece of input has come to.
pub(crate) enum Input<'a> {
    /// More bytes are needed.
    Incomplete,
    /// A whole request.
    Request(Frame<'a>),
    /// Not a frame, or one that its header says cannot be understood.
    Malformed { op: u16, rid: u32, message: &'static str },
    /// The guest may not have as many bytes held for it.
    NoRoom,
}

/// Cuts requests out of a byte stream.
///
/// A request that was written in one piece, as nearly all are, is not copied. Bytes that cannot
/// become a frame cost the bytes written so far: the rest of that write is dropped with them, and
/// the next write starts a new frame. A header whose magic and version are right tells its length:
/// whatever else is wrong with it, it costs its announced payload, as far as that write goes. So
/// nothing that a guest writes can make the stream lose its footing for longer than one write.
pub(crate) struct Inbox {
    /// The beginning of a request whose rest has not been written, or a whole one that was
    /// returned.
    held: Vec<u8>,
    /// What is held was returned, and is not needed any more.
    returned: bool,
    payload_bytes_max: usize,
    /// Checks an otherwise valid header: operation and size.
    check: fn(&Header) -> Result<(), &'static str>,
}

/// Why a header is refused.
struct Refusal {
    message: &'static str,
    /// How many bytes after the header belong to it.
    announced: usize,
}

impl Inbox {
    /// Takes requests whose payload has at most `payload_bytes_max` bytes and whose header passes
    /// `check`.
    pub(crate) fn new(payload_bytes_max: usize, check: fn(&Header) -> Result<(), &'static str>) -> Inbox {
        Inbox { held: Vec::new(), returned: false, payload_bytes_max, check }
    }

    /// Takes bytes until a request is complete. Returns how many it took.
    pub(crate) fn take<'a>(&'a mut self, guest: &GuestContext, bytes: &'a [u8]) -> (usize, Input<'a>) {
        if self.returned {
            self.clear(guest);
        }
        if self.held.is_empty()
            && let Some(header) = bytes.first_chunk::<HEADER_BYTES>()
        {
            let rest = &bytes[HEADER_BYTES..];
            match self.inspect(header) {
                Ok(header) => {
                    if let Some(payload) = rest.get(..header.payload_len as usize) {
                        return (HEADER_BYTES + payload.len(), Input::Request(frame(header, payload)));
                    }
                }
                Err(refusal) => {
                    let taken = HEADER_BYTES + refusal.announced.min(rest.len());
                    return (taken, malformed(header, refusal.message));
                }
            }
        }
        self.take_piece(guest, bytes)
    }

    /// As [`take`](Inbox::take), for a request that comes in pieces.
    fn take_piece<'a>(&'a mut self, guest: &GuestContext, bytes: &[u8]) -> (usize, Input<'a>) {
        let Some(taken) = self.fill(guest, bytes, HEADER_BYTES) else { return (0, Input::NoRoom) };
        let Some(header) = self.held.first_chunk::<HEADER_BYTES>().copied() else {
            return match Header::check_prefix(&self.held) {
                Ok(()) => (taken, Input::Incomplete),
                Err(wrong) => {
                    self.clear(guest);
                    (bytes.len(), Input::Malformed { op: 0, rid: 0, message: wrong.message() })
                }
            };
        };
        let parsed = match self.inspect(&header) {
            Ok(parsed) => parsed,
            Err(refusal) => {
                self.clear(guest);
                let skipped = refusal.announced.min(bytes.len() - taken);
                return (taken + skipped, malformed(&header, refusal.message));
            }
        };
        let total = HEADER_BYTES + parsed.payload_len as usize;
        let Some(more) = self.fill(guest, &bytes[taken..], total) else {
            return (taken, if taken > 0 { Input::Incomplete } else { Input::NoRoom });
        };
        let taken = taken + more;
        if self.held.len() < total {
            return (taken, Input::Incomplete);
        }
        self.returned = true;
        (taken, Input::Request(frame(parsed, &self.held[HEADER_BYTES..])))
    }

    /// Reads a header and checks it.
    fn inspect(&self, header: &[u8; HEADER_BYTES]) -> Result<Header, Refusal> {
        let parsed = Header::decode(header).map_err(|wrong| Refusal {
            message: wrong.message(),
            // With the magic and the version that are known, the length is where it always is.
            announced: match wrong {
                MalformedFrame::Status | MalformedFrame::Reserved => payload_length(header),
                _ => usize::MAX,
            },
        })?;
        let announced = parsed.payload_len as usize;
        let checked = match (self.check)(&parsed) {
            Ok(()) if announced > self.payload_bytes_max => Err("payload too long"),
            checked => checked,
        };
        checked.map(|()| parsed).map_err(|message| Refusal { message, announced })
    }

    /// Appends bytes until there are `total`. Returns how many it took, or `None` if it should have
    /// taken some and the guest may not have any more held for it.
    fn fill(&mut self, guest: &GuestContext, bytes: &[u8], total: usize) -> Option<usize> {
        let wanted = total.saturating_sub(self.held.len()).min(bytes.len());
        let count = wanted.min(guest.buffer_room());
        if count < wanted {
            guest.refuse(Limit::BufferedBytes);
        }
        if count == 0 && wanted > 0 {
            return None;
        }
        self.held.extend_from_slice(&bytes[..count]);
        guest.buffered(count);
        Some(count)
    }

    /// Starts over.
    fn clear(&mut self, guest: &GuestContext) {
        guest.unbuffered(self.held.len());
        self.held = Vec::new();
        self.returned = false;
    }

    /// The handle is closed: nothing is held any more.
    pub(crate) fn close(&mut self, guest: &GuestContext) {
        self.clear(guest);
    }
}

fn frame(header: Header, payload: &[u8]) -> Frame<'_> {
    Frame { op: header.op, rid: header.rid, status: header.status, payload }
}

/// The operation and the request's id are repeated in the error if there are any.
fn malformed(header: &[u8; HEADER_BYTES], message: &'static str) -> Input<'static> {
    let (op, rid) = if header.starts_with(&mainspring_zcl::MAGIC) {
        let rid = [header[8], header[9], header[10], header[11]];
        (u16::from_le_bytes([header[6], header[7]]), u32::from_le_bytes(rid))
    } else {
        (0, 0)
    };
    Input::Malformed { op, rid, message }
}

/// The length that a header announces, valid or not.
fn payload_length(header: &[u8; HEADER_BYTES]) -> usize {
    let [.., a, b, c, d] = *header;
    u32::from_le_bytes([a, b, c, d]) as usize
}
