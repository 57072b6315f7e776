//! An actor: what is in its hands, and what it asked.

use std::collections::BTreeMap;

use mainspring_kernel::ActorRef;
use mainspring_message::Envelope;

/// Where an actor is in its life, as the floors below see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Not there.
    Absent,
    /// Spawned, or being spawned.
    Starting,
    /// Attached: the kernel may deliver to it.
    Up,
}

/// One capability's actor, across its lives.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) life: Life,
    pub(crate) incarnation: u32,
    /// Requests that it has not answered.
    pub(crate) hands: Vec<Envelope>,
    /// The last event or answer that it took: it may speak because of that.
    pub(crate) taken: Option<Envelope>,
    /// Requests that it made in this life, with the answers that came.
    pub(crate) asked: BTreeMap<String, u32>,
    /// Whether the kernel asked not to read from it.
    pub(crate) paused: bool,
    pub(crate) blocked: bool,
    /// It did what must end this life.
    pub(crate) doomed: Option<&'static str>,
    /// When its last life ended by failure, for the backoff.
    pub(crate) failed_ns: Option<i64>,
    /// The kernel ended its input.
    pub(crate) stopping: bool,
    /// The last message of the life before, for voices from the grave.
    pub(crate) relic: Option<Envelope>,
}

impl Actor {
    pub(crate) fn new() -> Actor {
        Actor {
            life: Life::Absent,
            incarnation: 0,
            hands: Vec::new(),
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

    /// Begins a new life with empty hands.
    pub(crate) fn begin(&mut self, incarnation: u32) {
        *self = Actor {
            life: Life::Starting,
            incarnation,
            failed_ns: self.failed_ns,
            relic: self.relic.take(),
            ..Actor::new()
        };
    }

    /// Ends this life.
    pub(crate) fn end(&mut self) {
        self.relic = self.hands.pop().or(self.relic.take());
        self.life = Life::Absent;
        self.hands.clear();
        self.asked.clear();
        self.doomed = None;
    }
}
