//! Who is who: the identities under which ids are unique and limits are counted.

use super::Requests;
use super::shares::{PeerWindow, ShareId};
use crate::out::{MS, Out};
use hashbrown::HashMap;
use slab::Slab;

/// Nanoseconds in a second.
const SECOND: i64 = 1_000 * MS;

/// Names a peer for as long as something refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PeerId(u32);

impl PeerId {
    /// No peer: for slots that nothing is in.
    pub(super) const NOBODY: PeerId = PeerId(u32::MAX);

    #[inline]
    pub(super) fn number(self) -> u32 {
        self.0
    }

    #[cfg(test)]
    pub(crate) fn for_test(number: u32) -> PeerId {
        PeerId(number)
    }
}

/// A client's user or token, or a capability through all its incarnations.
#[derive(Debug)]
pub(super) struct Peer {
    /// The client's identity; nothing for an actor.
    name: Option<Box<str>>,
    /// Its open connections and its schedules. An actor has one more, so that it is never
    /// forgotten.
    holds: usize,
    /// Its unfinished requests.
    pub(super) requests: usize,
    /// Until when the ticks that were sent fill what its repeating schedules may send in a second.
    ticks_until_ns: i64,
    /// What is remembered of its commands.
    pub(super) window: PeerWindow,
    /// The share of an actor in that; those of clients are their connections'.
    pub(super) share: Option<ShareId>,
}

/// The peers. One is forgotten as soon as nothing refers to it, so their number is bounded by what
/// refers to them.
#[derive(Debug, Default)]
pub(super) struct Peers {
    peers: Slab<Peer>,
    by_name: HashMap<Box<str>, PeerId, foldhash::fast::FixedState>,
}

impl Peers {
    fn add(&mut self, name: Option<Box<str>>) -> PeerId {
        PeerId(self.peers.insert(Peer {
            name,
            holds: 1,
            requests: 0,
            ticks_until_ns: i64::MIN,
            window: PeerWindow::default(),
            share: None,
        }) as u32)
    }

    /// The name of a peer, nothing for an actor; nothing at all if it is forgotten.
    pub(super) fn name(&self, peer: PeerId) -> Option<Option<&str>> {
        self.peers.get(peer.0 as usize).map(|it| it.name.as_deref())
    }

    #[inline]
    pub(super) fn get(&self, peer: PeerId) -> &Peer {
        &self.peers[peer.0 as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, peer: PeerId) -> &mut Peer {
        &mut self.peers[peer.0 as usize]
    }

    /// Forgets the peer if nothing refers to it any more.
    #[inline]
    pub(super) fn release(&mut self, peer: PeerId) {
        let it = &self.peers[peer.0 as usize];
        if it.holds == 0 && it.requests == 0 && it.window.requests == 0 {
            if let Some(name) = &it.name {
                self.by_name.remove(name);
            }
            self.peers.remove(peer.0 as usize);
        }
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        self.peers.iter().map(|(peer, it)| (PeerId(peer as u32), it))
    }

    /// The peer of which most is remembered, by bytes or by number.
    pub(super) fn heaviest(&self, of: impl Fn(&PeerWindow) -> usize) -> Option<PeerId> {
        let all = self.each().map(|(peer, it)| (of(&it.window), peer));
        all.max_by_key(|(weight, peer)| (*weight, std::cmp::Reverse(*peer))).map(|(_, peer)| peer)
    }
}

impl Requests {
    /// Peers that something refers to.
    pub(crate) fn peers_len(&self) -> usize {
        self.peers.peers.len()
    }

    /// The identity of a client; nothing for an actor.
    pub(crate) fn peer_name(&self, peer: PeerId) -> Option<&str> {
        self.peers.peers.get(peer.0 as usize)?.name.as_deref()
    }

    /// The client of that identity, if something refers to it.
    pub(crate) fn peer_of_name(&self, name: &str) -> Option<PeerId> {
        self.peers.by_name.get(name).copied()
    }

    /// Unfinished requests of a peer.
    pub(crate) fn unfinished_of(&self, peer: PeerId) -> usize {
        self.peers.get(peer).requests
    }

    /// A peer for an actor; it is never forgotten.
    pub(super) fn add_actor(&mut self) -> PeerId {
        let peer = self.peers.add(None);
        let share = self.open_share(peer);
        self.peers.get_mut(peer).share = Some(share);
        peer
    }

    /// One more connection of the peer of that name, and the connection's share in what is
    /// remembered of it.
    pub(crate) fn connect(&mut self, name: &str) -> (PeerId, ShareId) {
        let peer = match self.peers.by_name.get(name) {
            Some(&peer) => {
                self.peers.get_mut(peer).holds += 1;
                peer
            }
            None => {
                let peer = self.peers.add(Some(name.into()));
                self.peers.by_name.insert(name.into(), peer);
                peer
            }
        };
        (peer, self.open_share(peer))
    }

    /// One connection less.
    pub(crate) fn disconnect(&mut self, peer: PeerId, share: ShareId) {
        self.leave_share(share, peer);
        self.release_peer(peer);
    }

    /// A peer has one more schedule.
    pub(crate) fn retain_peer(&mut self, peer: PeerId) {
        self.peers.get_mut(peer).holds += 1;
    }

    /// A peer has one connection or schedule less.
    pub(crate) fn release_peer(&mut self, peer: PeerId) {
        self.peers.get_mut(peer).holds -= 1;
        self.peers.release(peer);
    }

    /// When a tick of this peer may be sent, if not now: by then the ticks before it have had their
    /// places.
    pub(crate) fn place_of_tick(&mut self, peer: PeerId, out: &Out) -> Option<i64> {
        let rate = i64::try_from(self.bounds.peer_ticks_per_second).unwrap_or(i64::MAX).max(1);
        let (own, now_ns) = (self.peers.get_mut(peer), out.now.mono_ns);
        let ahead_ns = own.ticks_until_ns.saturating_sub(now_ns).max(0);
        own.ticks_until_ns = now_ns.saturating_add(ahead_ns).saturating_add(SECOND / rate);
        // A second's worth may come at once.
        (ahead_ns >= SECOND).then(|| now_ns.saturating_add(ahead_ns - SECOND + SECOND / rate))
    }
}
