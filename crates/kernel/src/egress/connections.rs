//! Clients: what they may still send, what they have not read yet, which events they want.

use crate::api::effect::{CloseReason, Effect};
use crate::api::ids::{ConnectionId, Now, Source};
use crate::flow::lanes::{Hold, Sender};
use crate::flow::work::BYTES_PER_WORK;
use crate::kernel::{Kernel, Life, MS};
use mainspring_message::{Envelope, Kind};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// How long a client that has far more than it should to read may take none of it before it is closed.
const STALLED_NS: i64 = 5_000 * MS;

/// An answer of so many bytes or more is large: only so many of them are under way for one client that it could be given
/// all of them.
const LARGE_BYTES_MIN: usize = 64 << 10;

/// What happens to a subscriber that does not keep up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SlowPolicy {
    /// It loses its oldest events, and is told how many.
    #[default]
    DropOldest,
    /// It is closed.
    Disconnect,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: u32,
    /// Its queue in the User lane.
    pub(crate) queue: u32,
    /// Its share in what is remembered of its peer.
    pub(crate) share: u32,
    /// Whether it may know what capabilities write.
    pub(crate) is_operator: bool,
    pub(crate) bad_lines: u32,
    /// Outcomes that it has not been given yet.
    pub(crate) owed: usize,
    /// Bytes handed out and not yet written.
    pub(crate) egress_bytes: usize,
    /// Nothing more is read from it or served to it until it has read.
    pub(crate) egress_paused: bool,
    /// How large its answers are of late, while there are large ones among them.
    large_bytes: usize,
    /// While it is paused: when it last took something, or was paused.
    moved_ns: i64,
    /// Whether the daemon was told to stop reading.
    reading_paused: bool,
    /// The patterns it subscribed to.
    pub(crate) patterns: Vec<Box<str>>,
    pub(crate) slow_policy: SlowPolicy,
    /// Events that wait until it has read what it has.
    pub(crate) events: VecDeque<Envelope>,
    pub(crate) events_bytes: usize,
    /// Events that it lost and has not been told of.
    events_lost: u64,
}

impl Kernel {
    /// A client has connected. `peer` is who it is (a user, a token): ids are unique per peer.
    pub fn connection_opened(&mut self, connection: ConnectionId, peer: &str, _now: Now) {
        if self.connections.contains_key(&connection) {
            return;
        }
        self.counters.connections_opened += 1;
        if self.connections.len() >= self.config.limits.connections_max || self.is_ending() {
            let reason = if self.is_ending() { CloseReason::Shutdown } else { CloseReason::Full };
            self.counters.connections_evicted += 1;
            self.effects.push(Effect::Close { connection, reason });
            return;
        }
        let peer = self.peers.connect(peer);
        let queue = self.lanes.open(Sender::Connection(connection));
        let share = self.requests.open_share(&mut self.peers.get_mut(peer).window);
        let state = Connection {
            peer,
            queue,
            share,
            is_operator: false,
            bad_lines: 0,
            owed: 0,
            egress_bytes: 0,
            egress_paused: false,
            large_bytes: 0,
            moved_ns: 0,
            reading_paused: false,
            patterns: Vec::new(),
            slow_policy: SlowPolicy::default(),
            events: VecDeque::new(),
            events_bytes: 0,
            events_lost: 0,
        };
        self.connections.insert(connection, state);
    }

    /// The client of this connection is the operator, who may read the log. Errors about its own requests quote what the
    /// capability wrote before it failed; errors for anybody else do not, for that may be about the requests of others.
    pub fn connection_is_operators(&mut self, connection: ConnectionId, _now: Now) {
        if let Some(client) = self.connections.get_mut(&connection) {
            client.is_operator = true;
        }
    }

    /// A client is gone. What it asked is still worked on; the answers are remembered for the same id.
    pub fn connection_closed(&mut self, connection: ConnectionId, _now: Now) {
        let Some(gone) = self.connections.remove(&connection) else { return };
        for pattern in &gone.patterns {
            self.subscribers.remove(pattern, connection);
        }
        self.egress_bytes -= gone.egress_bytes;
        self.waiting_events -= gone.events.len();
        self.waiting_event_bytes -= gone.events_bytes;
        self.lanes.close(gone.queue);
        let peer = self.peers.get_mut(gone.peer);
        peer.connections -= 1;
        self.requests.leave_share(gone.share, &mut peer.window);
        self.peers.release(gone.peer);
    }

