//! The messages that are sent, and the schemas that they are checked against.

use serde_json::{Value, json};

/// How many digits the changing part of an id has.
const ID_DIGITS: usize = 10;

/// The data of the usual message.
pub(crate) fn usual_data() -> Value {
    json!({ "text": "The quick brown fox jumps over the lazy dog, twice", "count": 12, "tags": ["swift", "brown", "x"] })
}

/// The schema of the usual data, for both sides.
pub(crate) fn usual_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "text": { "type": "string", "minLength": 1, "maxLength": 1000 },
            "count": { "type": "integer", "minimum": 0 },
            "tags": { "type": "array", "items": { "type": "string" } },
        },
        "required": ["text", "count"],
        "additionalProperties": false,
    })
}

/// Data of about so many JSON nodes: objects of a name and a number.
pub(crate) fn data_of_nodes(nodes: usize) -> Value {
    let items: Vec<Value> = (0..nodes / 3).map(|at| json!({ "name": "abcdefgh", "n": at % 10 })).collect();
    json!({ "items": items })
}

/// The schema of data with many nodes.
pub(crate) fn schema_of_nodes() -> Value {
    json!({
        "type": "object",
        "properties": { "items": { "type": "array", "items": {
            "type": "object",
            "properties": { "name": { "type": "string" }, "n": { "type": "integer" } },
            "required": ["name", "n"],
        } } },
        "required": ["items"],
    })
}

/// A line whose id changes each time it is read.
pub(crate) struct Line {
    bytes: Vec<u8>,
    id_at: usize,
    number: u64,
}

impl Line {
    pub(crate) fn new(type_name: &str, data: &Value) -> Line {
        let zeros = "0".repeat(ID_DIGITS);
        let text = format!(
            r#"{{"kind":"command","type":"{type_name}","data":{data},"metadata":{{"id":"c{zeros}","timestamp":1767910000000,"correlation":"flow-17"}}}}"#
        );
        let id_at = text.find(&zeros).expect("the id was written");
        Line { bytes: text.into_bytes(), id_at, number: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The line with a fresh id.
    pub(crate) fn next(&mut self) -> &[u8] {
        self.number += 1;
        let mut rest = self.number;
        for digit in self.bytes[self.id_at..self.id_at + ID_DIGITS].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        &self.bytes
    }
}
