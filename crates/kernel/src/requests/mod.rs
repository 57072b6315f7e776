//! The one table of requests: unfinished ones, what is remembered of finished commands, and whose
//! they are.
//!
//! The part owns the requests with their deadlines, the answers that it remembers, the peers under
//! which ids are unique and limits are counted, and what each capability had. Only the flow of
//! messages admits, moves and ends requests, by the methods of [`Requests`]; where a request is (in
//! a lane, a mailbox, an actor) it is told and never looks.

mod admission;
mod answers;
mod audit;
mod causes;
mod durable;
mod ending;
mod handled;
mod leaving;
mod live;
mod peers;
mod room;
mod shares;
mod table;
mod window;

pub(crate) use admission::{Admission, Ticket};
pub(crate) use audit::Whereabouts;
pub(crate) use causes::{KnownCause, Workflow};
pub(crate) use durable::{Found, RestoredRequest};
pub(crate) use ending::{Ended, Requester, Settled};
pub(crate) use leaving::Leaving;
pub(crate) use live::{Delegate, Origin, OverdueRequest, Recipient, RequestKey};
pub(crate) use peers::PeerId;
pub(crate) use shares::ShareId;

use crate::api::config::Config;
use crate::api::ids::CapabilityId;
use crate::durability::Durably;
use crate::flow::routes::Handler;
use crate::history::Record;
use crate::out::{Out, ns};
use answers::Answers;
use handled::Handled;
use hashbrown::HashTable;
use live::Phase;
use mainspring_message::{Envelope, Text};
use peers::Peers;
use shares::Share;
use slab::Slab;
use table::{NIL, Slot, SlotState};
use window::Window;

/// What concerns the requests of one capability.
#[derive(Debug, Default)]
struct OfCapability {
    /// Its unfinished requests, wherever they are.
    unfinished: usize,
    /// Requests that it had, and of which nothing else is remembered.
    had: Handled,
}

/// The bounds on requests, from [`Config`].
#[derive(Debug)]
struct RequestBounds {
    default_timeout_ms: u64,
    timeout_ms_max: u64,
    /// How long a finished command and its answer are remembered.
    window_ns: i64,
    peer_requests: usize,
    requests: usize,
    duplicates: usize,
    chain: u32,
    window_answers: usize,
    window_bytes: usize,
    window_peer_answers: usize,
    window_peer_bytes: usize,
    peer_ticks_per_second: usize,
}

/// The table; see the [module's documentation](self).
#[derive(Debug)]
pub(crate) struct Requests {
    slots: Vec<Slot>,
    /// The first slot that nothing is in.
    free: u32,
    by_peer: HashTable<u32>,
    /// For each id that a capability was given: the request under which that was, the latest if
    /// there were several. An actor never has two of them in progress at once.
    by_capability: HashTable<u32>,
    /// Whether that index is kept. Where actors only answer what they work on nothing is ever
    /// looked for there, so it is made when something is for the first time.
    is_indexed: bool,
    /// Unfinished requests.
    live: usize,
    /// What is remembered, over all peers.
    window: Window,
    answers: Answers,
    /// The next slot of the window whose answer is moved when too much memory lies between answers.
    sweep: u32,
    shares: Slab<Share>,
    peers: Peers,
    /// By [`CapabilityId`].
    capabilities: Vec<OfCapability>,
    bounds: RequestBounds,
}

impl Requests {
    pub(crate) fn new(config: &Config) -> Requests {
        let limits = &config.limits;
        Requests {
            slots: Vec::new(),
            free: NIL,
            by_peer: HashTable::new(),
            by_capability: HashTable::new(),
            is_indexed: false,
            live: 0,
            window: Window::default(),
            answers: Answers::default(),
            sweep: NIL,
            shares: Slab::new(),
            peers: Peers::default(),
            capabilities: Vec::new(),
            bounds: RequestBounds {
                default_timeout_ms: config.default_timeout_ms,
                timeout_ms_max: config.timeout_ms_max,
                window_ns: ns(config.window_ms),
                peer_requests: limits.peer_requests_max,
                requests: limits.requests_max,
                duplicates: limits.duplicates_max,
                chain: limits.chain_max,
                window_answers: limits.window_answers_max,
                window_bytes: limits.window_bytes_max,
                window_peer_answers: limits.window_peer_answers_max,
                window_peer_bytes: limits.window_peer_bytes_max,
                peer_ticks_per_second: limits.peer_ticks_per_second,
            },
        }
    }

    /// Unfinished requests.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Unfinished requests that a capability is to handle, wherever they are.
    pub(crate) fn unfinished_for(&self, capability: CapabilityId) -> usize {
        self.capabilities[capability.index()].unfinished
    }

    /// Remembered commands, with their answers or without.
    pub(crate) fn remembered(&self) -> usize {
        self.window.requests
    }

    /// Bytes of remembered answers.
    pub(crate) fn remembered_bytes(&self) -> usize {
        self.window.bytes
    }

    /// Who handles a request, if it is unfinished.
    #[inline]
    pub(crate) fn handler(&self, key: RequestKey) -> Option<Handler> {
        self.get(key)?;
        Some(self.slots[key.slot() as usize].handler)
    }

    /// The message of an unfinished request.
    #[inline]
    pub(crate) fn message(&self, key: RequestKey) -> Option<&Envelope> {
        self.get(key).map(|live| &live.message)
    }

