//! Requesters that do not wait any longer.

use super::Requests;
use super::live::{Origin, RequestKey};
use super::peers::PeerId;
use super::table::SlotState;
use crate::api::ids::ConnectionId;
use mainspring_message::Started;

/// What it means that a connection does not wait for a request any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Others wait for the same.
    OthersStay,
    /// It was the only one, or did not wait for it at all.
    NobodyStays,
}

impl Requests {
    /// The unfinished request of a peer with this id.
    pub(crate) fn find_unfinished(&self, hash: u64, peer: PeerId, id: &str) -> Option<RequestKey> {
        let slot = self.find_by_peer(hash, peer, id)?;
        matches!(self.slots[slot as usize].state, SlotState::Live(_)).then(|| self.key(slot))
    }

    /// Whether an actor had an unfinished request.
    pub(crate) fn started(&self, key: RequestKey) -> Started {
        self.get(key).map_or(Started::No, |live| live.started())
    }

    /// The connections that wait for a request.
    pub(crate) fn waiting_connections(&self, key: RequestKey) -> Vec<ConnectionId> {
        let Some(live) = self.get(key) else { return Vec::new() };
        let first = match live.origin {
            Origin::Connection(connection) => Some(connection),
            Origin::Actor(_) | Origin::Delegate(_) => None,
        };
        first.into_iter().chain(live.waiters.iter().copied()).collect()
    }

    /// A connection does not wait for a request any more, if others do. If it was the first, the
    /// next one takes its place.
    pub(crate) fn leave(&mut self, key: RequestKey, connection: ConnectionId) -> Leaving {
        let Some(live) = self.get_mut(key) else { return Leaving::NobodyStays };
        if let Some(at) = live.waiters.iter().position(|waiter| *waiter == connection) {
            live.waiters.remove(at);
            return Leaving::OthersStay;
        }
        if matches!(live.origin, Origin::Connection(first) if first == connection) && !live.waiters.is_empty()
        {
            live.origin = Origin::Connection(live.waiters.remove(0));
            return Leaving::OthersStay;
        }
        Leaving::NobodyStays
    }
}
