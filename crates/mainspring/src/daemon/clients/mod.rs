//! The clients: bytes in, lines to the kernel, lines back, one write per client and turn of the loop.

mod client;
pub(super) mod gate;
pub(super) mod http_bus;
mod outgoing;
mod reading;
pub(super) mod refusal;

use crate::daemon::clients::gate::Gate;
use crate::daemon::kernel_cell::KernelCell;
use crate::daemon::operator::throttle::Throttle;
use crate::daemon::transport::wire::Wire;
use client::{Client, Dirty};
use mainspring_kernel::{CloseReason, ConnectionId};
use mainspring_message::{Envelope, Failure, Kind};
use mainspring_reactor::{Handle, Instant, Interest, Readiness};
use rustix::io::Errno;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// Bytes read at a time. Few enough that a client with many requests under way reads the first answers, and sends more,
/// while the rest is being worked on: with all of them in one go, client and daemon would take turns.
const READ_BYTES: usize = 5 << 10;
/// The same while others wait to be read: then there is always somebody who works, and fewer reads and writes are better.
const READ_IN_TURN_BYTES: usize = 10 << 10;
/// The same for a client in the middle of a long line.
const READ_LONG_BYTES: usize = 64 << 10;
/// Bytes read from all clients together before the kernel has worked on them: what it works on should stay in the cache.
const READ_TOGETHER_BYTES: usize = 32 << 10;
/// No message is shorter than this, so a read brings at most as many as a sender may have waiting.
const MESSAGE_BYTES_MIN: usize = 64;
/// Buffers kept for the next writes, and how large each may be.
const SPARE_BUFFERS_MAX: usize = 16;
const SPARE_BUFFER_BYTES_MAX: usize = 256 << 10;
/// How long a client that is being closed may take to read what is left for it.
const LINGER: Duration = Duration::from_secs(5);
/// Bytes that all clients together may have sent of lines without an end, or a quarter of `limits.memory_bytes_max` if that
/// is less. Beyond: whoever has begun the longest line is closed.
const PARTIAL_BYTES_MAX: usize = 256 << 20;
/// What the end of a client's input counts for among the bytes that are read per turn: it costs as much time.
const END_BYTES: u64 = 1 << 10;
/// Clients that are written to between two looks at the clock.
const WRITES_BETWEEN_LOOKS: usize = 16;
/// Clients that have not said who they are yet. Beyond: the one that has waited longest is told (503) and closed, so that strangers do
/// not keep anybody out.
const AT_GATES_MAX: usize = 1024;
/// Warnings per second about those clients, and about all others: nobody fills the log, and no stranger hides what is said about
/// the others. Beyond: they are left out, and counted.
const WARNINGS_PER_SECOND_MAX: u32 = 10;
/// Bits of a connection's number that count; the rest is its place in the table.
const SERIAL_BITS: u32 = 40;

/// Every client there is.
pub(crate) struct Clients {
    kernel_cell: Rc<KernelCell>,
    reactor: Handle,
    line_bytes_max: usize,
    partial_bytes_max: usize,
    state: RefCell<State>,
    /// Whether a batch could not be read, or answered, to its end.
    batch_failed: Cell<bool>,
    /// What is logged about clients that have not said who they are.
    stranger_warnings: Throttle,
    /// What is logged about all others.
    client_warnings: Throttle,
}

struct State {
    table: Slab<Client>,
    serial: u64,
    /// Where everybody's bytes are read to.
    buffer: Box<[u8]>,
    spare: Vec<Vec<u8>>,
    /// Those with something to write, or to be closed.
    dirty: VecDeque<usize>,
    /// Those with events to write and nothing else.
    dirty_events: VecDeque<usize>,
    /// Bytes that were buffered since everybody was written to.
    unflushed: usize,
    /// Bytes for clients that the kernel does not know any more.
    closing_bytes: usize,
    /// Those who have sent something, in the order in which they are to be read.
    readable: VecDeque<ConnectionId>,
    partial_bytes: usize,
    /// Inputs that have ended.
    ends: u64,
    /// Clients that have not passed their gate.
    at_gates: usize,
    /// The same, longest first; and others that are gone or have passed.
    gate_queue: VecDeque<ConnectionId>,
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

impl Clients {
    pub(crate) fn new(kernel_cell: Rc<KernelCell>, reactor: Handle) -> Rc<Clients> {
        let limits = kernel_cell.with(|kernel, _| kernel.config().limits.clone());
        let read_bytes = limits
            .lane_messages_max
            .saturating_mul(MESSAGE_BYTES_MIN)
            .min(limits.lane_bytes_max)
            .clamp(MESSAGE_BYTES_MIN, READ_LONG_BYTES);
        let state = State {
            table: Slab::new(),
            serial: 0,
            buffer: vec![0; read_bytes].into_boxed_slice(),
            spare: Vec::new(),
            dirty: VecDeque::new(),
            dirty_events: VecDeque::new(),
            unflushed: 0,
            closing_bytes: 0,
            readable: VecDeque::new(),
            partial_bytes: 0,
            ends: 0,
            at_gates: 0,
            gate_queue: VecDeque::new(),
            counters: ClientCounters::default(),
        };
        Rc::new(Clients {
            stranger_warnings: Throttle::new(&reactor, WARNINGS_PER_SECOND_MAX, |count| {
                tracing::warn!("({count} more clients without a valid token)");
            }),
            client_warnings: Throttle::new(&reactor, WARNINGS_PER_SECOND_MAX, |count| {
                tracing::warn!("({count} more warnings about clients)");
            }),
            kernel_cell,
            reactor,
            line_bytes_max: limits.line_bytes_max,
            partial_bytes_max: match limits.memory_bytes_max {
                0 => PARTIAL_BYTES_MAX,
                bytes => PARTIAL_BYTES_MAX.min(bytes / 4),
            },
            batch_failed: Cell::new(false),
            state: RefCell::new(state),
        })
    }

