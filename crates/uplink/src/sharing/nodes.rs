//! Who is there: each node of the bus by its hellos.

use crate::sharing::share::Share;
use crate::wire::text::read_hex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// Nodes that are known at once. Beyond: one that is silent is forgotten; if there is none, the new
/// one is not heard.
const NODES_MAX: usize = 4096;
/// A node that was not heard for so long is silent. Hellos come each second; with
/// [`TICK_NS`](crate::machine::TICK_NS) it is known within 3 seconds.
pub(crate) const SILENCE_NS: i64 = 2_750_000_000;
/// How long a silent node is remembered.
const FORGET_NS: i64 = 600_000_000_000;
/// Capabilities that one node may share.
pub(crate) const SHARES_MAX: usize = 4096;

/// One run of a node. Later runs are greater, by their clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boot {
    /// When it began, in Unix milliseconds.
    pub at_ms: u64,
    /// What tells it from all others.
    pub nonce: u64,
}

impl fmt::Display for Boot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.at_ms, self.nonce)
    }
}

impl Boot {
    pub(crate) fn parse(text: &str) -> Option<Boot> {
        let (at_ms, nonce) = text.split_once('-')?;
        Some(Boot { at_ms: read_hex(at_ms)?, nonce: read_hex(nonce)? })
    }
}

/// What a node tells of itself each second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) boot: String,
    /// Counts the hellos of this run.
    pub(crate) seq: u64,
    /// What it shares, by a hash; who does not know it asks.
    pub(crate) digest: String,
    /// Whether it takes more requests for now.
    pub(crate) takes: bool,
    /// Whether it is about to go.
    #[serde(default)]
    pub(crate) parts: bool,
    /// Requests of others that it works on.
    #[serde(default)]
    pub(crate) load: usize,
    /// Whether it gives durable events by cursor.
    #[serde(default)]
    pub(crate) journal: bool,
}

/// A node as it is known here.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) boot: Boot,
    seq: u64,
    /// When it was last heard; shifted while this node itself was not running.
    pub(crate) heard_ns: i64,
    pub(crate) is_silent: bool,
    pub(crate) takes: bool,
    pub(crate) parts: bool,
    pub(crate) load: usize,
    pub(crate) has_journal: bool,
    /// What it says that it shares, and what of that is known.
    pub(crate) digest: String,
    pub(crate) known_digest: String,
    pub(crate) shares: Vec<Share>,
    /// The parts of its catalogue that have come so far.
    pub(crate) incoming: Vec<Share>,
    /// When it was last asked for something.
    pub(crate) asked_ns: i64,
    pub(crate) round_trip_us: Option<u64>,
    /// Why something that it shares is not used.
    pub(crate) problems: Vec<String>,
    /// Requests sent to it, requests that came from it, and events from it.
    pub(crate) sent: u64,
    pub(crate) served: u64,
    pub(crate) events: u64,
    /// Requests of it that are in progress here.
    pub(crate) in_progress: usize,
}

impl Node {
    fn new(boot: Boot, now_ns: i64) -> Node {
        Node {
            boot,
            seq: 0,
            heard_ns: now_ns,
            is_silent: false,
            takes: true,
            parts: false,
            load: 0,
            has_journal: false,
            digest: String::new(),
            known_digest: String::new(),
            shares: Vec::new(),
            incoming: Vec::new(),
            asked_ns: i64::MIN,
            round_trip_us: None,
            problems: Vec::new(),
            sent: 0,
            served: 0,
            events: 0,
            in_progress: 0,
        }
    }

    /// Whether requests may be sent to it.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_silent && self.takes && !self.parts
    }
}

/// What a hello changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing: it was old, or there are too many nodes.
    Ignored,
    /// The node goes on.
    Same,
    /// Something about it has changed: it is new, was silent, shares something else.
    Changed,
    /// It was started anew; this was its run before.
    Restarted(Boot),
}

/// All nodes but this one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    by_name: BTreeMap<Rc<str>, Node>,
}

impl Nodes {
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.by_name.get(name)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Node> {
        self.by_name.get_mut(name)
    }

