//! Little-endian numbers and length-prefixed strings, read and written without copying more than
//! once.

use core::fmt;

/// The bytes ended in the middle of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes end in the middle of a value")
    }
}

impl core::error::Error for Truncated {}

/// The buffer is too small for what should be written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferFull;

impl fmt::Display for BufferFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the buffer is too small")
    }
}

impl core::error::Error for BufferFull {}

/// Takes values off the front of a byte slice.
#[derive(Clone, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// What has not been taken yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Takes the next `count` bytes.
    ///
    /// # Errors
    /// [`Truncated`] if there are fewer; nothing is taken then.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Truncated> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// Takes a 16-bit number.
    ///
    /// # Errors
    /// [`Truncated`].
    pub fn u16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_le_bytes)
    }

    /// Takes a 32-bit number.
    ///
    /// # Errors
    /// [`Truncated`].
    pub fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_le_bytes)
    }

    /// Takes a 64-bit number.
    ///
    /// # Errors
    /// [`Truncated`].
    pub fn u64(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_le_bytes)
    }

    /// Takes a 32-bit length and that many bytes.
    ///
    /// # Errors
    /// [`Truncated`].
    pub fn string(&mut self) -> Result<&'a [u8], Truncated> {
        let mut ahead = self.clone();
        let length = ahead.u32()? as usize;
        let bytes = ahead.bytes(length)?;
        *self = ahead;
        Ok(bytes)
    }
}

/// Puts values one after another into a byte slice.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    written: usize,
}

impl<'a> Writer<'a> {
    /// Starts at the front of `buffer`.
    pub const fn new(buffer: &'a mut [u8]) -> Writer<'a> {
        Writer { buffer, written: 0 }
    }

    /// How many bytes have been written.
    pub const fn written(&self) -> usize {
        self.written
    }

    /// Puts bytes as they are.
    ///
    /// # Errors
    /// [`BufferFull`] if they do not fit; nothing is written then.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<&mut Self, BufferFull> {
        let end = self.written.checked_add(bytes.len()).ok_or(BufferFull)?;
        self.buffer.get_mut(self.written..end).ok_or(BufferFull)?.copy_from_slice(bytes);
        self.written = end;
        Ok(self)
    }

    /// Puts a 16-bit number.
    ///
    /// # Errors
    /// [`BufferFull`].
    pub fn u16(&mut self, value: u16) -> Result<&mut Self, BufferFull> {
        self.bytes(&value.to_le_bytes())
    }

    /// Puts a 32-bit number.
    ///
    /// # Errors
    /// [`BufferFull`].
    pub fn u32(&mut self, value: u32) -> Result<&mut Self, BufferFull> {
        self.bytes(&value.to_le_bytes())
    }

    /// Puts a 64-bit number.
    ///
    /// # Errors
    /// [`BufferFull`].
    pub fn u64(&mut self, value: u64) -> Result<&mut Self, BufferFull> {
        self.bytes(&value.to_le_bytes())
    }

    /// Puts a 32-bit length and the bytes.
    ///
    /// # Errors
    /// [`BufferFull`].
    pub fn string(&mut self, bytes: &[u8]) -> Result<&mut Self, BufferFull> {
        self.u32(u32::try_from(bytes.len()).map_err(|_| BufferFull)?)?;
        self.bytes(bytes)
    }
}

/// Copies `bytes` into `buffer` at `offset`; for arrays whose size is known to suffice.
pub(crate) const fn put<const N: usize, const M: usize>(
    mut buffer: [u8; N],
    offset: usize,
    bytes: [u8; M],
) -> [u8; N] {
    let mut index = 0;
    while index < M {
        buffer[offset + index] = bytes[index];
        index += 1;
    }
    buffer
}
