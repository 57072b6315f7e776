//! From trees to types, by serde, with every fault at its place.
//!
//! serde gives up at the first fault. So the entry at fault is left out and the rest is read again,
//! until nothing more is wrong: that way one look finds (nearly) everything.

use crate::config::report::{Problem, suggest};
use crate::config::text::tree::{Node, TreeEntry, Value};
use crate::config::text::{Place, Source};
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

/// Faults that are looked for in one table.
const FAULTS_MAX: usize = 20;

/// Reads a node; what is wrong is added to the problems, and then there is no value.
pub(in crate::config) fn read<T: DeserializeOwned>(
    node: &Node,
    source: &Rc<Source>,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let mut skipped = Vec::new();
    let mut sound = true;
    for _ in 0..FAULTS_MAX {
        let fault = match T::deserialize(NodeReader { node, skipped: &skipped }) {
            Ok(value) => return sound.then_some(value),
            Err(fault) => fault,
        };
        sound = false;
        // Whoever is missing because it was left out has been told about.
        let is_told = |(key, table): &(&str, usize)| {
            skipped.iter().any(|skipped: &Skipped| skipped.key == *key && skipped.table == *table)
        };
        if !fault.missing.as_ref().is_some_and(is_told) {
            let span = fault.span.clone().unwrap_or_else(|| node.span.clone());
            problems.push(Problem::at(&Place { source: source.clone(), span }, fault.message));
        }
        let entry = fault.entry?;
        skipped.push(entry);
    }
    None
}

/// Of a fault that has not yet been told which table it is in.
const NO_TABLE: usize = usize::MAX;

/// An entry (or an element) that is left out.
#[derive(Debug)]
struct Skipped {
    /// Where its key is (or the element itself): no two have the same.
    at: usize,
    key: String,
    /// Where its table is.
    table: usize,
}

/// Why a node is not what it should be.
#[derive(Debug)]
pub(in crate::config) struct DecodeFault {
    message: String,
    span: Option<Range<usize>>,
    /// The smallest entry or element around the fault.
    entry: Option<Skipped>,
    /// The key that is missing, and where its table is.
    missing: Option<(&'static str, usize)>,
}

impl DecodeFault {
    fn new(message: String) -> DecodeFault {
        DecodeFault { message, span: None, entry: None, missing: None }
    }

    fn at(mut self, span: &Range<usize>) -> DecodeFault {
        self.span.get_or_insert_with(|| span.clone());
        self
    }

    fn within(mut self, at: usize, key: &str, table: &Node) -> DecodeFault {
        self.entry.get_or_insert_with(|| Skipped { at, key: key.to_owned(), table: table.span.start });
        self
    }

    fn missing_in(mut self, table: &Node) -> DecodeFault {
        if let Some((_, at @ NO_TABLE)) = &mut self.missing {
            *at = table.span.start;
        }
        self
    }
}

impl fmt::Display for DecodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DecodeFault {}

/// serde's words in words of this document's writer.
fn plain(expected: &dyn de::Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number, not negative".into(),
        "i64" | "i32" => "a whole number".into(),
        "a string" | "path string" => "text in quotes".into(),
        "a boolean" => "true or false".into(),
        "a sequence" => "a list".into(),
        "a map" => "a table".into(),
        _ if text.starts_with("struct ") => "a table".into(),
        _ => text,
    }
}

fn found(unexpected: &Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Str(text) => format!("the text {text:?}"),
        Unexpected::Unsigned(number) => format!("the number {number}"),
        Unexpected::Signed(number) => format!("the number {number}"),
        Unexpected::Float(number) => format!("the number {number}"),
        Unexpected::Bool(value) => format!("{value}"),
        Unexpected::Seq => "a list".into(),
        Unexpected::Map => "a table".into(),
        Unexpected::Unit => "null".into(),
        other => other.to_string(),
    }
}

impl de::Error for DecodeFault {
    fn custom<T: fmt::Display>(message: T) -> DecodeFault {
        DecodeFault::new(message.to_string())
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn de::Expected) -> DecodeFault {
        DecodeFault::new(format!("expected {}, found {}", plain(expected), found(&unexpected)))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn de::Expected) -> DecodeFault {
        DecodeFault::invalid_type(unexpected, expected)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> DecodeFault {
        DecodeFault::new(format!("there is no key `{field}` here; {}", suggest(field, expected)))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> DecodeFault {
        DecodeFault::new(format!("`{variant}` is not one of them; {}", suggest(variant, expected)))
    }

    fn missing_field(field: &'static str) -> DecodeFault {
        DecodeFault {
            missing: Some((field, NO_TABLE)),
            ..DecodeFault::new(format!("the key `{field}` is missing"))
        }
    }
}

#[derive(Clone, Copy)]
struct NodeReader<'a> {
    node: &'a Node,
    skipped: &'a [Skipped],
}

impl<'a> NodeReader<'a> {
    fn is_skipped(&self, at: usize) -> bool {
        self.skipped.iter().any(|skipped| skipped.at == at)
    }

