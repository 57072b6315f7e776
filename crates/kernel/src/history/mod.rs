//! What happened lately, for `Sys.Trace`: one record for each request that ended and for each event
//! that was told.
//!
//! Records lie one after the other in two buffers, in the order in which they ended. When the newer
//! buffer is full, the older one is emptied and becomes the newer. So a record costs a copy of its
//! texts and no allocation, and between half of the bound and all of it is remembered. The flow of
//! messages writes records; only `Sys.Trace` reads them.
//!
//! The data of the messages is kept in the same way, in two buffers of its own. It is copied: to
//! keep the messages themselves would keep their memory from being used again while it is still in
//! the processor's caches, and that costs a fifth of the throughput.

use crate::api::ids::{CapabilityId, ConnectionId};
use mainspring_message::{Envelope, Kind};

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    Connection(ConnectionId),
    Capability(CapabilityId),
    /// A schedule, or a dead letter put back.
    Kernel,
}

/// Where it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    Capability(CapabilityId),
    /// The kernel itself served it.
    Kernel,
    /// An event: so many capabilities and clients.
    Subscribers {
        capabilities: u32,
        clients: u32,
    },
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End<'a> {
    pub(crate) ended_ns: i64,
    /// The code of an error; nothing for a reply.
    pub(crate) code: Option<u16>,
    /// The id of the reply or error.
    pub(crate) outcome_id: &'a str,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    pub(crate) type_name: &'a str,
    pub(crate) id: &'a str,
    pub(crate) causation: Option<&'a str>,
    pub(crate) correlation: Option<&'a str>,
    pub(crate) from: Author,
    pub(crate) to: Audience,
    pub(crate) accepted_ns: i64,
    /// When an actor was last given it.
    pub(crate) delivered_ns: i64,
    /// How often an actor was given it.
    pub(crate) attempts: u32,
    /// For a request that ended.
    pub(crate) end: Option<End<'a>>,
}

impl<'a> Record<'a> {
    /// The record of an event that was published at this time.
    pub(crate) fn of_event(event: &'a Envelope, from: Author, to: Audience, now_ns: i64) -> Record<'a> {
        Record {
            kind: event.kind(),
            type_name: event.type_name(),
            id: event.id(),
            causation: event.causation(),
            correlation: event.correlation(),
            from,
            to,
            accepted_ns: now_ns,
            delivered_ns: now_ns,
            attempts: 0,
            end: None,
        }
    }
}

/// Two buffers that take turns: the latest of what was written, within a bound in bytes.
#[derive(Debug, Default)]
struct Halves {
    older: Vec<u8>,
    newer: Vec<u8>,
    /// Where the older buffer begins, in bytes since the start: a place that stays what it is.
    begins: u64,
    /// What each of them may hold.
    bytes_max: usize,
}

impl Halves {
    fn new(bytes_max: usize) -> Halves {
        Halves { bytes_max: bytes_max / 2, ..Halves::default() }
    }

    /// Makes room for so many bytes, which may be as many as a buffer holds; returns where they
    /// will be.
    #[inline]
    fn make_room(&mut self, bytes: usize) -> u64 {
        if self.newer.len() + bytes > self.bytes_max {
            self.begins += self.older.len() as u64;
            std::mem::swap(&mut self.older, &mut self.newer);
            self.newer.clear();
        }
        if self.newer.capacity() == 0 {
            // All at once: the pages come one by one as they are written.
            self.newer.reserve_exact(self.bytes_max);
        }
        self.end()
    }

    fn end(&self) -> u64 {
        self.begins + self.bytes() as u64
    }

    /// What was written at a place and behind it, in its buffer. Nothing at the end, or if it is
    /// forgotten.
    fn from(&self, place: u64) -> Option<&[u8]> {
        let at = usize::try_from(place.checked_sub(self.begins)?).ok()?;
        match at.checked_sub(self.older.len()) {
            None => self.older.get(at..),
            Some(at) => self.newer.get(at..),
        }
    }

