//! What stands behind the server: whoever routes messages, and how its messages come back;
//! `exchange` is one client's connection on it.

pub(crate) mod exchange;

use mainspring_message::Envelope;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A connection on the bus, by the number that the bus gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link(pub u64);

/// Who asks: the name of its token, or the user behind a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The name that the bus knows it by.
    pub name: String,
    /// What the bus gave with the token or the socket, and finds again when the peer opens a link:
    /// by it a bus knows what the peer may do.
    pub tag: usize,
}

/// Whether the daemon works, for probes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Each check by name, with what is wrong if something is.
    pub checks: Vec<(String, Result<(), String>)>,
}

impl Health {
    /// Whether every check is passed.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.checks.iter().all(|(_, check)| check.is_ok())
    }
}

/// Whoever routes messages. All of it happens on the reactor's thread.
pub trait Bus {
    /// Opens a connection for a peer; what is meant for it goes into `inbox`. `None` when there is
    /// no room.
    fn open(&self, peer: &Peer, inbox: &Rc<Inbox>) -> Option<Link>;

    /// Takes one message as a line, without the line break.
    fn send(&self, link: Link, line: &[u8]);

    /// So many bytes of what was put into the inbox have left.
    fn written(&self, link: Link, bytes: usize);

    /// Whether a request of this connection has no outcome yet.
    fn owes(&self, link: Link) -> bool;

    /// The client is gone.
    fn close(&self, link: Link);

    /// Whether everything runs.
    fn health(&self) -> Health;

    /// The time in milliseconds since 1970.
    fn unix_ms(&self) -> u64;

    /// An id that was never used.
    fn new_id(&self) -> String;
}

/// Why the bus closed a connection, in words for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed(pub String);

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where the bus puts what is meant for one client. How much may lie here is the bus's own bound:
/// what was put here counts until it is [`written`](Bus::written).
#[derive(Debug, Default)]
pub struct Inbox {
    messages: RefCell<VecDeque<Envelope>>,
    closed: RefCell<Option<Closed>>,
    paused: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Inbox {
    /// Adds a message.
    pub fn push(&self, message: Envelope) {
        self.messages.borrow_mut().push_back(message);
        self.wake();
    }

    /// Nothing more will come.
    pub fn close(&self, why: Closed) {
        self.closed.borrow_mut().get_or_insert(why);
        self.wake();
    }

    /// Whether the bus takes no more for now.
    pub fn pause(&self, paused: bool) {
        self.paused.set(paused);
        self.wake();
    }

    /// The next message, or why there will be none: for whoever reads a connection of its own.
    ///
    /// # Errors
    /// When the bus has closed the connection.
    pub async fn next(&self) -> Result<Envelope, Closed> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.borrow().is_some()
    }

    /// The next message, or why there will be none.
    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Result<Envelope, Closed>> {
        if let Some(message) = self.messages.borrow_mut().pop_front() {
            return Poll::Ready(Ok(message));
        }
        if let Some(why) = &*self.closed.borrow() {
            return Poll::Ready(Err(why.clone()));
        }
        self.set_waker(context);
        Poll::Pending
    }

    /// Whether the bus takes more.
    pub(crate) fn poll_open(&self, context: &mut Context<'_>) -> Poll<()> {
        if !self.paused.get() || self.is_closed() {
            return Poll::Ready(());
        }
        self.set_waker(context);
        Poll::Pending
    }

    fn set_waker(&self, context: &mut Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match &mut *waker {
            Some(current) => current.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
    }

    fn wake(&self) {
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
