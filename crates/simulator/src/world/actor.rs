//! An actor: what it has in progress, and what it asked.

use std::collections::BTreeMap;

use mainspring_kernel::ActorRef;
use mainspring_message::Envelope;

/// Whether an actor is there, as the floors below see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Not there.
    Absent,
    /// Spawned, or being spawned.
    Starting,
    /// Attached: the kernel may deliver to it.
    Up,
}

/// One capability's actor, across its incarnations.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) presence: Presence,
    pub(crate) incarnation: u32,
    /// Requests that it has not answered.
    pub(crate) in_progress: Vec<Envelope>,
    /// The last event or answer that it took: it may speak because of that.
    pub(crate) taken: Option<Envelope>,
    /// Requests that it made in this incarnation, with the answers that came.
    pub(crate) asked: BTreeMap<String, u32>,
    /// Whether the kernel asked not to read from it.
    pub(crate) paused: bool,
    pub(crate) blocked: bool,
    /// It did what must end this incarnation.
    pub(crate) doomed: Option<&'static str>,
    /// When its last incarnation ended by failure, for the backoff.
    pub(crate) failed_ns: Option<i64>,
    /// The kernel ended its input.
    pub(crate) stopping: bool,
    /// The last message of the incarnation before, for voices from the grave.
    pub(crate) relic: Option<Envelope>,
}

impl Actor {
    pub(crate) fn new() -> Actor {
        Actor {
            presence: Presence::Absent,
            incarnation: 0,
            in_progress: Vec::new(),
            taken: None,
            asked: BTreeMap::new(),
            paused: false,
            blocked: false,
            doomed: None,
            failed_ns: None,
            stopping: false,
            relic: None,
        }
    }

    pub(crate) fn reference(&self, capability: usize) -> ActorRef {
        ActorRef::new(capability as u32, self.incarnation)
    }

    /// Begins a new incarnation with nothing in progress.
    pub(crate) fn begin(&mut self, incarnation: u32) {
        *self = Actor {
            presence: Presence::Starting,
            incarnation,
            failed_ns: self.failed_ns,
            relic: self.relic.take(),
            ..Actor::new()
        };
    }

    /// Ends this incarnation.
    pub(crate) fn end(&mut self) {
        self.relic = self.in_progress.pop().or(self.relic.take());
        self.presence = Presence::Absent;
        self.in_progress.clear();
        self.asked.clear();
        self.doomed = None;
    }
}
