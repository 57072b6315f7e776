//! A piece of shared text.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A slice of reference-counted text: cloning it copies no characters.
///
/// A message's fields are slices of the line it came in, so handing one on costs a count, not a copy.
///
/// ```
/// use mainspring_message::Text;
///
/// let text = Text::from("Memory.Set");
/// assert_eq!(&*text.clone(), "Memory.Set");
/// ```
#[derive(Clone)]
pub struct Text {
    buffer: Arc<str>,
    start: u32,
    end: u32,
}

impl Text {
    /// A slice of `buffer`; the caller vouches that the range lies on character boundaries within 4 GiB.
    pub(crate) fn slice(buffer: &Arc<str>, start: u32, end: u32) -> Text {
        debug_assert!(buffer.is_char_boundary(start as usize) && buffer.is_char_boundary(end as usize));
        Text { buffer: Arc::clone(buffer), start, end }
    }

    /// The characters.
    pub fn as_str(&self) -> &str {
        &self.buffer[self.start as usize..self.end as usize]
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Text {
    /// Copies the characters.
    ///
    /// # Panics
    /// When the text is 4 GiB or longer.
    fn from(text: &str) -> Text {
        let end = u32::try_from(text.len()).expect("a text is shorter than 4 GiB");
        Text { buffer: Arc::from(text), start: 0, end }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text::from(text.as_str())
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
