//! What a handler is told, and what it can do beside answering.

use super::run::{Call, Course};
use super::{Ask, Failure, Stopped};
use crate::{Instant, sleep, system_time};
use mainspring_capability::runner::{Answer, time_left};
use mainspring_message::Envelope;
use serde::Serialize;
use std::fmt::Display;
use std::rc::Rc;
use std::time::Duration;

/// How much longer than the daemon a handler is let sleep: the daemon's word about a timeout says
/// more than ours.
const GRACE: Duration = Duration::from_secs(1);

/// A message in the hands of a handler. Cloning gives the same.
#[derive(Clone)]
pub struct Context {
    pub(super) course: Rc<Course>,
    pub(super) message: Rc<Envelope>,
    pub(super) call: Rc<Call>,
    pub(super) since: Instant,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Context({} {})", self.message.type_name(), self.message.id())
    }
}

impl Context {
    /// The message itself.
    #[must_use]
    pub fn message(&self) -> &Envelope {
        &self.message
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
        time_left(&self.message, self.since.elapsed(), system_time())
    }

    /// Whether whoever asked has cancelled the request.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.call.is_cancelled()
    }

    /// Waits until the request is cancelled: for a handler that waits for something else as well.
    pub async fn cancelled(&self) {
        self.call.cancelled().await;
    }

    /// Waits, unless the request is cancelled or its time is over.
    ///
    /// # Errors
    /// [`Stopped`] when that comes first.
    pub async fn sleep(&self, time: Duration) -> Result<(), Stopped> {
        let limit = self.left().map(|left| left.saturating_add(GRACE)).filter(|limit| *limit < time);
        let is_whole = self.call.or_cancelled(sleep(limit.unwrap_or(time))).await.is_some();
        if is_whole && limit.is_none() { Ok(()) } else { Err(Stopped) }
    }

    /// Tells an event, with this message as its cause.
    ///
    /// # Errors
    /// It cannot be written, or standard output is gone.
    pub async fn emit(&self, type_name: &str, data: &impl Serialize) -> Result<(), Failure> {
        self.course.emit(&self.message, type_name, data)?;
        Ok(self.course.outbox.flush().await?)
    }

    /// Tells whoever asked how far the request is, as the event `<type>.Progress`.
    ///
    /// # Errors
    /// As [`Context::emit`].
    pub async fn progress(&self, data: &impl Serialize) -> Result<(), Failure> {
        self.emit(&format!("{}.Progress", self.message.type_name()), data).await
    }

    /// Asks another capability and waits for its answer.
    ///
    /// # Errors
    /// It ended in an error, or cannot be answered.
    pub async fn ask(&self, ask: &Ask) -> Answer {
        self.course.ask(&self.message, ask).await
    }

    /// Writes a line to the daemon's log.
    pub fn log(&self, words: impl Display) {
        crate::eprintln!("{words}");
    }
}
