//! The frame: a 24-byte header and a payload.

use crate::wire::{BufferFull, Writer, put};
use core::fmt;

/// The first four bytes of every frame.
pub const MAGIC: [u8; 4] = *b"ZCL1";
/// The only version there is.
pub const VERSION: u16 = 1;
/// Bytes before the payload.
pub const HEADER_BYTES: usize = 24;
/// The status of a successful response.
pub const STATUS_OK: u32 = 1;
/// The status of an error response, and of every request: the two look alike.
pub const STATUS_ERROR: u32 = 0;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// What is asked for; each capability numbers its own.
    pub op: u16,
    /// Chosen by whoever asks, repeated in the answer.
    pub rid: u32,
    /// [`STATUS_OK`] or [`STATUS_ERROR`].
    pub status: u32,
    /// Bytes after the header.
    pub payload_len: u32,
}

/// Why bytes cannot be a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MalformedFrame {
    /// They do not begin with [`MAGIC`].
    Magic,
    /// The version is not [`VERSION`].
    Version,
    /// The status is neither [`STATUS_OK`] nor [`STATUS_ERROR`].
    Status,
    /// The reserved field is not zero.
    Reserved,
}

impl MalformedFrame {
    /// The same in words.
    pub const fn message(self) -> &'static str {
        match self {
            MalformedFrame::Magic => "bad magic",
            MalformedFrame::Version => "unsupported version",
            MalformedFrame::Status => "bad status",
            MalformedFrame::Reserved => "reserved field must be 0",
        }
    }
}

impl fmt::Display for MalformedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl core::error::Error for MalformedFrame {}

const fn u16_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

const fn u32_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Header {
    /// A request's header.
    pub const fn request(op: u16, rid: u32, payload_len: u32) -> Header {
        Header { op, rid, status: STATUS_ERROR, payload_len }
    }

    /// Reads a header.
    ///
    /// # Errors
    /// The first field that cannot be part of a header.
    pub const fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, MalformedFrame> {
        if u32_at(bytes, 0) != u32::from_le_bytes(MAGIC) {
            return Err(MalformedFrame::Magic);
        }
        if u16_at(bytes, 4) != VERSION {
            return Err(MalformedFrame::Version);
        }
        let status = u32_at(bytes, 12);
        if status > STATUS_OK {
            return Err(MalformedFrame::Status);
        }
        if u32_at(bytes, 16) != 0 {
            return Err(MalformedFrame::Reserved);
        }
        Ok(Header { op: u16_at(bytes, 6), rid: u32_at(bytes, 8), status, payload_len: u32_at(bytes, 20) })
    }

    /// Whether the beginning of a header, however short, can still become a valid one.
    ///
    /// # Errors
    /// The first byte that says no, as the field it belongs to.
    pub fn check_prefix(prefix: &[u8]) -> Result<(), MalformedFrame> {
        // A header that is valid in every field, with the given bytes on top: what is missing
        // cannot be the culprit.
        let mut bytes = Header::request(0, 0, 0).encode();
        let length = prefix.len().min(HEADER_BYTES);
        bytes[..length].copy_from_slice(&prefix[..length]);
        Header::decode(&bytes).map(drop)
    }

    /// Writes the header.
    pub const fn encode(&self) -> [u8; HEADER_BYTES] {
        let bytes = put([0; HEADER_BYTES], 0, MAGIC);
        let bytes = put(bytes, 4, VERSION.to_le_bytes());
        let bytes = put(bytes, 6, self.op.to_le_bytes());
        let bytes = put(bytes, 8, self.rid.to_le_bytes());
        let bytes = put(bytes, 12, self.status.to_le_bytes());
        put(bytes, 20, self.payload_len.to_le_bytes())
    }
}

/// A whole frame, borrowed from the bytes it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame<'a> {
    /// What is asked for or answered.
    pub op: u16,
    /// Which request this is, or answers.
    pub rid: u32,
    /// [`STATUS_OK`] or [`STATUS_ERROR`].
    pub status: u32,
    /// Everything after the header.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads a frame off the front of `bytes`, and returns it with what follows; `None` if more
    /// bytes are needed.
    ///
    /// # Errors
    /// [`MalformedFrame`] as soon as the bytes cannot become a frame, even if they are incomplete.
    pub fn decode(bytes: &'a [u8]) -> Result<Option<(Frame<'a>, &'a [u8])>, MalformedFrame> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Header::check_prefix(bytes).map(|()| None);
        };
        let header = Header::decode(header)?;
        let frame = rest.split_at_checked(header.payload_len as usize).map(|(payload, rest)| {
            (Frame { op: header.op, rid: header.rid, status: header.status, payload }, rest)
        });
        Ok(frame)
    }

    /// Writes the frame into `buffer` and says how long it is.
    ///
    /// # Errors
    /// [`BufferFull`].
    pub fn encode(&self, buffer: &mut [u8]) -> Result<usize, BufferFull> {
        let payload_len = u32::try_from(self.payload.len()).map_err(|_| BufferFull)?;
        let header = Header { op: self.op, rid: self.rid, status: self.status, payload_len };
        if buffer.len() < HEADER_BYTES + self.payload.len() {
            return Err(BufferFull);
        }
        let mut writer = Writer::new(buffer);
        writer.bytes(&header.encode())?.bytes(self.payload)?;
        Ok(writer.written())
    }
}
