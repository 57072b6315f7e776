//! Shares: what is remembered of one connection or actor, as a part of what is remembered of its
//! peer.
//!
//! A closed connection keeps its share until all that is remembered in it is forgotten.

use super::Requests;
use super::peers::PeerId;
use super::table::NIL;
use super::window::Window;

/// Names the share of one connection or actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShareId(u32);

impl ShareId {
    #[inline]
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is remembered of one peer, in all.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerWindow {
    /// The first of its shares, or [`NIL`].
    shares: u32,
    pub(super) requests: usize,
    /// Bytes of their answers.
    pub(super) bytes: usize,
}

impl Default for PeerWindow {
    fn default() -> PeerWindow {
        PeerWindow { shares: NIL, requests: 0, bytes: 0 }
    }
}

/// What is remembered of one connection or actor.
#[derive(Debug)]
pub(super) struct Share {
    /// The connection while it is open, its unfinished commands, and its remembered ones.
    references: u32,
    pub(super) window: Window,
    /// The oldest slot that has its answer still, or [`NIL`]: those before it have lost theirs.
    pub(super) answered: u32,
    /// The neighbours among the shares of the same peer.
    previous: u32,
    next: u32,
}

/// What a remembered request counts for beside the bytes of its answer: the place that it takes.
pub(super) const PLACE_BYTES: usize = 128;

impl Requests {
    #[inline]
    pub(super) fn share(&self, share: ShareId) -> &Share {
        &self.shares[share.0 as usize]
    }

    #[inline]
    pub(super) fn share_mut(&mut self, share: ShareId) -> &mut Share {
        &mut self.shares[share.0 as usize]
    }

    /// A share for a connection or actor of this peer.
    pub(super) fn open_share(&mut self, peer: PeerId) -> ShareId {
        let own = &mut self.peers.get_mut(peer).window;
        let share = Share {
            references: 1,
            window: Window::default(),
            answered: NIL,
            previous: NIL,
            next: own.shares,
        };
        let share = self.shares.insert(share) as u32;
        if own.shares != NIL {
            self.shares[own.shares as usize].previous = share;
        }
        own.shares = share;
        ShareId(share)
    }

    /// One thing more refers to a share.
    #[inline]
    pub(super) fn join_share(&mut self, share: ShareId) {
        self.shares[share.0 as usize].references += 1;
    }

    /// One thing less refers to a share of this peer. It goes with the last one.
    #[inline]
    pub(super) fn leave_share(&mut self, share: ShareId, peer: PeerId) {
        let it = &mut self.shares[share.0 as usize];
        it.references -= 1;
        if it.references == 0 {
            self.close_share(share, peer);
        }
    }

    #[cold]
    fn close_share(&mut self, share: ShareId, peer: PeerId) {
        let Share { previous, next, .. } = self.shares.remove(share.0 as usize);
        match previous {
            NIL => self.peers.get_mut(peer).window.shares = next,
            previous => self.shares[previous as usize].next = next,
        }
        if next != NIL {
            self.shares[next as usize].previous = previous;
        }
    }

    fn all_shares_of(&self, peer: PeerId) -> impl Iterator<Item = ShareId> {
        let present = |share: u32| Some(share).filter(|share| *share != NIL);
        let next = move |share: &u32| present(self.shares[*share as usize].next);
        std::iter::successors(present(self.peers.get(peer).window.shares), next).map(ShareId)
    }

    /// The shares of a peer that hold something, each with what it counts for.
    pub(super) fn shares_of(&self, peer: PeerId) -> impl Iterator<Item = (usize, ShareId)> {
        let all = self.all_shares_of(peer).map(|share| (self.weight(share), share));
        all.filter(|(weight, _)| *weight > 0)
    }

    /// What a share counts for: the bytes of its answers, and the places of all that is remembered.
    /// Nothing if it is gone.
    pub(super) fn weight(&self, share: ShareId) -> usize {
        let window = self.shares.get(share.0 as usize).map(|share| &share.window);
        window.map_or(0, |window| window.bytes + window.requests * PLACE_BYTES)
    }

    /// The oldest remembered request of a share.
    pub(super) fn oldest_of(&self, share: ShareId) -> Option<u32> {
        self.shares.get(share.0 as usize).map(|share| share.window.oldest).filter(|slot| *slot != NIL)
    }

    /// The oldest remembered request of a share whose answer is remembered too.
    pub(super) fn oldest_answer_of(&self, share: ShareId) -> Option<u32> {
        self.shares.get(share.0 as usize).map(|share| share.answered).filter(|slot| *slot != NIL)
    }

    /// Whether the shares of a peer agree with what is kept of it as a whole; for audits.
    pub(super) fn audit_shares(&self, peer: PeerId) -> Result<(), String> {
        let (mut requests, mut bytes) = (0, 0);
        for share in self.all_shares_of(peer) {
            let it = self.share(share);
            (requests, bytes) = (requests + it.window.requests, bytes + it.window.bytes);
            let (mut count, mut kept, mut first) = (0, 0, NIL);
            let mut slot = it.window.oldest;
            while slot != NIL {
                (count, kept) = (count + 1, kept + self.answer_bytes(slot));
                if first == NIL && self.answer(slot).is_some() {
                    first = slot;
                }
                slot = self.slots[slot as usize].own.newer;
            }
            if (count, kept, first) != (it.window.requests, it.window.bytes, it.answered) {
                return Err(format!("{share:?} is wrong about {:?}", (count, kept, first)));
            }
        }
        let own = &self.peers.get(peer).window;
        if (requests, bytes) == (own.requests, own.bytes) {
            return Ok(());
        }
        Err(format!("shares hold {requests} requests and {bytes} bytes, their peer {own:?}"))
    }
}
