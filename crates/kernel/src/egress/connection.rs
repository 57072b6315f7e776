//! One client's connection: its place in the other parts, and the bytes that it has not read.

use super::Connections;
use super::subscriptions::SlowPolicy;
use crate::api::effect::Effect;
use crate::api::ids::{ConnectionId, Source};
use crate::api::rights::Rights;
use crate::flow::lanes::QueueId;
use crate::flow::work::BYTES_PER_WORK;
use crate::out::{MS, Out};
use crate::requests::{PeerId, ShareId};
use mainspring_message::{Envelope, Kind};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// How long a client that has far more than it should to read may take none of it before it is
/// closed.
const STALLED_NS: i64 = 5_000 * MS;

/// An answer of so many bytes or more is large: only so many of them are under way for one client
/// that it could be given all of them.
const LARGE_BYTES_MIN: usize = 64 << 10;

/// What the other parts know a connection by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientPlace {
    /// Who the client is.
    pub(crate) peer: PeerId,
    /// Its queue in the User lane.
    pub(crate) queue: QueueId,
    /// Its share in what is remembered of its peer.
    pub(crate) share: ShareId,
    /// Whether there is something that it may not do.
    pub(crate) is_limited: bool,
}

/// What is to be done because a client has much to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strain {
    /// The answer was large, or there were large ones lately: so many of its requests may be under
    /// way.
    pub(crate) large: bool,
    /// It has more to read than it should.
    pub(crate) full: bool,
}

/// What is to be done with a client that has more to read than it should.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pressure {
    /// Nothing more is served from this queue until it has read.
    Hold(QueueId),
    /// It has read nothing for too long.
    Stalled,
    /// It was known before.
    Known,
}

/// A client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) place: ClientPlace,
    /// What it may do.
    rights: Rights,
    /// Lines in a row that were no messages.
    bad_lines: u32,
    /// Outcomes that it has not been given yet.
    owed: usize,
    /// Bytes written that have not left.
    pub(super) egress_bytes: usize,
    /// Nothing more is read from it or served to it until it has read.
    egress_paused: bool,
    /// Nothing more is read from it until its queue is shorter.
    lane_paused: bool,
    /// Nothing more is read from it while too much waits for the disk.
    storage_paused: bool,
    /// The last fact about a command of its own.
    last_fact: u64,
    /// Whether the daemon was told to stop reading.
    reading_paused: bool,
    /// How large its answers are of late, while there are large ones among them.
    large_bytes: usize,
    /// While it is paused: when it last took something, or was paused.
    moved_ns: i64,
    /// The patterns it subscribed to.
    pub(super) patterns: Vec<Box<str>>,
    pub(super) slow_policy: SlowPolicy,
    /// Events that wait until it has read what it has.
    pub(super) events: VecDeque<Envelope>,
    pub(super) events_bytes: usize,
    /// Events that it lost and has not been told of.
    pub(super) events_lost: u64,
}

impl Connection {
    pub(super) fn new(place: ClientPlace) -> Connection {
        Connection {
            place,
            rights: Rights::default(),
            bad_lines: 0,
            owed: 0,
            egress_bytes: 0,
            egress_paused: false,
            lane_paused: false,
            storage_paused: false,
            last_fact: 0,
            reading_paused: false,
            large_bytes: 0,
            moved_ns: 0,
            patterns: Vec::new(),
            slow_policy: SlowPolicy::default(),
            events: VecDeque::new(),
            events_bytes: 0,
            events_lost: 0,
        }
    }

    /// Tells the daemon to pause or resume reading when the reasons for it have changed.
    fn update_reading(&mut self, connection: ConnectionId, out: &mut Out) {
        let pause = self.egress_paused || self.lane_paused || self.storage_paused;
        if pause == self.reading_paused {
            return;
        }
        self.reading_paused = pause;
        let source = Source::Connection(connection);
        out.push(if pause { Effect::PauseReading { source } } else { Effect::ResumeReading { source } });
    }
}

impl Connections {
    /// What the client of this connection may do from now on.
    pub(crate) fn set_rights(&mut self, connection: ConnectionId, rights: Rights) {
        if let Some(client) = self.clients.get_mut(&connection) {
            client.place.is_limited = rights.is_limited();
            client.rights = rights;
        }
    }