    /// Lets a client in whose peer is known, or one that has to pass a gate first.
    pub(crate) fn open(self: &Rc<Clients>, wire: Wire, door: u32, entry: Entry<'_>) -> Option<ConnectionId> {
        let mut state = self.state.borrow_mut();
        let crowded = matches!(entry, Entry::Gate(_)) && !self.make_room_at_gates(&mut state);
        let slot = state.table.vacant_key();
        if crowded || slot >= 1 << (u64::BITS - 1 - SERIAL_BITS) {
            state.counters.refused += 1;
            self.say_it_is_crowded(&wire);
            return None;
        }
        state.serial += 1;
        let serial = state.serial & ((1 << SERIAL_BITS) - 1);
        let id = ConnectionId((slot as u64) << SERIAL_BITS | serial);
        let gate = match &entry {
            Entry::Peer(_) => None,
            Entry::Gate(gate) => Some(Rc::clone(gate)),
        };
        let mut client = Client::new(id, wire, door, gate);
        if let Err(error) = self.watch(&mut client) {
            self.warn(format_args!("a client cannot be watched: {error}"));
            state.counters.refused += 1;
            client.wire.unwatch(&self.reactor);
            return None;
        }
        if client.gate.is_some() {
            state.at_gates += 1;
            state.gate_queue.push_back(id);
        }
        state.table.insert(client);
        drop(state);
        tracing::debug!("{id} opened");
        match entry {
            // Whoever needs no token is the user whose daemon this is, and may read its log as well.
            Entry::Peer(peer) => self.kernel_cell.feed(|kernel, now| {
                kernel.connection_opened(id, peer, now);
                kernel.connection_is_operators(id, now);
            }),
            Entry::Gate(gate) => self.expire(id, gate.patience()),
        }
        Some(id)
    }

    /// Whether one more may stand at a gate: there is room, or somebody who stands there and has said nothing lately can be sent away.
    pub(crate) fn has_room_at_gates(&self) -> bool {
        let mut state = self.state.borrow_mut();
        state.at_gates < AT_GATES_MAX || state.find_idle_at_gates()
    }

    /// Sends away whoever has stood at a gate for longest, if there are too many. Returns whether one more may stand there.
    fn make_room_at_gates(&self, state: &mut State) -> bool {
        // Those who passed or left are still in the queue.
        if state.gate_queue.len() >= 2 * AT_GATES_MAX {
            let State { table, gate_queue, .. } = &mut *state;
            let stands_there = |id: ConnectionId| {
                table.get(slot_of(id)).is_some_and(|client| client.id == id && client.gate.is_some())
            };
            gate_queue.retain(|id| stands_there(*id));
        }
        if state.at_gates < AT_GATES_MAX {
            return true;
        }
        if !state.find_idle_at_gates() {
            return false;
        }
        let Some(id) = state.gate_queue.pop_front() else { return false };
        let Some(client) = state.find(id) else { return false };
        if !client.closing {
            self.say_it_is_crowded(&client.wire);
        }
        state.counters.refused += 1;
        self.warn_of_stranger(format_args!("{id} sent no token, and made room for others"));
        self.remove(state, slot_of(id));
        true
    }

    fn say_it_is_crowded(&self, wire: &Wire) {
        let text = "too many clients have not sent their token yet; try again later";
        let line =
            crate::daemon::clients::refusal::line(Failure::Overloaded, text, self.kernel_cell.now().unix_ms);
        // A socket that nothing was written to has room for that much; if not, it is closed all the same.
        let _ = wire.write(line.as_bytes());
    }

