//! The envelope: a message as a view over its line.

use crate::kind::Kind;
use crate::text::Text;
use crate::write::write_string;
use std::fmt;
use std::sync::Arc;

/// Where a field lies: in the line, or (when it was written with escapes) in the text of decoded strings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: u32,
    /// The end; the highest bit says that the span lies in the decoded text.
    end: u32,
}

const DECODED_BIT: u32 = 1 << 31;

impl Span {
    pub(crate) const ABSENT: Span = Span { start: u32::MAX, end: 0 };

    pub(crate) fn plain(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    pub(crate) fn decoded(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 | DECODED_BIT }
    }

    fn is_absent(self) -> bool {
        self.start == u32::MAX
    }

    /// The text of this span, given the two texts that it may lie in.
    pub(crate) fn read<'a>(self, line: &'a str, decoded: &'a str) -> &'a str {
        let (text, end) =
            if self.end & DECODED_BIT == 0 { (line, self.end) } else { (decoded, self.end & !DECODED_BIT) };
        &text[self.start as usize..end as usize]
    }
}

/// The longest line that an envelope can hold, in bytes. The kernel's own limit is far lower.
pub const LINE_BYTES_CEILING: usize = (DECODED_BIT - 1) as usize;

/// Everything about an envelope but its text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) kind: Kind,
    pub(crate) type_name: Span,
    pub(crate) data: Span,
    pub(crate) id: Span,
    pub(crate) causation: Span,
    pub(crate) correlation: Span,
    /// The metadata object, braces included.
    pub(crate) metadata: Span,
    pub(crate) timestamp_ms: u64,
    /// 0 when absent.
    pub(crate) timeout_ms: u64,
}

impl Layout {
    /// The layout of the same line with so many bytes added at `at`, inside the metadata.
    fn shifted(self, at: usize, added: usize) -> Layout {
        let (at, added) = (at as u32, added as u32);
        let shift = |span: Span| match span {
            span if span.is_absent() || span.end & DECODED_BIT != 0 => span,
            Span { start, end } if start >= at => Span { start: start + added, end: end + added },
            span => span,
        };
        Layout {
            type_name: shift(self.type_name),
            data: shift(self.data),
            id: shift(self.id),
            causation: shift(self.causation),
            correlation: shift(self.correlation),
            metadata: Span { start: self.metadata.start, end: self.metadata.end + added },
            ..self
        }
    }
}

/// A message: one JSON object on one line, checked once, with its fields found.
///
/// It *is* its line, so writing it costs nothing and members that nobody here knows travel unchanged. Cloning it
/// copies no text.
///
/// ```
/// use mainspring_message::{Envelope, Kind};
///
/// let line = r#"{"kind":"query","type":"Memory.Get","data":{"key":"a"},
///     "metadata":{"id":"q-1","timestamp":1767910000000,"traceparent":"00-ab"}}"#;
/// let query = Envelope::parse(line.as_bytes())?;
/// assert_eq!(query.kind(), Kind::Query);
/// assert_eq!(query.data(), r#"{"key":"a"}"#);
/// assert_eq!(query.causation(), None);
/// assert!(query.line().contains("traceparent"));
/// # Ok::<(), mainspring_message::Rejection>(())
/// ```
#[derive(Clone)]
pub struct Envelope {
    line: Arc<str>,
    decoded: Option<Arc<str>>,
    layout: Layout,
}

impl Envelope {
    pub(crate) fn assemble(line: Arc<str>, decoded: Option<Arc<str>>, layout: Layout) -> Envelope {
        Envelope { line, decoded, layout }
    }

    #[inline]
    fn text(&self, span: Span) -> &str {
        let (buffer, end) = self.place(span);
        &buffer[span.start as usize..end as usize]
    }

    #[inline]
    fn place(&self, span: Span) -> (&Arc<str>, u32) {
        match &self.decoded {
            Some(decoded) if span.end & DECODED_BIT != 0 => (decoded, span.end & !DECODED_BIT),
            _ => (&self.line, span.end),
        }
    }

    #[inline]
    fn share(&self, span: Span) -> Text {
        let (buffer, end) = self.place(span);
        Text::slice(buffer, span.start, end)
    }

    #[inline]
    fn optional(&self, span: Span) -> Option<&str> {
        (!span.is_absent()).then(|| self.text(span))
    }

    /// The whole message as one line of JSON, without the line break.
    #[inline]
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The same line, shared: the least that is worth keeping of a message.
    #[inline]
    pub fn shared_line(&self) -> Arc<str> {
        Arc::clone(&self.line)
    }

