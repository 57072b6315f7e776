//! Clients by HTTP, as the kernel sees them: connections like any other, whose messages go into an
//! inbox instead of a socket.

use crate::client::fresh_id;
use crate::daemon::kernel_cell::KernelCell;
use mainspring_http::{Bus, Closed, Health, Inbox, Link, Peer};
use mainspring_kernel::{CloseReason, ConnectionId, Rights};
use mainspring_message::Envelope;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Connections of HTTP have numbers of their own: those of sockets never reach this bit.
const HTTP_BIT: u64 = 1 << 63;

/// The kernel as the HTTP server reaches it.
pub(crate) struct HttpBus {
    kernel_cell: Rc<KernelCell>,
    inboxes: RefCell<HashMap<u64, Rc<Inbox>, foldhash::fast::FixedState>>,
    serial: Cell<u64>,
    /// Makes ids differ from those of any other run.
    id_prefix: String,
    line_bytes_max: usize,
    /// What peers may do, by the tags that they have.
    rights: RefCell<Vec<Rights>>,
    /// Connections that the kernel does not know any more, and others do not know of that yet.
    gone: RefCell<Vec<ConnectionId>>,
    ready: Cell<bool>,
    stopping: Cell<bool>,
}

impl HttpBus {
    pub(crate) fn new(kernel_cell: Rc<KernelCell>) -> Rc<HttpBus> {
        let line_bytes_max = kernel_cell.with(|kernel, _| kernel.config().limits.line_bytes_max);
        Rc::new(HttpBus {
            kernel_cell,
            inboxes: RefCell::default(),
            serial: Cell::new(0),
            id_prefix: fresh_id(),
            line_bytes_max,
            rights: RefCell::default(),
            gone: RefCell::default(),
            ready: Cell::new(false),
            stopping: Cell::new(false),
        })
    }

    /// A peer of this name that may do this.
    pub(crate) fn peer(&self, name: String, rights: Rights) -> Peer {
        let mut all = self.rights.borrow_mut();
        all.push(rights);
        Peer { name, tag: all.len() - 1 }
    }

    fn next_serial(&self) -> u64 {
        let serial = self.serial.get() + 1;
        self.serial.set(serial);
        serial
    }

    /// Whether a connection came by HTTP.
    pub(crate) fn has(id: ConnectionId) -> bool {
        id.0 & HTTP_BIT != 0
    }

    pub(crate) fn line_bytes_max(&self) -> usize {
        self.line_bytes_max
    }

    /// The boot is complete.
    pub(crate) fn set_ready(&self) {
        self.ready.set(true);
    }

    /// The shutdown has begun.
    pub(crate) fn set_stopping(&self) {
        self.stopping.set(true);
    }

    /// Hands a message to a client. One that has gone meanwhile has read it, as far as the kernel
    /// is concerned.
    pub(crate) fn write(&self, id: ConnectionId, message: &Envelope) {
        match self.inboxes.borrow().get(&id.0) {
            Some(inbox) => inbox.push(message.clone()),
            None => self.kernel_cell.feed(|kernel, now| kernel.written(id, message.line().len() + 1, now)),
        }
    }

    /// Those that have gone since this was last asked.
    pub(crate) fn take_gone(&self, into: &mut Vec<ConnectionId>) {
        into.append(&mut self.gone.borrow_mut());
    }

    pub(crate) fn pause(&self, id: ConnectionId, paused: bool) {
        if let Some(inbox) = self.inboxes.borrow().get(&id.0) {
            inbox.pause(paused);
        }
    }

    pub(crate) fn close_by_kernel(&self, id: ConnectionId, reason: CloseReason) {
        if let Some(inbox) = self.inboxes.borrow().get(&id.0) {
            inbox.close(Closed(reason.to_string()));
        }
    }
}

impl Bus for HttpBus {
    fn open(&self, peer: &Peer, inbox: &Rc<Inbox>) -> Option<Link> {
        if self.stopping.get() {
            return None;
        }
        let id = ConnectionId(HTTP_BIT | self.next_serial());
        // A tag of nobody may do nothing.
        let rights = self.rights.borrow().get(peer.tag).cloned()?;
        self.inboxes.borrow_mut().insert(id.0, Rc::clone(inbox));
        self.kernel_cell.feed(|kernel, now| {
            kernel.connection_opened(id, &peer.name, now);
            kernel.connection_has(id, rights, now);
        });
        Some(Link(id.0))
    }

    fn send(&self, link: Link, line: &[u8]) {
        self.kernel_cell.feed(|kernel, now| kernel.ingest(ConnectionId(link.0), line, now));
    }

    fn written(&self, link: Link, bytes: usize) {
        self.kernel_cell.feed(|kernel, now| kernel.written(ConnectionId(link.0), bytes, now));
    }

    fn owes(&self, link: Link) -> bool {
        self.kernel_cell.with(|kernel, _| kernel.owes(ConnectionId(link.0)))
    }

    fn close(&self, link: Link) {
        if self.inboxes.borrow_mut().remove(&link.0).is_some() {
            self.gone.borrow_mut().push(ConnectionId(link.0));
            self.kernel_cell.feed(|kernel, now| kernel.connection_closed(ConnectionId(link.0), now));
        }
    }

    fn health(&self) -> Health {
        let check = |ok: bool, text: &str| if ok { Ok(()) } else { Err(text.to_owned()) };
        let checks = vec![
            ("boot".to_owned(), check(self.ready.get(), "the daemon is still starting")),
            ("running".to_owned(), check(!self.stopping.get(), "the daemon is shutting down")),
        ];
        Health { checks }
    }

    fn unix_ms(&self) -> u64 {
        self.kernel_cell.now().unix_ms
    }

    fn new_id(&self) -> String {
        // Every request without a key gets one, so it is written without the machinery of
        // formatting.
        let mut id = String::with_capacity(self.id_prefix.len() + 17);
        id.push_str(&self.id_prefix);
        id.push('-');
        let serial = self.next_serial();
        let digits = (u64::BITS - serial.leading_zeros()).div_ceil(4).max(1);
        for at in (0..digits).rev() {
            let digit = (serial >> (4 * at)) as u8 & 15;
            id.push(char::from(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }));
        }
        id
    }
}
