//! A piece of text that is cheap to hand on.

use crate::buffer::Buffer;
use std::fmt;
use std::ops::Deref;
use triomphe::Arc;

/// The longest text that is kept in place, in bytes. Ids and types are usually shorter.
const INLINE_BYTES_MAX: usize = 30;

/// A short text kept in place, or a slice of reference-counted text: cloning it copies few
/// characters or none.
///
/// A message's fields are slices of the line it came in, so handing one on costs a count at most.
///
/// ```
/// use mainspring_message::Text;
///
/// let text = Text::from("Memory.Set");
/// assert_eq!(&*text.clone(), "Memory.Set");
/// ```
#[derive(Clone)]
pub struct Text(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE_BYTES_MAX] },
    Slice { buffer: Buffer, start: u32, end: u32 },
    Whole(Arc<str>),
}

impl Text {
    /// A slice of `buffer`; the caller vouches that the range lies on character boundaries within 4
    /// GiB.
    #[inline]
    pub(crate) fn slice(buffer: &Buffer, start: u32, end: u32) -> Text {
        match Text::inline(&buffer.text()[start as usize..end as usize]) {
            Some(text) => text,
            None => Text(Repr::Slice { buffer: buffer.clone(), start, end }),
        }
    }

    #[inline]
    fn inline(text: &str) -> Option<Text> {
        let mut bytes = [0; INLINE_BYTES_MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Text(Repr::Inline { len: text.len() as u8, bytes }))
    }

    /// The characters.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            // SAFETY: `inline` is the only place that makes this variant, and it copies a whole
            // `&str` of `len` bytes.
            Repr::Inline { len, bytes } => unsafe { str::from_utf8_unchecked(&bytes[..usize::from(*len)]) },
            Repr::Slice { buffer, start, end } => &buffer.text()[*start as usize..*end as usize],
            Repr::Whole(text) => text,
        }
    }
}

impl Deref for Text {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    #[inline]
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Text {
    /// Copies the characters.
    #[inline]
    fn from(text: &str) -> Text {
        Text::inline(text).unwrap_or_else(|| Text(Repr::Whole(Arc::from(text))))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Envelope;

    #[test]
    fn short_and_long_texts_come_back_as_they_were() {
        for len in [0, 1, INLINE_BYTES_MAX - 1, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, 1000] {
            let text = "x".repeat(len);
            assert_eq!(Text::from(text.as_str()).as_str(), text);
            let line = format!(
                r#"{{"kind":"event","type":"A.B","data":"{text}","metadata":{{"id":"e","timestamp":1}}}}"#
            );
            let data = Envelope::parse(line.as_bytes()).unwrap().data_json();
            assert_eq!(data.as_str(), format!("\"{text}\""));
        }
    }
}