    /// Who asked, and who gets the outcome of, an unfinished request.
    pub(crate) fn caller(&self, key: RequestKey) -> Option<(PeerId, Recipient)> {
        let recipient = match &self.get(key)?.origin {
            Origin::Connection(connection) => Recipient::Connection(*connection),
            Origin::Actor(actor) => Recipient::Actor(*actor),
            Origin::Delegate(delegate) => delegate.to,
        };
        Some((self.slots[key.slot() as usize].peer, recipient))
    }

    /// Whether a request waits in the mailbox of its actor: it may have ended there.
    #[inline]
    pub(crate) fn waits_in_mailbox(&self, key: RequestKey) -> bool {
        self.get(key).is_some_and(|live| live.phase == Phase::Mailbox)
    }

    /// Whether its outcome is on its way, or was there.
    pub(crate) fn is_answered(&self, key: RequestKey) -> bool {
        self.get(key).is_none_or(|live| live.phase == Phase::Answering)
    }

    /// A request is in the mailbox of its actor from now on.
    #[inline]
    pub(crate) fn enter_mailbox(&mut self, key: RequestKey) {
        self.enter(key, Phase::Mailbox);
    }

    /// A built-in works on it, in slices.
    pub(crate) fn enter_service(&mut self, key: RequestKey) {
        self.enter(key, Phase::Served);
    }

    /// The floors below are asked for what it asks.
    pub(crate) fn enter_outside(&mut self, key: RequestKey) {
        self.enter(key, Phase::Outside);
    }

    /// Its outcome is in the Completions lane.
    #[inline]
    pub(crate) fn enter_answering(&mut self, key: RequestKey) {
        self.enter(key, Phase::Answering);
    }

    #[inline]
    fn enter(&mut self, key: RequestKey, phase: Phase) {
        if let Some(live) = self.get_mut(key) {
            live.phase = phase;
        }
    }

    /// An actor is given the request, at this place of what it has in progress; returns the message
    /// for it.
    #[inline]
    pub(crate) fn deliver(&mut self, key: RequestKey, place: u32, out: &mut Out) -> Option<Envelope> {
        self.note_delivery(key);
        let live = self.get_mut(key)?;
        live.phase = Phase::InProgress(place);
        live.attempts += 1;
        live.delivered_ns = out.now.mono_ns;
        if live.attempts > 1 {
            out.counters.retries += 1;
            if live.durable != Durably::No {
                return Some(live.message.with_metadata_number("attempt", u64::from(live.attempts)));
            }
        }
        Some(live.message.clone())
    }

    /// Where a request is in what its actor has in progress.
    #[inline]
    pub(crate) fn place(&self, key: RequestKey) -> Option<u32> {
        match self.get(key)?.phase {
            Phase::InProgress(place) => Some(place),
            _ => None,
        }
    }

    /// A request has moved within what its actor has in progress.
    pub(crate) fn moved(&mut self, key: RequestKey, place: u32) {
        self.enter(key, Phase::InProgress(place));
    }

    /// Makes another capability the handler of an unfinished request that no actor has. Returns its
    /// bytes if it waited in a mailbox, which it is to be taken out of.
    pub(crate) fn hand_over(&mut self, key: RequestKey, to: CapabilityId) -> Option<usize> {
        self.leave_index(key.slot());
        let slot = &mut self.slots[key.slot() as usize];
        if let Handler::Capability(from) = std::mem::replace(&mut slot.handler, Handler::Capability(to)) {
            self.capabilities[from.index()].unfinished -= 1;
            self.capabilities[to.index()].unfinished += 1;
        }
        let live = self.get_mut(key).filter(|live| live.phase == Phase::Mailbox)?;
        // Until it is in the other mailbox it counts for none.
        live.phase = Phase::Lane;
        Some(live.message.line().len())
    }

    /// The requests for a capability that wait for it in a lane or between two attempts.
    pub(crate) fn on_the_way_to(&self, capability: CapabilityId) -> Vec<RequestKey> {
        let mut keys = self.live_keys();
        keys.retain(|key| {
            self.handler(*key) == Some(Handler::Capability(capability))
                && self.get(*key).is_some_and(|live| matches!(live.phase, Phase::Lane | Phase::Retrying(_)))
        });
        keys
    }

    /// The unfinished request at a slot, with what the history would tell of it. Slots are counted
    /// from 0.
    pub(crate) fn record_at(&self, slot: u32) -> Option<(RequestKey, Record<'_>)> {
        let it = self.slots.get(slot as usize)?;
        let SlotState::Live(live) = &it.state else { return None };
        Some((RequestKey::new(slot, it.generation), live.record(it.handler, None)))
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// All unfinished requests, in the order of their slots.
    pub(crate) fn live_keys(&self) -> Vec<RequestKey> {
        let live = self.slots.iter().enumerate().filter(|(_, slot)| matches!(slot.state, SlotState::Live(_)));
        live.map(|(number, slot)| RequestKey::new(number as u32, slot.generation)).collect()
    }

    /// There is one more capability.
    pub(crate) fn add_capability(&mut self) -> PeerId {
        self.capabilities.push(OfCapability::default());
        self.add_actor()
    }

    /// The id of an unfinished request.
    pub(crate) fn id(&self, key: RequestKey) -> Option<Text> {
        self.get(key).map(|live| live.message.id_text())
    }
}
