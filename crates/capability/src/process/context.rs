//! What a handler is told, and what it can do beside answering.

use crate::ask::{Ask, AskError, Reply};
use crate::failure::{Failure, Stopped};
use crate::process::actor::{Actor, Call};
use crate::runner::time_left;
use mainspring_message::Envelope;
use serde::Serialize;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// How much longer than the daemon a handler is let sleep: the daemon's word about a timeout says
/// more than ours.
const GRACE: Duration = Duration::from_secs(1);

/// A message in the hands of a handler.
#[derive(Debug)]
pub struct Context<'a> {
    pub(crate) actor: &'a Actor,
    pub(crate) message: &'a Envelope,
    pub(crate) call: Arc<Call>,
    pub(crate) since: Instant,
}

impl Context<'_> {
    /// The message itself.
    #[must_use]
    pub fn message(&self) -> &Envelope {
        self.message
    }

    /// The id of the message.
    #[must_use]
    pub fn id(&self) -> &str {
        self.message.id()
    }

    /// The workflow that it belongs to.
    #[must_use]
    pub fn correlation(&self) -> Option<&str> {
        self.message.correlation()
    }

    /// The time until whoever asked gives up; `None` if that is not known.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        time_left(self.message, self.since.elapsed(), SystemTime::now())
    }

    /// Whether whoever asked has cancelled the request.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.call.is_cancelled()
    }

    /// Waits, unless the request is cancelled or its time is over.
    ///
    /// # Errors
    /// [`Stopped`] when that comes first.
    pub fn sleep(&self, time: Duration) -> Result<(), Stopped> {
        let limit = self.left().map(|left| left.saturating_add(GRACE));
        match limit {
            Some(limit) if limit < time => {
                let _ = self.call.wait(limit);
                Err(Stopped)
            }
            _ => self.call.wait(time),
        }
    }

    /// Tells an event, with this message as its cause.
    ///
    /// # Errors
    /// It cannot be written, or standard output is gone.
    pub fn emit(&self, type_name: &str, data: &impl Serialize) -> Result<(), Failure> {
        self.actor.emit(self.message, type_name, data)
    }

    /// Tells whoever asked how far the request is, as the event `<type>.Progress`.
    ///
    /// # Errors
    /// As [`Context::emit`].
    pub fn progress(&self, data: &impl Serialize) -> Result<(), Failure> {
        self.emit(&format!("{}.Progress", self.message.type_name()), data)
    }

    /// Asks another capability and waits for its answer.
    ///
    /// # Errors
    /// It ended in an error, or cannot be answered.
    pub fn ask(&self, ask: &Ask) -> Result<Reply, AskError> {
        self.actor.ask(self.message, ask)
    }

    /// Writes a line to the daemon's log.
    pub fn log(&self, words: impl Display) {
        eprintln!("{words}");
    }
}
