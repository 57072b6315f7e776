//! Requests of others: each comes in by a connection of the kernel whose peer is `node/peer`, and
//! its outcome goes back to where it came from.

use crate::machine::Uplink;
use crate::requests::sending::HEAD_BYTES_MAX;
use crate::sharing::nodes::Boot;
use crate::wire::head::{Head, Tag, read_numbers, write_numbers};
use crate::wire::subject::RequestSubject;
use foldhash::fast::RandomState;
use mainspring_kernel::{ConnectionId, Kernel, Now, Rights};
use mainspring_message::{Envelope, Failure, Kind, Started};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;

/// Connections of the uplink have numbers of their own: those of other listeners never have both of
/// these bits.
const CONNECTION_BITS: u64 = 3 << 62;
/// Within this time a request is answered, or it is told that it was taken.
const TAKEN_NS: i64 = 20_000_000;
/// How long a connection of a remote peer is kept that nobody uses.
const IDLE_NS: i64 = 60_000_000_000;
/// Remote peers of one node at once. Beyond: refused (429).
const NODE_PEERS_MAX: usize = 1024;

/// Refused requests that are remembered.
const REFUSED_MAX: usize = 1024;

/// A request of another node.
#[derive(Clone, Debug)]
struct Served {
    connection: ConnectionId,
    id: Box<str>,
}

/// A peer of another node, as a connection.
#[derive(Clone, Debug)]
struct RemotePeer {
    node: Rc<str>,
    peer: String,
    in_progress: usize,
    used_ns: i64,
}

/// A request of another node, by that node and its tag.
type Key = (Rc<str>, Tag);

/// What is worked on for others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Serving {
    serial: u64,
    peers: HashMap<u64, RemotePeer, RandomState>,
    by_peer: BTreeMap<(Rc<str>, String), ConnectionId>,
    requests: HashMap<Key, Served, RandomState>,
    /// Which of them wait for the outcome of a request of that connection.
    by_request: HashMap<(ConnectionId, Box<str>), Vec<Key>, RandomState>,
    /// Those that were not told of yet, each with when it came.
    untaken: VecDeque<(i64, Key)>,
    /// Those that were refused as not started, the last of them: should one of them come twice, it
    /// stays refused.
    refused: HashSet<Key, RandomState>,
    refused_in_order: VecDeque<Key>,
}

/// Whether a message tells how far a request is.
pub(crate) fn is_progress(message: &Envelope) -> bool {
    message.kind() == Kind::Event && message.type_name().ends_with(".Progress")
}

impl Serving {
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn peers_len(&self) -> usize {
        self.peers.len()
    }

    pub(crate) fn next_connection(&mut self) -> ConnectionId {
        self.serial += 1;
        ConnectionId(CONNECTION_BITS | self.serial)
    }

    /// The connection of a remote peer that is known.
    pub(crate) fn connection_of_peer(&self, node: &Rc<str>, peer: &str) -> Option<ConnectionId> {
        self.by_peer.get(&(Rc::clone(node), peer.to_owned())).copied()
    }

    /// A request was refused as not started.
    fn note_refused(&mut self, key: Key) {
        if self.refused_in_order.len() >= REFUSED_MAX
            && let Some(oldest) = self.refused_in_order.pop_front()
        {
            self.refused.remove(&oldest);
        }
        self.refused_in_order.push_back(key.clone());
        self.refused.insert(key);
    }

    /// Those that were answered in time need no telling: nobody is to be woken for them.
    fn drop_answered(&mut self) {
        let requests = &self.requests;
        while self.untaken.pop_front_if(|(_, key)| !requests.contains_key(key)).is_some() {}
    }

    /// When somebody is to be told that its request was taken.
    pub(crate) fn next_deadline_ns(&self) -> Option<i64> {
        self.untaken.front().map(|(at_ns, _)| at_ns + TAKEN_NS)
    }
}

impl Uplink {
    /// Whether a connection is one of the uplink's.
    #[must_use]
    pub fn has(connection: ConnectionId) -> bool {
        connection.0 & CONNECTION_BITS == CONNECTION_BITS
    }