    fn bytes(&self) -> usize {
        self.older.len() + self.newer.len()
    }
}

/// The latest records, within a bound in bytes.
#[derive(Debug, Default)]
pub(crate) struct History {
    records: Halves,
    /// The data of the latest messages, each with that of its answer.
    data: Halves,
}

/// The data of a message, and of its answer if it has one.
pub(crate) type KeptData<'a> = (&'a str, Option<&'a str>);

/// The fixed part of a record, field after field.
const HEAD_BYTES: usize = 68;
/// Marks a text that is not there; real ones are far shorter.
const ABSENT: u16 = u16::MAX;
/// The fixed part of data: the bytes of a message's, and of its answer's.
const DATA_HEAD_BYTES: usize = 8;
/// Marks an answer that is not there.
const NO_ANSWER: u32 = u32::MAX;
/// Marks a record without data.
const NO_DATA: u64 = u64::MAX;
/// Who sent it, beside the way that it went.
const FROM: u8 = 0xf0;
const FROM_CONNECTION: u8 = 0x00;
const FROM_CAPABILITY: u8 = 0x10;
const FROM_KERNEL: u8 = 0x20;
const KINDS: [Kind; 5] = [Kind::Command, Kind::Query, Kind::Event, Kind::Reply, Kind::Error];

impl History {
    /// A history of at most so many bytes, and so many bytes of the data of messages; 0 remembers
    /// nothing.
    pub(crate) fn new(bytes_max: usize, data_bytes_max: usize) -> History {
        History { records: Halves::new(bytes_max), data: Halves::new(data_bytes_max) }
    }

    /// Whether the data of messages is kept besides their records.
    #[inline]
    pub(crate) fn keeps_data(&self) -> bool {
        self.data.bytes_max > 0 && self.is_on()
    }

    /// Keeps the data of a message and of its answer; returns where.
    fn keep_data(&mut self, (data, answer): KeptData<'_>) -> u64 {
        let bytes = DATA_HEAD_BYTES + data.len() + answer.map_or(0, str::len);
        if bytes > self.data.bytes_max {
            return NO_DATA;
        }
        let place = self.data.make_room(bytes);
        let to = &mut self.data.newer;
        to.extend_from_slice(&(data.len() as u32).to_le_bytes());
        to.extend_from_slice(&answer.map_or(NO_ANSWER, |answer| answer.len() as u32).to_le_bytes());
        to.extend_from_slice(data.as_bytes());
        to.extend_from_slice(answer.unwrap_or_default().as_bytes());
        place
    }

    /// The data of the message of the record at a place, and of its answer, if they are kept.
    pub(crate) fn data_at(&self, place: u64) -> Option<KeptData<'_>> {
        let head = self.records.from(place)?.first_chunk::<HEAD_BYTES>()?;
        let (head, rest) = self.data.from(data_place(head))?.split_first_chunk::<DATA_HEAD_BYTES>()?;
        let length = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (data, rest) = rest.split_at_checked(length(0) as usize)?;
        let answer = match length(4) {
            NO_ANSWER => None,
            bytes => Some(str::from_utf8(rest.get(..bytes as usize)?).ok()?),
        };
        Some((str::from_utf8(data).ok()?, answer))
    }

    /// Bytes of the data that is kept.
    pub(crate) fn data_bytes(&self) -> usize {
        self.data.bytes()
    }

