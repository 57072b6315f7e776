//! What became true and must survive the process: plain values, in the order in which they became
//! true.
//!
//! The durable state of a daemon is the fold of its facts ([`Durable`](crate::Durable)), whatever
//! build wrote them. So a fact says what happened, never what is to be done about it, and a new
//! meaning is a new version or a new kind.

use crate::api::rights::Rights;
use mainspring_message::{Envelope, Text};
use std::hash::{Hash, Hasher};

/// Whose something is, by a name that outlives the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerName {
    /// A client, by its identity.
    Client(Text),
    /// A capability, by its id.
    Capability(Text),
}

impl Hash for PeerName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (PeerName::Client(name) | PeerName::Capability(name)) = self;
        std::mem::discriminant(self).hash(state);
        name.as_str().hash(state);
    }
}

/// The line of a message: parsed where a fact is made, as it stands on disk where it is read.
pub trait MessageLine {
    /// The line, without its line break.
    fn as_line(&self) -> &str;
}

impl MessageLine for Envelope {
    fn as_line(&self) -> &str {
        self.line()
    }
}

impl MessageLine for &str {
    fn as_line(&self) -> &str {
        self
    }
}

/// Which request a [`Fact::Ended`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The one that was accepted under this number.
    Accepted(u64),
    /// One that is told whole, because nothing was recorded before its end, or nothing of that is
    /// needed any more.
    Whole {
        /// Who asked.
        peer: PeerName,
        /// The id of the request.
        id: Text,
        /// [`fingerprint`](crate::fingerprint) of what was asked.
        fingerprint: u64,
    },
}

/// One fact. Times are Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<M = Envelope> {
    /// A daemon started.
    Started {
        /// The build that runs.
        build: Text,
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
        peer: PeerName,
        /// The schedule that it came from, if it came from one.
        timer_id: Option<Text>,
        /// When it must have ended.
        deadline_ms: u64,
        /// When it was accepted.
        unix_ms: u64,
        /// The command.
        message: M,
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
        which: Ending,
        /// When.
        unix_ms: u64,
        /// Until when it is remembered.
        until_ms: u64,
        /// The answer. Without one, nothing is remembered of a command that was accepted; of one
        /// that is told whole, that it was done.
        answer: Option<M>,
    },
    /// A message was scheduled.
    Scheduled {
        /// Whose it is.
        peer: PeerName,
        /// Its name.
        timer_id: Text,
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
        message: M,
    },
    /// A scheduled message was sent.
    Fired {
        /// Whose it is.
        peer: PeerName,
        /// Its name.
        timer_id: Text,
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
        peer: PeerName,
        /// Its name.
        timer_id: Text,
    },
    /// A message became a dead letter.
    DeadLettered {
        /// Its number.
        letter: u64,
        /// On whose account it is kept.
        owner: PeerName,
        /// How often it was delivered.
        attempts: u32,
        /// When.
        unix_ms: u64,
        /// Why.
        reason: Text,
        /// The message.
        message: M,
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
        message: M,
    },
    /// A named subscriber has acknowledged events, or begins after them.
    CursorMoved {
        /// Whose cursor it is.
        peer: PeerName,
        /// Its name.
        name: Text,
        /// The last of them.
        event: u64,
    },
    /// A cursor was forgotten, as its peer asked.
    CursorForgotten {
        /// Whose it was.
        peer: PeerName,
        /// Its name.
        name: Text,
    },
    /// A capability of the daemon's own set a key.
    Put {
        /// The capability.
        store: Text,
        /// The key.
        key: Text,
        /// Its value, as JSON.
        value: Text,
    },
    /// It deleted a key.
    Deleted {
        /// The capability.
        store: Text,
        /// The key.
        key: Text,
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
