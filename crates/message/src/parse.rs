//! From a line to an envelope, or to a rejection that names the field.

use crate::codes::Failure;
use crate::envelope::{Envelope, LINE_BYTES_CEILING, Layout, Span};
use crate::kind::Kind;
use crate::scan::{Expected, Scanner, StringSpan};
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
        let Some(text) = text_of(line) else {
            return Err(not_utf8(line));
        };
        if text.len() > LINE_BYTES_CEILING {
            return Err(found.reject(*too_large(), ""));
        }
        let mut scanner = Scanner::new(text);
        match found.read(&mut scanner).and_then(|()| found.complete()) {
            Ok(()) => {
                // Line breaks between tokens are only whitespace; inside strings they cannot be.
                let line = match scanner.saw_line_break {
                    true => Cow::Owned(text.replace(['\n', '\r'], " ")),
                    false => Cow::Borrowed(text),
                };
                Ok(Envelope::assemble(&line, &found.decoded, &found.layout))
            }
            Err(fault) => Err(found.reject(*fault, text)),
        }
    }
}

/// The bytes as text, if they are UTF-8. Quick where they are ASCII, as nearly all are.
#[inline]
pub fn text_of(line: &[u8]) -> Option<&str> {
    // Most lines are ASCII throughout, and that is found out faster.
    if is_ascii(line) {
        // SAFETY: ASCII is UTF-8.
        return Some(unsafe { str::from_utf8_unchecked(line) });
    }
    str::from_utf8(line).ok()
}

/// Whether all bytes are ASCII. That of the standard library looks at the last dozens one by one,
/// which are a good part of a usual line.
#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk::<8>() else {
        return bytes.iter().fold(0, |all, byte| all | byte) < 0x80;
    };
    let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
    // The last word may overlap the one before it.
    let all = bytes.as_chunks::<8>().0.iter().fold(word(last), |all, bytes| all | word(bytes));
    all & 0x8080_8080_8080_8080 == 0
}

/// What is wrong with a line.
struct Fault {
    /// The field at fault; empty when it is the line as a whole.
    field: &'static str,
    failure: Failure,
    reason: String,
}

/// A fault is behind a pointer, so that every step of the parser returns in registers.
type Step<T> = Result<T, Box<Fault>>;

#[cold]
fn malformed(reason: String) -> Box<Fault> {
    Box::new(Fault { field: "", failure: Failure::Malformed, reason })
}

#[cold]
fn too_large() -> Box<Fault> {
    let reason = format!("the line is longer than {LINE_BYTES_CEILING} bytes");
    Box::new(Fault { field: "", failure: Failure::TooLarge, reason })
}

#[cold]
fn schema(field: &'static str, reason: &str) -> Box<Fault> {
    Box::new(Fault { field, failure: Failure::Schema, reason: reason.to_owned() })
}

#[cold]
fn syntax(at: usize, expected: Expected) -> Box<Fault> {
    malformed(format!("not JSON at byte {at}: expected {expected}"))
}

/// What has been found of an envelope so far.
struct Found {
    kind: Option<Kind>,
    /// Everything else. What was not found is absent, as it is in an envelope; the timestamp is
    /// [`NO_TIMESTAMP`].
    layout: Layout,
    decoded: String,
}

/// Stands for a timestamp that was not found; real ones are at most [`INTEGER_MAX`].
const NO_TIMESTAMP: u64 = u64::MAX;

impl Default for Found {
    fn default() -> Found {
        let layout = Layout {
            kind: Kind::Command,
            type_name: Span::ABSENT,
            data: Span::ABSENT,
            id: Span::ABSENT,
            causation: Span::ABSENT,
            correlation: Span::ABSENT,
            traceparent: Span::ABSENT,
            metadata: Span::ABSENT,
            timestamp_ms: NO_TIMESTAMP,
            timeout_ms: 0,
            durable: None,
            is_composed: false,
        };
        Found { kind: None, layout, decoded: String::new() }
    }
}

impl Found {
    #[inline]
    fn read(&mut self, scanner: &mut Scanner<'_>) -> Step<()> {
        scanner.skip_whitespace();
        if let Err(expected) = scanner.expect(b'{', "an object") {
            return Err(syntax(scanner.at, expected));
        }
        scanner.skip_whitespace();
        if !scanner.take(b"}") {
            loop {
                self.top_member(scanner)?;
                if ends(scanner)? {
                    break;
                }
            }
        }
        scanner.end().map_err(|expected| syntax(scanner.at, expected))
    }