    /// Where on the line the causation stands; nothing if there is none, or if it is written with escapes.
    #[inline]
    pub fn causation_place(&self) -> Option<(u32, u32)> {
        let span = self.layout.causation;
        (!span.is_absent() && span.end & DECODED_BIT == 0).then_some((span.start, span.end))
    }

    /// The kind.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.layout.kind
    }

    /// The type, such as `Memory.Set`.
    #[inline]
    pub fn type_name(&self) -> &str {
        self.text(self.layout.type_name)
    }

    /// The data, as raw JSON.
    #[inline]
    pub fn data(&self) -> &str {
        self.text(self.layout.data)
    }

    /// The data, read as a value of type `T`.
    ///
    /// # Errors
    /// When the data does not have that shape.
    pub fn data_as<'a, T: serde::Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
        serde_json::from_str(self.data())
    }

    /// The metadata, as raw JSON.
    #[inline]
    pub fn metadata(&self) -> &str {
        self.text(self.layout.metadata)
    }

    /// The id (`metadata.id`).
    #[inline]
    pub fn id(&self) -> &str {
        self.text(self.layout.id)
    }

    /// When it was made, in milliseconds since the Unix epoch (`metadata.timestamp`).
    #[inline]
    pub fn timestamp_ms(&self) -> u64 {
        self.layout.timestamp_ms
    }

    /// The id of the message that directly caused this one (`metadata.causation`).
    #[inline]
    pub fn causation(&self) -> Option<&str> {
        self.optional(self.layout.causation)
    }

    /// The workflow that it belongs to (`metadata.correlation`).
    #[inline]
    pub fn correlation(&self) -> Option<&str> {
        self.optional(self.layout.correlation)
    }

    /// How long the sender waits for the outcome (`metadata.timeout`).
    #[inline]
    pub fn timeout_ms(&self) -> Option<u64> {
        (self.layout.timeout_ms != 0).then_some(self.layout.timeout_ms)
    }

    /// The type as shared text.
    pub fn type_text(&self) -> Text {
        self.share(self.layout.type_name)
    }

    /// The id as shared text.
    pub fn id_text(&self) -> Text {
        self.share(self.layout.id)
    }

    /// The correlation as shared text.
    pub fn correlation_text(&self) -> Option<Text> {
        (!self.layout.correlation.is_absent()).then(|| self.share(self.layout.correlation))
    }

    /// The data as shared JSON, ready for another message.
    pub fn data_json(&self) -> crate::Json {
        crate::Json::from_checked(self.share(self.layout.data))
    }

    /// The same message with one more string member in its metadata. The caller vouches that it has none of that name.
    ///
    /// This is how a correlation is restored on a message whose author left it out: every other byte stays.
    ///
    /// # Panics
    /// When the line would grow beyond [`LINE_BYTES_CEILING`].
    pub fn with_metadata_member(&self, name: &str, value: &str) -> Envelope {
        let at = self.layout.metadata.start as usize + 1;
        let (head, tail) = self.line.split_at(at);
        let mut line = String::with_capacity(self.line.len() + name.len() + value.len() + 8);
        line.push_str(head);
        write_string(name, &mut line);
        line.push(':');
        let value_start = line.len();
        write_string(value, &mut line);
        let value_end = line.len();
        line.push(',');
        let added = line.len() - at;
        line.push_str(tail);
        assert!(line.len() <= LINE_BYTES_CEILING, "a line is at most {LINE_BYTES_CEILING} bytes long");
        let mut layout = self.layout.shifted(at, added);
        let mut decoded = self.decoded.clone();
        let place = match name {
            "correlation" => Some(&mut layout.correlation),
            "causation" => Some(&mut layout.causation),
            _ => None,
        };
        if let Some(place) = place {
            // Without its quotes; a value that had to be escaped is kept as plain text too.
            *place = Span::plain(value_start + 1, value_end - 1);
            if value_end - value_start - 2 != value.len() {
                let mut plain = decoded.as_deref().unwrap_or("").to_owned();
                let start = plain.len();
                plain.push_str(value);
                *place = Span::decoded(start, plain.len());
                decoded = Some(Arc::from(plain.as_str()));
            }
        }
        Envelope { line: Arc::from(line.as_str()), decoded, layout }
    }
}

impl PartialEq for Envelope {
    fn eq(&self, other: &Envelope) -> bool {
        self.line == other.line
    }
}

impl Eq for Envelope {}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}
