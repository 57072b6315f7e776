//! The envelope: a message as a view over its line.

use crate::buffer::Buffer;
use crate::kind::Kind;
use crate::members::Members;
use crate::text::Text;
use crate::write::{Parts, write_number, write_string};
use std::fmt;
use std::ops::Range;

/// Where a field lies in the text of its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: u32,
    /// The end; the highest bit says that the span lies in decoded text that stands apart, see
    /// [`Span::decoded`].
    end: u32,
}

const DECODED_BIT: u32 = 1 << 31;

impl Span {
    pub(crate) const ABSENT: Span = Span { start: u32::MAX, end: 0 };

    pub(crate) fn plain(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    /// A field that was written with escapes: its place in the text of decoded strings, while that
    /// stands apart.
    pub(crate) fn decoded(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 | DECODED_BIT }
    }

    #[inline]
    pub(crate) fn is_absent(self) -> bool {
        self.start == u32::MAX
    }

    /// The text of this span, given the two texts that it may lie in.
    pub(crate) fn read<'a>(self, line: &'a str, decoded: &'a str) -> &'a str {
        let (text, end) =
            if self.end & DECODED_BIT == 0 { (line, self.end) } else { (decoded, self.end & !DECODED_BIT) };
        &text[self.start as usize..end as usize]
    }

    /// The same place when the decoded text is put behind a line of so many bytes.
    fn behind(self, line_len: u32) -> Span {
        if self.is_absent() || self.end & DECODED_BIT == 0 {
            return self;
        }
        Span { start: self.start + line_len, end: (self.end & !DECODED_BIT) + line_len }
    }

    /// The same place with so many bytes added at `at`.
    fn shifted(self, at: u32, added: u32) -> Span {
        if self.is_absent() || self.start < at {
            return self;
        }
        Span { start: self.start + added, end: self.end + added }
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
    /// What `metadata.traceparent` says; empty if that is no plain string, see
    /// [`Envelope::traceparent`].
    pub(crate) traceparent: Span,
    /// The metadata object, braces included.
    pub(crate) metadata: Span,
    pub(crate) timestamp_ms: u64,
    /// 0 when absent.
    pub(crate) timeout_ms: u64,
    /// What `metadata.durable` says.
    pub(crate) durable: Option<bool>,
    /// Whether its line is what [`Parts`] make of its fields.
    pub(crate) is_composed: bool,
}

impl Layout {
    /// The layout with every name moved. `data` and the metadata always stand on the line.
    fn map_names(self, moved: impl Fn(Span) -> Span) -> Layout {
        Layout {
            type_name: moved(self.type_name),
            id: moved(self.id),
            causation: moved(self.causation),
            correlation: moved(self.correlation),
            traceparent: moved(self.traceparent),
            ..self
        }
    }
}

/// A message: one JSON object on one line, checked once, with its fields found.
///
/// It *is* its line, so writing it costs nothing and members that nobody here knows travel
/// unchanged. Cloning it copies no text.
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
pub struct Envelope(Buffer);

impl Envelope {
    pub(crate) fn assemble(line: &str, decoded: &str, layout: &Layout) -> Envelope {
        let line_len = line.len() as u32;
        if decoded.is_empty() {
            return Envelope(Buffer::new(*layout, line_len, line));
        }
        let layout = layout.map_names(|name| name.behind(line_len));
        Envelope(Buffer::new(layout, line_len, &[line, decoded].concat()))
    }

    #[inline]
    fn layout(&self) -> &Layout {
        self.0.layout()
    }

    #[inline]
    fn text(&self, span: Span) -> &str {
        let (text, range) = (self.0.text(), span.start as usize..span.end as usize);
        debug_assert!(text.get(range.clone()).is_some(), "{span:?} of {text}");
        // SAFETY: a layout is made by the scanner or the writer together with the very text that
        // stands behind it, each span between two characters of it, and neither ever changes.
        unsafe { text.get_unchecked(range) }
    }

    #[inline]
    fn share(&self, span: Span) -> Text {
        Text::slice(&self.0, span.start, span.end)
    }

    #[inline]
    fn optional(&self, span: Span) -> Option<&str> {
        (!span.is_absent()).then(|| self.text(span))
    }

