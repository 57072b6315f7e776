//! Durable events across nodes: the origin's journal gives them by a cursor of the node that wants
//! them, in order, until that node says that it has them.

use crate::machine::Uplink;
use crate::requests::sending::HEAD_BYTES_MAX;
use crate::wire::head::Head;
use crate::wire::names::{fits, is_reserved};
use crate::wire::subject::Direct;
use mainspring_kernel::{ConnectionId, Kernel, Level, Now, Rights};
use mainspring_message::{Envelope, Kind};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The name of the cursor that each node has.
const CURSOR: &str = "uplink";
/// Where the journal keeps how far this node has got with the events of others.
const STORE: &str = "uplink.cursors";
/// How often a node says whose durable events it wants.
const FOLLOW_NS: i64 = 2_000_000_000;
/// How long an event is waited for to be acknowledged before it is sent again.
const AGAIN_NS: i64 = 3_000_000_000;

/// A node that gets the durable events of this one.
#[derive(Clone, Debug)]
struct Follower {
    node: Rc<str>,
    /// Tells the events that it is sent from those that it was sent before.
    epoch: u64,
    sent: u64,
    acknowledged: u64,
    /// When it last acknowledged something, or had nothing to acknowledge.
    progress_ns: i64,
}

/// How far this node is with the durable events of another.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    epoch: u64,
    last: u64,
}

/// Who follows whom.
#[derive(Clone, Debug, Default)]
pub(crate) struct Following {
    followers: BTreeMap<ConnectionId, Follower>,
    /// Durable events of others, by node.
    progress: BTreeMap<String, Progress>,
    asked_ns: BTreeMap<Rc<str>, i64>,
    epoch: u64,
    pub(crate) told: u64,
    pub(crate) heard: u64,
}

impl Following {
    pub(crate) fn is_follower(&self, connection: ConnectionId) -> bool {
        self.followers.contains_key(&connection)
    }

    pub(crate) fn closed(&mut self, connection: ConnectionId) -> bool {
        self.followers.remove(&connection).is_some()
    }
}

#[derive(Deserialize)]
struct Numbered {
    event: u64,
}

