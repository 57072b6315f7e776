//! The account of what clients and actors make the daemon hold, and what happens at its bound.
//!
//! It counts the bytes of messages wherever they wait, each as often as it waits (a copy shared by many counts for each of
//! them, so the account is never too low). At [`Limits::memory_bytes_max`](crate::Limits) whoever has most of it pays: a
//! subscriber loses the events that wait for it, a client is told and closed, a mailbox is emptied by errors.

use crate::api::effect::{CloseReason, Level};
use crate::api::ids::{ConnectionId, Now};
use crate::kernel::Kernel;
use crate::records::dead_letters::Owner;
use crate::requests::Phase;
use crate::supervision::actors::{Actor, Mail};
use mainspring_message::Failure;

/// Turns between two looks at the account.
pub(crate) const TURNS_BETWEEN_LOOKS: u64 = 8;
/// Actors whose bytes are counted anew at each look; the others are known from earlier ones.
const ACTORS_PER_LOOK: usize = 8;
/// Offenders that are made to pay at each look.
const SHED_PER_LOOK: usize = 8;
/// Whoever has less than this, or than this part of the bound, is no offender: such are bounded by their number.
const OFFENCE_BYTES_MIN: usize = 64 << 10;
const OFFENCE_PART: usize = 64;

/// What is not counted where it is held.
#[derive(Debug, Default)]
pub(crate) struct MemoryAccount {
    /// What the daemon holds itself on behalf of clients and actors.
    outside: usize,
    /// What actors had when they were last looked at.
    actors: usize,
    /// The next one to look at.
    next_actor: usize,
}

/// Whoever holds most.
enum Offender {
    Connection(ConnectionId),
    Capability(u32),
}

impl Actor {
    /// Bytes of what waits for it, and of what it took and may still name as a cause.
    fn held_bytes(&self) -> usize {
        self.mail_bytes + self.answers_bytes + self.recent_bytes
    }
}

impl Kernel {
    /// Bytes that clients and actors make the daemon hold, by its own account.
    pub fn memory_bytes(&self) -> usize {
        self.memory.outside
            + self.memory.actors
            + self.egress_bytes
            + self.waiting_event_bytes
            + self.lanes.bytes()
            + self.requests.window.bytes
            + self.dead.bytes()
            + self.schedules.bytes()
            + self.history.bytes()
    }

    /// The daemon says how many bytes it holds itself on behalf of clients and actors: lines that have begun, for one.
    pub fn note_outside_bytes(&mut self, bytes: usize) {
        self.memory.outside = bytes;
    }

    /// Compares the account with its bound.
    pub(crate) fn look_at_memory(&mut self, now: Now) {
        self.count_some_actors();
        let bytes_max = self.config.limits.memory_bytes_max;
        if bytes_max > 0 && self.memory_bytes() > bytes_max {
            self.shed(bytes_max, now);
        }
    }

    fn count_some_actors(&mut self) {
        for _ in 0..self.actors.len().min(ACTORS_PER_LOOK) {
            let at = if self.memory.next_actor < self.actors.len() { self.memory.next_actor } else { 0 };
            self.memory.next_actor = at + 1;
            let actor = &mut self.actors[at];
            let bytes = actor.held_bytes();
            self.memory.actors = self.memory.actors + bytes - actor.counted_bytes;
            actor.counted_bytes = bytes;
        }
    }

    /// Makes those who have most pay until the account is within its bound.
    #[cold]
    fn shed(&mut self, bytes_max: usize, now: Now) {
        for _ in 0..SHED_PER_LOOK {
            let held = self.memory_bytes();
            if held <= bytes_max {
                return;
            }
            let Some((offender, bytes)) = self.worst_offender(bytes_max) else { return };
            self.counters.shed += 1;
            match offender {
                Offender::Connection(connection) => self.shed_connection(connection, now),
                Offender::Capability(capability) => self.shed_mailbox(capability, now),
            }
            let name = match offender {
                Offender::Connection(connection) => connection.to_string(),
                Offender::Capability(capability) => {
                    format!("the mailbox of {}", self.actors[capability as usize].manifest.id)
                }
            };
            let text = format!(
                "{held} bytes are held (limits.memory_bytes_max is {bytes_max}): {name} has most, {bytes}, and pays"
            );
            self.log(Level::Warn, text);
        }
    }

    fn worst_offender(&self, bytes_max: usize) -> Option<(Offender, usize)> {
        let connections = self.connections.iter().map(|(id, client)| {
            let bytes = client.egress_bytes + client.events_bytes + self.lanes.queue(client.queue).bytes();
            (bytes, *id)
        });
        // The first of equals, so that the choice is the same in every run.
        let client = connections.max_by_key(|(bytes, id)| (*bytes, std::cmp::Reverse(*id)));
        let mailboxes = self.actors.iter().enumerate().map(|(at, actor)| (actor.mail_bytes, at));
        let mailbox = mailboxes.max_by_key(|(bytes, at)| (*bytes, std::cmp::Reverse(*at)));
        let worst = match (client, mailbox) {
            (Some((bytes, id)), Some((less, _))) if bytes >= less => (Offender::Connection(id), bytes),
            (_, Some((bytes, at))) => (Offender::Capability(at as u32), bytes),
            (Some((bytes, id)), None) => (Offender::Connection(id), bytes),
            (None, None) => return None,
        };
        (worst.1 >= OFFENCE_BYTES_MIN.min(bytes_max / OFFENCE_PART)).then_some(worst)
    }

    /// A subscriber loses what waits for it, and is told so when it reads; whoever has most all the same is closed.
    fn shed_connection(&mut self, connection: ConnectionId, now: Now) {
        let Some(client) = self.connections.get(&connection) else { return };
        if client.events_bytes > client.egress_bytes / 2 {
            return self.drop_waiting_events(connection);
        }
        self.evict(connection, CloseReason::Memory, now);
    }

    /// The newest half of a mailbox is ended by errors, or buried.
    fn shed_mailbox(&mut self, capability: u32, now: Now) {
        let text = "the daemon's memory is used up (limits.memory_bytes_max)";
        let target = self.actors[capability as usize].mail_bytes / 2;
        while self.actors[capability as usize].mail_bytes > target {
            match self.actors[capability as usize].mailbox.pop_back() {
                None => break,
                Some(Mail::Request(key)) => {
                    if self.requests.get(key).is_some_and(|live| live.phase == Phase::Mailbox) {
                        self.fail(key, Failure::Overloaded, text, now);
                    }
                }
                Some(Mail::Event(event)) => {
                    let actor = &mut self.actors[capability as usize];
                    actor.mail_len -= 1;
                    actor.mail_bytes -= event.line().len();
                    self.bury(Owner::Capability(capability), event, text, 0, now);
                }
            }
        }
        let actor = &mut self.actors[capability as usize];
        let bytes = actor.held_bytes();
        self.memory.actors = self.memory.actors + bytes - actor.counted_bytes;
        actor.counted_bytes = bytes;
    }
}