    /// The whole message as one line of JSON, without the line break.
    #[inline]
    pub fn line(&self) -> &str {
        &self.0.text()[..self.0.line_len() as usize]
    }

    /// Whether both are the very same message: one that was read or written once, and handed on.
    #[inline]
    #[must_use]
    pub fn is_same(&self, other: &Envelope) -> bool {
        self.0.is_same(&other.0)
    }

    /// Where on the line the causation stands; nothing if there is none, or if it is written with
    /// escapes.
    #[inline]
    pub fn causation_place(&self) -> Option<(u32, u32)> {
        let span = self.layout().causation;
        // What is absent stands behind every line.
        (span.start < self.0.line_len()).then_some((span.start, span.end))
    }

    /// Whether its sender wants it to survive the process; nothing if it leaves that to others.
    #[inline]
    pub fn durable(&self) -> Option<bool> {
        self.layout().durable
    }

    /// The kind.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.layout().kind
    }

    /// The type, such as `Memory.Set`.
    #[inline]
    pub fn type_name(&self) -> &str {
        self.text(self.layout().type_name)
    }

    /// The data, as raw JSON.
    #[inline]
    pub fn data(&self) -> &str {
        self.text(self.layout().data)
    }

    /// The members of the data, if it is an object, as they are written.
    #[must_use]
    pub fn members(&self) -> Members<'_> {
        Members::of_checked(self.data())
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
        self.text(self.layout().metadata)
    }

    /// The id (`metadata.id`).
    #[inline]
    pub fn id(&self) -> &str {
        self.text(self.layout().id)
    }

    /// When it was made, in milliseconds since the Unix epoch (`metadata.timestamp`).
    #[inline]
    pub fn timestamp_ms(&self) -> u64 {
        self.layout().timestamp_ms
    }

    /// The id of the message that directly caused this one (`metadata.causation`).
    #[inline]
    pub fn causation(&self) -> Option<&str> {
        self.optional(self.layout().causation)
    }

    /// The workflow that it belongs to (`metadata.correlation`).
    #[inline]
    pub fn correlation(&self) -> Option<&str> {
        self.optional(self.layout().correlation)
    }

    /// The span of another system that asks for it (`metadata.traceparent`), as W3C writes it or
    /// not: nobody has checked that. What is no short, plain string is not told, though it travels
    /// as it is.
    #[inline]
    pub fn traceparent(&self) -> Option<&str> {
        self.optional(self.layout().traceparent).filter(|text| !text.is_empty())
    }

    /// Whether its metadata has a `traceparent`, of whatever kind.
    #[inline]
    pub fn has_traceparent(&self) -> bool {
        !self.layout().traceparent.is_absent()
    }

    /// How long the sender waits for the outcome (`metadata.timeout`).
    #[inline]
    pub fn timeout_ms(&self) -> Option<u64> {
        (self.layout().timeout_ms != 0).then_some(self.layout().timeout_ms)
    }

    /// What it was composed of here, if composing that again gives its very line. Of a message that
    /// was read nobody knows that.
    #[inline]
    pub fn composed_of(&self) -> Option<Parts<'_>> {
        self.layout().is_composed.then(|| Parts {
            kind: self.kind(),
            type_name: self.type_name(),
            data: self.data(),
            id: self.id(),
            timestamp_ms: self.timestamp_ms(),
            causation: self.causation(),
            correlation: self.correlation(),
            traceparent: self.traceparent(),
            timeout_ms: None,
            extra: "",
        })
    }

    /// The type as shared text.
    #[inline]
    pub fn type_text(&self) -> Text {
        self.share(self.layout().type_name)
    }

    /// The id as shared text.
    #[inline]
    pub fn id_text(&self) -> Text {
        self.share(self.layout().id)
    }

    /// The correlation as shared text.
    #[inline]
    pub fn correlation_text(&self) -> Option<Text> {
        (!self.layout().correlation.is_absent()).then(|| self.share(self.layout().correlation))
    }

    /// The span of another system as shared text, see [`traceparent`](Envelope::traceparent).
    #[inline]
    pub fn traceparent_text(&self) -> Option<Text> {
        self.traceparent().map(|_| self.share(self.layout().traceparent))
    }

    /// The data as shared JSON, ready for another message.
    #[inline]
    pub fn data_json(&self) -> crate::Json {
        crate::Json::from_checked(self.share(self.layout().data))
    }

    /// The same message with one more number in its metadata, in place of any that it has under
    /// that name.
    ///
    /// # Panics
    /// When the line would grow beyond [`LINE_BYTES_CEILING`].
    pub fn with_metadata_number(&self, name: &str, number: u64) -> Envelope {
        if self.may_have_member(name) {
            return self.with_other_number(name, number);
        }
        let Grown { mut layout, text, line_len, .. } = self.grown(name, |text| write_number(number, text));
        if name == "timeout" {
            layout.timeout_ms = number;
        }
        Envelope(Buffer::new(layout, line_len, &text))
    }

    /// Whether the metadata may have a member of that name. Names are mostly written as they are.
    fn may_have_member(&self, name: &str) -> bool {
        let metadata = self.metadata();
        metadata.contains('\\') || metadata.contains(name)
    }

    /// Rare: somebody had that name for something of their own, or seems to have it.
    #[cold]
    fn with_other_number(&self, name: &str, number: u64) -> Envelope {
        let mut value: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(self.metadata()).unwrap_or_default();
        value.insert(name.to_owned(), number.into());
        let metadata = serde_json::Value::Object(value).to_string();
        let span = self.layout().metadata;
        let line = self.line();
        let line = format!("{}{metadata}{}", &line[..span.start as usize], &line[span.end as usize..]);
        Envelope::parse(line.as_bytes()).unwrap_or_else(|_| self.clone())
    }

    /// The same message with one more string member in its metadata. The caller vouches that it has
    /// none of that name.
    ///
    /// This is how a correlation is restored on a message whose author left it out: every other
    /// byte stays.
    ///
    /// # Panics
    /// When the line would grow beyond [`LINE_BYTES_CEILING`].
    pub fn with_metadata_member(&self, name: &str, value: &str) -> Envelope {
        let Grown { mut layout, mut text, line_len, value_at } =
            self.grown(name, |text| write_string(value, text));
        let place = match name {
            "correlation" => Some(&mut layout.correlation),
            "causation" => Some(&mut layout.causation),
            "traceparent" => Some(&mut layout.traceparent),
            _ => None,
        };
        if let Some(place) = place {
            // Without its quotes; a value that had to be escaped is kept as plain text too.
            *place = Span::plain(value_at.start + 1, value_at.end - 1);
            if value_at.len() - 2 != value.len() {
                let start = text.len();
                text.push_str(value);
                *place = Span::plain(start, text.len());
            }
        }
        Envelope(Buffer::new(layout, line_len, &text))
    }

    /// The text with one more member in its metadata, before all others, and where everything is
    /// then.
    fn grown(&self, name: &str, write_value: impl FnOnce(&mut String)) -> Grown {
        let at = self.layout().metadata.start as usize + 1;
        let (head, tail) = self.0.text().split_at(at);
        let mut text = String::with_capacity(self.0.text().len() + name.len() + 32);
        text.push_str(head);
        write_string(name, &mut text);
        text.push(':');
        let value_start = text.len();
        write_value(&mut text);
        let value_at = value_start..text.len();
        text.push(',');
        let added = (text.len() - at) as u32;
        text.push_str(tail);
        let line_len = self.0.line_len() as usize + added as usize;
        assert!(line_len <= LINE_BYTES_CEILING, "a line is at most {LINE_BYTES_CEILING} bytes long");
        let mut layout = self.layout().map_names(|name| name.shifted(at as u32, added));
        layout.data = layout.data.shifted(at as u32, added);
        layout.metadata.end += added;
        layout.is_composed = false;
        Grown { layout, text, line_len: line_len as u32, value_at }
    }
}

/// A message that has one more member in its metadata.
struct Grown {
    layout: Layout,
    text: String,
    line_len: u32,
    /// Where the value of that member stands.
    value_at: Range<usize>,
}

impl PartialEq for Envelope {
    fn eq(&self, other: &Envelope) -> bool {
        self.line() == other.line()
    }
}

impl Eq for Envelope {}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.line())
    }
}
