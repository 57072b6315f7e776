//! Writing messages: strings, numbers, and whole lines spliced from parts.

use crate::draft::Json;
use crate::envelope::{Envelope, Layout, Span};
use crate::kind::Kind;
use crate::scan::is_plain;
use crate::text::Text;

/// Appends `text` as a JSON string.
pub(crate) fn write_string(text: &str, out: &mut String) {
    out.push('"');
    if is_plain(text) {
        out.push_str(text);
    } else {
        write_escaped(text, out);
    }
    out.push('"');
}

#[cold]
fn write_escaped(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if (control as u32) < 0x20 => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.push_str("\\u00");
                out.push(HEX[control as usize >> 4] as char);
                out.push(HEX[control as usize & 15] as char);
            }
            other => out.push(other),
        }
    }
}

/// `00` to `99`, one after the other.
const DIGIT_PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};

/// Appends a number in decimal.
pub(crate) fn write_number(mut number: u64, out: &mut String) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    // Two digits per division: timestamps have thirteen.
    while number >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&DIGIT_PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number > 0 || at == digits.len() {
        at -= 1;
        digits[at] = b'0' + number as u8;
    }
    // SAFETY: every byte of the array is an ASCII digit.
    out.push_str(unsafe { str::from_utf8_unchecked(&digits[at..]) });
}

/// Everything a message is made of, borrowed: the way to write one without building it first.
///
/// The strings are taken as they are and escaped where needed; `data` must already be JSON without
/// line breaks (as [`Json`](crate::Json) guarantees).
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The kind.
    pub kind: Kind,
    /// The type; see [`check_type_name`](crate::check_type_name).
    pub type_name: &'a str,
    /// The data, as JSON text.
    pub data: &'a str,
    /// The message's own id.
    pub id: &'a str,
    /// When it was made, in milliseconds since the Unix epoch.
    pub timestamp_ms: u64,
    /// The id of the message that caused this one.
    pub causation: Option<&'a str>,
    /// The workflow that it belongs to.
    pub correlation: Option<&'a str>,
    /// The span of another system that asks for it, as W3C writes it.
    pub traceparent: Option<&'a str>,
    /// How long the sender of a request waits.
    pub timeout_ms: Option<u64>,
    /// Further metadata members: each as `,"name":value`, or nothing.
    pub extra: &'a str,
}

impl Parts<'_> {
    /// Writes the message as a line and returns the envelope over that line. `scratch` is a buffer
    /// to reuse.
    ///
    /// # Panics
    /// When the line would be 4 GiB or longer.
    pub fn compose(&self, scratch: &mut String) -> Envelope {
        scratch.clear();
        let mut writer = LineWriter { line: scratch, decoded: String::new() };
        let layout = self.write(&mut writer);
        assert!(writer.line.len() < u32::MAX as usize, "a line is shorter than 4 GiB");
        Envelope::assemble(writer.line, &writer.decoded, &layout)
    }

    /// Appends the message to `out` as a line, without its line break, for whoever wants the text
    /// alone.
    pub fn append_to(&self, out: &mut String) {
        self.write(&mut LineWriter { line: out, decoded: String::new() });
    }

    fn write(&self, writer: &mut LineWriter<'_>) -> Layout {
        writer.line.push_str(match self.kind {
            Kind::Command => "{\"kind\":\"command\",\"type\":\"",
            Kind::Query => "{\"kind\":\"query\",\"type\":\"",
            Kind::Event => "{\"kind\":\"event\",\"type\":\"",
            Kind::Reply => "{\"kind\":\"reply\",\"type\":\"",
            Kind::Error => "{\"kind\":\"error\",\"type\":\"",
        });
        let type_name = writer.string(self.type_name);
        writer.line.push_str("\",\"data\":");
        let data_start = writer.line.len();
        writer.line.push_str(self.data);
        let data = Span::plain(data_start, writer.line.len());
        writer.line.push_str(",\"metadata\":{\"id\":\"");
        let metadata_start = data_start + self.data.len() + ",\"metadata\":".len();
        let id = writer.string(self.id);
        writer.line.push_str("\",\"timestamp\":");
        write_number(self.timestamp_ms, writer.line);
        let causation = writer.optional(",\"causation\":\"", self.causation);
        let correlation = writer.optional(",\"correlation\":\"", self.correlation);
        let traceparent = writer.optional(",\"traceparent\":\"", self.traceparent);
        if let Some(timeout_ms) = self.timeout_ms {
            writer.line.push_str(",\"timeout\":");
            write_number(timeout_ms, writer.line);
        }
        if !self.extra.is_empty() {
            writer.line.push_str(self.extra);
        }
        writer.line.push_str("}}");
        Layout {
            kind: self.kind,
            type_name,
            data,
            id,
            causation,
            correlation,
            traceparent,
            metadata: Span::plain(metadata_start, writer.line.len() - 1),
            timestamp_ms: self.timestamp_ms,
            timeout_ms: self.timeout_ms.unwrap_or(0),
            durable: None,
            // An empty span of another system is none to whoever reads it.
            is_composed: self.timeout_ms.is_none() && self.extra.is_empty() && self.traceparent != Some(""),
        }
    }
}

