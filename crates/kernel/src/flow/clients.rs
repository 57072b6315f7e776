//! Clients come and go, and what is written to them; what it means when they have much to read.

use crate::api::effect::{CloseReason, Effect};
use crate::api::ids::{ConnectionId, Now};
use crate::egress::{ClientPlace, EventWritten, Pressure, Strain};
use crate::flow::lanes::{Hold, QueueId, Sender};
use crate::kernel::Kernel;
use mainspring_message::Envelope;

impl Kernel {
    /// A client has connected. `peer` is who it is (a user, a token): ids are unique per peer.
    pub fn connection_opened(&mut self, connection: ConnectionId, peer: &str, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.connection_opened(connection, peer));
        if self.connections.contains(connection) {
            return;
        }
        self.out.counters.connections_opened += 1;
        let is_ending = self.lifecycle.is_ending();
        if self.connections.is_full() || is_ending {
            let reason = if is_ending { CloseReason::Shutdown } else { CloseReason::Full };
            self.out.counters.connections_evicted += 1;
            self.out.push(Effect::Close { connection, reason });
            return;
        }
        let (peer, share) = self.requests.connect(peer);
        let queue = self.lanes.open(Sender::Connection(connection));
        self.connections.open(connection, ClientPlace { peer, queue, share, is_limited: true });
    }

    /// A client is gone. What it asked is still worked on; the answers are remembered for the same
    /// id.
    pub fn connection_closed(&mut self, connection: ConnectionId, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.connection_closed(connection));
        self.close_connection(connection);
    }

    fn close_connection(&mut self, connection: ConnectionId) {
        let Some(gone) = self.connections.close(connection) else { return };
        self.leave_cursor(connection);
        if !self.taps.is_empty() {
            self.taps.close(connection);
        }
        self.lanes.close(gone.queue);
        self.requests.disconnect(gone.peer, gone.share);
    }

    /// Whether the kernel has, or may get, something to write to a client that will send no more:
    /// an outcome, or events that it subscribed to. Bytes that were written and have not left do
    /// not count.
    pub fn owes(&self, connection: ConnectionId) -> bool {
        self.connections.owes(connection) || self.cursors.is_reader(connection)
    }

    /// Whether something was written to a client of which [`Kernel::written`] has not told yet that
    /// it left. It may wait for the disk, where nobody but the daemon sees it.
    pub fn has_unwritten(&self, connection: ConnectionId) -> bool {
        self.connections.has_unwritten(connection)
    }

    /// Closes a connection for a reason of the kernel's own.
    pub(crate) fn evict(&mut self, connection: ConnectionId, reason: CloseReason) {
        if !self.connections.contains(connection) {
            return;
        }
        self.out.counters.connections_evicted += 1;
        self.out.push(Effect::Close { connection, reason });
        self.close_connection(connection);
    }

    /// Closes all connections because this is the end.
    pub(crate) fn close_all_connections(&mut self) {
        for connection in self.connections.all() {
            self.out.push(Effect::Close { connection, reason: CloseReason::Shutdown });
            self.close_connection(connection);
        }
    }

    /// Writes to a connection; gives the message back when the connection is gone.
    pub(crate) fn write(&mut self, connection: ConnectionId, message: Envelope) -> Result<(), Envelope> {
        let bytes = message.line().len() + 1;
        let strain = self.connections.write(connection, message, 0, &mut self.out)?;
        self.mind(connection, strain, bytes);
        Ok(())
    }

    /// Writes an outcome that the connection is owed; gives it back when the connection is gone.
    #[inline]
    pub(crate) fn answer(&mut self, connection: ConnectionId, outcome: Envelope) -> Result<(), Envelope> {
        let bytes = outcome.line().len() + 1;
        let strain = self.connections.write(connection, outcome, 1, &mut self.out)?;
        self.mind(connection, strain, bytes);
        Ok(())
    }

    /// Writes an event to a subscriber, now or when it has read what it has.
    pub(crate) fn write_event(&mut self, connection: ConnectionId, event: &Envelope) {
        let written = self.connections.write_event(connection, event, &mut self.out);
        self.mind_event(connection, written);
    }

    fn mind_event(&mut self, connection: ConnectionId, written: EventWritten) {
        match written {
            EventWritten::Done => {}
            EventWritten::Strained(strain) => self.mind(connection, strain, 0),
            EventWritten::Disconnect => self.evict(connection, CloseReason::SlowSubscriber),
        }
    }

    /// Sees to a client that has much to read since so many bytes were written to it.
    #[inline]
    fn mind(&mut self, connection: ConnectionId, strain: Strain, bytes: usize) {
        if strain.large {
            self.mind_large_answer(connection, bytes);
        }
        if strain.full {
            self.hold_back(connection);
        }
    }

    #[cold]
    fn mind_large_answer(&mut self, connection: ConnectionId, bytes: usize) {
        if let Some((queue, window)) = self.connections.note_large_answer(connection, bytes) {
            self.lanes.set_window(queue, window);
            self.mind_window(queue, connection);
        }
    }

    /// Serves a client that gets large answers while few enough of its requests are under way.
    #[cold]
    pub(crate) fn mind_window(&mut self, queue: QueueId, connection: ConnectionId) {
        if let Some(owed) = self.connections.owed(connection) {
            self.lanes.mind_window(queue, owed);
        }
    }

    #[cold]
    fn hold_back(&mut self, connection: ConnectionId) {
        match self.connections.hold_back(connection, &mut self.out) {
            // At the end every request has its answer: what is left in the lanes costs nobody
            // anything.
            Pressure::Hold(queue) if !self.lifecycle.is_flushing() => self.lanes.hold(queue, Hold::Egress),
            Pressure::Hold(_) | Pressure::Known => {}
            Pressure::Stalled => self.evict(connection, CloseReason::SlowReader),
        }
    }

    /// `bytes` of the lines written by [`Effect::Write`] (each line plus one for its break) have
    /// left.
    pub fn written(&mut self, connection: ConnectionId, bytes: usize, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.written(connection, bytes));
        self.was_written(connection, bytes);
    }

    /// A client has these bytes, or will never get them.
    pub(crate) fn was_written(&mut self, connection: ConnectionId, bytes: usize) {
        let Some((released, events_wait)) = self.connections.written(connection, bytes, &mut self.out) else {
            return;
        };
        if let Some(queue) = released {
            self.lanes.release(queue, Hold::Egress);
        }
        if events_wait {
            let rested = self.out.rest_on(self.out.facts.of_any());
            while let Some(written) = self.connections.flush_event(connection, &mut self.out) {
                self.mind_event(connection, written);
            }
            self.out.rest_on(rested);
        }
        if self.cursors.have_readers() && self.connections.has_room(connection) {
            self.cursors.has_room(connection);
        }
    }
}