    /// Closes a client that has not passed its gate in time.
    fn expire(self: &Rc<Clients>, id: ConnectionId, patience: Duration) {
        let clients = Rc::clone(self);
        let timer = self.reactor.after(patience, move |_| {
            let mut state = clients.state.borrow_mut();
            let State { table, dirty, .. } = &mut *state;
            let slot = slot_of(id);
            let late = |client: &&mut Client| client.id == id && client.gate.is_some() && !client.closing;
            let Some(client) = table.get_mut(slot).filter(late) else { return };
            clients.warn_of_stranger(format_args!("{id} sent no token in time"));
            clients.refuse(
                client,
                Failure::Forbidden,
                "no token came in time; {\"token\": \"...\"} is the first line",
            );
            if client.mark_dirty() {
                dirty.push_back(slot);
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
            self.warn(format_args!("{}: {error}", client.id));
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
            if !std::mem::replace(&mut client.queued, true) {
                state.readable.push_back(id);
            }
        } else if broken && client.input_ended {
            self.remove(state, slot_of(id));
        }
    }

    /// Whether somebody is to be read.
    pub(crate) fn has_readable(&self) -> bool {
        !self.state.borrow().readable.is_empty()
    }

    /// Reads from some of those who have sent something, each once.
    pub(crate) fn read_some(self: &Rc<Clients>) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let until = state.read_work() + READ_TOGETHER_BYTES as u64;
        for _ in 0..state.readable.len() {
            if state.read_work() >= until {
                return;
            }
            let Some(id) = state.readable.pop_front() else { return };
            let Some(client) = state.find(id) else { continue };
            client.queued = false;
            if client.interest().contains(Interest::READ) {
                self.read(state, slot_of(id));
            }
        }
    }

    /// Buffers a line for a client.
    pub(crate) fn write(&self, id: ConnectionId, message: &Envelope) {
        let mut state = self.state.borrow_mut();
        let State { table, spare, dirty, dirty_events, unflushed, .. } = &mut *state;
        let slot = slot_of(id);
        let Some(client) = table.get_mut(slot).filter(|client| client.id == id) else { return };
        if client.out.wants_buffer()
            && let Some(buffer) = spare.pop()
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

    /// Bytes that were buffered since everybody was written to.
    pub(crate) fn unflushed_bytes(&self) -> usize {
        self.state.borrow().unflushed
    }

    /// Whether somebody is still to be written to.
    pub(crate) fn has_dirty(&self) -> bool {
        let state = self.state.borrow();
        !state.dirty.is_empty() || !state.dirty_events.is_empty()
    }

    /// Bytes that are held for clients and that the kernel does not count: begun lines, and what is left for those who are
    /// being closed.
    pub(crate) fn outside_bytes(&self) -> usize {
        let state = self.state.borrow();
        state.partial_bytes + state.closing_bytes
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
        if reason != CloseReason::Shutdown {
            self.warn(format_args!("{id} closed: {reason}"));
        }
        match reason {
            CloseReason::SlowReader | CloseReason::SlowSubscriber => return self.remove(state, slot),
            CloseReason::Memory => {
                // What makes it an offender goes; what it is in the middle of reading stays a message.
                client.out.keep_begun_line();
                let text = "the daemon's memory is used up (limits.memory_bytes_max), and this connection has most of it";
                self.refuse(client, Failure::Overloaded, text);
            }
            CloseReason::Full => self.refuse(client, Failure::Overloaded, "there are too many connections"),
            // What follows the bad lines of a batch is not served.
            CloseReason::BadLines if !client.wire.tells_hangups() => self.batch_failed.set(true),
            CloseReason::BadLines | CloseReason::Shutdown => {}
        }
        client.closing = true;
        state.closing_bytes += client.out.len();
        if client.mark_dirty() {
            state.dirty.push_back(slot);
        }
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
            client.door_closed = true;
            self.update_interest(&mut state, slot);
        }
    }

    /// Writes to everyone for whom there is something, those who wait for answers first, until the time is up. Whoever is
    /// left is written to in the next turn.
    pub(crate) fn flush_dirty(self: &Rc<Clients>, until: Option<Instant>) {
        let mut state = self.state.borrow_mut();
        state.unflushed = 0;
        let mut writes = 0;
        loop {
            let Some(slot) = state.dirty.pop_front().or_else(|| state.dirty_events.pop_front()) else {
                return;
            };
            self.flush_if_dirty(&mut state, slot);
            writes += 1;
            if writes % WRITES_BETWEEN_LOOKS == 0 && until.is_some_and(|until| self.reactor.now() >= until) {
                return;
            }
        }
    }

    fn flush_if_dirty(self: &Rc<Clients>, state: &mut State, slot: usize) {
        let Some(client) = state.table.get_mut(slot).filter(|client| client.dirty != Dirty::No) else {
            return;
        };
        client.dirty = Dirty::No;
        if !client.full {
            self.flush(state, slot);
        } else if client.closing {
            self.linger(client);
        }
    }

    fn flush(self: &Rc<Clients>, state: &mut State, slot: usize) {
        let Some(client) = state.table.get_mut(slot) else { return };
        state.counters.writes += u64::from(!client.out.is_empty());
        let written = client.write();
        if client.closing {
            state.closing_bytes = state.closing_bytes.saturating_sub(written);
        }
        if let Some(error) = client.output_failed
            && !client.wire.tells_hangups()
        {
            // That nobody wants to hear more is no failure: `| head` is a use.
            if error != Errno::PIPE && !self.batch_failed.replace(true) {
                tracing::error!("standard output cannot be written to: {error}");
            }
            if !std::mem::replace(&mut client.input_ended, true) {
                // Nobody hears the answers of a batch: there is no point in taking more of it.
                self.kernel_cell.feed(|kernel, now| kernel.adapter_ended(client.door, now));
            }
        }
        state.counters.bytes_out += written as u64;
        let id = client.id;
        if written > 0 {
            self.kernel_cell.feed(|kernel, now| kernel.written(id, written, now));
        }
        if client.full {
            client.out.trim();
            if client.closing {
                self.linger(client);
            }
            return self.update_interest(state, slot);
        }
        let buffer = client.out.take_buffer();
        if state.spare.len() < SPARE_BUFFERS_MAX && (1..=SPARE_BUFFER_BYTES_MAX).contains(&buffer.capacity())
        {
            state.spare.push(buffer);
        }
        let done_with = client.closing
            || (client.input_ended
                && client.wire.tells_hangups()
                && !self.kernel_cell.with(|kernel, _| kernel.owes(id)));
        if done_with {
            return self.remove(state, slot);
        }
        self.update_interest(state, slot);
    }

    /// Gives a client that is being closed some time to read the rest.
    fn linger(self: &Rc<Clients>, client: &mut Client) {
        if std::mem::replace(&mut client.lingers, true) {
            return;
        }
        let (clients, id) = (Rc::clone(self), client.id);
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
        if client.closing {
            state.closing_bytes = state.closing_bytes.saturating_sub(client.out.len());
        }
        state.at_gates -= usize::from(client.gate.is_some());
        tracing::debug!("{} closed", client.id);
        client.wire.unwatch(&self.reactor);
        client.wire.end_output();
        self.kernel_cell.feed(|kernel, now| kernel.connection_closed(client.id, now));
        if !client.wire.tells_hangups() {
            self.kernel_cell.feed(|kernel, now| kernel.adapter_ended(client.door, now));
        }
    }

    /// Logs something about a client.
    fn warn(&self, text: fmt::Arguments<'_>) {
        self.client_warnings.line(self.reactor.now(), || tracing::warn!("{text}"));
    }

    /// Logs something about a client that has not said who it is.
    fn warn_of_stranger(&self, text: fmt::Arguments<'_>) {
        self.stranger_warnings.line(self.reactor.now(), || tracing::warn!("{text}"));
    }

    /// Writes what can still be written, and tells which warnings were left out.
    pub(crate) fn end(self: &Rc<Clients>) {
        self.flush_dirty(None);
        self.stranger_warnings.finish();
        self.client_warnings.finish();
    }

    /// Whether a batch could not be read, or answered, to its end.
    pub(crate) fn batch_failed(&self) -> bool {
        self.batch_failed.get()
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
    /// Brings whoever has stood at a gate for longest, and has sent nothing that is yet to be read, to the front of the queue. False if there
    /// is nobody like that: then those who are there are to be read first.
    fn find_idle_at_gates(&mut self) -> bool {
        for _ in 0..self.gate_queue.len() {
            let Some(id) = self.gate_queue.pop_front() else { return false };
            match self.find(id) {
                Some(client) if client.gate.is_some() && client.queued => self.gate_queue.push_back(id),
                Some(client) if client.gate.is_some() => {
                    self.gate_queue.push_front(id);
                    return true;
                }
                // It has passed, or is gone.
                _ => {}
            }
        }
        false
    }

    /// What has been read, with what the ends of inputs count for.
    fn read_work(&self) -> u64 {
        self.counters.bytes_in + self.ends * END_BYTES
    }

    fn find(&mut self, id: ConnectionId) -> Option<&mut Client> {
        self.table.get_mut(slot_of(id)).filter(|client| client.id == id)
    }
}

fn slot_of(id: ConnectionId) -> usize {
    (id.0 >> SERIAL_BITS) as usize
}