    /// A member of the envelope. The usual spelling of its name is recognised whole, any other is
    /// scanned.
    #[inline]
    fn top_member(&mut self, scanner: &mut Scanner<'_>) -> Step<()> {
        match scanner.second() {
            b'k' if scanner.take(b"\"kind\":") => self.kind(scanner),
            b't' if scanner.take(b"\"type\":") => self.type_name(scanner),
            b'd' if scanner.take(b"\"data\":") => self.data(scanner),
            b'm' if scanner.take(b"\"metadata\":") => self.metadata(scanner),
            _ => self.other_top_member(scanner),
        }
    }

    #[cold]
    #[inline(never)]
    fn other_top_member(&mut self, scanner: &mut Scanner<'_>) -> Step<()> {
        match &*field_name(scanner)? {
            "kind" => self.kind(scanner),
            "type" => self.type_name(scanner),
            "data" => self.data(scanner),
            "metadata" => self.metadata(scanner),
            _ => {
                scanner.skip_whitespace();
                value(scanner, 1).map(drop)
            }
        }
    }

    #[inline]
    fn kind(&mut self, scanner: &mut Scanner<'_>) -> Step<()> {
        scanner.skip_whitespace();
        once("kind", self.kind.is_some())?;
        self.kind = Some(kind(scanner)?);
        Ok(())
    }

    #[inline]
    fn type_name(&mut self, scanner: &mut Scanner<'_>) -> Step<()> {
        name(scanner, "type", &mut self.layout.type_name, &mut self.decoded)?;
        let name = self.peek(scanner.text(), self.layout.type_name);
        check_type_name(name).map_err(|reason| schema("type", reason))
    }

    #[inline]
    fn data(&mut self, scanner: &mut Scanner<'_>) -> Step<()> {
        scanner.skip_whitespace();
        once("data", !self.layout.data.is_absent())?;
        self.layout.data = value(scanner, 1)?;
        Ok(())
    }

    #[inline]
    fn metadata(&mut self, scanner: &mut Scanner<'_>) -> Step<()> {
        scanner.skip_whitespace();
        once("metadata", !self.layout.metadata.is_absent())?;
        let start = scanner.at;
        if !scanner.take(b"{") {
            value(scanner, 1)?;
            return Err(schema("metadata", "must be an object"));
        }
        scanner.skip_whitespace();
        if !scanner.take(b"}") {
            loop {
                self.metadata_member(scanner)?;
                if ends(scanner)? {
                    break;
                }
            }
        }
        self.layout.metadata = Span::plain(start, scanner.at);
        Ok(())
    }

    /// A member of the metadata, read like one of the envelope.
    #[inline]
    fn metadata_member(&mut self, scanner: &mut Scanner<'_>) -> Step<()> {
        match scanner.second() {
            b'i' if scanner.take(b"\"id\":") => self.id(scanner),
            b't' if scanner.take(b"\"timestamp\":") => self.timestamp(scanner),
            b'c' if scanner.take(b"\"causation\":") => self.causation(scanner),
            b'c' if scanner.take(b"\"correlation\":") => self.correlation(scanner),
            _ => self.other_metadata_member(scanner),
        }
    }

