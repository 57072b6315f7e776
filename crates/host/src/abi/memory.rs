//! Guest memory, reached only through checked ranges.

use mainspring_zcl::abi::ErrorCode;
use std::ops::Range;

/// A guest's linear memory during one call. Every access is checked, and nothing is allocated
/// before it has been.
pub struct GuestMemory<'a>(&'a mut [u8]);

impl<'a> GuestMemory<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> GuestMemory<'a> {
        GuestMemory(bytes)
    }

    fn range(&self, offset: u64, len: u32) -> Result<Range<usize>, ErrorCode> {
        let start = usize::try_from(offset).map_err(|_| ErrorCode::Bounds)?;
        let end = start.checked_add(len as usize).ok_or(ErrorCode::Bounds)?;
        if end > self.0.len() {
            return Err(ErrorCode::Bounds);
        }
        Ok(start..end)
    }

    /// `len` bytes from `offset`.
    ///
    /// # Errors
    /// [`ErrorCode::Bounds`] if they do not all lie within the memory.
    pub fn get(&self, offset: u64, len: u32) -> Result<&[u8], ErrorCode> {
        Ok(&self.0[self.range(offset, len)?])
    }

    /// `len` bytes from `offset`, to write to.
    ///
    /// # Errors
    /// [`ErrorCode::Bounds`] if they do not all lie within the memory.
    pub fn get_mut(&mut self, offset: u64, len: u32) -> Result<&mut [u8], ErrorCode> {
        let range = self.range(offset, len)?;
        Ok(&mut self.0[range])
    }

    /// `N` bytes from `offset`, copied.
    ///
    /// # Errors
    /// [`ErrorCode::Bounds`] if they do not all lie within the memory.
    pub fn array<const N: usize>(&self, offset: u64) -> Result<[u8; N], ErrorCode> {
        let bytes = self.get(offset, N as u32)?;
        bytes.first_chunk::<N>().copied().ok_or(ErrorCode::Bounds)
    }
}
