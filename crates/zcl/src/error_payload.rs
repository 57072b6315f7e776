//! The payload of an error response.

use crate::wire::{BufferFull, Reader, Writer};
use core::fmt;

/// What went wrong: who says so, in words, and whatever else they wish to add.
///
/// On the wire: three strings, each a 32-bit length and UTF-8 bytes without NUL; 12 bytes and the
/// three lengths in all.
///
/// # Examples
/// ```
/// use mainspring_zcl::ErrorPayload;
///
/// let error = ErrorPayload { trace: "sys.loop", message: "unknown op", detail: "" };
/// let mut buffer = [0; 64];
/// let length = error.encode(&mut buffer).unwrap();
/// assert_eq!(length, 12 + 8 + 10);
/// assert_eq!(ErrorPayload::decode(&buffer[..length]), Ok(error));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorPayload<'a> {
    /// Where it happened, such as `sys.loop`.
    pub trace: &'a str,
    /// What happened.
    pub message: &'a str,
    /// More of it; usually empty.
    pub detail: &'a str,
}

/// The payload is too short for what it announces, or not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedErrorPayload;

impl fmt::Display for MalformedErrorPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the error payload is too short for what it announces, or not text")
    }
}

impl core::error::Error for MalformedErrorPayload {}

fn text<'a>(reader: &mut Reader<'a>) -> Result<&'a str, MalformedErrorPayload> {
    let bytes = reader.string().map_err(|_| MalformedErrorPayload)?;
    core::str::from_utf8(bytes).map_err(|_| MalformedErrorPayload)
}

impl<'a> ErrorPayload<'a> {
    /// Reads a payload. Bytes after the third string are ignored: the protocol's first
    /// implementation sends four.
    ///
    /// # Errors
    /// [`MalformedErrorPayload`].
    pub fn decode(payload: &'a [u8]) -> Result<ErrorPayload<'a>, MalformedErrorPayload> {
        let mut reader = Reader::new(payload);
        Ok(ErrorPayload {
            trace: text(&mut reader)?,
            message: text(&mut reader)?,
            detail: text(&mut reader)?,
        })
    }

    /// How many bytes it takes on the wire.
    pub const fn len(&self) -> usize {
        12 + self.trace.len() + self.message.len() + self.detail.len()
    }

    /// Never: the three lengths are always there.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes it into `buffer` and says how long it is.
    ///
    /// # Errors
    /// [`BufferFull`].
    pub fn encode(&self, buffer: &mut [u8]) -> Result<usize, BufferFull> {
        let mut writer = Writer::new(buffer);
        for text in [self.trace, self.message, self.detail] {
            writer.string(text.as_bytes())?;
        }
        Ok(writer.written())
    }
}