    /// What the client of a connection may do.
    pub(crate) fn rights(&self, connection: ConnectionId) -> Option<&Rights> {
        self.clients.get(&connection).map(|client| &client.rights)
    }

    pub(crate) fn is_operator(&self, connection: ConnectionId) -> bool {
        self.clients.get(&connection).is_some_and(|client| client.rights.is_operator())
    }

    /// The connections of one peer.
    pub(crate) fn of_peer(&self, peer: PeerId) -> Vec<ConnectionId> {
        let own = self.clients.iter().filter(|(_, client)| client.place.peer == peer);
        own.map(|(connection, _)| *connection).collect()
    }

    /// What the other parts know a connection by.
    #[inline]
    pub(crate) fn place(&self, connection: ConnectionId) -> Option<ClientPlace> {
        self.clients.get(&connection).map(|client| client.place)
    }

    /// A client sent a line, of which `read` makes a message or a refusal. If it is a request, its
    /// outcome is owed.
    #[inline(always)]
    pub(crate) fn hear<E>(
        &mut self,
        connection: ConnectionId,
        read: impl FnOnce() -> Result<Envelope, E>,
    ) -> Option<Result<(ClientPlace, Envelope), E>> {
        let client = self.clients.get_mut(&connection)?;
        let message = match read() {
            Ok(message) => message,
            Err(refused) => return Some(Err(refused)),
        };
        client.bad_lines = 0;
        // Settled with its answer, whichever that is.
        client.owed += usize::from(matches!(message.kind(), Kind::Command | Kind::Query));
        Some(Ok((client.place, message)))
    }

    /// A line was no message; returns whether there were too many in a row.
    pub(crate) fn note_bad_line(&mut self, connection: ConnectionId) -> Option<bool> {
        let client = self.clients.get_mut(&connection)?;
        client.bad_lines += 1;
        Some(client.bad_lines > self.bounds.bad_lines)
    }

    /// Whether a client may still get something: an outcome, or events that it subscribed to.
    pub(crate) fn owes(&self, connection: ConnectionId) -> bool {
        self.clients.get(&connection).is_some_and(|client| client.owed > 0 || !client.patterns.is_empty())
    }

    /// Whether something was written to a client that has not left yet.
    pub(crate) fn has_unwritten(&self, connection: ConnectionId) -> bool {
        self.clients.get(&connection).is_some_and(|client| client.egress_bytes > 0)
    }

    /// Outcomes that a client has not been given yet.
    pub(crate) fn owed(&self, connection: ConnectionId) -> Option<usize> {
        self.clients.get(&connection).map(|client| client.owed)
    }

    /// A client is owed one outcome less.
    pub(crate) fn settle_debt(&mut self, connection: ConnectionId) {
        if let Some(client) = self.clients.get_mut(&connection) {
            client.owed = client.owed.saturating_sub(1);
        }
    }

    /// Whether a client has so much to read that nothing is served to it for now.
    pub(crate) fn is_behind(&self, connection: ConnectionId) -> bool {
        self.clients.get(&connection).is_some_and(|client| client.egress_paused)
    }

    /// Whether a client has read so much of what it has that it can be given more that waits for it
    /// elsewhere.
    #[inline]
    pub(crate) fn has_room(&self, connection: ConnectionId) -> bool {
        self.clients.get(&connection).is_some_and(|client| client.egress_bytes <= self.bounds.bytes / 2)
    }

    /// Writes to a connection, settling so many outcomes that it is owed; gives the message back
    /// when it is gone.
    #[inline]
    pub(crate) fn write(
        &mut self,
        connection: ConnectionId,
        message: Envelope,
        debts: usize,
        out: &mut Out,
    ) -> Result<Strain, Envelope> {
        let Some(client) = self.clients.get_mut(&connection) else { return Err(message) };
        client.owed = client.owed.saturating_sub(debts);
        let bytes = message.line().len() + 1;
        client.egress_bytes += bytes;
        self.egress_bytes += bytes;
        let full = client.egress_bytes > self.bounds.bytes;
        let large = (bytes >= LARGE_BYTES_MIN || client.large_bytes > 0) && debts > 0;
        out.work += bytes as u64 / BYTES_PER_WORK;
        out.counters.lines_out += 1;
        out.push_resting(Effect::Write { connection, message });
        Ok(Strain { large, full })
    }