    /// Whether the loop has, or may get, something to write to a client that will send no more: an outcome, or events that it
    /// subscribed to. Bytes that were handed out and not yet written do not count.
    pub fn owes(&self, connection: ConnectionId) -> bool {
        self.connections.get(&connection).is_some_and(|client| client.owed > 0 || !client.patterns.is_empty())
    }

    /// A client is owed one outcome less.
    pub(crate) fn settle_debt(&mut self, connection: ConnectionId) {
        if let Some(client) = self.connections.get_mut(&connection) {
            client.owed = client.owed.saturating_sub(1);
        }
    }

    /// Closes a connection for a reason of the loop's own.
    pub(crate) fn evict(&mut self, connection: ConnectionId, reason: CloseReason, now: Now) {
        if !self.connections.contains_key(&connection) {
            return;
        }
        self.counters.connections_evicted += 1;
        self.effects.push(Effect::Close { connection, reason });
        self.connection_closed(connection, now);
    }

    /// Writes to a connection; gives the message back when the connection is gone.
    pub(crate) fn write(
        &mut self,
        connection: ConnectionId,
        message: Envelope,
        now: Now,
    ) -> Result<(), Envelope> {
        self.write_settling(connection, message, 0, now)
    }

    /// Writes an outcome that the connection is owed; gives it back when the connection is gone.
    pub(crate) fn answer(
        &mut self,
        connection: ConnectionId,
        outcome: Envelope,
        now: Now,
    ) -> Result<(), Envelope> {
        self.write_settling(connection, outcome, 1, now)
    }

    fn write_settling(
        &mut self,
        connection: ConnectionId,
        message: Envelope,
        debts: usize,
        now: Now,
    ) -> Result<(), Envelope> {
        let Some(state) = self.connections.get_mut(&connection) else { return Err(message) };
        state.owed = state.owed.saturating_sub(debts);
        let bytes = message.line().len() + 1;
        state.egress_bytes += bytes;
        let is_full = state.egress_bytes > self.config.limits.egress_bytes_max;
        let is_large = bytes >= LARGE_BYTES_MIN || state.large_bytes > 0;
        self.egress_bytes += bytes;
        self.work += bytes as u64 / BYTES_PER_WORK;
        self.counters.lines_out += 1;
        self.effects.push(Effect::Write { connection, message });
        if is_large && debts > 0 {
            self.note_large_answer(connection, bytes);
        }
        if is_full {
            self.hold_back(connection, now);
        }
        Ok(())
    }

    /// A client that gets large answers was given an answer of so many bytes.
    #[cold]
    fn note_large_answer(&mut self, connection: ConnectionId, bytes: usize) {
        let limit = self.config.limits.egress_bytes_max;
        let Some(state) = self.connections.get_mut(&connection) else { return };
        // Small ones have it forgotten after a while.
        state.large_bytes = bytes.max(state.large_bytes - state.large_bytes / 8);
        if state.large_bytes < LARGE_BYTES_MIN {
            state.large_bytes = 0;
        }
        let window = limit.checked_div(state.large_bytes).map(|count| count.clamp(1, 1 << 20) as u32);
        let queue = state.queue;
        self.lanes.queue_mut(queue).window = window.and_then(NonZeroU32::new);
        self.mind_window(queue);
    }

    /// Serves a client that gets large answers while few enough of its requests are under way.
    #[cold]
    pub(crate) fn mind_window(&mut self, queue: u32) {
        let it = self.lanes.queue(queue);
        let Sender::Connection(connection) = it.sender else { return };
        let Some(state) = self.connections.get(&connection) else { return };
        let under_way = state.owed.saturating_sub(it.len());
        if it.window.is_some_and(|window| under_way >= window.get() as usize) {
            self.lanes.hold(queue, Hold::Window);
        } else {
            self.lanes.release(queue, Hold::Window);
        }
    }

    /// A client has not read what it has: nothing more is read from it or served to it until it has. What comes all the
    /// same, because it was under way, is kept for it while it reads.
    #[cold]
    fn hold_back(&mut self, connection: ConnectionId, now: Now) {
        let limit = self.config.limits.egress_bytes_max;
        let Some(state) = self.connections.get_mut(&connection) else { return };
        if !state.egress_paused {
            state.egress_paused = true;
            state.moved_ns = now.mono_ns;
            if self.life != Life::Flushing {
                self.lanes.hold(state.queue, Hold::Egress);
            }
            return self.update_reading(connection);
        }
        let is_stalled = now.mono_ns.saturating_sub(state.moved_ns) >= STALLED_NS;
        if is_stalled && state.egress_bytes > limit.saturating_mul(4) {
            self.evict(connection, CloseReason::SlowReader, now);
        }
    }

