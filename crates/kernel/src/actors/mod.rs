//! Actors: what each is held to, its mailbox, what it has in progress, and how it is kept alive.
//!
//! The part owns everything about the actors; the mailbox belongs to it and outlives each
//! incarnation. It knows requests by their keys only: what becomes of a request is told to it, and
//! what is to become of one it returns. Only the flow of messages, the lifecycle and the built-ins
//! about actors call it.

mod boot_and_end;
mod causes;
pub(crate) mod contract;
mod last_words;
mod latency;
mod mailbox;
mod progress;
mod report;
mod succession;
mod supervision;

pub(crate) use mailbox::{Mail, NextMail};
pub(crate) use progress::UnfinishedWork;
pub(crate) use succession::{News, NextStep};
pub(crate) use supervision::Exited;

use crate::api::config::Config;
use crate::api::ids::{ActorRef, CapabilityId};
use crate::flow::lanes::QueueId;
use crate::requests::PeerId;
use causes::Causes;
use contract::Contract;
use last_words::{LastFault, LastWords};
use latency::Latency;
use mailbox::Mailbox;
use mainspring_message::{Envelope, Failure, Kind};
use progress::Progress;
use succession::Succession;
use supervision::{ActorState, Restarts};

/// Actors whose bytes are counted anew at each look; the others are known from earlier ones.
const COUNTED_AT_ONCE: usize = 8;

/// One capability's actor, through all its incarnations.
#[derive(Debug)]
struct Actor {
    contract: Contract,
    peer: PeerId,
    /// Its queue in the User lane.
    queue: QueueId,
    state: ActorState,
    /// Counts its spawns; 0 before the first.
    incarnation: u32,
    /// When this incarnation began, or came up.
    since_ns: i64,
    /// Whether it takes no more for now: the daemon says so.
    blocked: bool,
    mailbox: Mailbox,
    progress: Progress,
    causes: Causes,
    restarts: Restarts,
    /// How often it was given up.
    faults: u64,
    /// What this incarnation wrote, should it fail.
    last_words: LastWords,
    /// Its last failure.
    last_fault: Option<LastFault>,
    /// While it rests: when it is tried again.
    probe_ns: Option<i64>,
    /// How long requests took that it was given.
    latency: Box<Latency>,
    /// How it passes from one manifest or program to the next.
    succession: Succession,
    /// Bytes that it had when they were last counted.
    counted_bytes: usize,
}

impl Actor {
    fn new(contract: Contract, peer: PeerId, queue: QueueId) -> Actor {
        Actor {
            contract,
            peer,
            queue,
            state: ActorState::Down,
            incarnation: 0,
            since_ns: 0,
            blocked: false,
            mailbox: Mailbox::default(),
            progress: Progress::default(),
            causes: Causes::default(),
            restarts: Restarts::default(),
            faults: 0,
            last_words: LastWords::default(),
            last_fault: None,
            probe_ns: None,
            latency: Box::default(),
            succession: Succession::default(),
            counted_bytes: 0,
        }
    }

    fn id(&self) -> &str {
        &self.contract.manifest.id
    }

    /// This incarnation of the actor.
    #[inline]
    fn reference(&self, capability: CapabilityId) -> ActorRef {
        ActorRef { capability, incarnation: self.incarnation }
    }

    /// Its state, as an operator sees it.
    fn state_name(&self) -> &'static str {
        match self.state {
            ActorState::Up if self.succession.is_retiring() => "retiring",
            ActorState::Stopped if self.succession.is_removed() => "removed",
            state => state.name(),
        }
    }

    /// Why it takes no mail, and the error for a request that comes now.
    fn trouble(&self) -> (Failure, String) {
        let failure = if self.is_gone() { Failure::Routing } else { Failure::Unhealthy };
        let remedy = match failure {
            Failure::Unhealthy => {
                "; the log says why, and `mainspring restart` (Sys.RestartActor) starts it anew"
            }
            _ => "",
        };
        (failure, format!("{} is {}{remedy}", self.id(), self.state_name()))
    }

    /// Whether it was removed and has ended: only its place is left.
    fn is_gone(&self) -> bool {
        self.succession.is_removed() && self.state == ActorState::Stopped
    }

    /// Bytes of what waits for it, and of what it took and may still name as a cause.
    fn held_bytes(&self) -> usize {
        self.mailbox.bytes() + self.progress.answers_bytes() + self.causes.bytes()
    }
}

/// The bounds on actors, from [`Config`].
#[derive(Debug)]
struct ActorBounds {
    /// How long an actor may keep a request after its deadline.
    hang_ms: u64,
    /// How long an incarnation that is to end may take, for each stage of that.
    drain_ms: u64,
    /// Messages that are remembered as possible causes.
    recent: usize,
    /// Outcomes that wait for an actor that takes nothing.
    answers: usize,
}

/// The actors; see the [module's documentation](self).
#[derive(Debug)]
pub(crate) struct Actors {
    /// By [`CapabilityId`].
    list: Vec<Actor>,
    /// How many of them have an incarnation that is to end.
    retiring: usize,
    /// Bytes that they had when each was last counted.
    counted_bytes: usize,
    /// The next one to count.
    next_counted: usize,
    bounds: ActorBounds,
}

impl Actors {
    pub(crate) fn new(config: &Config) -> Actors {
        Actors {
            list: Vec::new(),
            retiring: 0,
            counted_bytes: 0,
            next_counted: 0,
            bounds: ActorBounds {
                hang_ms: config.hang_ms,
                drain_ms: config.drain_ms,
                recent: config.limits.recent_events_max,
                answers: config.limits.peer_requests_max,
            },
        }
    }

