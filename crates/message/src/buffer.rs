//! The memory of a message: what is known of it, and its text.

use crate::envelope::Layout;
use triomphe::ThinArc;

/// A message's layout and text in one piece of shared memory, behind one pointer: messages are
/// handed on many times.
#[derive(Clone)]
pub(crate) struct Buffer(ThinArc<Header, u8>);

struct Header {
    layout: Layout,
    /// Where the line ends. Behind it stand the names that it has with escapes, decoded.
    line_len: u32,
}

impl Buffer {
    #[inline]
    pub(crate) fn new(layout: Layout, line_len: u32, text: &str) -> Buffer {
        Buffer(ThinArc::from_header_and_slice(Header { layout, line_len }, text.as_bytes()))
    }

    /// Whether both are the same piece of memory.
    #[inline]
    pub(crate) fn is_same(&self, other: &Buffer) -> bool {
        std::ptr::eq(self.layout(), other.layout())
    }

    #[inline]
    pub(crate) fn layout(&self) -> &Layout {
        &self.0.header.header.layout
    }

    #[inline]
    pub(crate) fn line_len(&self) -> u32 {
        self.0.header.header.line_len
    }

    /// The line, and what stands behind it.
    #[inline]
    pub(crate) fn text(&self) -> &str {
        // SAFETY: `new` is the only place that makes a buffer, and it copies a whole `&str`;
        // nothing writes to one.
        unsafe { str::from_utf8_unchecked(&self.0.slice) }
    }
}
