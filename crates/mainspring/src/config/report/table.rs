//! Complaints about one table of a file.

use crate::config::report::Sources;
use crate::config::text::{Node, Place, Source};
use mainspring_kernel::keys::KeyType;
use std::ops::Range;
use std::rc::Rc;

/// A table, and where what is wrong with it goes.
pub(in crate::config) struct TableReport<'a> {
    source: &'a Rc<Source>,
    node: &'a Node,
    pub(in crate::config) sources: &'a mut Sources,
}

impl<'a> TableReport<'a> {
    pub(in crate::config) fn new(
        source: &'a Rc<Source>,
        node: &'a Node,
        sources: &'a mut Sources,
    ) -> TableReport<'a> {
        TableReport { source, node, sources }
    }

    pub(in crate::config) fn source(&self) -> &'a Rc<Source> {
        self.source
    }

    pub(in crate::config) fn node(&self) -> &'a Node {
        self.node
    }

    /// The table as a value, if nothing is wrong with it.
    pub(in crate::config) fn read<T: KeyType>(&mut self) -> Option<T> {
        self.sources.read(self.node, self.source)
    }

    /// How many problems have been found so far, anywhere.
    pub(in crate::config) fn problem_count(&self) -> usize {
        self.sources.problems.len()
    }

    /// Where the value of a key is, or the table as a whole.
    pub(in crate::config) fn place(&self, key: &str) -> Place {
        self.at(&self.node.get(key).unwrap_or(self.node).span)
    }

    /// Where a key itself is, or the table as a whole.
    pub(in crate::config) fn place_of_key(&self, key: &str) -> Place {
        self.at(self.node.entry(key).map_or(&self.node.span, |entry| &entry.key_span))
    }

    /// A problem with the value of a key, or with the table as a whole.
    pub(in crate::config) fn problem(&mut self, key: &str, message: impl Into<String>) {
        let place = self.place(key);
        self.sources.problem(&place, message);
    }

    /// A problem with one element of a list.
    pub(in crate::config) fn problem_in(&mut self, key: &str, at: usize, message: impl Into<String>) {
        let place = self.place_in(key, at);
        self.sources.problem(&place, message);
    }

    /// Something about one element of a list that is most likely not meant.
    pub(in crate::config) fn warn_in(&mut self, key: &str, at: usize, message: impl Into<String>) {
        let place = self.place_in(key, at);
        self.sources.warn(&place, message);
    }

    fn place_in(&self, key: &str, at: usize) -> Place {
        let element = self.node.get(key).and_then(|node| node.elements().get(at));
        self.at(&element.unwrap_or(self.node).span)
    }

    fn at(&self, span: &Range<usize>) -> Place {
        Place { source: self.source.clone(), span: span.clone() }
    }
}
