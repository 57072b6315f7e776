//! JSON as a tree.
//!
//! serde_json knows where text stops being JSON, but not where a value of good JSON stands; errors about what a file says need that.

use crate::config::text::tree::{Node, TreeEntry, Value};
use std::ops::Range;

/// How deep a document may nest.
const DEPTH_MAX: usize = 128;

/// Why the text is not JSON, and where.
pub(in crate::config) type Fault = (Range<usize>, String);

/// Reads a document.
pub(in crate::config) fn read(text: &str) -> Result<Node, Fault> {
    let mut reader = Reader { text, at: 0 };
    let node = reader.node(0)?;
    reader.skip_space();
    if reader.at < text.len() { Err(reader.fault("expected nothing more")) } else { Ok(node) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn fault(&self, what: &str) -> Fault {
        let found = self.text[self.at..].chars().next();
        (self.at..self.at + found.map_or(0, char::len_utf8), what.to_owned())
    }

    /// Takes one of two characters, after space; true for the first.
    fn either(&mut self, first: u8, second: u8, what: &str) -> Result<bool, Fault> {
        self.skip_space();
        match self.peek() {
            Some(byte) if byte == first || byte == second => {
                self.at += 1;
                Ok(byte == first)
            }
            _ => Err(self.fault(what)),
        }
    }

    fn node(&mut self, depth: usize) -> Result<Node, Fault> {
        self.skip_space();
        if depth > DEPTH_MAX {
            return Err(self.fault("nested too deeply"));
        }
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => self.table(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'a'..=b'z') => self.word()?,
            _ => return Err(self.fault("expected a value")),
        };
        Ok(Node { span: start..self.at, value })
    }

    fn table(&mut self, depth: usize) -> Result<Value, Fault> {
        self.at += 1;
        let mut entries: Vec<TreeEntry> = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Table(entries));
        }
        loop {
            self.skip_space();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.fault("expected a key in quotes"));
            }
            let key = self.string()?;
            let key_span = start..self.at;
            if entries.iter().any(|entry| entry.key == key) {
                return Err((key_span, format!("the key `{key}` is there twice")));
            }
            self.either(b':', b':', "expected `:`")?;
            entries.push(TreeEntry { key, key_span, node: self.node(depth + 1)? });
            if !self.either(b',', b'}', "expected `,` or `}`")? {
                return Ok(Value::Table(entries));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, Fault> {
        self.at += 1;
        let mut elements = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(elements));
        }
        loop {
            elements.push(self.node(depth + 1)?);
            if !self.either(b',', b']', "expected `,` or `]`")? {
                return Ok(Value::List(elements));
            }
        }
    }

    /// Finds the end of a string and lets serde_json undo its escapes.
    fn string(&mut self) -> Result<String, Fault> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(b'\n') | None => return Err((start..start + 1, "the string does not end".into())),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        let text = self.text.get(start..self.at).unwrap_or_default();
        serde_json::from_str(text)
            .map_err(|_| (start..self.at, "the string holds a character or escape that JSON forbids".into()))
    }

    fn number(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        let fault = || (start..self.at, format!("`{text}` is not a number"));
        match serde_json::from_str::<serde_json::Number>(text).map_err(|_| fault())? {
            number if number.is_i64() => Ok(Value::Integer(number.as_i64().unwrap_or_default())),
            number => Ok(Value::Float(number.as_f64().unwrap_or(f64::NAN))),
        }
    }

    fn word(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'a'..=b'z')) {
            self.at += 1;
        }
        match &self.text[start..self.at] {
            "null" => Ok(Value::Null),
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            word => Err((start..self.at, format!("`{word}` is not a value; text goes in quotes"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_means_what_serde_json_says_it_means() {
        for text in [
            r#"{"a":[1,-2.5,1e3,true,false,null,"x\n\u00e9\\"],"b":{},"c":[]}"#,
            " [ 1 , { \"k\" : [ [ ] ] } ] ",
            "\"only text\"",
            "18446744073709551615",
        ] {
            let expected: serde_json::Value = serde_json::from_str(text).unwrap();
            let found = read(text).unwrap().to_json();
            // Numbers beyond 64 signed bits become floating point.
            assert!(found == expected || expected.is_u64(), "{text}");
        }
    }

    #[test]
    fn what_serde_json_refuses_is_refused_at_its_place() {
        for (text, at) in [
            ("", 0),
            ("{", 1),
            ("{\"a\" 1}", 5),
            ("{\"a\":1,}", 7),
            ("[1 2]", 3),
            ("[1,]", 3),
            ("tru", 0),
            ("1 2", 2),
            ("\"\\x\"", 0),
            ("\"open", 0),
            ("\"\\", 0),
            ("{\"a\":1,\"a\":2}", 7),
            ("01", 0),
            ("{\"é\":é}", 6),
        ] {
            let (span, what) = read(text).unwrap_err();
            assert_eq!(span.start, at, "{text}: {what}");
            assert!(text.get(span).is_some(), "{text}");
        }
        assert!(read(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn every_node_knows_its_place() {
        let text = r#"{ "a": [ 10, "é" ] }"#;
        let node = read(text).unwrap();
        assert_eq!(&text[node.entry("a").unwrap().key_span.clone()], "\"a\"");
        assert_eq!(&text[node.at_pointer("#/a/1").span.clone()], "\"é\"");
        assert_eq!(&text[node.at_pointer("#/a/7/x").span.clone()], "[ 10, \"é\" ]");
    }
}
