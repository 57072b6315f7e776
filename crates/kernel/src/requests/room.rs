//! Who pays when more is remembered than there is room for.
//!
//! What is remembered is bounded for each peer and in all. At a peer's bound those of its
//! connections pay that have most, so that clients of one user do not cost each other anything; at
//! the bound of all, the peers that have most. A sixteenth of the bound is made free at once, so
//! that looking for who pays is rare.
//!
//! At a bound of bytes only answers go: that their requests were done stays known, and a repetition
//! is refused instead of done again. Whatever goes early, the capability that had the request still
//! knows it as a cause ([`Handled`]).
//!
//! [`Handled`]: super::handled::Handled

use super::Requests;
use super::causes::Workflow;
use super::peers::PeerId;
use super::shares::{PeerWindow, ShareId};
use super::table::SlotState;
use crate::api::ids::CapabilityId;
use crate::flow::routes::Handler;
use crate::out::Out;
use std::collections::BinaryHeap;

/// The part of a bound that is made free when it is met.
const ROOM: usize = 16;

/// How far below the next share, in parts of it, one may get before the next one pays.
const FAIRNESS: usize = 64;

/// So many commands of one share may go before it is compared with the next.
const SEVERAL: usize = 4;

/// How much may be left of something.
#[derive(Clone, Copy)]
struct Goal {
    requests: usize,
    bytes: usize,
}

impl Goal {
    /// What is to be left of `held` under these bounds.
    fn below(held: (usize, usize), requests_max: usize, bytes_max: usize) -> Option<Goal> {
        let left = |held: usize, max: usize| if held > max { max - max / ROOM } else { max };
        let (requests, bytes) = held;
        let is_over = requests > requests_max || bytes > bytes_max;
        is_over.then(|| Goal { requests: left(requests, requests_max), bytes: left(bytes, bytes_max) })
    }
}

impl Requests {
    /// Holds what is remembered to its bounds, after an answer of this peer with so many bytes
    /// came.
    #[inline]
    pub(super) fn bound_window(&mut self, peer: PeerId, bytes: usize, out: &mut Out) {
        let own = &self.peers.get(peer).window;
        let held = (own.requests, own.bytes);
        let bounds = &self.bounds;
        if let Some(goal) = Goal::below(held, bounds.window_peer_answers, bounds.window_peer_bytes) {
            self.make_room_in(peer, goal, out);
        }
        let held = (self.window.requests, self.window.bytes);
        let bounds = &self.bounds;
        if let Some(goal) = Goal::below(held, bounds.window_answers, bounds.window_bytes) {
            self.make_room_in_all(peer, goal, out);
        }
        self.tidy(bytes);
    }

    /// Forgets the oldest of those connections of a peer that have most, until no more than the
    /// goal is left.
    #[cold]
    fn make_room_in(&mut self, peer: PeerId, goal: Goal, out: &mut Out) {
        let mut shares: BinaryHeap<(usize, ShareId)> = self.shares_of(peer).collect();
        while let Some((_, share)) = shares.pop() {
            let next = shares.peek().map_or(0, |(weight, _)| *weight);
            // Several at once, because this is what a busy client's commands come to; all if nobody
            // else has any.
            let several = if shares.is_empty() { usize::MAX } else { SEVERAL };
            let mut pays = true;
            while pays {
                let PeerWindow { requests, bytes, .. } = self.peers.get(peer).window;
                pays = if requests > goal.requests {
                    self.forget_early(share, (requests - goal.requests).min(several), out)
                } else if bytes > goal.bytes {
                    self.forget_answer_early(share, out)
                } else {
                    return;
                };
                if pays && self.weight(share) < next - next / FAIRNESS {
                    break;
                }
            }
            if pays {
                shares.push((self.weight(share), share));
            }
        }
    }

    /// Lets the peers pay that have most, until no more than the goal is left. `current` is not let
    /// go of.
    #[cold]
    fn make_room_in_all(&mut self, current: PeerId, goal: Goal, out: &mut Out) {
        loop {
            let all = &self.window;
            let over_requests = all.requests > goal.requests;
            if !over_requests && all.bytes <= goal.bytes {
                return;
            }
            let most = match over_requests {
                true => self.peers.heaviest(|window| window.requests),
                false => self.peers.heaviest(|window| window.bytes),
            };
            let Some(peer) = most else { return };
            let own = &self.peers.get(peer).window;
            let held = (own.requests, own.bytes);
            // No more than it needs, and no more than an eighth before somebody else may have most.
            let left = |held: usize, over: usize| held - over.min(held / 8 + 1).min(held);
            let goal = Goal {
                requests: left(held.0, all.requests.saturating_sub(goal.requests)),
                bytes: left(held.1, all.bytes.saturating_sub(goal.bytes)),
            };
            self.make_room_in(peer, goal, out);
            let own = &self.peers.get(peer).window;
            let is_done = (own.requests, own.bytes) == held;
            if peer != current {
                self.peers.release(peer);
            }
            if is_done {
                return;
            }
        }
    }

    /// Forgets the oldest requests of a share before their time; returns whether there were so
    /// many.
    fn forget_early(&mut self, share: ShareId, count: usize, out: &mut Out) -> bool {
        for _ in 0..count {
            let Some(slot) = self.oldest_of(share) else { return false };
            out.counters.window_forgotten += 1;
            self.keep_as_cause(slot, out);
            self.forget(slot);
        }
        true
    }

    /// Forgets the oldest answer of a share before its time; returns whether there was one.
    fn forget_answer_early(&mut self, share: ShareId, out: &mut Out) -> bool {
        let Some(slot) = self.oldest_answer_of(share) else { return false };
        out.counters.window_evictions += 1;
        self.keep_as_cause(slot, out);
        self.forget_answer(slot);
        true
    }

    /// The capability that had a request goes on to know it.
    #[inline(always)]
    fn keep_as_cause(&mut self, slot: u32, out: &mut Out) {
        let it = &self.slots[slot as usize];
        let (Handler::Capability(capability), SlotState::Finished { finished_ns, .. }, true) =
            (it.handler, &it.state, it.delivered)
        else {
            return;
        };
        let (hash, finished_ns) = (it.hash, *finished_ns);
        let workflow = if it.has_workflow { self.workflow(slot) } else { Workflow::default() };
        self.note_handled(capability, hash, finished_ns, &workflow, out);
    }

    /// A capability had a request of which nothing else is remembered.
    #[inline(always)]
    pub(super) fn note_handled(
        &mut self,
        capability: CapabilityId,
        hash: u64,
        finished_ns: i64,
        workflow: &Workflow,
        out: &mut Out,
    ) {
        let over_ns = finished_ns.saturating_sub(self.bounds.window_ns);
        let had = &mut self.capabilities[capability.index()].had;
        out.counters.causes_forgotten += had.push(hash, finished_ns, workflow, over_ns);
    }
}
