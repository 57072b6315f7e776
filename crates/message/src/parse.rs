//! From a line to an envelope, or to a rejection that names the field.

use crate::codes::Failure;
use crate::envelope::{Envelope, LINE_BYTES_CEILING, Layout, Span};
use crate::kind::Kind;
use crate::scan::{Scanner, StringSpan, Syntax};
use salvage::salvage;
use std::borrow::Cow;
use std::fmt;

/// The longest id, causation, correlation or type, in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// The longest way to write one byte of text in a string literal: `\u0001`.
const ESCAPED_BYTES_MAX: usize = 6;

/// The largest timestamp and timeout: the integers that every JSON library can hold exactly.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Why a line is not a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The kind of failure, with its code.
    pub failure: Failure,
    /// The field at fault, such as `metadata.id`; empty when it is the line as a whole.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: String,
    /// The message's id, when it can be read, before the fault or behind it.
    pub id: Option<String>,
    /// The message's type, when it can be read, whether or not it is a legal one.
    pub type_name: Option<String>,
    /// The message's kind, when it can be read.
    pub kind: Option<Kind>,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Rejection {}

/// Where one stands while a type is read: at the start of its first or of a later segment, or
/// within it, or where none can be. Each is a shift, see [`NAME_STEPS`].
const FIRST_START: u64 = 0;
const FIRST: u64 = 6;
const START: u64 = 12;
const LATER: u64 = 18;
const NOWHERE: u64 = 24;

/// For each byte, where it leads from where one stands: six bits for each place, at the shift that
/// the place is. So a byte costs a look and a shift.
const NAME_STEPS: [u64; 256] = {
    let mut steps = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (first_start, first, start, later) = match byte as u8 {
            b'A'..=b'Z' => (FIRST, FIRST, LATER, LATER),
            b'a'..=b'z' | b'0'..=b'9' => (NOWHERE, FIRST, NOWHERE, LATER),
            b'.' => (NOWHERE, START, NOWHERE, START),
            _ => (NOWHERE, NOWHERE, NOWHERE, NOWHERE),
        };
        steps[byte] = first_start << FIRST_START
            | first << FIRST
            | start << START
            | later << LATER
            | NOWHERE << NOWHERE;
        byte += 1;
    }
    steps
};

/// Checks a type: two or more segments joined by dots, each `[A-Z][a-zA-Z0-9]*`, at most
/// [`NAME_BYTES_MAX`] bytes.
///
/// # Errors
/// With what is wrong.
pub fn check_type_name(name: &str) -> Result<(), &'static str> {
    if name.len() > NAME_BYTES_MAX {
        return Err("must be at most 256 bytes long");
    }
    let place =
        name.bytes().fold(FIRST_START, |place, byte| NAME_STEPS[usize::from(byte)] >> (place & 63)) & 63;
    match place {
        LATER => Ok(()),
        NOWHERE => Err("each segment must be a capital letter followed by letters and digits"),
        _ => Err("must have two or more segments joined by dots, such as Memory.Set"),
    }
}

impl Envelope {
    /// Reads one line.
    ///
    /// # Errors
    /// With the field at fault: [`Failure::Malformed`] when the line is not a JSON object in UTF-8,
    /// [`Failure::Schema`] when a field is missing, twice there or out of its rules,
    /// [`Failure::TooLarge`] beyond [`LINE_BYTES_CEILING`].
    pub fn parse(line: &[u8]) -> Result<Envelope, Rejection> {
        let mut found = Found::default();
        let Ok(text) = str::from_utf8(line) else {
            return Err(not_utf8(line));
        };
        if text.len() > LINE_BYTES_CEILING {
            return Err(found.reject("", Fault::too_large(), ""));
        }
        let mut scanner = Scanner::new(text);
        match found.read(text, &mut scanner).and_then(|()| found.layout()) {
            Ok(layout) => {
                // Line breaks between tokens are only whitespace; inside strings they cannot be.
                let line = match scanner.saw_line_break {
                    true => Cow::Owned(text.replace(['\n', '\r'], " ")),
                    false => Cow::Borrowed(text),
                };
                Ok(Envelope::assemble(&line, &found.decoded, layout))
            }
            Err((field, fault)) => Err(found.reject(field, fault, text)),
        }
    }
}

struct Fault {
    failure: Failure,
    reason: String,
}

