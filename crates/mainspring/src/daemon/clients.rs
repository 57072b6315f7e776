//! The clients: bytes in, lines to the kernel, lines back, one write per client and turn of the loop.

use super::gate::Gate;
use super::hub::Hub;
use super::lines::{Cut, LineCutter};
use super::wire::Wire;
use mainspring_kernel::{CloseReason, ConnectionId};
use mainspring_message::{Envelope, Failure};
use mainspring_reactor::{Handle, Interest, Readiness};
use rustix::io::Errno;
use slab::Slab;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Bytes read at a time, from whomever it is.
const READ_BYTES: usize = 64 << 10;
/// No message is shorter than this, so a read brings at most as many as a sender may have waiting.
const MESSAGE_BYTES_MIN: usize = 64;
/// Buffers kept for the next writes, and how large each may be.
const SPARE_BUFFERS_MAX: usize = 64;
const SPARE_BUFFER_BYTES_MAX: usize = 256 << 10;
/// How long a client that is being closed may take to read what is left for it.
const LINGER: Duration = Duration::from_secs(5);
/// Bytes that all clients together may have sent of lines without an end. Beyond: whoever adds to its line is closed.
const PARTIAL_BYTES_MAX: usize = 256 << 20;
/// Bits of a connection's number that count; the rest is its place in the table.
const SERIAL_BITS: u32 = 40;

/// Every client there is.
pub(crate) struct Clients {
    hub: Rc<Hub>,
    reactor: Handle,
    line_bytes_max: usize,
    state: RefCell<State>,
}

struct State {
    table: Slab<Client>,
    serial: u64,
    /// Where everybody's bytes are read to.
    buffer: Box<[u8]>,
    spare: Vec<Vec<u8>>,
    /// Those with something to write, or to be closed.
    dirty: Vec<usize>,
    partial_bytes: usize,
    counters: ClientCounters,
}

/// What the clients did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientCounters {
    pub(crate) reads: u64,
    pub(crate) bytes_in: u64,
    pub(crate) writes: u64,
    pub(crate) bytes_out: u64,
    pub(crate) refused: u64,
}

struct Client {
    id: ConnectionId,
    wire: Wire,
    door: u32,
    /// What must be passed before the kernel hears of this client.
    gate: Option<Rc<Gate>>,
    lines: LineCutter,
    out: Vec<u8>,
    /// How much of `out` is written.
    out_done: usize,
    dirty: bool,
    /// The kernel asked for no more.
    paused: bool,
    /// The client said that nothing more will come, or its door was closed.
    input_ended: bool,
    /// The peer does not read any more: what is written to it is thrown away.
    output_failed: bool,
    /// To be closed when everything is written.
    closing: bool,
    /// The last write did not take everything.
    full: bool,
    /// Its output was ended. What it still sends is thrown away until it ends too: closing before would take back what was written.
    hung_up: bool,
}

impl Client {
    fn interest(&self) -> Interest {
        let mut interest = Interest::empty();
        let reading = !self.paused && !self.input_ended && !self.closing;
        interest.set(Interest::READ, reading || self.hung_up);
        interest.set(Interest::WRITE, self.full);
        // A client that will send no more and waits for answers may still go away.
        interest.set(Interest::ERROR, self.input_ended && !self.full && self.wire.tells_hangups());
        interest
    }
}

impl Clients {
    pub(crate) fn new(hub: Rc<Hub>, reactor: Handle) -> Rc<Clients> {
        let limits = hub.with(|kernel, _| kernel.config().limits.clone());
        let read_bytes = limits
            .lane_messages_max
            .saturating_mul(MESSAGE_BYTES_MIN)
            .min(limits.lane_bytes_max)
            .clamp(MESSAGE_BYTES_MIN, READ_BYTES);
        let state = State {
            table: Slab::new(),
            serial: 0,
            buffer: vec![0; read_bytes].into_boxed_slice(),
            spare: Vec::new(),
            dirty: Vec::new(),
            partial_bytes: 0,
            counters: ClientCounters::default(),
        };
        Rc::new(Clients { hub, reactor, line_bytes_max: limits.line_bytes_max, state: RefCell::new(state) })
    }