    /// A request came from another node.
    pub(crate) fn request(
        &mut self,
        from: &str,
        what: RequestSubject<'_>,
        head: Option<Head>,
        payload: &[u8],
        kernel: &mut Kernel,
        now: Now,
    ) {
        // Without a head there is nobody to answer.
        let Some(Head::Request { tag, left_ms, peer, .. }) = head else { return };
        let name = self.nodes.name(from).unwrap_or_else(|| from.into());
        let key = (Rc::clone(&name), tag);
        if !self.serving.refused.is_empty() && self.serving.refused.contains(&key) {
            return;
        }
        if self.serving.requests.contains_key(&key) {
            // It was sent again: it is known already.
            self.serving.untaken.push_front((i64::MIN / 2, key));
            return;
        }
        let (message, connection) = match self.examine(&name, what, &peer, payload, kernel, now) {
            Ok(admitted) => admitted,
            Err((failure, text)) => {
                self.serving.note_refused(key);
                return self.refuse(&name, tag, failure, &text, Started::No);
            }
        };
        let message = match message.timeout_ms() {
            Some(timeout_ms) if timeout_ms <= left_ms => message,
            _ => message.with_metadata_number("timeout", left_ms.max(1)),
        };
        let id: Box<str> = message.id().into();
        self.serving.requests.insert(key.clone(), Served { connection, id: id.clone() });
        self.serving.by_request.entry((connection, id)).or_default().push(key.clone());
        self.serving.untaken.push_back((now.mono_ns, key));
        if let Some(remote) = self.serving.peers.get_mut(&connection.0) {
            remote.in_progress += 1;
            remote.used_ns = now.mono_ns;
        }
        if let Some(node) = self.nodes.get_mut(from) {
            node.served += 1;
            node.in_progress += 1;
        }
        self.counters.requests_served += 1;
        kernel.ingest_message(connection, &message, now);
    }

    /// Whether a request may come in, and by which connection.
    fn examine(
        &mut self,
        node: &Rc<str>,
        what: RequestSubject<'_>,
        peer: &str,
        payload: &[u8],
        kernel: &mut Kernel,
        now: Now,
    ) -> Result<(Envelope, ConnectionId), (Failure, String)> {
        let RequestSubject { hash, kind, type_name } = what;
        let is_shared = self.shares.iter().any(|(share, _)| {
            share.hash == hash && share.types.iter().any(|(its, of)| its == kind.as_str() && of == type_name)
        });
        if !is_shared {
            let text = format!("{kind} {type_name} is not shared here, or not with this schema ({hash})");
            return Err((Failure::Forbidden, text));
        }
        let message =
            Envelope::parse(payload).map_err(|rejection| (rejection.failure, rejection.to_string()))?;
        if message.kind() != kind || message.type_name() != type_name {
            let text = format!("a {} {} was sent as {kind} {type_name}", message.kind(), message.type_name());
            return Err((Failure::Forbidden, text));
        }
        let of_node = self.nodes.get(node).map_or(0, |node| node.in_progress);
        if of_node >= self.settings.node_requests_max {
            let text = format!("node {node} has {of_node} requests here already (uplink.node_requests_max)");
            return Err((Failure::LimitExceeded, text));
        }
        let connection = self.connection_of(node, peer, kernel, now)?;
        Ok((message, connection))
    }

    /// The connection of a remote peer.
    fn connection_of(
        &mut self,
        node: &Rc<str>,
        peer: &str,
        kernel: &mut Kernel,
        now: Now,
    ) -> Result<ConnectionId, (Failure, String)> {
        let key = (Rc::clone(node), peer.to_owned());
        if let Some(connection) = self.serving.by_peer.get(&key) {
            return Ok(*connection);
        }
        let of_node = self.serving.by_peer.range((Rc::clone(node), String::new())..);
        if of_node.take_while(|((name, _), _)| name == node).count() >= NODE_PEERS_MAX {
            let text = format!("node {node} has {NODE_PEERS_MAX} peers here already");
            return Err((Failure::LimitExceeded, text));
        }
        let connection = self.serving.next_connection();
        kernel.connection_opened(connection, &format!("{node}/{peer}"), now);
        kernel.connection_has(connection, self.rights_of_others(), now);
        let remote =
            RemotePeer { node: Rc::clone(node), peer: peer.to_owned(), in_progress: 0, used_ns: now.mono_ns };
        self.serving.peers.insert(connection.0, remote);
        self.serving.by_peer.insert(key, connection);
        Ok(connection)
    }

    /// What anybody on another node may send: what is shared.
    fn rights_of_others(&self) -> Rights {
        let types: BTreeSet<&str> = self
            .shares
            .iter()
            .flat_map(|(share, _)| share.types.iter().map(|(_, name)| name.as_str()))
            .collect();
        Rights::default().limited_to(types)
    }

    /// What is shared has changed, and with it what others may send.
    pub(crate) fn renew_rights(&mut self, kernel: &mut Kernel, now: Now) {
        let rights = self.rights_of_others();
        for connection in self.serving.by_peer.values() {
            kernel.connection_has(*connection, rights.clone(), now);
        }
    }

    fn refuse(&mut self, node: &str, tag: Tag, failure: Failure, text: &str, started: Started) {
        let head = Head::Failed { by: self.settings.boot, tag, failure, started };
        self.answer_node(node, &head, text.as_bytes(), None);
    }

