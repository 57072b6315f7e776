//! Letting go of clients: told why, given what is left for them, and then no more.

use crate::daemon::clients::Clients;
use crate::daemon::clients::client::{ClientInput, ClientStage};
use crate::daemon::clients::refusal;
use crate::daemon::clients::table::{ClientTable, slot_of};
use mainspring_kernel::{CloseReason, ConnectionId};
use mainspring_message::Failure;
use std::rc::Rc;
use std::time::Duration;

/// How long a client that is being closed may take to read what is left for it.
const LINGER: Duration = Duration::from_secs(5);

impl Clients {
    /// Closes a client for the kernel, after it was given what is left for it unless it is closed
    /// for not reading.
    pub(crate) fn close(self: &Rc<Clients>, id: ConnectionId, reason: CloseReason) {
        let mut table = self.table.borrow_mut();
        let table = &mut *table;
        let slot = slot_of(id);
        let Some(client) = table.find(id) else { return };
        if reason != CloseReason::Shutdown {
            self.warn(format_args!("{id} closed: {reason}"));
        }
        match reason {
            CloseReason::SlowReader | CloseReason::SlowSubscriber => self.remove(table, slot),
            CloseReason::Memory => {
                // What makes it an offender goes; what it is in the middle of reading stays a
                // message.
                client.out.keep_begun_line();
                let text = "the daemon's memory is used up (limits.memory_bytes_max), and this connection has most of it";
                self.refuse(table, slot, Failure::Overloaded, text);
            }
            CloseReason::Full => {
                self.refuse(table, slot, Failure::Overloaded, "there are too many connections");
            }
            CloseReason::BadLines | CloseReason::Shutdown => {
                // What follows the bad lines of a batch is not served.
                if reason == CloseReason::BadLines && client.is_batch() {
                    self.batch_failed.set(true);
                }
                self.begin_closing(table, slot);
            }
        }
    }

    /// Tells a client why it is closed, and that it was to the kernel.
    pub(super) fn refuse(&self, table: &mut ClientTable, slot: usize, failure: Failure, text: &str) {
        let Some(client) = table.slots.get_mut(slot) else { return };
        let line = refusal::line(failure, text, self.kernel_cell.now().unix_ms);
        client.out.push_lines(line.as_bytes());
        let id = client.id;
        self.begin_closing(table, slot);
        self.forget(table, id);
    }

    /// The kernel hears that a client is gone.
    fn forget(&self, table: &mut ClientTable, id: ConnectionId) {
        self.kernel_cell.feed(|kernel, now| kernel.connection_closed(id, now));
        table.gone.push(id);
    }

    /// Those that have gone since this was last asked.
    pub(crate) fn take_gone(&self, into: &mut Vec<ConnectionId>) {
        into.append(&mut self.table.borrow_mut().gone);
    }

    /// Has a client closed once everything is written.
    fn begin_closing(&self, table: &mut ClientTable, slot: usize) {
        let Some(client) = table.slots.get_mut(slot) else { return };
        if client.is_closing() {
            return;
        }
        if client.is_at_gate() {
            table.gates.leave();
        }
        client.stage = ClientStage::Closing { lingers: false };
        table.closing_bytes += client.out.len();
        table.mark_dirty(slot);
    }

    /// Gives a client that is being closed some time to read the rest.
    pub(super) fn linger(self: &Rc<Clients>, table: &mut ClientTable, slot: usize) {
        let Some(client) = table.slots.get_mut(slot) else { return };
        let ClientStage::Closing { lingers } = &mut client.stage else { return };
        if std::mem::replace(lingers, true) {
            return;
        }
        let (clients, id) = (Rc::clone(self), client.id);
        let _ = self.reactor.after(LINGER, move |_| {
            let mut table = clients.table.borrow_mut();
            if table.find(id).is_some() {
                clients.remove(&mut table, slot_of(id));
            }
        });
    }

    /// Reads no more from the clients of a listener.
    pub(crate) fn stop_reading(self: &Rc<Clients>, adapter: u32) {
        let mut table = self.table.borrow_mut();
        let of_adapter = table.slots.iter().filter(|(_, client)| client.adapter == adapter);
        let slots: Vec<usize> = of_adapter.map(|(slot, _)| slot).collect();
        for slot in slots {
            let Some(client) = table.slots.get_mut(slot) else { continue };
            if client.is_at_gate() {
                self.remove(&mut table, slot);
                continue;
            }
            client.input = ClientInput::Stopped;
            self.update_interest(&mut table, slot);
        }
    }

    /// Lets go of a client, and tells the kernel.
    pub(super) fn remove(&self, table: &mut ClientTable, slot: usize) {
        let Some(mut client) = table.slots.try_remove(slot) else { return };
        table.partial_bytes -= client.lines.held_bytes();
        if client.is_closing() {
            table.closing_bytes = table.closing_bytes.saturating_sub(client.out.len());
        }
        if client.is_at_gate() {
            table.gates.leave();
        }
        tracing::debug!("{} closed", client.id);
        client.wire.unwatch(&self.reactor);
        client.wire.end_output();
        self.forget(table, client.id);
        if client.is_batch() {
            self.kernel_cell.feed(|kernel, now| kernel.adapter_ended(client.adapter, now));
        }
    }
}