/// Writes a flat JSON object member by member, for an author of many that look alike: no more than
/// one allocation each.
///
/// ```
/// use mainspring_message::ObjectWriter;
///
/// let mut scratch = String::new();
/// let data = ObjectWriter::new(&mut scratch).string("key", "a\"b").string("change", "set").finish();
/// assert_eq!(data.as_str(), r#"{"key":"a\"b","change":"set"}"#);
/// ```
#[derive(Debug)]
pub struct ObjectWriter<'a> {
    text: &'a mut String,
}

impl<'a> ObjectWriter<'a> {
    /// An object without members. `scratch` is a buffer to reuse.
    pub fn new(scratch: &'a mut String) -> ObjectWriter<'a> {
        scratch.clear();
        scratch.push('{');
        ObjectWriter { text: scratch }
    }

    /// Adds a string.
    #[must_use]
    pub fn string(self, name: &str, value: &str) -> ObjectWriter<'a> {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        write_string(name, self.text);
        self.text.push(':');
        write_string(value, self.text);
        self
    }

    /// Adds a value that is JSON already.
    #[must_use]
    pub fn json(self, name: &str, value: &Json) -> ObjectWriter<'a> {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        write_string(name, self.text);
        self.text.push(':');
        self.text.push_str(value.as_str());
        self
    }

    /// The object.
    ///
    /// # Panics
    /// When it would be 4 GiB or longer.
    pub fn finish(self) -> Json {
        self.text.push('}');
        Json::from_checked(Text::from(self.text.as_str()))
    }
}

struct LineWriter<'a> {
    line: &'a mut String,
    /// The plain text of strings that had to be escaped on the line.
    decoded: String,
}

impl LineWriter<'_> {
    /// The inside of a string literal.
    fn string(&mut self, text: &str) -> Span {
        if is_plain(text) {
            let start = self.line.len();
            self.line.push_str(text);
            return Span::plain(start, start + text.len());
        }
        write_escaped(text, self.line);
        let start = self.decoded.len();
        self.decoded.push_str(text);
        Span::decoded(start, self.decoded.len())
    }

    /// A member whose name and opening quote are given, and its closing quote.
    fn optional(&mut self, opening: &str, text: Option<&str>) -> Span {
        let Some(text) = text else { return Span::ABSENT };
        self.line.push_str(opening);
        let span = self.string(text);
        self.line.push('"');
        span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 7, 9, 10, 11, 99, 100, 101, 999, 1000, 1_767_910_000_000, u64::MAX] {
            let mut out = String::new();
            write_number(number, &mut out);
            assert_eq!(out, number.to_string());
        }
    }

    #[test]
    fn an_appended_line_is_the_composed_one() {
        let parts = Parts {
            kind: Kind::Reply,
            type_name: "A.B",
            data: "{}",
            id: "quoted \" id",
            timestamp_ms: 7,
            causation: Some("c"),
            correlation: None,
            traceparent: None,
            timeout_ms: Some(5),
            extra: ",\"x\":1",
        };
        let mut out = String::from("before\n");
        parts.append_to(&mut out);
        assert_eq!(out.strip_prefix("before\n"), Some(parts.compose(&mut String::new()).line()));
    }

    #[test]
    fn what_a_message_is_composed_of_composes_its_line_again() {
        let plain = Parts {
            kind: Kind::Error,
            type_name: "A.B",
            data: r#"{"code":1}"#,
            id: "quoted \" id",
            timestamp_ms: 7,
            causation: Some("c\n"),
            correlation: Some("w"),
            traceparent: Some("00-ab"),
            timeout_ms: None,
            extra: "",
        };
        let bare = Parts { causation: None, correlation: None, traceparent: None, ..plain };
        for parts in [plain, bare] {
            let message = parts.compose(&mut String::new());
            let again = message.composed_of().unwrap().compose(&mut String::new());
            assert_eq!(again.line(), message.line());
        }
        let others = [
            Parts { extra: ",\"x\":1", ..plain },
            Parts { timeout_ms: Some(5), ..plain },
            Parts { traceparent: Some(""), ..plain },
        ];
        for parts in others {
            assert!(parts.compose(&mut String::new()).composed_of().is_none(), "{parts:?}");
        }
        let grown = bare.compose(&mut String::new()).with_metadata_member("correlation", "w");
        assert!(grown.composed_of().is_none());
        let read = Envelope::parse(
            br#"{"kind":"reply","type":"A.B","data":1,"metadata":{"id":"r","timestamp":1,"causation":"c"}}"#,
        );
        assert!(read.unwrap().composed_of().is_none());
    }

    #[test]
    fn strings_come_back_as_they_were() {
        for text in ["", "plain", "q\"b\\n\nt\tc\u{1}e\u{e9}\u{1f600}\u{7f}"] {
            let mut out = String::new();
            write_string(text, &mut out);
            assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }
    }
}