    /// Lets a client in whose peer is known, or one that has to pass a gate first.
    pub(crate) fn open(self: &Rc<Clients>, wire: Wire, door: u32, entry: Entry<'_>) -> Option<ConnectionId> {
        let mut state = self.state.borrow_mut();
        let slot = state.table.vacant_key();
        if slot >= 1 << (u64::BITS - SERIAL_BITS) {
            state.counters.refused += 1;
            return None;
        }
        state.serial += 1;
        let serial = state.serial & ((1 << SERIAL_BITS) - 1);
        let id = ConnectionId((slot as u64) << SERIAL_BITS | serial);
        let gate = match &entry {
            Entry::Peer(_) => None,
            Entry::Gate(gate) => Some(Rc::clone(gate)),
        };
        let mut client = Client {
            id,
            wire,
            door,
            gate,
            lines: LineCutter::default(),
            out: Vec::new(),
            out_done: 0,
            dirty: false,
            paused: false,
            input_ended: false,
            output_failed: false,
            closing: false,
            full: false,
            hung_up: false,
        };
        if let Err(error) = self.watch(&mut client) {
            tracing::warn!("a client cannot be watched: {error}");
            state.counters.refused += 1;
            client.wire.unwatch(&self.reactor);
            return None;
        }
        state.table.insert(client);
        drop(state);
        match entry {
            Entry::Peer(peer) => self.hub.feed(|kernel, now| kernel.connection_opened(id, peer, now)),
            Entry::Gate(gate) => self.expire(id, gate.patience()),
        }
        Some(id)
    }

    /// Closes a client that has not passed its gate in time.
    fn expire(self: &Rc<Clients>, id: ConnectionId, patience: Duration) {
        let clients = Rc::clone(self);
        let timer = self.reactor.after(patience, move |_| {
            let mut state = clients.state.borrow_mut();
            if state.find(id).is_some_and(|client| client.gate.is_some()) {
                tracing::warn!("{id} sent no token in time");
                clients.remove(&mut state, slot_of(id));
            }
        });
        if timer.is_err() {
            self.remove(&mut self.state.borrow_mut(), slot_of(id));
        }
    }

    fn watch(self: &Rc<Clients>, client: &mut Client) -> Result<(), mainspring_reactor::Error> {
        let (id, interest) = (client.id, client.interest());
        client.wire.watch(&self.reactor, interest, || {
            let clients = Rc::clone(self);
            move |(), event| clients.ready(id, event.readiness())
        })
    }

    /// Watches for what the client waits for now. A client that cannot be watched is given up.
    fn update_interest(self: &Rc<Clients>, state: &mut State, slot: usize) {
        let Some(client) = state.table.get_mut(slot) else { return };
        if let Err(error) = self.watch(client) {
            tracing::warn!("{}: {error}", client.id);
            self.remove(state, slot);
        }
    }