    /// Whether a client has so much to read that nothing is served to it for now.
    pub(crate) fn is_full(&self, connection: ConnectionId) -> bool {
        self.connections.get(&connection).is_some_and(|client| client.egress_paused)
    }

    /// `bytes` of the lines handed out by [`Effect::Write`] (each line plus one for its break) have left.
    pub fn written(&mut self, connection: ConnectionId, bytes: usize, now: Now) {
        let limit = self.config.limits.egress_bytes_max;
        let Some(state) = self.connections.get_mut(&connection) else { return };
        let bytes = bytes.min(state.egress_bytes);
        state.egress_bytes -= bytes;
        self.egress_bytes -= bytes;
        let events_wait = !state.events.is_empty() || state.events_lost > 0;
        if state.egress_paused {
            state.moved_ns = now.mono_ns;
            if state.egress_bytes <= limit / 2 {
                state.egress_paused = false;
                self.lanes.release(state.queue, Hold::Egress);
                self.update_reading(connection);
            }
        }
        if events_wait {
            self.flush_events(connection, now);
        }
    }

    /// Tells the daemon to pause or resume reading when the reasons for it have changed.
    pub(crate) fn update_reading(&mut self, connection: ConnectionId) {
        let Some(state) = self.connections.get_mut(&connection) else { return };
        let pause = state.egress_paused || self.lanes.queue(state.queue).paused;
        if pause == state.reading_paused {
            return;
        }
        state.reading_paused = pause;
        let source = Source::Connection(connection);
        self.effects.push(if pause {
            Effect::PauseReading { source }
        } else {
            Effect::ResumeReading { source }
        });
    }

    /// Hands an event to a subscriber: at once, or into its bounded queue when it has not read what it has.
    pub(crate) fn write_event(&mut self, connection: ConnectionId, event: &Envelope, now: Now) {
        let limits = &self.config.limits;
        let Some(state) = self.connections.get_mut(&connection) else { return };
        if state.events.is_empty() && state.events_lost == 0 && state.egress_bytes <= limits.egress_bytes_max
        {
            self.counters.events_delivered += 1;
            // The connection was there a moment ago.
            let _ = self.write(connection, event.clone(), now);
            return;
        }
        let bytes = event.line().len();
        state.events_bytes += bytes;
        state.events.push_back(event.clone());
        self.waiting_events += 1;
        self.waiting_event_bytes += bytes;
        let over = |state: &Connection| {
            state.events.len() > limits.subscriber_events_max
                || state.events_bytes > limits.subscriber_bytes_max
        };
        if over(state) && state.slow_policy == SlowPolicy::Disconnect {
            self.evict(connection, CloseReason::SlowSubscriber, now);
            return;
        }
        while over(state) {
            let Some(lost) = state.events.pop_front() else { break };
            let bytes = lost.line().len();
            state.events_bytes -= bytes;
            state.events_lost += 1;
            self.waiting_events -= 1;
            self.waiting_event_bytes -= bytes;
            self.counters.events_dropped += 1;
        }
    }

    /// Drops the events that wait for a subscriber; it is told how many when it reads.
    pub(crate) fn drop_waiting_events(&mut self, connection: ConnectionId) {
        let Some(state) = self.connections.get_mut(&connection) else { return };
        let lost = std::mem::take(&mut state.events).len();
        self.waiting_events -= lost;
        self.waiting_event_bytes -= std::mem::take(&mut state.events_bytes);
        state.events_lost += lost as u64;
        self.counters.events_dropped += lost as u64;
    }

    /// Writes waiting events for as long as there is room, first telling how many were lost.
    fn flush_events(&mut self, connection: ConnectionId, now: Now) {
        loop {
            let limit = self.config.limits.egress_bytes_max;
            let Some(state) = self.connections.get_mut(&connection) else { return };
            if state.egress_bytes > limit / 2 {
                return;
            }
            if state.events_lost > 0 {
                let lost = std::mem::take(&mut state.events_lost);
                let notice = self.loop_message(
                    Kind::Event,
                    "Sys.EventsDropped",
                    &format!("{{\"count\":{lost}}}"),
                    None,
                    None,
                    now,
                );
                let _ = self.write(connection, notice, now);
                continue;
            }
            let Some(event) = state.events.pop_front() else { return };
            let bytes = event.line().len();
            state.events_bytes -= bytes;
            self.waiting_events -= 1;
            self.waiting_event_bytes -= bytes;
            self.counters.events_delivered += 1;
            let _ = self.write(connection, event, now);
        }
    }
}
