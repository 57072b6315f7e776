//! The account of what clients and actors make the daemon hold, and what happens at its bound.
//!
//! It counts the bytes of messages wherever they wait, each as often as it waits (a copy shared by
//! many counts for each of them, so the account is never too low). At
//! [`Limits::memory_bytes_max`](crate::Limits) whoever has most of it pays: a subscriber loses the
//! events that wait for it, a client is told and closed, a mailbox is emptied by errors.

use crate::api::effect::{CloseReason, Level};
use crate::api::ids::{CapabilityId, ConnectionId};
use crate::kernel::Kernel;
use mainspring_message::Failure;

/// Turns between two looks at the account.
pub(crate) const TURNS_BETWEEN_LOOKS: u64 = 8;
/// Offenders that are made to pay at each look.
const SHED_PER_LOOK: usize = 8;
/// Whoever has less than this, or than this part of the bound, is no offender: such are bounded by
/// their number.
const OFFENCE_BYTES_MIN: usize = 64 << 10;
const OFFENCE_PART: usize = 64;

/// Whoever holds most.
enum Offender {
    Connection(ConnectionId),
    Capability(CapabilityId),
}

impl Kernel {
    /// Bytes that clients and actors make the daemon hold, by its own account.
    pub fn memory_bytes(&self) -> usize {
        self.outside_bytes
            + self.actors.counted_bytes()
            + self.connections.egress_bytes()
            + self.connections.waiting_event_bytes()
            + self.out.system.bytes()
            + self.lanes.bytes()
            + self.requests.remembered_bytes()
            + self.dead_letters.bytes()
            + self.schedules.bytes()
            + self.history.bytes()
            + self.history.data_bytes()
            + self.taps.bytes()
            + self.logs.bytes()
    }

    /// The daemon says how many bytes it holds itself on behalf of clients and actors: lines that
    /// have begun, for one.
    pub fn note_outside_bytes(&mut self, bytes: usize) {
        if self.outside_bytes != bytes {
            self.note(self.out.now, |pen| pen.outside_bytes(bytes));
            self.outside_bytes = bytes;
        }
    }

    /// Compares the account with its bound.
    pub(crate) fn look_at_memory(&mut self) {
        self.actors.count_some();
        let bytes_max = self.config.limits.memory_bytes_max;
        if bytes_max > 0 && self.memory_bytes() > bytes_max {
            self.shed(bytes_max);
        }
    }

    /// Makes those who have most pay until the account is within its bound.
    #[cold]
    fn shed(&mut self, bytes_max: usize) {
        for _ in 0..SHED_PER_LOOK {
            let held = self.memory_bytes();
            if held <= bytes_max {
                return;
            }
            let Some((offender, bytes)) = self.worst_offender(bytes_max) else { return };
            self.out.counters.shed += 1;
            let name = match offender {
                Offender::Connection(connection) => {
                    if !self.connections.shed(connection, &mut self.out) {
                        self.evict(connection, CloseReason::Memory);
                    }
                    connection.to_string()
                }
                Offender::Capability(capability) => {
                    self.shed_mailbox(capability);
                    format!("the mailbox of {}", self.actors.id(capability))
                }
            };
            let text = format!(
                "{held} bytes are held (limits.memory_bytes_max is {bytes_max}): {name} has most, {bytes}, and pays"
            );
            self.out.log(Level::Warn, text);
        }
    }

    fn worst_offender(&self, bytes_max: usize) -> Option<(Offender, usize)> {
        let client = self.connections.heaviest(|queue| self.lanes.bytes_of(queue));
        let worst = match (client, self.actors.heaviest_mailbox()) {
            (Some((bytes, id)), Some((less, _))) if bytes >= less => (Offender::Connection(id), bytes),
            (_, Some((bytes, capability))) => (Offender::Capability(capability), bytes),
            (Some((bytes, id)), None) => (Offender::Connection(id), bytes),
            (None, None) => return None,
        };
        (worst.1 >= OFFENCE_BYTES_MIN.min(bytes_max / OFFENCE_PART)).then_some(worst)
    }

    /// The newest half of a mailbox is ended by errors, or buried.
    fn shed_mailbox(&mut self, capability: CapabilityId) {
        let text = "the daemon's memory is used up (limits.memory_bytes_max)";
        let target = self.actors.mail_bytes(capability) / 2;
        while self.actors.mail_bytes(capability) > target
            && let Some(mail) = self.actors.take_newest(capability)
        {
            self.end_mail(capability, mail, Failure::Overloaded, text);
        }
        self.actors.count(capability);
    }
}
