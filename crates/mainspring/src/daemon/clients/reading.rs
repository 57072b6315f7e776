//! From a client's bytes to the kernel's lines.

use crate::daemon::clients::Clients;
use crate::daemon::clients::client::{ClientInput, ClientStage, ConnectedClient};
use crate::daemon::clients::gate::without_token;
use crate::daemon::clients::table::{ClientTable, slot_of};
use crate::text::short_message::completed;
use mainspring_kernel::{ConnectionId, Kernel, Limits, Now};
use mainspring_message::Failure;
use mainspring_message::lines::{Line, LineSplitter};
use rustix::io::Errno;
use std::rc::Rc;

/// Bytes read at a time. Few enough that a client with many requests in progress reads the first
/// answers, and sends more, while the rest is being worked on: with all of them in one go, client
/// and daemon would take turns.
const READ_BYTES: usize = 5 << 10;
/// The same while others wait to be read: then there is always somebody who works, and fewer reads
/// and writes are better.
const READ_IN_TURN_BYTES: usize = 10 << 10;
/// The same for a client whose answers wait for the disk: then there is somebody who works as well,
/// and one flush is to carry many.
const READ_WAITING_BYTES: usize = 20 << 10;
/// The same for a client in the middle of a long line.
const READ_LONG_BYTES: usize = 64 << 10;
/// Bytes read from all clients together before the kernel has worked on them: what it works on
/// should stay in the cache.
const READ_TOGETHER_BYTES: usize = 32 << 10;
/// No message is shorter than this, so a read brings at most as many as a sender may have waiting.
const MESSAGE_BYTES_MIN: usize = 64;

/// How large the buffer is that everybody's bytes are read to.
pub(super) fn buffer_bytes(limits: &Limits) -> usize {
    let waiting = limits.lane_messages_max.saturating_mul(MESSAGE_BYTES_MIN).min(limits.lane_bytes_max);
    waiting.clamp(MESSAGE_BYTES_MIN, READ_LONG_BYTES)
}

/// What a client at its gate has said.
enum TokenOutcome {
    /// Not a whole line yet.
    Waiting,
    /// The right token.
    Passed,
    /// Something else.
    Refused,
}

impl Clients {
    /// Whether somebody is to be read.
    pub(crate) fn has_readable(&self) -> bool {
        !self.table.borrow().readable.is_empty()
    }

    /// Reads from some of those who have sent something, each once.
    pub(crate) fn read_some(self: &Rc<Clients>) {
        let mut table = self.table.borrow_mut();
        let table = &mut *table;
        let until = table.read_work() + READ_TOGETHER_BYTES as u64;
        for _ in 0..table.readable.len() {
            if table.read_work() >= until {
                return;
            }
            let Some(id) = table.readable.pop_front() else { return };
            let Some(client) = table.find(id) else { continue };
            client.is_queued = false;
            if client.is_read() {
                self.read(table, slot_of(id));
            }
        }
    }

    /// Stops or resumes reading from a client.
    pub(crate) fn pause(self: &Rc<Clients>, id: ConnectionId, paused: bool) {
        let mut table = self.table.borrow_mut();
        let Some(client) = table.find(id).filter(|client| client.input != ClientInput::Stopped) else {
            return;
        };
        client.input = if paused { ClientInput::Paused } else { ClientInput::Read };
        if client.wants_to_queue() && !client.is_batch() {
            client.is_queued = true;
            table.readable.push_back(id);
        }
        self.update_interest(&mut table, slot_of(id));
    }

    /// Reads once: what came goes to the kernel.
    fn read(self: &Rc<Clients>, table: &mut ClientTable, slot: usize) {
        let ClientTable { slots, buffer, counters, partial_bytes, readable, .. } = table;
        let Some(client) = slots.get_mut(slot) else { return };
        let id = client.id;
        let waits = |kernel: &mut Kernel, _| kernel.has_unwritten(id);
        let waits = client.note_waiting(self.kernel_cell.with(waits));
        let room = match (client.lines.held_bytes() >= READ_BYTES, readable.is_empty()) {
            (true, _) => buffer.len(),
            _ if waits => buffer.len().min(READ_WAITING_BYTES),
            (false, true) => buffer.len().min(READ_BYTES),
            (false, false) => buffer.len().min(READ_IN_TURN_BYTES),
        };
        let bytes = match client.wire.read(&mut buffer[..room]) {
            Ok(0) => {
                table.ends += 1;
                return self.input_ended(table, slot);
            }
            Ok(count) => &buffer[..count],
            // What was told once is not told again. Standard input, which may block, is.
            Err(Errno::INTR) if !client.is_batch() => {
                client.is_queued = true;
                return readable.push_back(client.id);
            }
            Err(Errno::AGAIN | Errno::INTR) => return client.note_read(0, room),
            Err(error) => {
                if client.is_batch() {
                    self.batch_failed.set(true);
                    tracing::error!("cannot read standard input: {error}");
                }
                return self.remove(table, slot);
            }
        };
        client.note_read(bytes.len(), room);
        if client.wants_to_queue() {
            // There is more, most likely: no need to ask the reactor.
            client.is_queued = true;
            readable.push_back(client.id);
        }
        counters.reads += 1;
        counters.bytes_in += bytes.len() as u64;
        let before = client.lines.held_bytes();
        let said = match &client.stage {
            ClientStage::AtGate(_) => Some(self.read_token(client, bytes)),
            _ => {
                self.ingest(client, bytes);
                None
            }
        };
        let held = client.lines.held_bytes();
        *partial_bytes = *partial_bytes + held - before;
        let is_crowded = *partial_bytes > self.partial_bytes_max && held > before;
        match said {
            None | Some(TokenOutcome::Waiting) => {}
            Some(TokenOutcome::Passed) => table.gates.leave(),
            Some(TokenOutcome::Refused) => self.refuse_token(table, slot),
        }
        if is_crowded {
            self.close_the_longest_line(table);
        }
    }

