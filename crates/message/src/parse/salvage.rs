//! What can still be read of a line that is no message: whose it is, so that its sender can tell
//! which one was refused.
//!
//! The parser stops at the first fault; what stands behind it is looked for here, after the fact,
//! without any demand on the values in between. Only strings and brackets are told apart, so even
//! text that is no JSON gives what it has.

use super::{NAME_BYTES_MAX, decode};
use crate::kind::Kind;

/// The first readable `kind`, `type` and `metadata.id` of a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Salvaged {
    pub(super) kind: Option<Kind>,
    pub(super) type_name: Option<String>,
    pub(super) id: Option<String>,
}

/// Looks through a line that was refused.
#[cold]
pub(super) fn salvage(text: &str) -> Salvaged {
    let mut found = Salvaged::default();
    let mut walk = Walk { text, at: 0 };
    walk.members(&mut |walk, name| match &*name {
        "kind" if found.kind.is_none() => {
            found.kind = walk.name().and_then(|kind| Kind::from_wire(&kind));
        }
        "type" if found.type_name.is_none() => found.type_name = walk.name(),
        "metadata" if found.id.is_none() => walk.members(&mut |walk, name| {
            if name == "id" && found.id.is_none() {
                found.id = walk.name();
            }
        }),
        _ => {}
    });
    found
}

struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl Walk<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_whitespace(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Calls `each` at the value of every member of the object at the cursor, if there is one, with
    /// the member's name. What `each` leaves of the value is skipped. Ends at the end of the
    /// object, or where nothing makes sense any more.
    fn members(&mut self, each: &mut dyn FnMut(&mut Walk<'_>, String)) {
        self.skip_whitespace();
        if self.peek() != Some(b'{') {
            return;
        }
        self.at += 1;
        loop {
            self.skip_whitespace();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'"') => {
                    let Some(name) = self.string() else { return };
                    self.skip_whitespace();
                    if self.peek() == Some(b':') {
                        self.at += 1;
                        self.skip_whitespace();
                        each(self, name);
                        self.skip_value();
                    }
                }
                Some(b'}') => {
                    self.at += 1;
                    return;
                }
                _ => return,
            }
        }
    }

    /// The string at the cursor, if it could be a name.
    fn name(&mut self) -> Option<String> {
        self.string().filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX)
    }

    /// The text of the string at the cursor, which moves behind it; nothing if there is none or it
    /// has no end.
    fn string(&mut self) -> Option<String> {
        let start = self.at;
        if self.peek() != Some(b'"') || !self.skip_string() {
            return None;
        }
        decode(&self.text[start..self.at])
    }

    /// Moves behind the string at the cursor; returns whether it has an end.
    fn skip_string(&mut self) -> bool {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                return true;
            }
        }
        self.at = self.text.len();
        false
    }

    /// Moves to the comma or bracket that ends the value at the cursor.
    fn skip_value(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.skip_string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth > 0 => depth -= 1,
                b',' | b'}' | b']' if depth == 0 => return,
                _ => {}
            }
            self.at += 1;
        }
    }
}