    /// The name as it is kept, so that it need not be copied.
    pub(crate) fn name(&self, name: &str) -> Option<Rc<str>> {
        self.by_name.get_key_value(name).map(|(name, _)| Rc::clone(name))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Rc<str>, &Node)> {
        self.by_name.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Rc<str>, &mut Node)> {
        self.by_name.iter_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// A node said hello.
    pub(crate) fn hear(&mut self, name: &str, boot: Boot, hello: &Hello, now_ns: i64) -> Heard {
        let Some(node) = self.by_name.get_mut(name) else {
            if !self.make_room() {
                return Heard::Ignored;
            }
            let mut node = Node::new(boot, now_ns);
            node.take(hello, now_ns);
            self.by_name.insert(name.into(), node);
            return Heard::Changed;
        };
        // An older run, or an older hello of this one, comes late; unless nothing was heard of the
        // newer for long.
        if (boot < node.boot && !node.is_silent) || (boot == node.boot && hello.seq <= node.seq) {
            return Heard::Ignored;
        }
        if boot != node.boot {
            let before = node.boot;
            *node =
                Node { sent: node.sent, served: node.served, events: node.events, ..Node::new(boot, now_ns) };
            node.take(hello, now_ns);
            return Heard::Restarted(before);
        }
        if node.take(hello, now_ns) { Heard::Changed } else { Heard::Same }
    }

    /// Makes room for one more.
    fn make_room(&mut self) -> bool {
        if self.by_name.len() < NODES_MAX {
            return true;
        }
        let silent = self.by_name.iter().find(|(_, node)| node.is_silent).map(|(name, _)| Rc::clone(name));
        silent.is_some_and(|name| self.by_name.remove(&name).is_some())
    }

    /// Whether a node that shares this is silent.
    pub(crate) fn has_silent(&self, hash: &str) -> bool {
        let silent = self.by_name.values().filter(|node| node.is_silent && !node.parts);
        silent.flat_map(|node| &node.shares).any(|share| share.hash == hash)
    }

    /// Finds those that are silent since the last look; forgets those that are for long.
    pub(crate) fn find_silent(&mut self, now_ns: i64) -> Vec<Rc<str>> {
        self.by_name.retain(|_, node| !node.is_silent || now_ns - node.heard_ns < FORGET_NS);
        let mut silent = Vec::new();
        for (name, node) in &mut self.by_name {
            if !node.is_silent && now_ns - node.heard_ns > SILENCE_NS {
                node.is_silent = true;
                node.round_trip_us = None;
                silent.push(Rc::clone(name));
            }
        }
        silent
    }

    /// This node did not run for so long: what it did not hear meanwhile, nobody kept from it.
    pub(crate) fn shift(&mut self, by_ns: i64) {
        for node in self.by_name.values_mut() {
            node.heard_ns += by_ns;
        }
    }
}

impl Node {
    /// Takes a hello over; whether something has changed that matters for where requests go.
    fn take(&mut self, hello: &Hello, now_ns: i64) -> bool {
        let before = (self.is_usable(), std::mem::take(&mut self.digest));
        self.seq = hello.seq;
        self.heard_ns = now_ns;
        self.is_silent = false;
        (self.takes, self.parts, self.load) = (hello.takes, hello.parts, hello.load);
        self.has_journal = hello.journal;
        self.digest.clone_from(&hello.digest);
        before != (self.is_usable(), self.digest.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(seq: u64, digest: &str) -> Hello {
        Hello {
            boot: String::new(),
            seq,
            digest: digest.into(),
            takes: true,
            parts: false,
            load: 0,
            journal: false,
        }
    }

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn n4_1_a_node_is_silent_within_three_seconds_and_back_with_its_next_hello() {
        let (mut nodes, boot) = (Nodes::default(), Boot { at_ms: 1, nonce: 1 });
        assert_eq!(nodes.hear("b", boot, &hello(1, "x"), 0), Heard::Changed);
        assert_eq!(nodes.hear("b", boot, &hello(2, "x"), SECOND), Heard::Same);
        assert!(nodes.find_silent(SECOND + 2 * SECOND).is_empty());
        let silent = nodes.find_silent(SECOND + 3 * SECOND - crate::machine::TICK_NS + 1);
        assert_eq!(silent.len(), 1);
        assert!(nodes.find_silent(5 * SECOND).is_empty(), "told once");
        assert!(!nodes.get("b").unwrap().is_usable());
        assert_eq!(nodes.hear("b", boot, &hello(3, "x"), 6 * SECOND), Heard::Changed);
        assert!(nodes.get("b").unwrap().is_usable());
    }

    #[test]
    fn old_hellos_change_nothing_and_a_new_run_is_told() {
        let (mut nodes, first, second) =
            (Nodes::default(), Boot { at_ms: 1, nonce: 9 }, Boot { at_ms: 2, nonce: 3 });
        nodes.hear("b", first, &hello(5, "x"), 0);
        assert_eq!(nodes.hear("b", first, &hello(5, "x"), 1), Heard::Ignored, "doubled");
        assert_eq!(nodes.hear("b", first, &hello(4, "y"), 1), Heard::Ignored, "reordered");
        assert_eq!(nodes.hear("b", second, &hello(1, "x"), 2), Heard::Restarted(first));
        assert_eq!(nodes.hear("b", first, &hello(6, "x"), 3), Heard::Ignored, "of the run before");
        nodes.find_silent(10 * SECOND);
        let back = nodes.hear("b", first, &hello(7, "x"), 10 * SECOND);
        assert_eq!(back, Heard::Restarted(second), "a clock that was set back");
    }

    #[test]
    fn n8_2_nodes_are_bounded_and_silent_ones_make_room() {
        let (mut nodes, boot) = (Nodes::default(), Boot::default());
        for number in 0..NODES_MAX {
            nodes.hear(&format!("n{number}"), boot, &hello(1, ""), 0);
        }
        assert_eq!(nodes.hear("one-more", boot, &hello(1, ""), 0), Heard::Ignored);
        nodes.find_silent(3 * SECOND);
        assert_eq!(nodes.hear("one-more", boot, &hello(1, ""), 3 * SECOND), Heard::Changed);
        assert_eq!(nodes.len(), NODES_MAX);
    }

    #[test]
    fn a_boot_is_written_and_read() {
        let boot = Boot { at_ms: 0xabc, nonce: u64::MAX };
        assert_eq!(Boot::parse(&boot.to_string()), Some(boot));
        for bad in ["", "1", "1-", "-1", "x-1", "1-x", "1-1-1"] {
            assert_eq!(Boot::parse(bad), None, "{bad}");
        }
    }
}