    /// Whether anything is remembered at all.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.records.bytes_max > 0
    }

    /// Remembers a record, with the data of its message where that is kept.
    pub(crate) fn push(&mut self, record: &Record<'_>, data: Option<KeptData<'_>>) {
        let outcome_id = record.end.map(|end| end.outcome_id);
        let texts =
            [Some(record.id), Some(record.type_name), record.causation, record.correlation, outcome_id];
        let bytes = texts.iter().fold(HEAD_BYTES, |sum, text| sum + text.map_or(0, str::len));
        if bytes > self.records.bytes_max {
            return;
        }
        let data_at = match data {
            Some(data) if self.keeps_data() => self.keep_data(data),
            _ => NO_DATA,
        };
        self.records.make_room(bytes);
        let to = &mut self.records.newer;
        to.extend_from_slice(&head(record, &texts, data_at));
        for text in &texts {
            if let Some(text) = text
                && !text.is_empty()
            {
                to.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// The place of the oldest record that is remembered.
    pub(crate) fn begin(&self) -> u64 {
        self.records.begins
    }

    /// The place behind the newest record.
    pub(crate) fn end(&self) -> u64 {
        self.records.end()
    }

    /// The record at a place, and the place of the next one. Nothing at the end, or if it is
    /// forgotten.
    pub(crate) fn at(&self, place: u64) -> Option<(Record<'_>, u64)> {
        let bytes = self.records.from(place)?;
        let mut records = Records { rest: bytes };
        let record = records.next()?;
        Some((record, place + (bytes.len() - records.rest.len()) as u64))
    }

    /// What it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.records.bytes()
    }
}

/// Where the data is of the message of a record with this head.
fn data_place(head: &[u8; HEAD_BYTES]) -> u64 {
    let mut place = [0; 8];
    place.copy_from_slice(&head[60..68]);
    u64::from_le_bytes(place)
}

fn head(record: &Record<'_>, texts: &[Option<&str>; 5], data_at: u64) -> [u8; HEAD_BYTES] {
    let (author, from) = match record.from {
        Author::Connection(connection) => (FROM_CONNECTION, connection.0),
        Author::Capability(capability) => (FROM_CAPABILITY, u64::from(capability.0)),
        Author::Kernel => (FROM_KERNEL, 0),
    };
    let (way, to, clients) = match record.to {
        Audience::Capability(capability) => (0u8, capability.0, 0),
        Audience::Kernel => (1, 0, 0),
        Audience::Subscribers { capabilities, clients } => (2, capabilities, clients),
    };
    let (ended_ns, code) = record.end.map_or((i64::MIN, 0), |end| (end.ended_ns, end.code.unwrap_or(0)));
    let mut head = [0; HEAD_BYTES];
    head[0..8].copy_from_slice(&record.accepted_ns.to_le_bytes());
    head[8..16].copy_from_slice(&record.delivered_ns.to_le_bytes());
    head[16..24].copy_from_slice(&ended_ns.to_le_bytes());
    head[24..32].copy_from_slice(&from.to_le_bytes());
    head[32..36].copy_from_slice(&to.to_le_bytes());
    head[36..40].copy_from_slice(&clients.to_le_bytes());
    head[40..44].copy_from_slice(&record.attempts.to_le_bytes());
    head[44..46].copy_from_slice(&code.to_le_bytes());
    head[46] = record.kind as u8;
    head[47] = author | way;
    head[60..68].copy_from_slice(&data_at.to_le_bytes());
    for (at, text) in texts.iter().enumerate() {
        let length = text.map_or(ABSENT, |text| text.len() as u16);
        head[48 + 2 * at..50 + 2 * at].copy_from_slice(&length.to_le_bytes());
    }
    head
}

/// Reads records one after the other.
struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (head, mut rest) = self.rest.split_first_chunk::<HEAD_BYTES>()?;
        let long = |at: usize| i64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap_or_default());
        let short = |at: usize| u16::from_le_bytes(head[at..at + 2].try_into().unwrap_or_default());
        let mut texts = [None; 5];
        for (at, text) in texts.iter_mut().enumerate() {
            let length = short(48 + 2 * at);
            if length != ABSENT {
                let (bytes, behind) = rest.split_at_checked(length as usize)?;
                *text = str::from_utf8(bytes).ok();
                rest = behind;
            }
        }
        self.rest = rest;
        let [id, type_name, causation, correlation, outcome_id] = texts;
        let from = long(24) as u64;
        let ended_ns = long(16);
        Some(Record {
            kind: *KINDS.iter().find(|kind| **kind as u8 == head[46])?,
            type_name: type_name?,
            id: id?,
            causation,
            correlation,
            from: match head[47] & FROM {
                FROM_CONNECTION => Author::Connection(ConnectionId(from)),
                FROM_CAPABILITY => Author::Capability(CapabilityId(from as u32)),
                _ => Author::Kernel,
            },
            to: match head[47] & !FROM {
                0 => Audience::Capability(CapabilityId(word(32))),
                1 => Audience::Kernel,
                _ => Audience::Subscribers { capabilities: word(32), clients: word(36) },
            },
            accepted_ns: long(0),
            delivered_ns: long(8),
            attempts: word(40),
            end: outcome_id.map(|outcome_id| End {
                ended_ns,
                code: Some(short(44)).filter(|code| *code > 0),
                outcome_id,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All records, in the order in which they ended.
    fn records(history: &History) -> Vec<Record<'_>> {
        let mut place = history.begin();
        let next = || {
            let (record, next) = history.at(place)?;
            place = next;
            Some(record)
        };
        std::iter::from_fn(next).collect()
    }

    fn record(id: &str) -> Record<'_> {
        Record {
            kind: Kind::Query,
            type_name: "Test.Ask",
            id,
            causation: None,
            correlation: Some("flow"),
            from: Author::Connection(ConnectionId(7)),
            to: Audience::Capability(CapabilityId(3)),
            accepted_ns: -5,
            delivered_ns: 6,
            attempts: 2,
            end: Some(End { ended_ns: 9, code: Some(502), outcome_id: "" }),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut history = History::new(4096, 0);
        let event = Record {
            kind: Kind::Event,
            causation: Some("c"),
            correlation: None,
            from: Author::Capability(CapabilityId(9)),
            to: Audience::Subscribers { capabilities: 1, clients: 70_000 },
            end: None,
            ..record("e")
        };
        let by_the_kernel = Record { from: Author::Kernel, to: Audience::Kernel, ..record("l") };
        // Connections of some listeners are told apart by their highest bits.
        let by_http = Record { from: Author::Connection(ConnectionId((1 << 63) | 7)), ..record("h") };
        let by_a_node = Record { from: Author::Connection(ConnectionId(u64::MAX)), ..record("n") };
        let all = [record("r"), event, by_the_kernel, by_http, by_a_node];
        for it in &all {
            history.push(it, None);
        }
        assert_eq!(records(&history), all);
    }

    #[test]
    fn it_keeps_the_latest_within_its_bound_and_allocates_twice() {
        let mut history = History::new(1000, 0);
        for number in 0..1000 {
            history.push(&record(&format!("id-{number:04}")), None);
            assert!(history.bytes() <= 1000);
        }
        let kept: Vec<String> = records(&history).iter().map(|record| record.id.to_owned()).collect();
        assert!(kept.len() >= 6 && kept.is_sorted(), "{kept:?}");
        assert_eq!(kept.last().unwrap(), "id-0999");
        assert_eq!((history.records.older.capacity(), history.records.newer.capacity()), (500, 500));
    }

    #[test]
    fn a_place_stays_what_it_is_until_its_record_is_forgotten() {
        let mut history = History::new(1000, 0);
        let mut places = Vec::new();
        for number in 0..50 {
            places.push(history.end());
            history.push(&record(&format!("id-{number:04}")), None);
        }
        let mut there = 0;
        for (number, place) in places.iter().enumerate() {
            match history.at(*place) {
                Some((found, _)) => {
                    assert_eq!(found.id, format!("id-{number:04}"));
                    there += 1;
                }
                None => assert!(*place < history.begin()),
            }
        }
        assert_eq!(there, records(&history).len());
        assert!(history.at(history.end()).is_none());
    }

    #[test]
    fn data_is_kept_beside_records_within_a_bound_of_its_own() {
        let mut history = History::new(8192, 400);
        let mut places = Vec::new();
        for number in 10..30 {
            let (data, place) = (format!("{{\"n\":{number}}}"), history.end());
            let answer = (number % 2 == 0).then_some("\"ok\"");
            history.push(&record("a"), Some((&data, answer)));
            places.push((place, data, answer));
            assert!(history.data_bytes() <= 400);
        }
        let there: Vec<bool> = places.iter().map(|(place, ..)| history.data_at(*place).is_some()).collect();
        assert!(there.is_sorted() && there.iter().filter(|is_there| **is_there).count() >= 10, "{there:?}");
        for (place, data, answer) in &places {
            assert!(history.data_at(*place).is_none_or(|kept| kept == (data, *answer)));
        }
        // What does not fit is left out, its record is not; and one without data has none.
        let (long, place) = ("x".repeat(400), history.end());
        history.push(&record("long"), Some((&long, None)));
        history.push(&record("bare"), None);
        assert!(history.data_at(place).is_none() && history.at(place).is_some());
        assert!(!History::new(4096, 0).keeps_data() && !History::new(0, 4096).keeps_data());
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_nothing_else() {
        let mut history = History::new(300, 0);
        history.push(&record("a"), None);
        history.push(&record(&"long".repeat(100)), None);
        assert_eq!(records(&history).len(), 1);
        let mut off = History::new(0, 0);
        off.push(&record("a"), Some(("1", None)));
        assert_eq!((off.is_on(), records(&off).len()), (false, 0));
    }
}
