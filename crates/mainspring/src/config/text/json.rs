//! JSON as a tree.
//!
//! serde_json knows where text stops being JSON, but not where a value of good JSON stands; errors
//! about what a file says need that.

use crate::config::text::tree::{Node, TreeEntry, Value};
use jsonc_parser::ast::{Object, Value as JsonValue};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::de::IgnoredAny;
use std::collections::HashSet;
use std::ops::Range;

/// Why the text is not JSON, and where.
pub(in crate::config) type JsonFault = (Range<usize>, String);

/// Reads a document: whether it is JSON is serde_json's word, where everything stands is
/// jsonc-parser's, which is less strict and says less about what is wrong.
pub(in crate::config) fn read(text: &str) -> Result<Node, JsonFault> {
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| fault(text, &error))?;
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default())
        .map_err(|error| (error.range().start..error.range().end, error.kind().to_string()))?;
    match parsed.value {
        Some(value) => node(&value),
        None => Err((0..0, "expected a value".into())),
    }
}

/// What serde_json says, without the place in words.
fn fault(text: &str, error: &serde_json::Error) -> JsonFault {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let message = message.replace("EOF while parsing", "the text ends within");
    let line_start: usize =
        text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    // The column is that of the byte at fault, or of the last one there is.
    let before = if error.is_eof() { error.column() } else { error.column().saturating_sub(1) };
    let at = (line_start + before).min(text.len());
    let start = text.floor_char_boundary(at);
    let end = start + text[start..].chars().next().map_or(0, char::len_utf8);
    (start..end, message)
}

fn node(value: &JsonValue<'_>) -> Result<Node, JsonFault> {
    let span = value.start()..value.end();
    let value = match value {
        JsonValue::NullKeyword(_) => Value::Null,
        JsonValue::BooleanLit(literal) => Value::Bool(literal.value),
        JsonValue::StringLit(literal) => Value::Text(literal.value.clone().into_owned()),
        JsonValue::NumberLit(literal) => number(literal.value).map_err(|text| (span.clone(), text))?,
        JsonValue::Array(array) => Value::List(array.elements.iter().map(node).collect::<Result<_, _>>()?),
        JsonValue::Object(object) => table(object)?,
    };
    Ok(Node { span, value })
}

fn table(object: &Object<'_>) -> Result<Value, JsonFault> {
    let mut entries: Vec<TreeEntry> = Vec::with_capacity(object.properties.len());
    let mut keys = HashSet::new();
    for property in &object.properties {
        let (key, key_span) = (property.name.as_str(), property.name.start()..property.name.end());
        if !keys.insert(key) {
            return Err((key_span, format!("the key `{key}` is there twice")));
        }
        entries.push(TreeEntry { key: key.to_owned(), key_span, node: node(&property.value)? });
    }
    Ok(Value::Table(entries))
}

/// Numbers beyond 64 signed bits become floating point.
fn number(text: &str) -> Result<Value, String> {
    match serde_json::from_str::<serde_json::Number>(text) {
        Ok(number) if number.is_i64() => Ok(Value::Integer(number.as_i64().unwrap_or_default())),
        Ok(number) => Ok(Value::Float(number.as_f64().unwrap_or(f64::NAN))),
        Err(_) => Err(format!("`{text}` is not a number")),
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
            ("tru", 3),
            ("1 2", 2),
            ("\"\\x\"", 2),
            ("\"open", 5),
            ("\"\\", 2),
            ("{\"a\":1,\"a\":2}", 7),
            ("01", 1),
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
