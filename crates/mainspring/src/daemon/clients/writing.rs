//! From the kernel's messages to a client's bytes: buffered as they come, written once per turn.

use crate::daemon::clients::Clients;
use crate::daemon::clients::client::{ClientOutput, ClientStage, ConnectedClient, Dirty};
use crate::daemon::clients::http_bus::HttpBus;
use crate::daemon::clients::table::{ClientTable, slot_of};
use crate::daemon::hold::HeldLines;
use crate::daemon::transport::outgoing::SHARED_BYTES_MIN;
use crate::daemon::uplink::Bridge;
use mainspring_kernel::ConnectionId;
use mainspring_message::{Envelope, Kind};
use mainspring_reactor::Instant;
use rustix::io::Errno;
use std::rc::Rc;

/// Clients that are written to between two looks at the clock.
const WRITES_BETWEEN_LOOKS: usize = 16;

impl Clients {
    /// Buffers a line for a client.
    pub(crate) fn write(&self, id: ConnectionId, message: &Envelope) {
        let mut table = self.table.borrow_mut();
        let ClientTable { slots, spare, dirty, dirty_events, unflushed, .. } = &mut *table;
        let slot = slot_of(id);
        let Some(client) = slots.get_mut(slot).filter(|client| client.id == id) else { return };
        if client.out.wants_buffer()
            && let Some(buffer) = spare.take()
        {
            client.out.use_buffer(buffer);
        }
        client.out.push(message);
        *unflushed += message.line().len();
        if message.kind() == Kind::Event {
            if client.mark_event() {
                dirty_events.push_back(slot);
            }
        } else if client.mark_dirty() {
            dirty.push_back(slot);
        }
    }

    /// Whether a message is one for a client, and short enough to be copied among others.
    #[inline]
    pub(crate) fn joins(id: ConnectionId, message: &Envelope) -> bool {
        !Bridge::has(id) && !HttpBus::has(id) && message.line().len() < SHARED_BYTES_MIN
    }

    /// An empty buffer for what a client is told later.
    pub(crate) fn spare_buffer(&self) -> Vec<u8> {
        self.table.borrow_mut().spare.take().unwrap_or_default()
    }

    /// Buffers lines for a client that were joined before.
    pub(crate) fn write_lines(&self, lines: HeldLines) {
        let mut table = self.table.borrow_mut();
        let ClientTable { slots, spare, dirty, dirty_events, unflushed, .. } = &mut *table;
        let HeldLines { connection, mut bytes, are_events, .. } = lines;
        let slot = slot_of(connection);
        let Some(client) = slots.get_mut(slot).filter(|client| client.id == connection) else { return };
        *unflushed += bytes.len();
        if client.out.wants_buffer() {
            client.out.use_buffer(bytes);
        } else {
            client.out.push_lines(&bytes);
            bytes.clear();
            spare.keep(bytes);
        }
        if are_events {
            if client.mark_event() {
                dirty_events.push_back(slot);
            }
        } else if client.mark_dirty() {
            dirty.push_back(slot);
        }
    }

    /// Bytes that were buffered since everybody was written to.
    pub(crate) fn unflushed_bytes(&self) -> usize {
        self.table.borrow().unflushed
    }

    /// Whether somebody is still to be written to.
    pub(crate) fn has_dirty(&self) -> bool {
        let table = self.table.borrow();
        !table.dirty.is_empty() || !table.dirty_events.is_empty()
    }

    /// Writes to everyone for whom there is something, those who wait for answers first, until the
    /// time is up. Whoever is left is written to in the next turn.
    pub(crate) fn flush_dirty(self: &Rc<Clients>, until: Option<Instant>) {
        let mut table = self.table.borrow_mut();
        table.unflushed = 0;
        let mut writes = 0;
        loop {
            let Some(slot) = table.dirty.pop_front().or_else(|| table.dirty_events.pop_front()) else {
                return;
            };
            self.flush_if_dirty(&mut table, slot);
            writes += 1;
            if writes % WRITES_BETWEEN_LOOKS == 0 && until.is_some_and(|until| self.reactor.now() >= until) {
                return;
            }
        }
    }

    fn flush_if_dirty(self: &Rc<Clients>, table: &mut ClientTable, slot: usize) {
        let Some(client) = table.slots.get_mut(slot).filter(|client| client.dirty != Dirty::No) else {
            return;
        };
        client.dirty = Dirty::No;
        if client.output == ClientOutput::Full {
            self.linger(table, slot);
        } else {
            self.flush(table, slot);
        }
    }

    /// Writes what can be written to a client, and closes it if that was the last of it.
    pub(super) fn flush(self: &Rc<Clients>, table: &mut ClientTable, slot: usize) {
        let Some(client) = table.slots.get_mut(slot) else { return };
        table.counters.writes += u64::from(!client.out.is_empty());
        let written = client.write();
        if client.is_closing() {
            table.closing_bytes = table.closing_bytes.saturating_sub(written);
        }
        if let ClientOutput::Failed(error) = client.output
            && client.is_batch()
        {
            self.batch_output_failed(client, error);
        }
        table.counters.bytes_out += written as u64;
        let id = client.id;
        if written > 0 {
            self.kernel_cell.feed(|kernel, now| kernel.written(id, written, now));
        }
        if client.output == ClientOutput::Full {
            client.out.trim(0);
            self.linger(table, slot);
            return self.update_interest(table, slot);
        }
        let buffer = client.out.take_buffer();
        let is_done_with = match client.stage {
            ClientStage::Closing { .. } => true,
            // What waits for the disk is neither owed any more nor here yet.
            ClientStage::HalfClosed => {
                !client.is_batch()
                    && self.kernel_cell.with(|kernel, _| !kernel.owes(id) && !kernel.has_unwritten(id))
            }
            ClientStage::AtGate(_) | ClientStage::Open => false,
        };
        table.spare.keep(buffer);
        if is_done_with {
            self.remove(table, slot);
        } else {
            self.update_interest(table, slot);
        }
    }

    /// Standard output cannot be written to: nobody hears the answers of a batch, so there is no
    /// point in taking more of it.
    #[cold]
    fn batch_output_failed(&self, client: &mut ConnectedClient, error: Errno) {
        // That nobody wants to hear more is no failure: `| head` is a use.
        if error != Errno::PIPE && !self.batch_failed.replace(true) {
            tracing::error!("cannot write to standard output: {error}");
        }
        if client.end_input() {
            self.kernel_cell.feed(|kernel, now| kernel.adapter_ended(client.adapter, now));
        }
    }
}