    /// Adds the actor of one more capability.
    pub(crate) fn add(&mut self, contract: Contract, peer: PeerId, queue: QueueId) {
        self.list.push(Actor::new(contract, peer, queue));
    }

    /// The number that the next one gets.
    pub(crate) fn next_id(&self) -> CapabilityId {
        CapabilityId(self.list.len() as u32)
    }

    /// The number of every capability, in order.
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = CapabilityId> + use<> {
        (0..self.list.len() as u32).map(CapabilityId)
    }

    #[inline]
    fn get(&self, capability: CapabilityId) -> &Actor {
        &self.list[capability.index()]
    }

    #[inline]
    fn get_mut(&mut self, capability: CapabilityId) -> &mut Actor {
        &mut self.list[capability.index()]
    }

    /// The actor, if this incarnation is working.
    #[inline]
    fn living(&mut self, actor: ActorRef) -> Option<&mut Actor> {
        let it = self.list.get_mut(actor.capability.index())?;
        (it.incarnation == actor.incarnation && it.state == ActorState::Up).then_some(it)
    }

    /// Whether this incarnation is working.
    #[inline]
    pub(crate) fn is_up(&self, actor: ActorRef) -> bool {
        let it = self.list.get(actor.capability.index());
        it.is_some_and(|it| it.incarnation == actor.incarnation && it.state == ActorState::Up)
    }

    /// The incarnation that is working now, if there is one.
    pub(crate) fn working(&self, capability: CapabilityId) -> Option<ActorRef> {
        let it = self.get(capability);
        (it.state == ActorState::Up).then(|| it.reference(capability))
    }

    /// The capability's name.
    pub(crate) fn id(&self, capability: CapabilityId) -> &str {
        self.list.get(capability.index()).map_or("", Actor::id)
    }

    /// The number of the capability of that name, and whether it was removed.
    pub(crate) fn find(&self, id: &str) -> Option<(CapabilityId, bool)> {
        let at = self.list.iter().position(|actor| actor.id() == id)?;
        Some((CapabilityId(at as u32), self.list[at].succession.is_removed()))
    }

    /// Who the actor is when it asks, and its queue in the User lane.
    #[inline]
    pub(crate) fn sender(&self, capability: CapabilityId) -> (PeerId, QueueId) {
        let it = self.get(capability);
        (it.peer, it.queue)
    }

    /// Whether its manifest lets it send what is for operators.
    pub(crate) fn is_operator(&self, capability: CapabilityId) -> bool {
        self.get(capability).contract.manifest.operator
    }

    /// Whether it is told when a request that it works on is cancelled.
    pub(crate) fn wants_cancellations(&self, capability: CapabilityId) -> bool {
        self.get(capability).contract.manifest.cancel
    }

    /// Whether there is such a capability.
    pub(crate) fn is_there(&self, capability: CapabilityId) -> bool {
        capability.index() < self.list.len()
    }

    /// How often it was spawned.
    pub(crate) fn incarnation(&self, capability: CapabilityId) -> u32 {
        self.get(capability).incarnation
    }

    /// The id of the capability that asks as this peer.
    pub(crate) fn id_of_peer(&self, peer: PeerId) -> Option<&str> {
        self.list.iter().find(|it| it.peer == peer).map(Actor::id)
    }

    /// Whether its manifest lets it say what no message caused.
    pub(crate) fn may_be_uncaused(&self, capability: CapabilityId) -> bool {
        self.get(capability).contract.manifest.uncaused
    }

    /// Checks a message that it says against its outbound schema.
    #[inline]
    pub(crate) fn check_outbound(
        &mut self,
        capability: CapabilityId,
        message: &Envelope,
    ) -> Result<(), String> {
        let verdict = self.get_mut(capability).contract.outbound.check(message);
        verdict.map_err(|violation| format!("{} {}: {violation}", message.kind(), message.type_name()))
    }

    /// Checks the kind and type of a message that it says, which has no data yet.
    #[inline]
    pub(crate) fn check_outbound_pair(
        &self,
        capability: CapabilityId,
        kind: Kind,
        type_name: &str,
    ) -> Result<(), String> {
        let verdict = self.get(capability).contract.outbound.check_pair(kind, type_name);
        verdict.map_err(|violation| format!("{kind} {type_name}: {violation}"))
    }

    /// Whether a message's data decides if its kind and type may leave it.
    #[inline]
    pub(crate) fn needs_data(&self, capability: CapabilityId) -> bool {
        self.get(capability).contract.outbound.needs_data()
    }

    /// Counts the bytes of some of the actors anew.
    pub(crate) fn count_some(&mut self) {
        for _ in 0..self.list.len().min(COUNTED_AT_ONCE) {
            let at = if self.next_counted < self.list.len() { self.next_counted } else { 0 };
            self.next_counted = at + 1;
            self.count(CapabilityId(at as u32));
        }
    }

    /// Counts the bytes of one actor anew.
    pub(crate) fn count(&mut self, capability: CapabilityId) {
        let it = &mut self.list[capability.index()];
        let bytes = it.held_bytes();
        self.counted_bytes = self.counted_bytes + bytes - it.counted_bytes;
        it.counted_bytes = bytes;
    }

    /// Bytes that all actors had when each was last counted.
    pub(crate) fn counted_bytes(&self) -> usize {
        self.counted_bytes
    }
}