    /// A client that gets large answers was given an answer of so many bytes: how many of its
    /// requests may be under way.
    #[cold]
    pub(crate) fn note_large_answer(
        &mut self,
        connection: ConnectionId,
        bytes: usize,
    ) -> Option<(QueueId, Option<NonZeroU32>)> {
        let client = self.clients.get_mut(&connection)?;
        // Small ones have it forgotten after a while.
        client.large_bytes = bytes.max(client.large_bytes - client.large_bytes / 8);
        if client.large_bytes < LARGE_BYTES_MIN {
            client.large_bytes = 0;
        }
        let window = self.bounds.bytes.checked_div(client.large_bytes);
        let window = window.map(|count| count.clamp(1, 1 << 20) as u32);
        Some((client.place.queue, window.and_then(NonZeroU32::new)))
    }

    /// A client has not read what it has: nothing more is read from it until it has. What comes all
    /// the same, because it was under way, is kept for it while it reads.
    #[cold]
    pub(crate) fn hold_back(&mut self, connection: ConnectionId, out: &mut Out) -> Pressure {
        let limit = self.bounds.bytes;
        let Some(client) = self.clients.get_mut(&connection) else { return Pressure::Known };
        if !client.egress_paused {
            client.egress_paused = true;
            client.moved_ns = out.now.mono_ns;
            client.update_reading(connection, out);
            return Pressure::Hold(client.place.queue);
        }
        let is_stalled = out.now.mono_ns.saturating_sub(client.moved_ns) >= STALLED_NS;
        if is_stalled && client.egress_bytes > limit.saturating_mul(4) {
            return Pressure::Stalled;
        }
        Pressure::Known
    }

    /// So many bytes of what was written have left. Returns the queue that is served again, if
    /// there is one, and whether events wait.
    pub(crate) fn written(
        &mut self,
        connection: ConnectionId,
        bytes: usize,
        out: &mut Out,
    ) -> Option<(Option<QueueId>, bool)> {
        let client = self.clients.get_mut(&connection)?;
        let bytes = bytes.min(client.egress_bytes);
        client.egress_bytes -= bytes;
        self.egress_bytes -= bytes;
        let events_wait = !client.events.is_empty() || client.events_lost > 0;
        let mut released = None;
        if client.egress_paused {
            client.moved_ns = out.now.mono_ns;
            if client.egress_bytes <= self.bounds.bytes / 2 {
                client.egress_paused = false;
                client.update_reading(connection, out);
                released = Some(client.place.queue);
            }
        }
        Some((released, events_wait))
    }

    /// A fact was recorded about a command of its own.
    pub(crate) fn note_fact(&mut self, connection: ConnectionId, fact: u64) {
        if let Some(client) = self.clients.get_mut(&connection) {
            client.last_fact = client.last_fact.max(fact);
        }
    }

    /// The last fact about a command of its own.
    pub(crate) fn fact_of(&self, connection: ConnectionId) -> u64 {
        self.clients.get(&connection).map_or(0, |client| client.last_fact)
    }

    /// Too much waits for the disk, or no longer; returns whether that is news.
    pub(crate) fn set_storage_paused(
        &mut self,
        connection: ConnectionId,
        paused: bool,
        out: &mut Out,
    ) -> bool {
        let Some(client) = self.clients.get_mut(&connection) else { return false };
        let is_news = std::mem::replace(&mut client.storage_paused, paused) != paused;
        client.update_reading(connection, out);
        is_news
    }

    /// Its queue in the User lane is too long, or is short enough again.
    pub(crate) fn set_lane_paused(&mut self, connection: ConnectionId, paused: bool, out: &mut Out) {
        if let Some(client) = self.clients.get_mut(&connection) {
            client.lane_paused = paused;
            client.update_reading(connection, out);
        }
    }
}