    #[cold]
    #[inline(never)]
    fn other_metadata_member(&mut self, scanner: &mut Scanner<'_>) -> Step<()> {
        let text = scanner.text();
        match &*field_name(scanner)? {
            "id" => self.id(scanner)?,
            "timestamp" => self.timestamp(scanner)?,
            "causation" => self.causation(scanner)?,
            "correlation" => self.correlation(scanner)?,
            "traceparent" => {
                scanner.skip_whitespace();
                once("metadata.traceparent", !self.layout.traceparent.is_absent())?;
                self.layout.traceparent = plain_string(text, value(scanner, 2)?);
            }
            "timeout" => {
                let field = "metadata.timeout";
                let timeout_ms = integer(scanner, field, self.layout.timeout_ms != 0)?;
                if timeout_ms == 0 {
                    return Err(schema(field, "must be at least 1 millisecond"));
                }
                self.layout.timeout_ms = timeout_ms;
            }
            "durable" => {
                scanner.skip_whitespace();
                let field = "metadata.durable";
                once(field, self.layout.durable.is_some())?;
                self.layout.durable = match value(scanner, 2)?.read(text, "") {
                    "true" => Some(true),
                    "false" => Some(false),
                    _ => return Err(schema(field, "must be true or false")),
                };
            }
            _ => {
                scanner.skip_whitespace();
                value(scanner, 2)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn id(&mut self, scanner: &mut Scanner<'_>) -> Step<()> {
        name(scanner, "metadata.id", &mut self.layout.id, &mut self.decoded)
    }

    #[inline]
    fn timestamp(&mut self, scanner: &mut Scanner<'_>) -> Step<()> {
        let again = self.layout.timestamp_ms != NO_TIMESTAMP;
        self.layout.timestamp_ms = integer(scanner, "metadata.timestamp", again)?;
        Ok(())
    }

    #[inline]
    fn causation(&mut self, scanner: &mut Scanner<'_>) -> Step<()> {
        name(scanner, "metadata.causation", &mut self.layout.causation, &mut self.decoded)
    }

    #[inline]
    fn correlation(&mut self, scanner: &mut Scanner<'_>) -> Step<()> {
        name(scanner, "metadata.correlation", &mut self.layout.correlation, &mut self.decoded)
    }

    fn peek<'a>(&'a self, text: &'a str, span: Span) -> &'a str {
        span.read(text, &self.decoded)
    }

    /// Whether everything is there that must be.
    #[inline]
    fn complete(&mut self) -> Step<()> {
        let layout = &mut self.layout;
        let Some(kind) = self.kind else { return Err(missing("kind")) };
        layout.kind = kind;
        if layout.type_name.is_absent() {
            return Err(missing("type"));
        }
        if layout.data.is_absent() {
            return Err(missing("data"));
        }
        if layout.metadata.is_absent() {
            return Err(missing("metadata"));
        }
        if layout.id.is_absent() {
            return Err(missing("metadata.id"));
        }
        if layout.timestamp_ms == NO_TIMESTAMP {
            return Err(missing("metadata.timestamp"));
        }
        if kind.is_outcome() && layout.causation.is_absent() {
            return Err(schema("metadata.causation", "is missing: a reply or error names its request"));
        }
        Ok(())
    }

    #[cold]
    fn reject(&self, fault: Fault, text: &str) -> Rejection {
        let copy = |span: Span| (!span.is_absent()).then(|| self.peek(text, span).to_owned());
        // What the fault stands before was not read yet.
        let behind = salvage(text);
        Rejection {
            failure: fault.failure,
            field: fault.field,
            reason: fault.reason,
            id: copy(self.layout.id).or(behind.id),
            type_name: copy(self.layout.type_name).or(behind.type_name),
            kind: self.kind.or(behind.kind),
        }
    }
}

#[cold]
fn missing(field: &'static str) -> Box<Fault> {
    schema(field, "is missing")
}

#[cold]
fn too_long(field: &'static str) -> Box<Fault> {
    schema(field, "must be at most 256 bytes long")
}

/// The rejection of bytes that are no text, with what can be read of them all the same.
#[cold]
fn not_utf8(line: &[u8]) -> Rejection {
    let text = String::from_utf8_lossy(line);
    let fault = malformed("the line is not UTF-8".into());
    let mut rejection = Found::default().reject(*fault, &text);
    // A name with a character in place of what could not be read is not the one that was sent.
    let is_whole = |name: &String| !name.contains(char::REPLACEMENT_CHARACTER);
    rejection.id = rejection.id.filter(is_whole);
    rejection.type_name = rejection.type_name.filter(is_whole);
    rejection
}

/// A value that is a short string without escapes, without its quotes; an empty place if it is
/// anything else.
#[cold]
fn plain_string(text: &str, value: Span) -> Span {
    let start = value.start as usize;
    match value.read(text, "").as_bytes() {
        [b'"', inside @ .., b'"'] if inside.len() <= NAME_BYTES_MAX && !inside.contains(&b'\\') => {
            Span::plain(start + 1, start + 1 + inside.len())
        }
        _ => Span::plain(start, start),
    }
}

/// Any name and its colon. A known name written with escapes is still that name.
fn field_name<'a>(scanner: &mut Scanner<'a>) -> Step<Cow<'a, str>> {
    let text = scanner.text();
    let name = scanner.member_name().map_err(|expected| syntax(scanner.at, expected))?;
    if name.escaped {
        return Ok(Cow::Owned(decode(&text[name.start - 1..=name.end]).unwrap_or_default()));
    }
    Ok(Cow::Borrowed(&text[name.start..name.end]))
}

/// After a member: whether the object ends here; if not, moves to the next name.
#[inline(always)]
fn ends(scanner: &mut Scanner<'_>) -> Step<bool> {
    scanner.skip_whitespace();
    match scanner.peek() {
        Some(b',') => {
            scanner.at += 1;
            scanner.skip_whitespace();
            Ok(false)
        }
        Some(b'}') => {
            scanner.at += 1;
            Ok(true)
        }
        _ => Err(syntax(scanner.at, "a comma or the end of the object")),
    }
}

/// Any value at the cursor, where it stands.
#[inline]
fn value(scanner: &mut Scanner<'_>, depth: u32) -> Step<Span> {
    let start = scanner.at;
    match scanner.value(depth) {
        Ok(()) => Ok(Span::plain(start, scanner.at)),
        Err(expected) => Err(syntax(scanner.at, expected)),
    }
}

#[inline]
fn kind(scanner: &mut Scanner<'_>) -> Step<Kind> {
    if scanner.take(b"\"command\"") {
        return Ok(Kind::Command);
    }
    if scanner.take(b"\"reply\"") {
        return Ok(Kind::Reply);
    }
    let span = string(scanner, "kind", false)?;
    let known = if span.escaped { None } else { Kind::from_wire(&scanner.text()[span.start..span.end]) };
    known.ok_or_else(|| schema("kind", "must be command, query, event, reply or error"))
}

#[inline]
fn once(field: &'static str, again: bool) -> Step<()> {
    if again { Err(schema(field, "is there twice")) } else { Ok(()) }
}

#[inline(always)]
fn string(scanner: &mut Scanner<'_>, field: &'static str, again: bool) -> Step<StringSpan> {
    scanner.skip_whitespace();
    once(field, again)?;
    if scanner.peek() != Some(b'"') {
        value(scanner, 2)?;
        return Err(schema(field, "must be a string"));
    }
    scanner.string().map_err(|expected| syntax(scanner.at, expected))
}

/// A short, non-empty string, the first for this place. What was written with escapes is put behind
/// `decoded`.
fn name(scanner: &mut Scanner<'_>, field: &'static str, place: &mut Span, decoded: &mut String) -> Step<()> {
    let StringSpan { start, end, escaped } = string(scanner, field, !place.is_absent())?;
    if start == end {
        return Err(schema(field, "must not be empty"));
    }
    if escaped {
        *place = decoded_name(&scanner.text()[start - 1..=end], field, decoded)?;
        return Ok(());
    }
    if end - start > NAME_BYTES_MAX {
        return Err(too_long(field));
    }
    *place = Span::plain(start, end);
    Ok(())
}

/// The same, of a string literal with escapes.
#[cold]
fn decoded_name(literal: &str, field: &'static str, decoded: &mut String) -> Step<Span> {
    // The text counts, not how it is spelt: whoever writes it again may spell it otherwise.
    if literal.len() > NAME_BYTES_MAX * ESCAPED_BYTES_MAX + 2 {
        return Err(too_long(field));
    }
    let Some(plain) = decode(literal) else {
        return Err(schema(field, "must be a string of Unicode characters"));
    };
    if plain.len() > NAME_BYTES_MAX {
        return Err(too_long(field));
    }
    let start = decoded.len();
    decoded.push_str(&plain);
    Ok(Span::decoded(start, decoded.len()))
}

fn integer(scanner: &mut Scanner<'_>, field: &'static str, again: bool) -> Step<u64> {
    scanner.skip_whitespace();
    once(field, again)?;
    if let Some(number) = scanner.take_integer() {
        return Ok(number);
    }
    let number = value(scanner, 2)?.read(scanner.text(), "").parse().ok();
    number
        .filter(|number| *number <= INTEGER_MAX)
        .ok_or_else(|| schema(field, "must be a whole number of milliseconds, not negative, below 2^53"))
}

/// The text of a string literal, or nothing when its escapes are no Unicode.
#[cold]
fn decode(literal: &str) -> Option<String> {
    serde_json::from_str(literal).ok()
}

mod salvage;

#[cfg(test)]
mod tests;
