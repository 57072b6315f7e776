//! Durable events, and the named cursors of subscribers that come back.
//!
//! The events of capabilities whose manifest says `durable_events` have numbers and are kept, the
//! newest of them, within [`DurableBounds`]. A cursor belongs to a peer and says up to which event
//! its subscriber has acknowledged. Whoever reads by a cursor is given what comes after that, in
//! order, at least once, from here and not from the live events.
//!
//! This part keeps events, cursors and readers; what is written, recorded and refused is decided by
//! whoever calls.

mod reading;

pub(crate) use reading::Step;

use crate::api::ids::ConnectionId;
use crate::facts::DurableBounds;
use crate::flow::refusal::Refusal;
use mainspring_message::{Envelope, Failure};
use std::collections::{BTreeMap, VecDeque};

/// Cursors of one peer, and of all. Beyond: no new one (429, 503).
pub(crate) const PEER_CURSORS_MAX: usize = 64;
pub(crate) const CURSORS_MAX: usize = 4096;
/// Bytes of the name of a cursor. Beyond: refused (422).
pub(crate) const CURSOR_NAME_BYTES_MAX: usize = 256;

/// Whose cursor it is, and its name.
pub(crate) type CursorKey = (Box<str>, Box<str>);

/// An event that is kept.
#[derive(Debug)]
struct KeptEvent {
    number: u64,
    /// The fact that it rests on; 0 if that was on disk at the start.
    fact: u64,
    message: Envelope,
}

/// How far a subscriber is.
#[derive(Debug)]
struct Cursor {
    /// The last event that it has acknowledged, or that was before its time.
    acknowledged: u64,
    /// The fact that this rests on; 0 if that was on disk at the start.
    fact: u64,
    reader: Option<ConnectionId>,
}

/// A connection that reads by a cursor.
#[derive(Debug)]
struct CursorReader {
    key: CursorKey,
    patterns: Vec<Box<str>>,
    /// The event to be looked at next, and the last one that was written to it.
    next: u64,
    sent: u64,
    /// Whether it is in the queue of those who can be given something.
    is_hungry: bool,
}

/// The events, cursors and readers; see the [module's documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    /// Oldest first, numbers ascending.
    events: VecDeque<KeptEvent>,
    bytes: usize,
    last_event: u64,
    cursors: BTreeMap<CursorKey, Cursor>,
    readers: BTreeMap<ConnectionId, CursorReader>,
    hungry: VecDeque<ConnectionId>,
    bounds: DurableBounds,
}

impl Cursors {
    /// The number of the last event, kept or not.
    pub(crate) fn last_event(&self) -> u64 {
        self.last_event
    }

    /// Events that are kept, their bytes, and cursors.
    pub(crate) fn totals(&self) -> (usize, usize, usize) {
        (self.events.len(), self.bytes, self.cursors.len())
    }

    /// Keeps so many events from now on, as the durable state does.
    pub(crate) fn set_bounds(&mut self, bounds: DurableBounds) {
        self.bounds = bounds;
    }

    /// Goes on after the events of an earlier run.
    pub(crate) fn go_on_after(&mut self, last_event: u64) {
        self.last_event = self.last_event.max(last_event);
    }

    /// Keeps an event, which rests on this fact; whoever has read all before it can be given it.
    pub(crate) fn keep(&mut self, number: u64, fact: u64, message: Envelope) {
        self.last_event = self.last_event.max(number);
        self.bytes += message.line().len();
        self.events.push_back(KeptEvent { number, fact, message });
        while self.events.len() > self.bounds.events_max || self.bytes > self.bounds.event_bytes_max {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.message.line().len();
        }
        for (connection, reader) in &mut self.readers {
            if !reader.is_hungry {
                reader.is_hungry = true;
                self.hungry.push_back(*connection);
            }
        }
    }

    /// Takes up a cursor of an earlier run.
    pub(crate) fn restore(&mut self, key: CursorKey, acknowledged: u64) {
        self.cursors.insert(key, Cursor { acknowledged, fact: 0, reader: None });
    }

    /// How far a cursor is, if there is one of that name.
    pub(crate) fn acknowledged(&self, key: &CursorKey) -> Option<u64> {
        self.cursors.get(key).map(|cursor| cursor.acknowledged)
    }

    /// The fact that the place of a cursor rests on; 0 if there is none.
    pub(crate) fn fact_of(&self, key: &CursorKey) -> u64 {
        self.cursors.get(key).map_or(0, |cursor| cursor.fact)
    }

    /// The place of a cursor rests on this fact.
    pub(crate) fn rests_on(&mut self, key: &CursorKey, fact: u64) {
        if let Some(cursor) = self.cursors.get_mut(key) {
            cursor.fact = fact;
        }
    }

    /// Whether a peer may have a cursor of this name: it has one already, or there is room for one
    /// more.
    pub(crate) fn check(&self, key: &CursorKey) -> Result<(), Refusal> {
        if key.1.is_empty() || key.1.len() > CURSOR_NAME_BYTES_MAX {
            let text = format!("data.cursor: must be 1 to {CURSOR_NAME_BYTES_MAX} bytes long");
            return Err(Refusal::new(Failure::Schema, text));
        }
        if self.cursors.contains_key(key) {
            return Ok(());
        }
        let own = self.cursors.range((key.0.clone(), "".into())..);
        if own.take_while(|((peer, _), _)| *peer == key.0).count() >= PEER_CURSORS_MAX {
            let text = format!("data.cursor: more than {PEER_CURSORS_MAX} cursors of one peer");
            return Err(Refusal::new(Failure::LimitExceeded, text));
        }
        if self.cursors.len() >= CURSORS_MAX {
            let text = format!("data.cursor: more than {CURSORS_MAX} cursors in all");
            return Err(Refusal::new(Failure::Overloaded, text));
        }
        Ok(())
    }

    /// Moves a cursor, makes it if there is none.
    pub(crate) fn move_to(&mut self, key: &CursorKey, event: u64) {
        match self.cursors.get_mut(key) {
            Some(cursor) => cursor.acknowledged = event,
            None => {
                self.cursors.insert(key.clone(), Cursor { acknowledged: event, fact: 0, reader: None });
            }
        }
    }

    /// Forgets a cursor; gives the connection that read by it.
    pub(crate) fn forget(&mut self, key: &CursorKey) -> Option<Option<ConnectionId>> {
        let gone = self.cursors.remove(key)?;
        if let Some(reader) = gone.reader {
            self.readers.remove(&reader);
        }
        Some(gone.reader)
    }

    /// An error if the accounts do not agree.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let bytes: usize = self.events.iter().map(|event| event.message.line().len()).sum();
        if bytes != self.bytes {
            return Err(format!("durable events have {bytes} bytes, kept {}", self.bytes));
        }
        for (connection, reader) in &self.readers {
            let cursor = self.cursors.get(&reader.key);
            if cursor.and_then(|cursor| cursor.reader) != Some(*connection) {
                return Err(format!("{connection:?} reads by a cursor that does not know it"));
            }
        }
        Ok(())
    }
}