    /// The kernel writes to a connection of the uplink: outcomes go back to their nodes, events out
    /// to all.
    pub fn write(&mut self, connection: ConnectionId, message: &Envelope, kernel: &mut Kernel, now: Now) {
        let bytes = message.line().len() + 1;
        if self.events.is_own(connection) {
            return self.tell_event(connection, message, kernel, now);
        }
        if self.following.is_follower(connection) {
            return self.tell_follower(connection, message, kernel, now);
        }
        let key = (connection, Box::from(message.causation().unwrap_or("")));
        if message.kind().is_outcome() && self.take_errand(connection, message) {
            return kernel.written(connection, bytes, now);
        }
        let waiting = match message.kind().is_outcome() {
            true => self.serving.by_request.remove(&key).unwrap_or_default(),
            false => {
                self.tell_progress(&key, message);
                Vec::new()
            }
        };
        if waiting.is_empty() {
            return kernel.written(connection, bytes, now);
        }
        let last = waiting.len() - 1;
        for (at, key) in waiting.into_iter().enumerate() {
            self.end_served(&key, now);
            self.answer(&key, message, (at == last).then_some((connection, bytes)));
        }
    }

    /// An event tells how far a request is: whoever sent it hears it, unless NATS cannot carry it
    /// or does not keep up.
    fn tell_progress(&mut self, of: &(ConnectionId, Box<str>), event: &Envelope) {
        let is_carried = event.line().len() + HEAD_BYTES_MAX <= self.link.max_payload;
        if !is_progress(event) || !is_carried || self.link.is_congested {
            return;
        }
        for (node, tag) in self.serving.by_request.get(of).cloned().unwrap_or_default() {
            let head = Head::Progress { by: self.settings.boot, tag };
            self.answer_node(&node, &head, event.line().as_bytes(), None);
        }
    }

    fn end_served(&mut self, key: &Key, now: Now) {
        let Some(served) = self.serving.requests.remove(key) else { return };
        self.serving.drop_answered();
        if let Some(remote) = self.serving.peers.get_mut(&served.connection.0) {
            remote.in_progress -= 1;
            remote.used_ns = now.mono_ns;
        }
        if let Some(node) = self.nodes.get_mut(&key.0) {
            node.in_progress = node.in_progress.saturating_sub(1);
        }
    }

    fn answer(&mut self, (node, tag): &Key, outcome: &Envelope, written: Option<(ConnectionId, usize)>) {
        let by = self.settings.boot;
        let failed =
            (outcome.kind() == Kind::Error).then(|| Failure::from_type_name(outcome.type_name())).flatten();
        if let Some(failure) = failed {
            #[derive(serde::Deserialize)]
            struct Told {
                message: String,
                started: String,
            }
            let told: Option<Told> = outcome.data_as().ok();
            let started = match told.as_ref().map(|told| told.started.as_str()) {
                Some("no") => Started::No,
                _ => Started::Yes,
            };
            if started == Started::No {
                self.serving.note_refused((Rc::clone(node), *tag));
            }
            let text = told.map(|told| told.message).unwrap_or_default();
            let head = Head::Failed { by, tag: *tag, failure, started };
            return self.answer_node(node, &head, text.as_bytes(), written);
        }
        let line = outcome.line().as_bytes();
        if line.len() + HEAD_BYTES_MAX > self.link.max_payload {
            let text = format!(
                "the outcome has {} bytes, and NATS carries {} at most (max_payload of the server)",
                line.len(),
                self.link.max_payload.saturating_sub(HEAD_BYTES_MAX)
            );
            let head = Head::Failed { by, tag: *tag, failure: Failure::TooLarge, started: Started::Yes };
            return self.answer_node(node, &head, text.as_bytes(), written);
        }
        self.answer_node(node, &Head::Outcome { by, tag: *tag }, line, written);
    }

    /// Another node asks whether requests of it are still worked on.
    pub(crate) fn asked(&mut self, from: &str, of: Boot, payload: &[u8]) {
        let Some(name) = self.nodes.name(from) else { return };
        let (mut here, mut gone) = (Vec::new(), Vec::new());
        for number in read_numbers(payload) {
            let key = (Rc::clone(&name), Tag { boot: of, number });
            if self.serving.requests.contains_key(&key) { here.push(number) } else { gone.push(number) }
        }
        let by = self.settings.boot;
        for (numbers, head) in [(here, Head::Taken { by, of }), (gone, Head::Gone { by, of })] {
            if !numbers.is_empty() {
                self.publish(self.subjects.reply(from), &head, &write_numbers(numbers));
            }
        }
    }