    /// The loop says that something happened to a client.
    fn ready(self: &Rc<Clients>, id: ConnectionId, readiness: Readiness) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let Some(client) = state.find(id) else { return };
        let broken = readiness.intersects(Readiness::ERROR | Readiness::HANGUP);
        if client.full && (broken || readiness.contains(Readiness::WRITE)) {
            client.full = false;
            self.flush(state, slot_of(id));
        }
        let Some(client) = state.find(id) else { return };
        if client.interest().contains(Interest::READ) {
            self.read(state, slot_of(id));
        } else if broken && client.input_ended {
            self.remove(state, slot_of(id));
        }
    }

    fn read(self: &Rc<Clients>, state: &mut State, slot: usize) {
        let State { table, buffer, counters, partial_bytes, .. } = state;
        let Some(client) = table.get_mut(slot) else { return };
        let bytes = match client.wire.read(buffer) {
            Ok(0) if client.hung_up => return self.remove(state, slot),
            Ok(0) => return self.input_ended(state, slot),
            Ok(count) => &buffer[..count],
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => return self.remove(state, slot),
        };
        counters.reads += 1;
        counters.bytes_in += bytes.len() as u64;
        if client.hung_up {
            return;
        }
        let before = client.lines.held_bytes();
        if client.gate.is_some() {
            self.read_token(client, bytes);
        } else {
            self.ingest(client, bytes);
        }
        let held = client.lines.held_bytes();
        *partial_bytes = *partial_bytes + held - before;
        if *partial_bytes > PARTIAL_BYTES_MAX && held > before {
            tracing::warn!("{} closed: all clients together have begun too many long lines", client.id);
            self.refuse(client, Failure::Overloaded, "too many long lines have been begun");
        }
        if client.closing {
            mark_dirty(client, &mut state.dirty, slot);
        }
    }

    fn ingest(&self, client: &mut Client, bytes: &[u8]) {
        let id = client.id;
        self.hub.feed(|kernel, now| {
            client.lines.cut(bytes, self.line_bytes_max, |cut| match cut {
                Cut::Line(line) => kernel.ingest(id, line, now),
                Cut::TooLong => kernel.line_too_long(id, now),
            });
        });
    }

    /// The first line of a client that has to say who it is; what follows it is ingested as usual.
    fn read_token(&self, client: &mut Client, bytes: &[u8]) {
        let (head, rest) = match memchr::memchr(b'\n', bytes) {
            Some(at) => bytes.split_at(at + 1),
            None => (bytes, &[][..]),
        };
        let mut verdict = None;
        let Some(gate) = client.gate.clone() else { return };
        client.lines.cut(head, gate.line_bytes_max(), |cut| {
            verdict = Some(match cut {
                Cut::Line(line) => gate.admit(line).map(str::to_owned),
                Cut::TooLong => None,
            });
        });
        match verdict {
            None => {}
            Some(Some(peer)) => {
                client.gate = None;
                self.hub.feed(|kernel, now| kernel.connection_opened(client.id, &peer, now));
                self.ingest(client, rest);
            }
            Some(None) => {
                tracing::warn!("{} sent a wrong token", client.id);
                self.refuse(
                    client,
                    Failure::Forbidden,
                    "the first line must be {\"token\": \"...\"} with a valid token",
                );
            }
        }
    }

    /// Tells a client that the kernel does not know why it is closed.
    fn refuse(&self, client: &mut Client, failure: Failure, text: &str) {
        let line = self.hub.with(|_, now| super::refusal::line(failure, text, now.unix_ms));
        client.out.extend_from_slice(line.as_bytes());
        client.closing = true;
        self.hub.feed(|kernel, now| kernel.connection_closed(client.id, now));
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
        self.hub.feed(|kernel, now| {
            client.lines.finish(|cut| {
                if let Cut::Line(line) = cut {
                    kernel.ingest(id, line, now);
                }
            });
        });
        if client.wire.tells_hangups() {
            // Refusals of the last lines are on their way: the next flush decides.
            mark_dirty(client, &mut state.dirty, slot);
        } else {
            self.hub.feed(|kernel, now| kernel.adapter_ended(door, now));
        }
        self.update_interest(state, slot);
    }

    /// Buffers a line for a client.
    pub(crate) fn write(&self, id: ConnectionId, message: &Envelope) {
        let mut state = self.state.borrow_mut();
        let State { table, spare, dirty, .. } = &mut *state;
        let slot = slot_of(id);
        let Some(client) = table.get_mut(slot).filter(|client| client.id == id) else { return };
        if client.out.capacity() == 0
            && let Some(buffer) = spare.pop()
        {
            client.out = buffer;
        }
        client.out.extend_from_slice(message.line().as_bytes());
        client.out.push(b'\n');
        mark_dirty(client, dirty, slot);
    }

    /// Stops or resumes reading from a client.
    pub(crate) fn pause(self: &Rc<Clients>, id: ConnectionId, paused: bool) {
        let mut state = self.state.borrow_mut();
        if let Some(client) = state.find(id) {
            client.paused = paused;
            self.update_interest(&mut state, slot_of(id));
        }
    }

    /// Closes a client, after it was given what is left for it unless it is closed for not reading.
    pub(crate) fn close(self: &Rc<Clients>, id: ConnectionId, reason: CloseReason) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let slot = slot_of(id);
        let Some(client) = state.table.get_mut(slot).filter(|client| client.id == id) else { return };
        match reason {
            CloseReason::SlowReader | CloseReason::SlowSubscriber => return self.remove(state, slot),
            CloseReason::Full => self.refuse(client, Failure::Overloaded, "there are too many connections"),
            CloseReason::BadLines | CloseReason::Shutdown => {}
        }
        client.closing = true;
        mark_dirty(client, &mut state.dirty, slot);
    }

    /// Reads no more from the clients of a door.
    pub(crate) fn stop_reading(self: &Rc<Clients>, door: u32) {
        let mut state = self.state.borrow_mut();
        let slots: Vec<usize> =
            state.table.iter().filter(|(_, it)| it.door == door).map(|(slot, _)| slot).collect();
        for slot in slots {
            let Some(client) = state.table.get_mut(slot) else { continue };
            if client.gate.is_some() {
                self.remove(&mut state, slot);
                continue;
            }
            client.paused = true;
            self.update_interest(&mut state, slot);
        }
    }

    /// Writes to everyone for whom there is something.
    pub(crate) fn flush_dirty(self: &Rc<Clients>) {
        let mut state = self.state.borrow_mut();
        let mut dirty = std::mem::take(&mut state.dirty);
        for slot in dirty.drain(..) {
            if let Some(client) = state.table.get_mut(slot).filter(|client| client.dirty) {
                client.dirty = false;
                if !client.full {
                    self.flush(&mut state, slot);
                }
            }
        }
        // Nothing became dirty in the meantime: writing makes no lines.
        state.dirty = dirty;
    }

    fn flush(self: &Rc<Clients>, state: &mut State, slot: usize) {
        let Some(client) = state.table.get_mut(slot) else { return };
        let mut written = 0;
        while client.out_done < client.out.len() {
            if client.output_failed {
                written += client.out.len() - client.out_done;
                client.out_done = client.out.len();
                break;
            }
            state.counters.writes += 1;
            match client.wire.write(&client.out[client.out_done..]) {
                Ok(count) => {
                    client.out_done += count;
                    written += count;
                }
                Err(Errno::AGAIN) => {
                    client.full = true;
                    break;
                }
                Err(Errno::INTR) => {}
                Err(_) => client.output_failed = true,
            }
        }
        if client.output_failed && !client.wire.tells_hangups() && !client.input_ended {
            // Nobody hears the answers of a batch: there is no point in taking more of it.
            client.input_ended = true;
            self.hub.feed(|kernel, now| kernel.adapter_ended(client.door, now));
        }
        state.counters.bytes_out += written as u64;
        let id = client.id;
        if written > 0 {
            self.hub.feed(|kernel, now| kernel.written(id, written, now));
        }
        if client.full {
            trim(client);
            if client.closing {
                self.linger(id);
            }
            return self.update_interest(state, slot);
        }
        let buffer = std::mem::take(&mut client.out);
        client.out_done = 0;
        if state.spare.len() < SPARE_BUFFERS_MAX && (1..=SPARE_BUFFER_BYTES_MAX).contains(&buffer.capacity())
        {
            let mut buffer = buffer;
            buffer.clear();
            state.spare.push(buffer);
        }
        let done_with = client.closing
            || (client.input_ended
                && client.wire.tells_hangups()
                && !self.hub.with(|kernel, _| kernel.owes(id)));
        if client.closing && client.wire.resets() && !client.hung_up {
            client.hung_up = true;
            client.wire.end_output();
            self.linger(id);
        } else if done_with {
            return self.remove(state, slot);
        }
        self.update_interest(state, slot);
    }

    /// Gives a client that is being closed some time to read the rest.
    fn linger(self: &Rc<Clients>, id: ConnectionId) {
        let clients = Rc::clone(self);
        let _ = self.reactor.after(LINGER, move |_| {
            let mut state = clients.state.borrow_mut();
            if state.find(id).is_some() {
                clients.remove(&mut state, slot_of(id));
            }
        });
    }

    /// Lets go of a client, and tells the kernel.
    fn remove(&self, state: &mut State, slot: usize) {
        let Some(mut client) = state.table.try_remove(slot) else { return };
        state.partial_bytes -= client.lines.held_bytes();
        client.wire.unwatch(&self.reactor);
        client.wire.end_output();
        self.hub.feed(|kernel, now| kernel.connection_closed(client.id, now));
        if !client.wire.tells_hangups() {
            self.hub.feed(|kernel, now| kernel.adapter_ended(client.door, now));
        }
    }

    /// How many there are, and what they did.
    pub(crate) fn counters(&self) -> (usize, ClientCounters) {
        let state = self.state.borrow();
        (state.table.len(), state.counters)
    }
}

/// How a client comes in.
pub(crate) enum Entry<'a> {
    /// Known from the start.
    Peer(&'a str),
    /// It has to say who it is.
    Gate(Rc<Gate>),
}

impl State {
    fn find(&mut self, id: ConnectionId) -> Option<&mut Client> {
        self.table.get_mut(slot_of(id)).filter(|client| client.id == id)
    }
}

fn slot_of(id: ConnectionId) -> usize {
    (id.0 >> SERIAL_BITS) as usize
}

fn mark_dirty(client: &mut Client, dirty: &mut Vec<usize>, slot: usize) {
    if !client.dirty {
        client.dirty = true;
        dirty.push(slot);
    }
}

/// Forgets what is written, once that is most of the buffer.
fn trim(client: &mut Client) {
    if client.out_done > client.out.len() / 2 {
        client.out.drain(..client.out_done);
        client.out_done = 0;
    }
}
