//! The server: sockets come in, each becomes a task; strangers make room for others, and all end
//! together.

use crate::access::Access;
use crate::bus::Bus;
use crate::console::Sessions;
use crate::limits::Limits;
use crate::wire::connection;
use crate::wire::tls::Tls;
use mainspring_reactor::Handle;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::task::Waker;

/// What a server is told.
pub struct Options {
    /// Who may ask.
    pub access: Access,
    /// What clients may use.
    pub limits: Limits,
    /// Encryption; without it, bytes travel as they are.
    pub tls: Option<Tls>,
    /// What the documents say about the server: its version.
    pub version: String,
    /// The sessions of the console; without them there is no page.
    pub sessions: Option<Rc<dyn Sessions>>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("access", &self.access)
            .field("limits", &self.limits)
            .field("version", &self.version)
            .field("console", &self.sessions.is_some())
            .finish_non_exhaustive()
    }
}

/// Serves HTTP on sockets that somebody else accepts.
pub struct Server {
    shared: Rc<Shared>,
}

/// What every connection of a server shares.
pub(crate) struct Shared {
    pub(crate) reactor: Handle,
    pub(crate) bus: Rc<dyn Bus>,
    pub(crate) options: Options,
    pub(crate) streams: Cell<usize>,
    connections: RefCell<Vec<Weak<Control>>>,
    open: Cell<usize>,
    /// Those that have shown no token, oldest first; and others that have, or are gone.
    strangers: RefCell<VecDeque<Weak<Control>>>,
    strangers_open: Cell<usize>,
    stopping: Cell<bool>,
}

/// What others may do to a connection.
#[derive(Default)]
pub(crate) struct Control {
    known: Cell<bool>,
    pub(crate) evicted: Cell<bool>,
    pub(crate) stopping: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Control {
    pub(crate) fn set_waker(&self, waker: &Waker) {
        let mut current = self.waker.borrow_mut();
        match &mut *current {
            Some(current) => current.clone_from(waker),
            None => *current = Some(waker.clone()),
        }
    }

    fn wake(&self) {
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A connection's place in the server; dropping it leaves.
pub(crate) struct Place {
    pub(crate) shared: Rc<Shared>,
    pub(crate) control: Rc<Control>,
}

impl Place {
    /// The connection has shown a valid token.
    pub(crate) fn is_known(&self) {
        if !self.control.known.replace(true) {
            self.shared.strangers_open.set(self.shared.strangers_open.get() - 1);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.is_known();
        self.shared.open.set(self.shared.open.get() - 1);
    }
}

impl Server {
    /// A server that sends what it is asked to `bus`.
    pub fn new(reactor: &Handle, bus: Rc<dyn Bus>, options: Options) -> Server {
        let shared = Shared {
            reactor: reactor.clone(),
            bus,
            options,
            streams: Cell::new(0),
            connections: RefCell::default(),
            open: Cell::new(0),
            strangers: RefCell::default(),
            strangers_open: Cell::new(0),
            stopping: Cell::new(false),
        };
        Server { shared: Rc::new(shared) }
    }

    /// Serves a socket, which must not block.
    ///
    /// # Errors
    /// When the reactor cannot take it.
    pub fn welcome(&self, socket: OwnedFd) -> std::io::Result<()> {
        let shared = &self.shared;
        if shared.stopping.get() {
            return Ok(());
        }
        let control = Rc::<Control>::default();
        shared.make_room();
        shared.open.set(shared.open.get() + 1);
        shared.strangers_open.set(shared.strangers_open.get() + 1);
        shared.strangers.borrow_mut().push_back(Rc::downgrade(&control));
        shared.remember(&control);
        let place = Place { shared: Rc::clone(shared), control };
        let task = connection::serve(place, socket)?;
        drop(shared.reactor.spawn(task).map_err(std::io::Error::other)?);
        Ok(())
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.open.get()
    }

    /// Finishes: idle connections are closed, running requests are answered first, and nothing new
    /// is served.
    pub fn stop(&self) {
        self.shared.stopping.set(true);
        for control in self.shared.connections.borrow_mut().drain(..).filter_map(|weak| weak.upgrade()) {
            control.stopping.set(true);
            control.wake();
        }
    }
}

impl Shared {
    /// Closes the oldest connection that has shown no token, if there are too many of them.
    fn make_room(&self) {
        let mut strangers = self.strangers.borrow_mut();
        while self.strangers_open.get() >= self.options.limits.strangers_max
            || strangers.len() >= 2 * self.options.limits.strangers_max
        {
            let Some(oldest) = strangers.pop_front() else { return };
            let Some(control) = oldest.upgrade().filter(|control| !control.known.get()) else { continue };
            control.evicted.set(true);
            control.known.set(true);
            self.strangers_open.set(self.strangers_open.get() - 1);
            control.wake();
        }
    }

    /// Keeps the list of connections no longer than twice what is open.
    fn remember(&self, control: &Rc<Control>) {
        let mut connections = self.connections.borrow_mut();
        if connections.len() > 2 * self.open.get() + 16 {
            connections.retain(|weak| weak.strong_count() > 0);
        }
        connections.push(Rc::downgrade(control));
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("connections", &self.connections()).finish_non_exhaustive()
    }
}
