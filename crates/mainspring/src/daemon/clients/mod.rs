//! The clients: bytes in, lines to the kernel, lines back, one write per client and turn of the
//! daemon.
//!
//! - `client`: one client, as a state machine; `table`: all of them, and who is to be read and
//!   written next.
//! - `gate`, `gates`: tokens, and clients that have not sent theirs yet.
//! - `reading`, `writing`, `closing`: what is done with them; `refusal`: what those are told whom
//!   the kernel does not know.
//! - `http_bus`: clients by HTTP, which have an inbox and no socket; `console_sessions`: who has
//!   the console open.
//!
//! The transport brings clients in, the pump has them read and written; nobody else touches them.
//! Telemetry is a client of the `http_bus`: it taps the daemon as any reader does.

mod client;
mod closing;
pub(super) mod console_sessions;
pub(super) mod gate;
mod gates;
pub(super) mod http_bus;
mod reading;
pub(super) mod refusal;
mod table;
mod writing;

use crate::daemon::clients::gate::Gate;
use crate::daemon::kernel_cell::KernelCell;
use crate::daemon::operator::throttle::Throttle;
use crate::daemon::transport::wire::Wire;
use client::ConnectedClient;
use mainspring_kernel::{ConnectionId, Rights};
use mainspring_reactor::{Handle, Readiness};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
pub(crate) use table::ClientCounters;
use table::{ClientTable, SLOTS_MAX, slot_of};

/// Bytes that all clients together may have sent of lines without an end, or a quarter of
/// `limits.memory_bytes_max` if that is less. Beyond: whoever has begun the longest line is closed.
const PARTIAL_BYTES_MAX: usize = 256 << 20;
/// Warnings per second about clients at the gates, and about all others: nobody fills the log, and
/// no stranger hides what is said about the others. Beyond: they are left out, and counted.
const WARNINGS_PER_SECOND_MAX: u32 = 10;

/// Every client there is.
pub(crate) struct Clients {
    kernel_cell: Rc<KernelCell>,
    reactor: Handle,
    line_bytes_max: usize,
    partial_bytes_max: usize,
    table: RefCell<ClientTable>,
    /// Whether a batch could not be read, or answered, to its end.
    batch_failed: Cell<bool>,
    /// What is logged about clients that have not said who they are.
    stranger_warnings: Throttle,
    /// What is logged about all others.
    client_warnings: Throttle,
}

/// Who a new client is.
pub(crate) enum Identity<'a> {
    /// It is this peer, and nobody else could be.
    Known(&'a str),
    /// It has to say who it is.
    ByToken(Rc<Gate>),
}

impl Clients {
    pub(crate) fn new(kernel_cell: Rc<KernelCell>, reactor: Handle) -> Rc<Clients> {
        let limits = kernel_cell.with(|kernel, _| kernel.config().limits.clone());
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
            table: RefCell::new(ClientTable::new(reading::buffer_bytes(&limits))),
        })
    }

    /// Takes a new client on.
    pub(crate) fn open(
        self: &Rc<Clients>,
        wire: Wire,
        adapter: u32,
        identity: Identity<'_>,
    ) -> Option<ConnectionId> {
        let mut table = self.table.borrow_mut();
        let is_crowded = matches!(identity, Identity::ByToken(_)) && !self.make_room_at_gates(&mut table);
        if is_crowded || table.slots.vacant_key() >= SLOTS_MAX {
            table.counters.refused += 1;
            self.say_it_is_crowded(&wire);
            return None;
        }
        let id = table.next_id();
        let gate = match &identity {
            Identity::Known(_) => None,
            Identity::ByToken(gate) => Some(Rc::clone(gate)),
        };
        let mut client = ConnectedClient::new(id, wire, adapter, gate, &self.reactor);
        if let Err(error) = self.watch(&mut client) {
            self.warn(format_args!("a client cannot be watched: {error}"));
            table.counters.refused += 1;
            client.wire.unwatch(&self.reactor);
            return None;
        }
        if client.is_at_gate() {
            table.gates.arrive(id);
        }
        table.slots.insert(client);
        drop(table);
        tracing::debug!("{id} opened");
        match identity {
            // Whoever needs no token is the user whose daemon this is, and may read its log as
            // well.
            Identity::Known(peer) => self.kernel_cell.feed(|kernel, now| {
                kernel.connection_opened(id, peer, now);
                kernel.connection_has(id, Rights::of_operator(), now);
            }),
            Identity::ByToken(gate) => self.expire(id, gate.token_timeout()),
        }
        Some(id)
    }

    fn watch(self: &Rc<Clients>, client: &mut ConnectedClient) -> Result<(), mainspring_reactor::Error> {
        let (id, interest) = (client.id, client.interest());
        client.wire.watch(&self.reactor, interest, || {
            let clients = Rc::clone(self);
            move |(), event| clients.ready(id, event.readiness())
        })
    }

    /// Watches for what the client waits for now. A client that cannot be watched is given up.
    fn update_interest(self: &Rc<Clients>, table: &mut ClientTable, slot: usize) {
        let Some(client) = table.slots.get_mut(slot) else { return };
        if let Err(error) = self.watch(client) {
            self.warn(format_args!("{}: {error}", client.id));
            self.remove(table, slot);
        }
    }

    /// The reactor says that something happened to a client.
    fn ready(self: &Rc<Clients>, id: ConnectionId, readiness: Readiness) {
        let mut table = self.table.borrow_mut();
        let table = &mut *table;
        let Some(client) = table.find(id) else { return };
        if client.can_go_on(readiness) {
            self.flush(table, slot_of(id));
        }
        let Some(client) = table.find(id) else { return };
        client.note(readiness);
        if client.wants_to_queue() {
            client.is_queued = true;
            table.readable.push_back(id);
        } else if client.is_gone(readiness) {
            self.remove(table, slot_of(id));
        }
    }

    /// Bytes that are held for clients and that the kernel does not count: begun lines, and what is
    /// left for those who are being closed.
    pub(crate) fn outside_bytes(&self) -> usize {
        let table = self.table.borrow();
        table.partial_bytes + table.closing_bytes
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
        let table = self.table.borrow();
        (table.slots.len(), table.counters)
    }
}
