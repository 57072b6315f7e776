//! Clients: who they are, what they may still send, what they have not read yet, and which events
//! they want.
//!
//! The part owns the connections and the index of their subscriptions. What is to be written leaves
//! from here as effects; what that means for a client's queue in the User lane is returned, and
//! whoever called sees to it. Only the flow of messages and the built-ins that concern a connection
//! call it.

mod connection;
mod events;
mod subscribers;
mod subscriptions;

pub(crate) use connection::{ClientPlace, Pressure, Strain};
pub(crate) use events::EventWritten;
pub use subscribers::check_pattern;
pub(crate) use subscriptions::SlowPolicy;

use crate::api::config::Limits;
use crate::api::ids::ConnectionId;
use crate::flow::lanes::QueueId;
use crate::out::Out;
use connection::Connection;
use hashbrown::HashMap;
use subscribers::Subscribers;

/// The bounds on connections, from [`Limits`].
#[derive(Debug)]
struct EgressBounds {
    connections: usize,
    bad_lines: u32,
    /// Bytes written to a connection that have not left.
    bytes: usize,
    waiting_events: usize,
    waiting_event_bytes: usize,
    subscriptions: usize,
}

/// The clients; see the [module's documentation](self).
#[derive(Debug)]
pub(crate) struct Connections {
    clients: HashMap<ConnectionId, Connection, foldhash::fast::FixedState>,
    subscribers: Subscribers,
    /// Bytes written to connections that have not left.
    egress_bytes: usize,
    /// Events that wait for slow subscribers, and their bytes, each as often as it waits.
    waiting_events: usize,
    waiting_event_bytes: usize,
    bounds: EgressBounds,
}

impl Connections {
    pub(crate) fn new(limits: &Limits) -> Connections {
        Connections {
            clients: HashMap::default(),
            subscribers: Subscribers::default(),
            egress_bytes: 0,
            waiting_events: 0,
            waiting_event_bytes: 0,
            bounds: EgressBounds {
                connections: limits.connections_max,
                bad_lines: limits.bad_lines_max,
                bytes: limits.egress_bytes_max,
                waiting_events: limits.subscriber_events_max,
                waiting_event_bytes: limits.subscriber_bytes_max,
                subscriptions: limits.subscriptions_max,
            },
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    /// Whether there is no room for another.
    pub(crate) fn is_full(&self) -> bool {
        self.clients.len() >= self.bounds.connections
    }

    pub(crate) fn contains(&self, connection: ConnectionId) -> bool {
        self.clients.contains_key(&connection)
    }

    /// A client has connected.
    pub(crate) fn open(&mut self, connection: ConnectionId, place: ClientPlace) {
        self.clients.insert(connection, Connection::new(place));
    }

    /// A client is gone: its queue, share and peer are to be let go of.
    pub(crate) fn close(&mut self, connection: ConnectionId) -> Option<ClientPlace> {
        let gone = self.clients.remove(&connection)?;
        self.egress_bytes -= gone.egress_bytes;
        self.waiting_events -= gone.events.len();
        self.waiting_event_bytes -= gone.events_bytes;
        for pattern in &gone.patterns {
            self.subscribers.remove(pattern, connection);
        }
        Some(gone.place)
    }

    /// All of them, in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<ConnectionId> {
        let mut all: Vec<ConnectionId> = self.clients.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// The queues of all of them in the User lane.
    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueId> {
        self.clients.values().map(|client| client.place.queue)
    }

    /// Bytes written to connections that have not left.
    pub(crate) fn egress_bytes(&self) -> usize {
        self.egress_bytes
    }

    /// Events that wait for slow subscribers, each as often as it waits.
    pub(crate) fn waiting_events(&self) -> usize {
        self.waiting_events
    }

    /// Their bytes.
    pub(crate) fn waiting_event_bytes(&self) -> usize {
        self.waiting_event_bytes
    }

    /// Whoever has most: bytes written and waiting, and those in its queue, which `queued` tells.
    pub(crate) fn heaviest(&self, queued: impl Fn(QueueId) -> usize) -> Option<(usize, ConnectionId)> {
        let all = self.clients.iter().map(|(id, client)| {
            let bytes = client.egress_bytes + client.events_bytes + queued(client.place.queue);
            (bytes, *id)
        });
        // The first of equals, so that the choice is the same in every run.
        all.max_by_key(|(bytes, id)| (*bytes, std::cmp::Reverse(*id)))
    }

    /// A subscriber loses what waits for it, and is told so when it reads. False if that is not
    /// what it has most of: then it is to be closed.
    pub(crate) fn shed(&mut self, connection: ConnectionId, out: &mut Out) -> bool {
        let Some(client) = self.clients.get(&connection) else { return true };
        if client.events_bytes <= client.egress_bytes / 2 {
            return false;
        }
        self.drop_waiting_events(connection, out);
        true
    }

    /// The most events that wait for one subscriber; an error if the accounts do not agree.
    pub(crate) fn audit(&self) -> Result<usize, String> {
        let egress: usize = self.clients.values().map(|client| client.egress_bytes).sum();
        let waiting: usize = self.clients.values().map(|client| client.events.len()).sum();
        if (egress, waiting) != (self.egress_bytes, self.waiting_events) {
            let kept = (self.egress_bytes, self.waiting_events);
            return Err(format!(
                "unwritten bytes and waiting events: {:?}, kept {kept:?}",
                (egress, waiting)
            ));
        }
        Ok(self.clients.values().map(|client| client.events.len()).max().unwrap_or(0))
    }
}