    /// All clients together have begun too much: whoever has begun the longest line is told and
    /// closed, and no other.
    #[cold]
    fn close_the_longest_line(self: &Rc<Clients>, table: &mut ClientTable) {
        let longest = table.slots.iter().max_by_key(|(_, client)| client.lines.held_bytes());
        let Some(slot) = longest.map(|(slot, _)| slot) else { return };
        let Some(client) = table.slots.get_mut(slot) else { return };
        self.warn(format_args!("{} closed: all clients together have begun too many long lines", client.id));
        table.partial_bytes -= client.lines.held_bytes();
        client.lines = LineSplitter::default();
        let text = "too many long lines have been begun, and this one is the longest";
        self.refuse(table, slot, Failure::Overloaded, text);
        self.update_interest(table, slot);
    }

    fn ingest(&self, client: &mut ConnectedClient, bytes: &[u8]) {
        let (id, is_batch) = (client.id, client.is_batch());
        self.kernel_cell.feed(|kernel, now| {
            client.lines.split(bytes, self.line_bytes_max, |line| match line {
                Line::Whole(line) if is_batch => ingest_completed(kernel, id, line, now),
                Line::Whole(line) => kernel.ingest(id, without_token(line), now),
                Line::TooLong => kernel.line_too_long(id, now),
            });
        });
    }

    /// The first line of a client that has to say who it is; what follows it is ingested as usual.
    /// Blank lines before it are none.
    fn read_token(&self, client: &mut ConnectedClient, mut bytes: &[u8]) -> TokenOutcome {
        let ClientStage::AtGate(gate) = &client.stage else { return TokenOutcome::Passed };
        let token = loop {
            match client.lines.next(&mut bytes, gate.line_bytes_max()) {
                None => return TokenOutcome::Waiting,
                Some(line) if line.is_blank() => {}
                Some(Line::Whole(line)) => break gate.admit(line).cloned(),
                Some(Line::TooLong) => break None,
            }
        };
        let Some(token) = token else { return TokenOutcome::Refused };
        client.stage = ClientStage::Open;
        self.kernel_cell.feed(|kernel, now| {
            kernel.connection_opened(client.id, &token.name, now);
            kernel.connection_has(client.id, token.rights, now);
        });
        self.ingest(client, bytes);
        TokenOutcome::Passed
    }

    /// The first line was not a valid token.
    fn refuse_token(&self, table: &mut ClientTable, slot: usize) {
        if let Some(client) = table.slots.get(slot) {
            self.warn_of_stranger(format_args!("{} sent a wrong token", client.id));
        }
        let text = "the first line must be {\"token\": \"...\"} with a valid token";
        self.refuse(table, slot, Failure::Forbidden, text);
    }

    /// The client will send no more. It stays for as long as the kernel owes it something.
    fn input_ended(self: &Rc<Clients>, table: &mut ClientTable, slot: usize) {
        let Some(client) = table.slots.get_mut(slot) else { return };
        if client.is_at_gate() {
            return self.remove(table, slot);
        }
        client.end_input();
        table.partial_bytes -= client.lines.held_bytes();
        let (id, adapter, is_batch) = (client.id, client.adapter, client.is_batch());
        // The kernel is run though no line is left: what is owed to this client is settled then.
        self.kernel_cell.feed(|kernel, now| match client.lines.finish().filter(|line| !line.is_blank()) {
            Some(Line::Whole(line)) if is_batch => ingest_completed(kernel, id, line, now),
            Some(Line::Whole(line)) => kernel.ingest(id, without_token(line), now),
            Some(Line::TooLong) | None => {}
        });
        if is_batch {
            self.kernel_cell.feed(|kernel, now| kernel.adapter_ended(adapter, now));
        } else {
            // Refusals of the last lines are on their way: the next flush decides. There is one
            // only after a turn of the kernel, so it gets one, whether it was told something or
            // not.
            table.mark_dirty(slot);
            self.kernel_cell.feed(|_, _| ());
        }
        self.update_interest(table, slot);
    }
}

/// A line of a batch: what has no metadata gets it here, as `pipe` would have done.
fn ingest_completed(kernel: &mut Kernel, id: ConnectionId, line: &[u8], now: Now) {
    match completed(line, None, now.unix_ms) {
        Some(message) => kernel.ingest(id, message.as_bytes(), now),
        None => kernel.ingest(id, line, now),
    }
}