type Step<T> = Result<T, (&'static str, Fault)>;

impl Fault {
    fn malformed(reason: String) -> Fault {
        Fault { failure: Failure::Malformed, reason }
    }

    fn too_large() -> Fault {
        Fault {
            failure: Failure::TooLarge,
            reason: format!("the line is longer than {LINE_BYTES_CEILING} bytes"),
        }
    }

    fn schema(reason: impl Into<String>) -> Fault {
        Fault { failure: Failure::Schema, reason: reason.into() }
    }
}

fn syntax(error: Syntax) -> (&'static str, Fault) {
    ("", Fault::malformed(format!("not JSON at byte {}: expected {}", error.at, error.expected)))
}

/// What has been found of an envelope so far.
#[derive(Default)]
struct Found {
    kind: Option<Kind>,
    type_name: Option<Span>,
    data: Option<Span>,
    id: Option<Span>,
    timestamp_ms: Option<u64>,
    causation: Option<Span>,
    correlation: Option<Span>,
    traceparent: Option<Span>,
    timeout_ms: Option<u64>,
    durable: Option<bool>,
    metadata: Option<Span>,
    decoded: String,
}

impl Found {
    fn read(&mut self, text: &str, scanner: &mut Scanner<'_>) -> Step<()> {
        scanner.skip_whitespace();
        scanner.expect(b'{', "an object").map_err(syntax)?;
        scanner.skip_whitespace();
        if !scanner.take(b"}") {
            loop {
                let field = top_field(text, scanner)?;
                scanner.skip_whitespace();
                self.top_member(text, scanner, field)?;
                if ends(scanner)? {
                    break;
                }
            }
        }
        scanner.end().map_err(syntax)
    }

    fn top_member(&mut self, text: &str, scanner: &mut Scanner<'_>, field: TopField) -> Step<()> {
        match field {
            TopField::Kind => {
                once("kind", self.kind.is_some())?;
                self.kind = Some(kind(text, scanner)?);
            }
            TopField::Type => {
                let span = self.name(text, scanner, "type", self.type_name.is_some())?;
                let valid = check_type_name(self.peek(text, span));
                self.type_name = Some(span);
                valid.map_err(|reason| ("type", Fault::schema(reason)))?;
            }
            TopField::Data => {
                once("data", self.data.is_some())?;
                let (start, end) = scanner.value(1).map_err(syntax)?;
                self.data = Some(Span::plain(start, end));
            }
            TopField::Metadata => self.metadata(text, scanner)?,
            TopField::Other => {
                scanner.value(1).map_err(syntax)?;
            }
        }
        Ok(())
    }

    fn metadata(&mut self, text: &str, scanner: &mut Scanner<'_>) -> Step<()> {
        once("metadata", self.metadata.is_some())?;
        let start = scanner.at;
        if !scanner.take(b"{") {
            scanner.value(1).map_err(syntax)?;
            return Err(("metadata", Fault::schema("must be an object")));
        }
        scanner.skip_whitespace();
        if !scanner.take(b"}") {
            loop {
                let field = metadata_field(text, scanner)?;
                scanner.skip_whitespace();
                self.metadata_member(text, scanner, field)?;
                if ends(scanner)? {
                    break;
                }
            }
        }
        self.metadata = Some(Span::plain(start, scanner.at));
        Ok(())
    }

    fn metadata_member(&mut self, text: &str, scanner: &mut Scanner<'_>, field: MetadataField) -> Step<()> {
        match field {
            MetadataField::Id => {
                self.id = Some(self.name(text, scanner, "metadata.id", self.id.is_some())?)
            }
            MetadataField::Timestamp => {
                let field = "metadata.timestamp";
                self.timestamp_ms = Some(integer(text, scanner, field, self.timestamp_ms.is_some())?);
            }
            MetadataField::Causation => {
                let field = "metadata.causation";
                self.causation = Some(self.name(text, scanner, field, self.causation.is_some())?);
            }
            MetadataField::Correlation => {
                let field = "metadata.correlation";
                self.correlation = Some(self.name(text, scanner, field, self.correlation.is_some())?);
            }
            MetadataField::Traceparent => {
                once("metadata.traceparent", self.traceparent.is_some())?;
                let (start, end) = scanner.value(2).map_err(syntax)?;
                self.traceparent = Some(plain_string(text, start, end));
            }
            MetadataField::Timeout => {
                let field = "metadata.timeout";
                let timeout_ms = integer(text, scanner, field, self.timeout_ms.is_some())?;
                if timeout_ms == 0 {
                    return Err((field, Fault::schema("must be at least 1 millisecond")));
                }
                self.timeout_ms = Some(timeout_ms);
            }
            MetadataField::Durable => {
                let field = "metadata.durable";
                once(field, self.durable.is_some())?;
                let (start, end) = scanner.value(2).map_err(syntax)?;
                self.durable = Some(match &text[start..end] {
                    "true" => true,
                    "false" => false,
                    _ => return Err((field, Fault::schema("must be true or false"))),
                });
            }
            MetadataField::Other => {
                scanner.value(2).map_err(syntax)?;
            }
        }
        Ok(())
    }

    /// A short, non-empty string.
    fn name(
        &mut self,
        text: &str,
        scanner: &mut Scanner<'_>,
        field: &'static str,
        again: bool,
    ) -> Step<Span> {
        let span = string(scanner, field, again)?;
        let (start, end) = (span.start, span.end);
        if start == end {
            return Err((field, Fault::schema("must not be empty")));
        }
        let too_long = || (field, Fault::schema("must be at most 256 bytes long"));
        if !span.escaped {
            return if end - start <= NAME_BYTES_MAX { Ok(Span::plain(start, end)) } else { Err(too_long()) };
        }
        // The text counts, not how it is spelt: whoever writes it again may spell it otherwise.
        if end - start > NAME_BYTES_MAX * ESCAPED_BYTES_MAX {
            return Err(too_long());
        }
        let Some(plain) = decode(&text[start - 1..=end]) else {
            return Err((field, Fault::schema("must be a string of Unicode characters")));
        };
        if plain.len() > NAME_BYTES_MAX {
            return Err(too_long());
        }
        let start = self.decoded.len();
        self.decoded.push_str(&plain);
        Ok(Span::decoded(start, self.decoded.len()))
    }

    fn peek<'a>(&'a self, text: &'a str, span: Span) -> &'a str {
        span.read(text, &self.decoded)
    }

    fn layout(&self) -> Step<Layout> {
        let missing = |field: &'static str| (field, Fault::schema("is missing"));
        let kind = self.kind.ok_or_else(|| missing("kind"))?;
        let layout = Layout {
            kind,
            type_name: self.type_name.ok_or_else(|| missing("type"))?,
            data: self.data.ok_or_else(|| missing("data"))?,
            metadata: self.metadata.ok_or_else(|| missing("metadata"))?,
            id: self.id.ok_or_else(|| missing("metadata.id"))?,
            timestamp_ms: self.timestamp_ms.ok_or_else(|| missing("metadata.timestamp"))?,
            causation: self.causation.unwrap_or(Span::ABSENT),
            correlation: self.correlation.unwrap_or(Span::ABSENT),
            traceparent: self.traceparent.unwrap_or(Span::ABSENT),
            timeout_ms: self.timeout_ms.unwrap_or(0),
            durable: self.durable,
        };
        if kind.is_outcome() && self.causation.is_none() {
            return Err((
                "metadata.causation",
                Fault::schema("is missing: a reply or error names its request"),
            ));
        }
        Ok(layout)
    }

    #[cold]
    fn reject(&self, field: &'static str, fault: Fault, text: &str) -> Rejection {
        let copy = |span: Option<Span>| span.map(|span| self.peek(text, span).to_owned());
        // What the fault stands before was not read yet.
        let behind = salvage(text);
        Rejection {
            failure: fault.failure,
            field,
            reason: fault.reason,
            id: copy(self.id).or(behind.id),
            type_name: copy(self.type_name).or(behind.type_name),
            kind: self.kind.or(behind.kind),
        }
    }
}

/// The rejection of bytes that are no text, with what can be read of them all the same.
#[cold]
fn not_utf8(line: &[u8]) -> Rejection {
    let text = String::from_utf8_lossy(line);
    let fault = Fault::malformed("the line is not UTF-8".into());
    let mut rejection = Found::default().reject("", fault, &text);
    // A name with a character in place of what could not be read is not the one that was sent.
    let is_whole = |name: &String| !name.contains(char::REPLACEMENT_CHARACTER);
    rejection.id = rejection.id.filter(is_whole);
    rejection.type_name = rejection.type_name.filter(is_whole);
    rejection
}

/// The members of the envelope.
#[derive(Clone, Copy)]
enum TopField {
    Kind,
    Type,
    Data,
    Metadata,
    Other,
}

/// The members of its metadata.
#[derive(Clone, Copy)]
enum MetadataField {
    Id,
    Timestamp,
    Causation,
    Correlation,
    Traceparent,
    Timeout,
    Durable,
    Other,
}

/// The name at the cursor, and its colon. The usual spelling is recognised whole, any other is
/// scanned.
#[inline]
fn top_field(text: &str, scanner: &mut Scanner<'_>) -> Step<TopField> {
    let usual = match scanner.second() {
        b'k' => scanner.take(b"\"kind\":").then_some(TopField::Kind),
        b't' => scanner.take(b"\"type\":").then_some(TopField::Type),
        b'd' => scanner.take(b"\"data\":").then_some(TopField::Data),
        b'm' => scanner.take(b"\"metadata\":").then_some(TopField::Metadata),
        _ => None,
    };
    if let Some(field) = usual {
        return Ok(field);
    }
    Ok(match &*field_name(text, scanner)? {
        "kind" => TopField::Kind,
        "type" => TopField::Type,
        "data" => TopField::Data,
        "metadata" => TopField::Metadata,
        _ => TopField::Other,
    })
}

#[inline]
fn metadata_field(text: &str, scanner: &mut Scanner<'_>) -> Step<MetadataField> {
    let usual = match scanner.second() {
        b'i' => scanner.take(b"\"id\":").then_some(MetadataField::Id),
        b't' => scanner.take(b"\"timestamp\":").then_some(MetadataField::Timestamp),
        b'c' if scanner.take(b"\"causation\":") => Some(MetadataField::Causation),
        b'c' => scanner.take(b"\"correlation\":").then_some(MetadataField::Correlation),
        _ => None,
    };
    if let Some(field) = usual {
        return Ok(field);
    }
    Ok(match &*field_name(text, scanner)? {
        "id" => MetadataField::Id,
        "timestamp" => MetadataField::Timestamp,
        "causation" => MetadataField::Causation,
        "correlation" => MetadataField::Correlation,
        "traceparent" => MetadataField::Traceparent,
        "timeout" => MetadataField::Timeout,
        "durable" => MetadataField::Durable,
        _ => MetadataField::Other,
    })
}

/// A value that is a short string without escapes, without its quotes; an empty place if it is
/// anything else.
#[cold]
fn plain_string(text: &str, start: usize, end: usize) -> Span {
    match &text.as_bytes()[start..end] {
        [b'"', inside @ .., b'"'] if inside.len() <= NAME_BYTES_MAX && !inside.contains(&b'\\') => {
            Span::plain(start + 1, end - 1)
        }
        _ => Span::plain(start, start),
    }
}

/// Any name and its colon. A known name written with escapes is still that name.
fn field_name<'a>(text: &'a str, scanner: &mut Scanner<'_>) -> Step<Cow<'a, str>> {
    let name = scanner.member_name().map_err(syntax)?;
    if name.escaped {
        return Ok(Cow::Owned(decode(&text[name.start - 1..=name.end]).unwrap_or_default()));
    }
    Ok(Cow::Borrowed(&text[name.start..name.end]))
}

/// After a member: whether the object ends here; if not, moves to the next name.
#[inline(always)]
fn ends(scanner: &mut Scanner<'_>) -> Step<bool> {
    scanner.skip_whitespace();
    if scanner.take(b",") {
        scanner.skip_whitespace();
        return Ok(false);
    }
    if scanner.take(b"}") {
        return Ok(true);
    }
    Err(syntax(Syntax { at: scanner.at, expected: "a comma or the end of the object" }))
}

fn kind(text: &str, scanner: &mut Scanner<'_>) -> Step<Kind> {
    if scanner.take(b"\"command\"") {
        return Ok(Kind::Command);
    }
    if scanner.take(b"\"reply\"") {
        return Ok(Kind::Reply);
    }
    let span = string(scanner, "kind", false)?;
    let known = if span.escaped { None } else { Kind::from_wire(&text[span.start..span.end]) };
    known.ok_or_else(|| ("kind", Fault::schema("must be command, query, event, reply or error")))
}

fn once(field: &'static str, again: bool) -> Step<()> {
    if again { Err((field, Fault::schema("is there twice"))) } else { Ok(()) }
}

#[inline]
fn string(scanner: &mut Scanner<'_>, field: &'static str, again: bool) -> Step<StringSpan> {
    once(field, again)?;
    if scanner.peek() != Some(b'"') {
        scanner.value(2).map_err(syntax)?;
        return Err((field, Fault::schema("must be a string")));
    }
    scanner.string().map_err(syntax)
}

#[inline]
fn integer(text: &str, scanner: &mut Scanner<'_>, field: &'static str, again: bool) -> Step<u64> {
    once(field, again)?;
    if let Some(number) = scanner.take_integer() {
        return Ok(number);
    }
    let (start, end) = scanner.value(2).map_err(syntax)?;
    text[start..end].parse().ok().filter(|number| *number <= INTEGER_MAX).ok_or_else(|| {
        (field, Fault::schema("must be a whole number of milliseconds, not negative, below 2^53"))
    })
}

/// The text of a string literal, or nothing when its escapes are no Unicode.
#[cold]
fn decode(literal: &str) -> Option<String> {
    serde_json::from_str(literal).ok()
}

mod salvage;

#[cfg(test)]
mod tests;
