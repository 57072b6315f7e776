//! Events that cross nodes: those that manifests share go out, those that this node wants come in,
//! marked with their node, and never go out again.

use crate::command::Command;
use crate::machine::Uplink;
use crate::requests::sending::HEAD_BYTES_MAX;
use crate::wire::head::Head;
use crate::wire::names::{fits, is_reserved};
use mainspring_kernel::{ConnectionId, Kernel, Level, Manifest, Now, Rights};
use mainspring_message::{Envelope, Kind};
use serde_json::json;

/// The events of this node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    /// Types that are told to others.
    shared: Vec<String>,
    /// Those of them that the journal keeps.
    pub(crate) durable: Vec<String>,
    /// The connection by which the kernel tells them.
    own: Option<ConnectionId>,
    /// The connection by which those of others come in, for all nodes.
    incoming: Option<ConnectionId>,
    pub(crate) told: u64,
    pub(crate) heard: u64,
    pub(crate) too_large: u64,
}

impl Events {
    pub(crate) fn is_own(&self, connection: ConnectionId) -> bool {
        self.own == Some(connection) || self.incoming == Some(connection)
    }

    /// The kernel has closed a connection; whether it was one of these.
    pub(crate) fn closed(&mut self, connection: ConnectionId) -> bool {
        for own in [&mut self.own, &mut self.incoming] {
            if *own == Some(connection) {
                *own = None;
                return true;
            }
        }
        false
    }
}

/// Whether an event came from another node.
fn is_imported(event: &Envelope) -> bool {
    event.metadata().contains("\"node\"")
}

impl Uplink {
    /// Takes over which events are told to others.
    pub(crate) fn share_events(&mut self, manifests: &[&Manifest], kernel: &mut Kernel, now: Now) {
        let mut shared: Vec<String> =
            manifests.iter().flat_map(|manifest| manifest.share_events.iter().cloned()).collect();
        shared.sort();
        shared.dedup();
        let durable =
            manifests.iter().filter(|manifest| manifest.durable_events && self.settings.has_journal);
        self.events.durable = durable.flat_map(|manifest| manifest.share_events.iter().cloned()).collect();
        if shared == self.events.shared {
            return;
        }
        self.events.shared = shared;
        if let Some(before) = self.events.own.take() {
            kernel.connection_closed(before, now);
        }
        self.open_events(kernel, now);
    }

    /// Has the kernel tell the events that are shared.
    pub(crate) fn open_events(&mut self, kernel: &mut Kernel, now: Now) {
        if !self.is_started || self.events.shared.is_empty() || self.events.own.is_some() {
            return;
        }
        let connection = self.serving.next_connection();
        kernel.connection_opened(connection, "uplink/events", now);
        kernel.connection_has(connection, Rights::default(), now);
        self.events.own = Some(connection);
        let data = json!({ "types": self.events.shared });
        let line = self.kernel_line("command", "Sys.Subscribe", &data, now);
        kernel.ingest(connection, line.as_bytes(), now);
    }

    /// The kernel tells an event, or answers the subscription.
    pub(crate) fn tell_event(
        &mut self,
        connection: ConnectionId,
        message: &Envelope,
        kernel: &mut Kernel,
        now: Now,
    ) {
        let bytes = message.line().len() + 1;
        let is_told = self.events.own == Some(connection)
            && message.kind() == Kind::Event
            && !is_reserved(message.type_name())
            && !is_imported(message)
            && self.link.is_connected;
        if !is_told {
            return kernel.written(connection, bytes, now);
        }
        if message.line().len() + HEAD_BYTES_MAX > self.link.max_payload {
            self.events.too_large += 1;
            return kernel.written(connection, bytes, now);
        }
        self.events.told += 1;
        let subject = self.subjects.event(message.type_name());
        let head = Head::Event { is_durable: fits(&self.events.durable, message.type_name()) };
        self.publish_event(subject, &head, message, (connection, bytes));
    }

    /// An event came from another node.
    pub(crate) fn event(
        &mut self,
        from: &str,
        type_name: &str,
        head: Option<Head>,
        payload: &[u8],
        kernel: &mut Kernel,
        now: Now,
    ) {
        let comes_by_journal = matches!(head, Some(Head::Event { is_durable: true })) && self.follows(from);
        if fits(&self.settings.events, type_name) && !comes_by_journal {
            self.take_event(from, type_name, payload, kernel, now);
        }
    }

    /// Gives an event of another node to the kernel, if it is one.
    pub(crate) fn take_event(
        &mut self,
        from: &str,
        type_name: &str,
        payload: &[u8],
        kernel: &mut Kernel,
        now: Now,
    ) {
        if is_reserved(type_name) {
            return;
        }
        let event = match Envelope::parse(payload) {
            Ok(event)
                if event.kind() == Kind::Event && event.type_name() == type_name && !is_imported(&event) =>
            {
                event
            }
            _ => {
                self.counters.invalid += 1;
                return;
            }
        };
        let event = event.with_metadata_member("node", from);
        if event.line().len() > self.settings.line_bytes_max {
            self.counters.invalid += 1;
            return;
        }
        let connection = match self.events.incoming {
            Some(connection) => connection,
            None => {
                let connection = self.serving.next_connection();
                kernel.connection_opened(connection, "uplink/incoming", now);
                kernel.connection_has(connection, Rights::default().limited_to(&self.settings.events), now);
                self.events.incoming = Some(connection);
                connection
            }
        };
        self.events.heard += 1;
        if let Some(node) = self.nodes.get_mut(from) {
            node.events += 1;
        }
        kernel.ingest(connection, event.line().as_bytes(), now);
    }

    /// Listens to the events that this node wants.
    pub(crate) fn listen_to_events(&mut self) {
        for pattern in &self.settings.events {
            let subject = self.subjects.events(pattern);
            self.out.push(Command::Subscribe { subject, is_group: false });
        }
        if !self.settings.events.is_empty() {
            let text = format!("events of other nodes that are taken: {}", self.settings.events.join(", "));
            self.notice(Level::Info, text);
        }
    }
}
