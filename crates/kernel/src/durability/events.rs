//! Events of capabilities whose events are durable, as facts, and what is written to those who read
//! by a cursor.

use super::FACT_BYTES_MAX;
use crate::api::effect::Level;
use crate::api::fact::{Fact, PeerName};
use crate::api::ids::{CapabilityId, ConnectionId};
use crate::cursors::{CursorKey, Step};
use crate::facts::Durable;
use crate::flow::work;
use crate::kernel::Kernel;
use crate::out::Cause;
use mainspring_message::{Envelope, Kind};
use serde_json::json;

/// The member of an event's metadata by which a subscriber acknowledges it.
const EVENT_MEMBER: &str = "event";

impl Kernel {
    /// Records an event that a capability says, if its events are durable: before anything that it
    /// says after it.
    ///
    /// # Errors
    /// When it is too large for a fact: the capability is at fault then.
    #[inline]
    pub(crate) fn record_event(&mut self, capability: CapabilityId, event: &Envelope) -> Result<(), String> {
        if !self.out.facts.is_on() || !self.actors.manifest(capability).durable_events {
            return Ok(());
        }
        self.record_durable_event(capability, event)
    }

    #[cold]
    fn record_durable_event(&mut self, capability: CapabilityId, event: &Envelope) -> Result<(), String> {
        if event.line().len() > FACT_BYTES_MAX {
            return Err(format!("a durable event is at most {FACT_BYTES_MAX} bytes long"));
        }
        let number = self.cursors.last_event() + 1;
        let unix_ms = self.out.now.unix_ms;
        let fact = self.out.record(&Fact::Emitted { event: number, unix_ms, message: event.line() });
        self.out.facts.note_said(Some(capability), fact);
        self.cursors.keep(number, fact, event.clone());
        self.pause_if_disk_is_behind(capability);
        Ok(())
    }

    /// Tells which capabilities would have their events kept, where nothing is kept.
    pub(crate) fn warn_of_events_without_journal(&mut self) {
        if self.out.facts.is_on() {
            return;
        }
        for capability in self.actors.ids() {
            if self.actors.manifest(capability).durable_events {
                let text = format!(
                    "{} has `durable_events = true`, and this daemon has no journal: its events are not kept",
                    self.actors.id(capability)
                );
                self.out.log(Level::Warn, text);
            }
        }
    }

    /// Takes up the events and cursors of an earlier run.
    pub(super) fn take_up_events(&mut self, durable: &Durable) {
        self.cursors.set_bounds(durable.bounds());
        for event in &durable.events {
            if let Ok(message) = Envelope::parse(event.line.as_bytes()) {
                self.cursors.keep(event.event, 0, message);
            }
        }
        self.cursors.go_on_after(durable.last_event);
        for (peer, name, event) in durable.cursors() {
            if let PeerName::Client(peer) = peer {
                self.cursors.restore((peer.into(), name.into()), event);
            }
        }
    }

    /// Records how far a cursor is; whatever the kernel answers this connection next rests on that.
    pub(crate) fn record_cursor(&mut self, key: &CursorKey, event: u64, connection: Option<ConnectionId>) {
        let (peer, name) = (PeerName::Client(&*key.0), &*key.1);
        let fact = self.out.record(&Fact::CursorMoved { peer, name, event });
        self.cursors.rests_on(key, fact);
        if let Some(connection) = connection.filter(|_| fact > 0) {
            self.connections.note_fact(connection, fact);
        }
    }

    /// Whatever the kernel answers this connection next rests on the place of this cursor, whoever
    /// moved it there: another connection of the same peer may have, and left before the flush.
    pub(crate) fn rest_on_cursor(&mut self, key: &CursorKey, connection: ConnectionId) {
        self.connections.note_fact(connection, self.cursors.fact_of(key));
    }

    /// Records that a cursor is no more.
    pub(crate) fn record_cursor_forgotten(&mut self, key: &CursorKey, connection: ConnectionId) {
        let (peer, name) = (PeerName::Client(&*key.0), &*key.1);
        let fact = self.out.record(&Fact::CursorForgotten { peer, name });
        if fact > 0 {
            self.connections.note_fact(connection, fact);
        }
    }

    /// A connection reads no more by a cursor, if it did.
    pub(crate) fn leave_cursor(&mut self, connection: ConnectionId) {
        if let Some((key, Some(event))) = self.cursors.leave(connection) {
            self.record_cursor(&key, event, None);
        }
    }

    /// Tells a connection that it reads no more by a cursor, and why.
    pub(crate) fn tell_cursor_ended(&mut self, connection: ConnectionId, cursor: &str, reason: &str) {
        let data = json!({ "cursor": cursor, "reason": reason }).to_string();
        let event = self.out.message(Kind::Event, "Sys.CursorEnded", &data, Cause::NONE);
        let _ = self.write(connection, event);
    }

    /// The journal failed: nobody reads by a cursor any more.
    pub(super) fn end_all_cursors(&mut self) {
        for connection in self.cursors.readers() {
            if let Some((key, _)) = self.cursors.leave(connection) {
                self.tell_cursor_ended(connection, &key.1, "the journal has failed");
            }
        }
    }

    /// Gives those who read by cursors what they can be given, in turns.
    #[cold]
    pub(crate) fn feed_readers(&mut self) {
        let until = self.out.work + work::PART_MAX;
        while self.out.work < until {
            let Some(connection) = self.cursors.next_hungry() else { return };
            // It asks again when it has read what it has.
            if self.connections.has_room(connection) && self.feed_reader(connection) {
                self.cursors.has_room(connection);
            }
        }
    }

    /// Gives a reader the next event; false if it has all.
    fn feed_reader(&mut self, connection: ConnectionId) -> bool {
        self.out.work += work::COMPLETION;
        let (fact, message) = match self.cursors.step(connection) {
            Step::Done => return false,
            Step::Skipped => return true,
            Step::Gap { from, to } => {
                let count = to - from + 1;
                self.out.counters.events_dropped += count;
                let name = self.cursors.cursor_of(connection).map(|key| key.1.clone());
                let data = json!({ "count": count, "from": from, "to": to, "cursor": name }).to_string();
                (0, self.out.message(Kind::Event, "Sys.EventsDropped", &data, Cause::NONE))
            }
            Step::Event { number, fact, message } => {
                self.out.counters.events_delivered += 1;
                (fact, message.with_metadata_number(EVENT_MEMBER, number))
            }
        };
        let rested = self.out.rest_on(fact);
        let _ = self.write(connection, message);
        self.out.rest_on(rested);
        true
    }
}
