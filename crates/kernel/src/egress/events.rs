//! Events on their way to subscribers: written at once, or kept in a bounded queue while the
//! subscriber has much to read.

use super::Connections;
use super::connection::{Connection, Strain};
use super::subscriptions::SlowPolicy;
use crate::api::ids::ConnectionId;
use crate::out::{Cause, Out};
use mainspring_message::{Envelope, Kind};

/// What became of an event for a subscriber.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventWritten {
    /// It was written, kept or dropped, or the subscriber is gone.
    Done,
    /// It was written, and the subscriber has much to read now.
    Strained(Strain),
    /// The subscriber does not keep up, and chose to be closed then.
    Disconnect,
}

impl Connections {
    /// Puts everyone who wants an event of this type into `into`, each once, in order.
    #[inline]
    pub(crate) fn subscribers(&self, type_name: &str, into: &mut Vec<ConnectionId>) {
        self.subscribers.of(type_name, into);
    }

    /// Whether anyone wants events of this type.
    #[inline]
    pub(crate) fn is_wanted(&self, type_name: &str) -> bool {
        self.subscribers.wants(type_name)
    }

    /// Whether this client wants events of this type.
    pub(crate) fn is_wanted_by(&self, connection: ConnectionId, type_name: &str) -> bool {
        self.subscribers.is_wanted_by(connection, type_name)
    }

    /// Writes an event to a subscriber: at once, or into its bounded queue when it has not read
    /// what it has.
    pub(crate) fn write_event(
        &mut self,
        connection: ConnectionId,
        event: &Envelope,
        out: &mut Out,
    ) -> EventWritten {
        let bounds = &self.bounds;
        let Some(client) = self.clients.get_mut(&connection) else { return EventWritten::Done };
        if client.events.is_empty() && client.events_lost == 0 && client.egress_bytes <= bounds.bytes {
            out.counters.events_delivered += 1;
            return strained(self.write(connection, event.clone(), 0, out));
        }
        let bytes = event.line().len();
        client.events_bytes += bytes;
        client.events.push_back(event.clone());
        self.waiting_events += 1;
        self.waiting_event_bytes += bytes;
        let over = |client: &Connection| {
            client.events.len() > bounds.waiting_events || client.events_bytes > bounds.waiting_event_bytes
        };
        if over(client) && client.slow_policy == SlowPolicy::Disconnect {
            return EventWritten::Disconnect;
        }
        while over(client) {
            let Some(lost) = client.events.pop_front() else { break };
            let bytes = lost.line().len();
            client.events_bytes -= bytes;
            client.events_lost += 1;
            self.waiting_events -= 1;
            self.waiting_event_bytes -= bytes;
            out.counters.events_dropped += 1;
        }
        EventWritten::Done
    }

    /// Drops the events that wait for a subscriber; it is told how many when it reads.
    pub(super) fn drop_waiting_events(&mut self, connection: ConnectionId, out: &mut Out) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        let lost = std::mem::take(&mut client.events).len();
        self.waiting_events -= lost;
        self.waiting_event_bytes -= std::mem::take(&mut client.events_bytes);
        client.events_lost += lost as u64;
        out.counters.events_dropped += lost as u64;
    }

    /// Writes the next waiting event if there is room, telling first how many were lost. Nothing if
    /// there is none.
    pub(crate) fn flush_event(&mut self, connection: ConnectionId, out: &mut Out) -> Option<EventWritten> {
        let client = self.clients.get_mut(&connection)?;
        if client.egress_bytes > self.bounds.bytes / 2 {
            return None;
        }
        if client.events_lost > 0 {
            let lost = std::mem::take(&mut client.events_lost);
            let data = format!("{{\"count\":{lost}}}");
            let notice = out.message(Kind::Event, "Sys.EventsDropped", &data, Cause::NONE);
            return Some(strained(self.write(connection, notice, 0, out)));
        }
        let event = client.events.pop_front()?;
        let bytes = event.line().len();
        client.events_bytes -= bytes;
        self.waiting_events -= 1;
        self.waiting_event_bytes -= bytes;
        out.counters.events_delivered += 1;
        Some(strained(self.write(connection, event, 0, out)))
    }
}

fn strained(written: Result<Strain, Envelope>) -> EventWritten {
    match written {
        Ok(strain) if strain != Strain::default() => EventWritten::Strained(strain),
        _ => EventWritten::Done,
    }
}
