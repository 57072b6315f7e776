//! From a client's bytes to the kernel's lines.

use crate::daemon::clients::client::Client;
use crate::daemon::clients::{Clients, READ_BYTES, READ_IN_TURN_BYTES, State};
use crate::daemon::transport::lines::{Cut, LineCutter};
use crate::text::short_message::completed;
use mainspring_kernel::{ConnectionId, Kernel, Now};
use mainspring_message::Failure;
use rustix::io::Errno;
use std::rc::Rc;

impl Clients {
    /// Reads once: what came goes to the kernel.
    pub(super) fn read(self: &Rc<Clients>, state: &mut State, slot: usize) {
        let State { table, buffer, counters, partial_bytes, at_gates, readable, .. } = state;
        let Some(client) = table.get_mut(slot) else { return };
        let room = match (client.lines.held_bytes() >= READ_BYTES, readable.is_empty()) {
            (true, _) => buffer.len(),
            (false, true) => buffer.len().min(READ_BYTES),
            (false, false) => buffer.len().min(READ_IN_TURN_BYTES),
        };
        let bytes = match client.wire.read(&mut buffer[..room]) {
            Ok(0) => {
                state.ends += 1;
                return self.input_ended(state, slot);
            }
            Ok(count) => &buffer[..count],
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(error) => {
                if !client.wire.tells_hangups() {
                    self.batch_failed.set(true);
                    tracing::error!("standard input cannot be read: {error}");
                }
                return self.remove(state, slot);
            }
        };
        if bytes.len() == room {
            // There is more, most likely: no need to ask the loop.
            client.queued = true;
            readable.push_back(client.id);
        }
        counters.reads += 1;
        counters.bytes_in += bytes.len() as u64;
        let before = client.lines.held_bytes();
        if client.gate.is_some() {
            self.read_token(client, bytes);
            *at_gates -= usize::from(client.gate.is_none());
        } else {
            self.ingest(client, bytes);
        }
        let held = client.lines.held_bytes();
        *partial_bytes = *partial_bytes + held - before;
        let crowded = *partial_bytes > self.partial_bytes_max && held > before;
        if client.closing && client.mark_dirty() {
            state.dirty.push_back(slot);
        }
        if crowded {
            self.close_the_longest_line(state);
        }
    }

    /// All clients together have begun too much: whoever has begun the longest line is told and closed, and no other.
    #[cold]
    fn close_the_longest_line(self: &Rc<Clients>, state: &mut State) {
        let longest = state.table.iter().max_by_key(|(_, client)| client.lines.held_bytes());
        let Some(slot) = longest.map(|(slot, _)| slot) else { return };
        let Some(client) = state.table.get_mut(slot) else { return };
        self.warn(format_args!("{} closed: all clients together have begun too many long lines", client.id));
        state.partial_bytes -= client.lines.held_bytes();
        client.lines = LineCutter::default();
        self.refuse(
            client,
            Failure::Overloaded,
            "too many long lines have been begun, and this one is the longest",
        );
        state.closing_bytes += client.out.len();
        if client.mark_dirty() {
            state.dirty.push_back(slot);
        }
        self.update_interest(state, slot);
    }

    fn ingest(&self, client: &mut Client, bytes: &[u8]) {
        let (id, by_hand) = (client.id, client.is_written_by_hand());
        self.kernel_cell.feed(|kernel, now| {
            client.lines.cut(bytes, self.line_bytes_max, |cut| match cut {
                Cut::Line(line) if by_hand => ingest_completed(kernel, id, line, now),
                Cut::Line(line) => kernel.ingest(id, line, now),
                Cut::TooLong => kernel.line_too_long(id, now),
            });
        });
    }

    /// The first line of a client that has to say who it is; what follows it is ingested as usual. Blank lines before it are none.
    fn read_token(&self, client: &mut Client, mut bytes: &[u8]) {
        let Some(gate) = client.gate.clone() else { return };
        while !bytes.is_empty() {
            let (head, rest) = match memchr::memchr(b'\n', bytes) {
                Some(at) => bytes.split_at(at + 1),
                None => (bytes, &[][..]),
            };
            let mut verdict = None;
            client.lines.cut(head, gate.line_bytes_max(), |cut| {
                verdict = Some(match cut {
                    Cut::Line(line) => gate.admit(line).cloned(),
                    Cut::TooLong => None,
                });
            });
            match verdict {
                None => bytes = rest,
                Some(Some(token)) => {
                    client.gate = None;
                    self.kernel_cell.feed(|kernel, now| {
                        kernel.connection_opened(client.id, &token.name, now);
                        kernel.connection_has(client.id, token.rights, now);
                    });
                    return self.ingest(client, rest);
                }
                Some(None) => {
                    self.warn_of_stranger(format_args!("{} sent a wrong token", client.id));
                    let text = "the first line must be {\"token\": \"...\"} with a valid token";
                    return self.refuse(client, Failure::Forbidden, text);
                }
            }
        }
    }

    /// Tells a client that the kernel does not know why it is closed.
    pub(super) fn refuse(&self, client: &mut Client, failure: Failure, text: &str) {
        let line =
            self.kernel_cell.with(|_, now| crate::daemon::clients::refusal::line(failure, text, now.unix_ms));
        client.out.push_line(&line);
        client.closing = true;
        self.kernel_cell.feed(|kernel, now| kernel.connection_closed(client.id, now));
    }

    /// The client will send no more. It stays for as long as the kernel owes it something.
    fn input_ended(self: &Rc<Clients>, state: &mut State, slot: usize) {
        let Some(client) = state.table.get_mut(slot) else { return };
        client.input_ended = true;
        let (id, door) = (client.id, client.door);
        if client.gate.is_some() {
            return self.remove(state, slot);
        }
        state.partial_bytes -= client.lines.held_bytes();
        let by_hand = client.is_written_by_hand();
        self.kernel_cell.feed(|kernel, now| {
            client.lines.finish(|cut| match cut {
                Cut::Line(line) if by_hand => ingest_completed(kernel, id, line, now),
                Cut::Line(line) => kernel.ingest(id, line, now),
                Cut::TooLong => {}
            });
        });
        if client.wire.tells_hangups() {
            // Refusals of the last lines are on their way: the next flush decides.
            if client.mark_dirty() {
                state.dirty.push_back(slot);
            }
        } else {
            self.kernel_cell.feed(|kernel, now| kernel.adapter_ended(door, now));
        }
        self.update_interest(state, slot);
    }
}

/// A line of a batch: what has no metadata gets it here, as `pipe` would have done.
fn ingest_completed(kernel: &mut Kernel, id: ConnectionId, line: &[u8], now: Now) {
    match completed(line, None, now.unix_ms) {
        Some(message) => kernel.ingest(id, message.as_bytes(), now),
        None => kernel.ingest(id, line, now),
    }
}
