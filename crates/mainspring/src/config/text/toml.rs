//! TOML as a tree.

use crate::config::text::tree::{Node, TreeEntry, Value};
use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};
use std::ops::Range;

/// Reads a document: the tree, as far as it could be made out, and everything that is wrong with
/// the text.
pub(in crate::config) fn read(text: &str) -> (Node, Vec<(Range<usize>, String)>) {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut problems: Vec<(Range<usize>, String)> =
        errors.into_iter().map(|error| (error.span().unwrap_or(0..0), error.message().to_owned())).collect();
    let node = Node { span: 0..0, value: table(document.into_inner(), &mut problems) };
    (node, problems)
}

fn table(table: DeTable<'_>, problems: &mut Vec<(Range<usize>, String)>) -> Value {
    let mut entries: Vec<TreeEntry> = table
        .into_iter()
        .map(|(key, value)| {
            let key_span = key.span();
            TreeEntry { key: key.into_inner().into_owned(), key_span, node: node(value, problems) }
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_span.start);
    Value::Table(entries)
}

fn node(value: Spanned<DeValue<'_>>, problems: &mut Vec<(Range<usize>, String)>) -> Node {
    let span = value.span();
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Datetime(value) => Value::Text(value.to_string()),
        DeValue::Array(elements) => {
            Value::List(elements.into_iter().map(|element| node(element, problems)).collect())
        }
        DeValue::Table(inner) => table(inner, problems),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => {
                problems.push((span.clone(), "this number is too large".into()));
                Value::Integer(0)
            }
        },
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
    };
    Node { span, value }
}
