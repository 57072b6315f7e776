//! A document as a tree whose every node knows where it was written, whatever it was written in.

use std::ops::Range;

/// A value and its place in the text.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::config) struct Node {
    pub(in crate::config) span: Range<usize>,
    pub(in crate::config) value: Value,
}

/// What TOML and JSON can both say.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::config) enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Table(Vec<TreeEntry>),
}

/// A key with its value, in the order of the text.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::config) struct TreeEntry {
    pub(in crate::config) key: String,
    pub(in crate::config) key_span: Range<usize>,
    pub(in crate::config) node: Node,
}

impl Node {
    /// An empty table at the very beginning: what a document without a word says.
    pub(in crate::config) fn empty() -> Node {
        Node { span: 0..0, value: Value::Table(Vec::new()) }
    }

    pub(in crate::config) fn entries(&self) -> &[TreeEntry] {
        if let Value::Table(entries) = &self.value { entries } else { &[] }
    }

    pub(in crate::config) fn elements(&self) -> &[Node] {
        if let Value::List(elements) = &self.value { elements } else { &[] }
    }

    pub(in crate::config) fn entry(&self, key: &str) -> Option<&TreeEntry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    pub(in crate::config) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// Follows a dotted key (`limits.concurrency`) as far as it goes.
    pub(in crate::config) fn at_key(&self, key: &str) -> &Node {
        let mut node = self;
        for step in key.split('.') {
            let Some(below) = node.get(step) else { break };
            node = below;
        }
        node
    }

    /// Follows a JSON pointer in the form of a URI fragment (`#/oneOf/1/properties`) as far as it
    /// goes.
    pub(in crate::config) fn at_pointer(&self, pointer: &str) -> &Node {
        let mut node = self;
        for step in pointer.trim_start_matches('#').split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let below = match &node.value {
                Value::Table(_) => node.get(&step),
                Value::List(elements) => step.parse::<usize>().ok().and_then(|at| elements.get(at)),
                _ => None,
            };
            let Some(below) = below else { break };
            node = below;
        }
        node
    }

    pub(in crate::config) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::from(*value),
            Value::Integer(value) => Json::from(*value),
            Value::Float(value) => Json::from(*value),
            Value::Text(value) => Json::from(value.as_str()),
            Value::List(elements) => elements.iter().map(Node::to_json).collect(),
            Value::Table(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect()
            }
        }
    }

    /// This table, with the entries of `base` for the keys that it does not have itself.
    pub(in crate::config) fn over(&self, base: &Node) -> Node {
        let mut entries = self.entries().to_vec();
        entries.extend(base.entries().iter().filter(|entry| self.entry(&entry.key).is_none()).cloned());
        Node { span: self.span.clone(), value: Value::Table(entries) }
    }
}