    /// Another node does not want a request any more.
    pub(crate) fn cancelled(&mut self, from: &str, tag: Tag, kernel: &mut Kernel, now: Now) {
        let Some(name) = self.nodes.name(from) else { return };
        let Some(served) = self.serving.requests.get(&(name, tag)) else { return };
        let data = serde_json::json!({ "id": &*served.id });
        let connection = served.connection;
        let line = self.kernel_line("command", "Syscall.Cancel", &data, now);
        kernel.ingest(connection, line.as_bytes(), now);
    }

    /// Tells others which of their requests were taken, if it is time.
    pub(crate) fn tell_taken(&mut self, now: Now) {
        let mut told: BTreeMap<(Rc<str>, Boot), Vec<u64>> = BTreeMap::new();
        let until_ns = now.mono_ns - TAKEN_NS;
        while let Some((_, (node, tag))) = self.serving.untaken.pop_front_if(|(at_ns, _)| *at_ns <= until_ns)
        {
            if self.serving.requests.contains_key(&(Rc::clone(&node), tag)) {
                told.entry((node, tag.boot)).or_default().push(tag.number);
            }
        }
        let by = self.settings.boot;
        for ((node, of), numbers) in told {
            let subject = self.subjects.reply(&node);
            for chunk in numbers.chunks(1000) {
                let numbers = write_numbers(chunk.iter().copied());
                self.publish(subject.clone(), &Head::Taken { by, of }, &numbers);
            }
        }
    }

    /// The kernel has closed a connection of the uplink: what waited on it has no outcome.
    pub fn closed(&mut self, connection: ConnectionId, reason: &str, now: Now) {
        if self.events.closed(connection) || self.following.closed(connection) {
            return;
        }
        let Some(remote) = self.serving.peers.remove(&connection.0) else { return };
        self.serving.by_peer.remove(&(remote.node, remote.peer));
        let waited: Vec<Key> = self
            .serving
            .requests
            .iter()
            .filter(|(_, served)| served.connection == connection)
            .map(|(key, _)| key.clone())
            .collect();
        self.serving.by_request.retain(|(of, _), _| *of != connection);
        for key in waited {
            self.end_served(&key, now);
            self.refuse(&key.0, key.1, Failure::NodeLost, reason, Started::Yes);
        }
    }

    /// A node was started anew: nobody waits for what its run before had asked.
    pub(crate) fn drop_requests_of(&mut self, name: &str, boot: Boot, now: Now) {
        let gone: Vec<Key> = self
            .serving
            .requests
            .keys()
            .filter(|(node, tag)| **node == *name && tag.boot == boot)
            .cloned()
            .collect();
        for key in gone {
            let Some(served) = self.serving.requests.get(&key) else { continue };
            let of = (served.connection, served.id.clone());
            if let Some(waiting) = self.serving.by_request.get_mut(&of) {
                waiting.retain(|waits| *waits != key);
                if waiting.is_empty() {
                    self.serving.by_request.remove(&of);
                }
            }
            self.end_served(&key, now);
        }
    }

    /// Closes connections of remote peers that nobody uses.
    pub(crate) fn close_idle(&mut self, kernel: &mut Kernel, now: Now) {
        let is_idle = |remote: &RemotePeer| remote.in_progress == 0 && now.mono_ns - remote.used_ns > IDLE_NS;
        let idle: Vec<u64> =
            self.serving.peers.iter().filter(|(_, remote)| is_idle(remote)).map(|(id, _)| *id).collect();
        for id in idle {
            if let Some(remote) = self.serving.peers.remove(&id) {
                self.serving.by_peer.remove(&(remote.node, remote.peer));
                kernel.connection_closed(ConnectionId(id), now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UplinkSettings;

    #[test]
    fn a_request_that_was_answered_in_time_wakes_nobody() {
        let boot = Boot { at_ms: 1, nonce: 1 };
        let mut uplink = Uplink::new(UplinkSettings {
            bus: "b".into(),
            node: "b".into(),
            import: Vec::new(),
            events: Vec::new(),
            boot,
            has_journal: false,
            concurrency: 1,
            node_requests_max: 1,
            late_ns: 1,
            line_bytes_max: 1 << 20,
        });
        let keys: Vec<Key> = (1..=3).map(|number| ("a".into(), Tag { boot, number })).collect();
        for (at_ns, key) in (1_i64..).zip(&keys) {
            let served = Served { connection: ConnectionId(1), id: "x".into() };
            uplink.serving.requests.insert(key.clone(), served);
            uplink.serving.untaken.push_back((at_ns, key.clone()));
        }
        let mut answer = |at: usize| {
            uplink.end_served(&keys[at], Now { mono_ns: 10, unix_ms: 10 });
            uplink.serving.next_deadline_ns()
        };
        assert_eq!(answer(1), Some(1 + TAKEN_NS), "the first is still worked on");
        assert_eq!(answer(0), Some(3 + TAKEN_NS), "the second was answered before the first");
        assert_eq!(answer(2), None);
    }
}