    fn any<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFault> {
        let span = &self.node.span;
        let result = match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(value) => match u64::try_from(*value) {
                Ok(value) => visitor.visit_u64(value),
                Err(_) => visitor.visit_i64(*value),
            },
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(value) => visitor.visit_str(value),
            Value::List(elements) => {
                visitor.visit_seq(ListAccess { reader: self, elements: elements.iter() })
            }
            Value::Table(entries) => {
                visitor.visit_map(TableAccess { reader: self, entries: entries.iter(), current: None })
            }
        };
        result.map_err(|fault| fault.missing_in(self.node).at(span))
    }
}

impl<'de> de::Deserializer<'de> for NodeReader<'_> {
    type Error = DecodeFault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFault> {
        self.any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFault> {
        if self.node.value == Value::Null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeFault> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct enum
        identifier ignored_any
    }
}

struct ListAccess<'a> {
    reader: NodeReader<'a>,
    elements: std::slice::Iter<'a, Node>,
}

impl<'de> de::SeqAccess<'de> for ListAccess<'_> {
    type Error = DecodeFault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeFault> {
        loop {
            let Some(node) = self.elements.next() else { return Ok(None) };
            if self.reader.is_skipped(node.span.start) {
                continue;
            }
            let result = seed.deserialize(NodeReader { node, ..self.reader });
            return result
                .map(Some)
                .map_err(|fault| fault.at(&node.span).within(node.span.start, "", self.reader.node));
        }
    }
}

struct TableAccess<'a> {
    reader: NodeReader<'a>,
    entries: std::slice::Iter<'a, TreeEntry>,
    current: Option<&'a TreeEntry>,
}

impl<'de> de::MapAccess<'de> for TableAccess<'_> {
    type Error = DecodeFault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeFault> {
        let is_skipped = |entry: &&TreeEntry| self.reader.is_skipped(entry.key_span.start);
        let Some(entry) = self.entries.find(|entry| !is_skipped(entry)) else { return Ok(None) };
        self.current = Some(entry);
        let key: de::value::StrDeserializer<'_, DecodeFault> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|fault| {
            fault.at(&entry.key_span).within(entry.key_span.start, &entry.key, self.reader.node)
        })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeFault> {
        let Some(entry) = self.current.take() else {
            return Err(DecodeFault::new("a value without a key".into()));
        };
        let reader = NodeReader { node: &entry.node, ..self.reader };
        seed.deserialize(reader).map_err(|fault| {
            fault.at(&entry.node.span).within(entry.key_span.start, &entry.key, self.reader.node)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::text::toml;
    use mainspring_kernel::keys;
    use mainspring_kernel::keys::{Bytes, Millis};

    keys! {
        /// An example.
        struct Example {
            /// A size.
            line: usize as Bytes = 0;
            /// A duration.
            pause: u64 as Millis = 0;
            /// A number.
            plain: u64 = 0;
            /// A table.
            inner: Option<Inner> = None;
            /// Tables.
            list: Vec<Inner> = Vec::new();
        }
    }

    keys! {
        /// What is in it.
        struct Inner {
            /// Needed.
            name: String;
            /// Not needed.
            on: bool = false;
        }
    }

    fn example(text: &str) -> (Option<Example>, Vec<String>) {
        let (node, faults) = toml::read(text);
        assert_eq!(faults, []);
        let source = Rc::new(Source::new("x", text));
        let mut problems = Vec::new();
        let value = read(&node, &source, &mut problems);
        let shown = problems.iter().map(|p| format!("{}:{} {}", p.line, p.column, p.message));
        (value, shown.collect())
    }

    #[test]
    fn numbers_have_units_where_their_type_says_so() {
        let (value, _) = example("line = '64KiB'\npause = '1.5s'\nplain = 3");
        let value = value.unwrap();
        assert_eq!((value.line, value.pause, value.plain), (65_536, 1500, 3));
        let (_, problems) = example("plain = '3s'");
        assert_eq!(problems, ["1:9 expected a whole number, not negative, found the text \"3s\""]);
    }

    #[test]
    fn everything_that_is_wrong_is_found_in_one_look() {
        let (value, problems) = example(
            "lien = 1\nplain = -1\npause = 'soon'\nlist = [{name = 1}, {name = 'b', no = 1}, {}]\n[inner]\non = 'yes'",
        );
        assert!(value.is_none());
        assert_eq!(
            problems,
            [
                "1:1 there is no key `lien` here; did you mean `line`?",
                "2:9 expected a whole number, not negative, found the number -1",
                "3:9 `soon` does not begin with a number",
                "4:17 expected text in quotes, found the number 1",
                "4:34 there is no key `no` here; did you mean `on`?",
                "4:43 the key `name` is missing",
                "6:6 expected true or false, found the text \"yes\"",
                "5:1 the key `name` is missing",
            ]
        );
    }
}
