//! What became true and must survive the process: plain values, in the order in which they became
//! true.
//!
//! The durable state of a daemon is the fold of its facts ([`Durable`](crate::Durable)), whatever
//! build wrote them. So a fact says what happened, never what is to be done about it, and a new
//! meaning is a new version or a new kind.

use crate::api::rights::Rights;
use hashbrown::Equivalent;
use mainspring_message::Text;
use std::hash::{Hash, Hasher};

/// Whose something is, by a name that outlives the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerName<T = Text> {
    /// A client, by its identity.
    Client(T),
    /// A capability, by its id.
    Capability(T),
}

impl<T: AsRef<str>> PeerName<T> {
    /// The same, in the memory of whoever has it.
    pub(crate) fn as_ref(&self) -> PeerName<&str> {
        match self {
            PeerName::Client(name) => PeerName::Client(name.as_ref()),
            PeerName::Capability(name) => PeerName::Capability(name.as_ref()),
        }
    }
}

impl PeerName<&str> {
    /// The same, with memory of its own.
    pub(crate) fn to_owned(self) -> PeerName {
        match self {
            PeerName::Client(name) => PeerName::Client(name.into()),
            PeerName::Capability(name) => PeerName::Capability(name.into()),
        }
    }
}

impl<T: AsRef<str>> Hash for PeerName<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (PeerName::Client(name) | PeerName::Capability(name)) = self;
        std::mem::discriminant(self).hash(state);
        name.as_ref().hash(state);
    }
}

impl Equivalent<PeerName> for PeerName<&str> {
    fn equivalent(&self, other: &PeerName) -> bool {
        *self == other.as_ref()
    }
}

/// Which request a [`Fact::Ended`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending<T = Text> {
    /// The one that was accepted under this number.
    Accepted(u64),
    /// One that is told whole, because nothing was recorded before its end, or nothing of that is
    /// needed any more.
    Whole {
        /// Who asked.
        peer: PeerName<T>,
        /// The id of the request.
        id: T,
        /// [`fingerprint`](crate::fingerprint) of what was asked.
        fingerprint: u64,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T = Text> {
    /// The line of one that came from elsewhere.
    Line(T),
    /// One that the kernel composed.
    Composed(ComposedAnswer<T>),
}

/// What the kernel composed an answer of: that again gives its line, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComposedAnswer<T = Text> {
    /// Whether it is an error, and no reply.
    pub is_error: bool,
    /// Its type.
    pub type_name: T,
    /// Its data, as JSON.
    pub data: T,
    /// Its own id.
    pub id: T,
    /// When it was composed.
    pub timestamp_ms: u64,
    /// What caused it.
    pub causation: Option<T>,
    /// The workflow that it belongs to.
    pub correlation: Option<T>,
    /// The span of another system that asked for it.
    pub traceparent: Option<T>,
}

/// One fact. Times are Unix milliseconds. A message is its line.
///
/// Where a fact is recorded or read, its texts lie in the memory of whoever has them:
/// `Fact<&str>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<T = Text> {
    /// A daemon started.
    Started {
        /// The build that runs.
        build: T,
        /// When.
        unix_ms: u64,
    },
    /// A daemon ended in order.
    Stopped {
        /// When.
        unix_ms: u64,
    },
    /// A command was accepted.
    Accepted {
        /// Its number, by which later facts name it.
        request: u64,
        /// Who sent it.
        peer: PeerName<T>,
        /// The schedule that it came from, if it came from one.
        timer_id: Option<T>,
        /// When it must have ended.
        deadline_ms: u64,
        /// When it was accepted.
        unix_ms: u64,
        /// The command.
        message: T,
    },
    /// An actor is about to get it: this is on disk before the actor sees it.
    Delivered {
        /// Which request.
        request: u64,
        /// The delivery, counted from 1 over all runs of the daemon.
        attempt: u32,
        /// When.
        unix_ms: u64,
    },
    /// A command ended.
    Ended {
        /// Which.
        which: Ending<T>,
        /// When.
        unix_ms: u64,
        /// Until when it is remembered.
        until_ms: u64,
        /// The answer. Without one, nothing is remembered of a command that was accepted; of one
        /// that is told whole, that it was done.
        answer: Option<Answer<T>>,
    },
    /// A message was scheduled.
    Scheduled {
        /// Whose it is.
        peer: PeerName<T>,
        /// Its name.
        timer_id: T,
        /// When it is due next.
        due_ms: u64,
        /// The period, if it repeats.
        repeat_ms: Option<u64>,
        /// How often it may still be sent.
        left: Option<u64>,
        /// How often it was sent.
        fired: u64,
        /// The size of the command that made it.
        bytes: u64,
        /// What whoever scheduled it may do; nothing if that is everything.
        rights: Option<Rights>,
        /// What is sent, under a fresh id each time.
        message: T,
    },
    /// A scheduled message was sent.
    Fired {
        /// Whose it is.
        peer: PeerName<T>,
        /// Its name.
        timer_id: T,
        /// How often it was sent so far.
        fired: u64,
        /// How often it may still be sent.
        left: Option<u64>,
        /// When it is due next; nothing if it is over.
        next_ms: Option<u64>,
    },
    /// A schedule was cancelled.
    Cancelled {
        /// Whose it was.
        peer: PeerName<T>,
        /// Its name.
        timer_id: T,
    },
    /// A message became a dead letter.
    DeadLettered {
        /// Its number.
        letter: u64,
        /// On whose account it is kept.
        owner: PeerName<T>,
        /// How often it was delivered.
        attempts: u32,
        /// When.
        unix_ms: u64,
        /// Why.
        reason: T,
        /// The message.
        message: T,
    },
    /// A dead letter was sent again.
    Requeued {
        /// Its number.
        letter: u64,
    },
    /// Dead letters were dropped.
    Dropped {
        /// The lowest number.
        first: u64,
        /// The highest number.
        last: u64,
    },
    /// A capability whose events are durable told one.
    Emitted {
        /// Its number.
        event: u64,
        /// When.
        unix_ms: u64,
        /// The event.
        message: T,
    },
    /// A named subscriber has acknowledged events, or begins after them.
    CursorMoved {
        /// Whose cursor it is.
        peer: PeerName<T>,
        /// Its name.
        name: T,
        /// The last of them.
        event: u64,
    },
    /// A cursor was forgotten, as its peer asked.
    CursorForgotten {
        /// Whose it was.
        peer: PeerName<T>,
        /// Its name.
        name: T,
    },
    /// A capability of the daemon's own set a key.
    Put {
        /// The capability.
        store: T,
        /// The key.
        key: T,
        /// Its value, as JSON.
        value: T,
    },
    /// It deleted a key.
    Deleted {
        /// The capability.
        store: T,
        /// The key.
        key: T,
    },
    /// Numbers that are used up, though nothing else tells of them any more: part of a snapshot.
    Numbered {
        /// The last request.
        request: u64,
        /// The last dead letter.
        letter: u64,
        /// The last event.
        event: u64,
        /// How often a daemon started.
        starts: u64,
        /// The time by the last fact that told it.
        unix_ms: u64,
    },
}
