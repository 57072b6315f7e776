//! An unfinished request: what it asks, for whom, and where it is.

use super::causes::Workflow;
use crate::api::ids::{ActorRef, ConnectionId};
use crate::durability::Durably;
use crate::flow::routes::Handler;
use crate::history::{Audience, Author, End, Record};
use crate::time::wheel::TimerKey;
use mainspring_message::{Envelope, Started, Text};

/// Names one request for as long as it is unfinished or remembered. One word, so that passing it on
/// is one move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestKey(u64);

impl RequestKey {
    #[inline]
    pub(super) fn new(slot: u32, generation: u32) -> RequestKey {
        RequestKey(u64::from(generation) << 32 | u64::from(slot))
    }

    #[inline]
    pub(super) fn slot(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub(super) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Who gets the outcome.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// The client on this connection.
    Connection(ConnectionId),
    /// This incarnation of an actor.
    Actor(ActorRef),
    /// Whoever scheduled or requeued it, if it is still there; everybody else by an event. Boxed
    /// because it is rare.
    Delegate(Box<Delegate>),
}

impl Origin {
    /// Whether an error that ends the request becomes a dead letter in any case, so that nobody
    /// else need keep it.
    pub(super) fn is_delegate(&self) -> bool {
        matches!(self, Origin::Delegate(_))
    }
}

/// A requester that is not there itself.
#[derive(Clone, Debug)]
pub(crate) struct Delegate {
    /// Who gets the outcome.
    pub(crate) to: Recipient,
    /// The schedule that the request came from; nothing for a dead letter put back.
    pub(crate) timer_id: Option<Text>,
}

/// Somebody to whom a message can be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    Connection(ConnectionId),
    Actor(ActorRef),
}

/// Where an unfinished request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// In the User lane.
    Lane,
    /// In the mailbox of its actor.
    Mailbox,
    /// In progress with its actor, at this place of the actor's list.
    InProgress(u32),
    /// Between two attempts.
    Retrying(TimerKey),
    /// Its outcome is in the Completions lane.
    Answering,
    /// With the floors below (`Sys.Stats`).
    Outside,
    /// A built-in works on it, in slices.
    Served,
}

/// An unfinished request.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) message: Envelope,
    pub(super) origin: Origin,
    pub(super) phase: Phase,
    /// Its deadline in the wheel, until that has passed.
    pub(super) timer: Option<TimerKey>,
    pub(super) deadline_ns: i64,
    /// When it was accepted.
    pub(super) accepted_ns: i64,
    /// When it was last given to an actor; when it was accepted, before that.
    pub(super) delivered_ns: i64,
    /// How often an actor was given it.
    pub(super) attempts: u32,
    /// The request that its sender was working on.
    pub(super) cause: Option<RequestKey>,
    /// How many requests stand above it in its chain of causes.
    pub(super) depth: u32,
    /// Further connections that asked the same.
    pub(super) waiters: Vec<ConnectionId>,
    /// How it survives the process, and the last fact about it.
    pub(super) durable: Durably,
    pub(super) fact: u64,
}

impl Live {
    /// Whether an actor had it.
    pub(super) fn started(&self) -> Started {
        if self.attempts > 0 { Started::Yes } else { Started::No }
    }

    /// What the history tells of it.
    pub(super) fn record<'a>(&'a self, handler: Handler, end: Option<End<'a>>) -> Record<'a> {
        let message = &self.message;
        let from = match &self.origin {
            Origin::Connection(connection) => Author::Connection(*connection),
            Origin::Actor(actor) => Author::Capability(actor.capability),
            Origin::Delegate(delegate) => match (&delegate.timer_id, delegate.to) {
                (None, Recipient::Connection(connection)) => Author::Connection(connection),
                _ => Author::Kernel,
            },
        };
        Record {
            kind: message.kind(),
            type_name: message.type_name(),
            id: message.id(),
            causation: message.causation(),
            correlation: message.correlation(),
            from,
            to: match handler {
                Handler::Capability(capability) => Audience::Capability(capability),
                Handler::Builtin(_) => Audience::Kernel,
            },
            accepted_ns: self.accepted_ns,
            delivered_ns: self.delivered_ns,
            attempts: self.attempts,
            end,
        }
    }
}

/// What an actor has of a request that is over for everybody else.
#[derive(Debug)]
pub(crate) struct OverdueRequest {
    pub(crate) id: Box<str>,
    pub(crate) type_name: Box<str>,
    pub(crate) workflow: Workflow,
}