impl Uplink {
    /// How far an earlier run was with the durable events of others.
    pub fn restore_cursors<'a>(&mut self, kept: impl IntoIterator<Item = (&'a str, &'a str)>) {
        for (node, value) in kept {
            if let Ok(last) = value.parse() {
                self.following.progress.insert(node.to_owned(), Progress { epoch: 0, last });
            }
        }
    }

    /// Whether durable events of another node come by its journal.
    pub(crate) fn follows(&self, node: &str) -> bool {
        self.settings.has_journal && self.nodes.get(node).is_some_and(|node| node.has_journal)
    }

    /// Asks for durable events, and looks after those who get them here.
    pub(crate) fn look_after_followers(&mut self, kernel: &mut Kernel, now: Now) {
        if self.settings.has_journal && !self.settings.events.is_empty() {
            let nodes = self.nodes.iter().filter(|(_, node)| node.has_journal && !node.is_silent);
            let names: Vec<Rc<str>> = nodes.map(|(name, _)| Rc::clone(name)).collect();
            for name in names {
                let asked_ns = self.following.asked_ns.get(&name).copied().unwrap_or(i64::MIN);
                if now.mono_ns.saturating_sub(asked_ns) >= FOLLOW_NS {
                    let subject = self.subjects.direct(&name, Direct::Follow);
                    self.following.asked_ns.insert(name, now.mono_ns);
                    self.publish_text(subject, "follow", b"");
                }
            }
        }
        let stuck = |follower: &Follower| {
            follower.sent > follower.acknowledged && now.mono_ns - follower.progress_ns > AGAIN_NS
        };
        let again: Vec<(ConnectionId, Rc<str>)> = self
            .following
            .followers
            .iter()
            .filter(|(_, follower)| {
                stuck(follower) || self.nodes.get(&follower.node).is_none_or(|node| node.is_silent)
            })
            .map(|(connection, follower)| (*connection, Rc::clone(&follower.node)))
            .collect();
        for (connection, node) in again {
            self.following.followers.remove(&connection);
            kernel.connection_closed(connection, now);
            if self.nodes.get(&node).is_some_and(|node| !node.is_silent) {
                self.open_follower(node, kernel, now);
            }
        }
    }

    /// Another node wants the durable events of this one.
    pub(crate) fn followed(&mut self, from: &str, kernel: &mut Kernel, now: Now) {
        let Some(name) = self.nodes.name(from) else { return };
        let is_known = self.following.followers.values().any(|follower| follower.node == name);
        if !is_known && self.settings.has_journal && !self.events.durable.is_empty() {
            self.open_follower(name, kernel, now);
        }
    }

    fn open_follower(&mut self, node: Rc<str>, kernel: &mut Kernel, now: Now) {
        let connection = self.serving.next_connection();
        kernel.connection_opened(connection, &format!("{node}/events"), now);
        kernel.connection_has(connection, Rights::default().limited_to(&self.events.durable), now);
        self.following.epoch += 1;
        let epoch = now.unix_ms << 16 | (self.following.epoch & 0xffff);
        let follower = Follower { node, epoch, sent: 0, acknowledged: 0, progress_ns: now.mono_ns };
        self.following.followers.insert(connection, follower);
        let data = json!({ "types": self.events.durable, "cursor": CURSOR });
        let line = self.kernel_line("command", "Sys.Subscribe", &data, now);
        kernel.ingest(connection, line.as_bytes(), now);
    }

    /// The kernel writes to the connection of a follower.
    pub(crate) fn tell_follower(
        &mut self,
        connection: ConnectionId,
        message: &Envelope,
        kernel: &mut Kernel,
        now: Now,
    ) {
        let bytes = message.line().len() + 1;
        let Some(follower) = self.following.followers.get_mut(&connection) else {
            return kernel.written(connection, bytes, now);
        };
        let number = match serde_json::from_str::<Numbered>(message.metadata()) {
            Ok(numbered) if message.kind() == Kind::Event && !is_reserved(message.type_name()) => {
                numbered.event
            }
            _ => {
                if message.kind() == Kind::Error {
                    let text = format!("node {} gets no durable events: {}", follower.node, message.data());
                    self.notice(Level::Warn, text);
                }
                return kernel.written(connection, bytes, now);
            }
        };
        if message.line().len() + HEAD_BYTES_MAX > self.link.max_payload {
            self.events.too_large += 1;
            return kernel.written(connection, bytes, now);
        }
        if follower.sent <= follower.acknowledged {
            follower.progress_ns = now.mono_ns;
        }
        let head = Head::Durable { epoch: follower.epoch, number, before: follower.sent };
        follower.sent = number;
        let subject = self.subjects.direct(&follower.node, Direct::Event(message.type_name()));
        self.following.told += 1;
        self.publish_event(subject, &head, message, (connection, bytes));
    }

    /// A durable event came from another node: the next one in order is taken, and whatever was
    /// taken is acknowledged.
    pub(crate) fn durable_event(
        &mut self,
        from: &str,
        type_name: &str,
        head: Option<Head>,
        payload: &[u8],
        kernel: &mut Kernel,
        now: Now,
    ) {
        let Some(Head::Durable { epoch, number, before }) = head else { return };
        let progress = self.following.progress.entry(from.to_owned()).or_default();
        let is_next = match epoch == progress.epoch {
            true => before == progress.last || number <= progress.last,
            false => before == 0 && epoch > progress.epoch,
        };
        if !is_next {
            return;
        }
        progress.epoch = epoch;
        if number > progress.last {
            progress.last = number;
            self.following.heard += 1;
            kernel.keep_value(STORE, from, Some(&number.to_string()), now);
            if fits(&self.settings.events, type_name) {
                self.take_event(from, type_name, payload, kernel, now);
            }
        }
        let subject = self.subjects.direct(from, Direct::Acknowledge);
        let head = Head::Durable { epoch, number, before: 0 };
        self.publish(subject, &head, b"");
    }

    /// A follower has events up to this one.
    pub(crate) fn acknowledged(&mut self, from: &str, head: Option<Head>, kernel: &mut Kernel, now: Now) {
        let Some(Head::Durable { epoch, number, .. }) = head else { return };
        let found = self.following.followers.iter_mut().find(|(_, follower)| {
            *follower.node == *from
                && follower.epoch == epoch
                && follower.acknowledged < number
                && number <= follower.sent
        });
        let Some((connection, follower)) = found else { return };
        (follower.acknowledged, follower.progress_ns) = (number, now.mono_ns);
        let connection = *connection;
        let line = self.kernel_line(
            "command",
            "Sys.Acknowledge",
            &json!({ "cursor": CURSOR, "event": number }),
            now,
        );
        kernel.ingest(connection, line.as_bytes(), now);
    }
}
