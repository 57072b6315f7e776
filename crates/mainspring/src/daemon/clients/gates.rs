//! Clients that have not said who they are yet: how many there may be, and for how long.

use crate::daemon::clients::Clients;
use crate::daemon::clients::refusal;
use crate::daemon::clients::table::{ClientTable, slot_of};
use crate::daemon::transport::wire::Wire;
use mainspring_kernel::ConnectionId;
use mainspring_message::Failure;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// Clients that have not said who they are yet. Beyond: the one that has waited longest is told
/// (503) and closed, so that strangers do not keep anybody out.
const AT_GATES_MAX: usize = 1024;

/// Who stands at the gates.
#[derive(Default)]
pub(super) struct Gates {
    /// How many there are.
    waiting: usize,
    /// The same, longest first; and others that are gone or have passed.
    queue: VecDeque<ConnectionId>,
}

impl Gates {
    /// One more stands there.
    pub(super) fn arrive(&mut self, id: ConnectionId) {
        self.waiting += 1;
        self.queue.push_back(id);
    }

    /// Somebody has passed, was refused or is gone.
    pub(super) fn leave(&mut self) {
        self.waiting -= 1;
    }
}

impl ClientTable {
    /// Brings whoever has stood at a gate for longest, and has sent nothing that is yet to be read,
    /// to the front of the queue. False if there is nobody like that: then those who are there are
    /// to be read first.
    fn find_idle_at_gates(&mut self) -> bool {
        for _ in 0..self.gates.queue.len() {
            let Some(id) = self.gates.queue.pop_front() else { return false };
            match self.find(id) {
                Some(client) if client.is_at_gate() && client.is_queued => self.gates.queue.push_back(id),
                Some(client) if client.is_at_gate() => {
                    self.gates.queue.push_front(id);
                    return true;
                }
                // It has passed, or is gone.
                _ => {}
            }
        }
        false
    }
}

impl Clients {
    /// Whether one more may stand at a gate: there is room, or somebody who stands there and has
    /// said nothing lately can be sent away.
    pub(crate) fn has_room_at_gates(&self) -> bool {
        let mut table = self.table.borrow_mut();
        table.gates.waiting < AT_GATES_MAX || table.find_idle_at_gates()
    }

    /// Sends away whoever has stood at a gate for longest, if there are too many. Returns whether
    /// one more may stand there.
    pub(super) fn make_room_at_gates(&self, table: &mut ClientTable) -> bool {
        // Those who passed or left are still in the queue.
        if table.gates.queue.len() >= 2 * AT_GATES_MAX {
            let ClientTable { slots, gates, .. } = &mut *table;
            let stands_there = |id: ConnectionId| {
                slots.get(slot_of(id)).is_some_and(|client| client.id == id && client.is_at_gate())
            };
            gates.queue.retain(|id| stands_there(*id));
        }
        if table.gates.waiting < AT_GATES_MAX {
            return true;
        }
        if !table.find_idle_at_gates() {
            return false;
        }
        let Some(id) = table.gates.queue.pop_front() else { return false };
        let Some(client) = table.find(id) else { return false };
        self.say_it_is_crowded(&client.wire);
        table.counters.refused += 1;
        self.warn_of_stranger(format_args!("{id} sent no token, and made room for others"));
        self.remove(table, slot_of(id));
        true
    }

    pub(super) fn say_it_is_crowded(&self, wire: &Wire) {
        let text = "too many clients have not sent their token yet; try again later";
        let line = refusal::line(Failure::Overloaded, text, self.kernel_cell.now().unix_ms);
        // A socket that nothing was written to has room for that much; if not, it is closed all the
        // same.
        let _ = wire.write(line.as_bytes());
    }

    /// Closes a client that has not passed its gate in time.
    pub(super) fn expire(self: &Rc<Clients>, id: ConnectionId, timeout: Duration) {
        let clients = Rc::clone(self);
        let timer = self.reactor.after(timeout, move |_| {
            let mut table = clients.table.borrow_mut();
            let table = &mut *table;
            if !table.find(id).is_some_and(|client| client.is_at_gate()) {
                return;
            }
            clients.warn_of_stranger(format_args!("{id} sent no token in time"));
            let text = "no token came in time; {\"token\": \"...\"} is the first line";
            clients.refuse(table, slot_of(id), Failure::Forbidden, text);
        });
        if timer.is_err() {
            self.remove(&mut self.table.borrow_mut(), slot_of(id));
        }
    }
}
