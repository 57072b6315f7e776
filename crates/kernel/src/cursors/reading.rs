//! Readers: who is given which event next.

use super::{CursorKey, CursorReader, Cursors};
use crate::api::ids::ConnectionId;
use crate::api::rights::covers;
use mainspring_message::Envelope;

/// Events that are looked at for one reader before the next one has its turn.
const EVENTS_PER_STEP: usize = 64;

/// What a reader is to be given next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing: it has all there is.
    Done,
    /// Nothing that it wants was found yet.
    Skipped,
    /// Events that are no longer kept: it is to be told which.
    Gap { from: u64, to: u64 },
    /// This event, which rests on that fact.
    Event { number: u64, fact: u64, message: Envelope },
}

impl Cursors {
    /// A connection reads by this cursor from now on, all that comes after what was acknowledged,
    /// if it fits these patterns. Gives the connection that read by it before.
    pub(crate) fn read_by(
        &mut self,
        connection: ConnectionId,
        key: CursorKey,
        patterns: &[String],
    ) -> Option<ConnectionId> {
        let cursor = self.cursors.get_mut(&key)?;
        let before = cursor.reader.replace(connection).filter(|before| *before != connection);
        let next = cursor.acknowledged + 1;
        if let Some(before) = before {
            self.readers.remove(&before);
        }
        let patterns = patterns.iter().map(|pattern| pattern.as_str().into()).collect();
        let reader = CursorReader { key, patterns, next, sent: 0, is_hungry: true };
        if self.readers.insert(connection, reader).is_none_or(|old| !old.is_hungry) {
            self.hungry.push_back(connection);
        }
        before
    }

    /// The cursor by which a connection reads.
    pub(crate) fn cursor_of(&self, connection: ConnectionId) -> Option<&CursorKey> {
        self.readers.get(&connection).map(|reader| &reader.key)
    }

    /// Whether a connection reads by a cursor.
    pub(crate) fn is_reader(&self, connection: ConnectionId) -> bool {
        self.readers.contains_key(&connection)
    }

    /// Whether anybody reads by a cursor.
    #[inline]
    pub(crate) fn have_readers(&self) -> bool {
        !self.readers.is_empty()
    }

    /// Everyone who reads by a cursor.
    pub(crate) fn readers(&self) -> Vec<ConnectionId> {
        self.readers.keys().copied().collect()
    }

    /// A connection reads no more by its cursor. Gives the cursor, and how far it can be moved: if
    /// all that was written is acknowledged, over what the reader did not want as well.
    pub(crate) fn leave(&mut self, connection: ConnectionId) -> Option<(CursorKey, Option<u64>)> {
        let gone = self.readers.remove(&connection)?;
        let cursor = self.cursors.get_mut(&gone.key)?;
        cursor.reader = None;
        let moved = (gone.sent <= cursor.acknowledged && gone.next > cursor.acknowledged + 1)
            .then_some(gone.next - 1);
        if let Some(event) = moved {
            cursor.acknowledged = event;
        }
        Some((gone.key, moved))
    }

    /// The reader of a cursor keeps those patterns only. True if none is left.
    pub(crate) fn retain_patterns(&mut self, connection: ConnectionId, keep: impl Fn(&str) -> bool) -> bool {
        let Some(reader) = self.readers.get_mut(&connection) else { return false };
        reader.patterns.retain(|pattern| keep(pattern));
        reader.patterns.is_empty()
    }

    /// A subscriber acknowledges all events up to this one; gives how far its cursor is now,
    /// further still over what its reader did not want. Nothing if the cursor is that far already,
    /// or there is none.
    pub(crate) fn acknowledge(&mut self, key: &CursorKey, event: u64) -> Option<u64> {
        let cursor = self.cursors.get_mut(key)?;
        let reader = cursor.reader.and_then(|reader| self.readers.get(&reader));
        let event = match reader {
            Some(reader) if event >= reader.sent => event.max(reader.next - 1),
            _ => event,
        };
        if event <= cursor.acknowledged {
            return None;
        }
        cursor.acknowledged = event;
        Some(event)
    }

    /// Whether a reader can be given something.
    #[inline]
    pub(crate) fn are_hungry(&self) -> bool {
        !self.hungry.is_empty()
    }

    /// A connection has room again.
    pub(crate) fn has_room(&mut self, connection: ConnectionId) {
        if let Some(reader) = self.readers.get_mut(&connection)
            && !reader.is_hungry
            && reader.next <= self.last_event
        {
            reader.is_hungry = true;
            self.hungry.push_back(connection);
        }
    }

    /// The next reader that can be given something; it is to ask again if it has not got all.
    pub(crate) fn next_hungry(&mut self) -> Option<ConnectionId> {
        while let Some(connection) = self.hungry.pop_front() {
            if let Some(reader) = self.readers.get_mut(&connection) {
                reader.is_hungry = false;
                return Some(connection);
            }
        }
        None
    }

    /// What a reader is to be given next.
    pub(crate) fn step(&mut self, connection: ConnectionId) -> Step {
        let Some(reader) = self.readers.get_mut(&connection) else { return Step::Done };
        if reader.next > self.last_event {
            return Step::Done;
        }
        let first = self.events.front().map_or(self.last_event + 1, |event| event.number);
        if reader.next < first {
            let gap = Step::Gap { from: reader.next, to: first - 1 };
            (reader.next, reader.sent) = (first, first - 1);
            return gap;
        }
        let at = self.events.partition_point(|event| event.number < reader.next);
        for event in self.events.range(at..).take(EVENTS_PER_STEP) {
            reader.next = event.number + 1;
            if reader.patterns.iter().any(|pattern| covers(pattern, event.message.type_name())) {
                reader.sent = event.number;
                let (number, fact, message) = (event.number, event.fact, event.message.clone());
                return Step::Event { number, fact, message };
            }
        }
        if reader.next > self.last_event { Step::Done } else { Step::Skipped }
    }
}
