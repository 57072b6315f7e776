//! What is remembered of finished requests, and who pays when that is too much.
//!
//! Only commands are remembered: a query has no effects, so asking it again does no harm. What is remembered is bounded for
//! each peer and in all. At a peer's bound those of its connections pay that have most, so that clients of one user do not
//! cost each other anything; at the bound of all, the peers that have most. A sixteenth of the bound is made free at once,
//! so that looking for who pays is rare.
//!
//! At a bound of bytes only answers go: that their requests were done stays known, and a repetition is refused instead of
//! done again. Whatever goes early, the capability that had the request still knows it as a cause ([`Handled`]).
//!
//! [`Handled`]: crate::requests::handled::Handled

use crate::api::ids::Now;
use crate::kernel::{Kernel, ns};
use crate::requests::PeerWindow;
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

impl Kernel {
    /// Forgets requests whose time is over.
    pub(crate) fn forget_old_answers(&mut self, now: Now) {
        let window_ns = ns(self.config.window_ms);
        while let Some((slot, peer, finished_ns)) = self.requests.oldest() {
            if finished_ns.saturating_add(window_ns) > now.mono_ns {
                return;
            }
            self.requests.forget(slot, &mut self.peers.get_mut(peer).window);
            self.peers.release(peer);
        }
    }

    /// Holds what is remembered to its bounds, after an answer of this peer with so many bytes came.
    #[inline]
    pub(crate) fn bound_window(&mut self, peer: u32, bytes: usize) {
        let (limits, own) = (&self.config.limits, &self.peers.get(peer).window);
        let held = (own.requests, own.bytes);
        let goal = Goal::below(held, limits.window_peer_answers_max, limits.window_peer_bytes_max);
        if let Some(goal) = goal {
            self.make_room_in(peer, goal);
        }
        let (limits, all) = (&self.config.limits, &self.requests.window);
        let held = (all.requests, all.bytes);
        if let Some(goal) = Goal::below(held, limits.window_answers_max, limits.window_bytes_max) {
            self.make_room_in_all(peer, goal);
        }
        self.requests.tidy(self.config.limits.window_bytes_max, bytes);
    }

    /// Forgets the oldest of those connections of a peer that have most, until no more than the goal is left.
    #[cold]
    fn make_room_in(&mut self, peer: u32, goal: Goal) {
        let own = &self.peers.get(peer).window;
        let mut shares: BinaryHeap<(usize, u32)> = self.requests.shares_of(own).collect();
        while let Some((_, share)) = shares.pop() {
            let next = shares.peek().map_or(0, |(weight, _)| *weight);
            // Several at once, because this is what a busy client's commands come to; all if nobody else has any.
            let several = if shares.is_empty() { usize::MAX } else { SEVERAL };
            let mut pays = true;
            while pays {
                let PeerWindow { requests, bytes, .. } = self.peers.get(peer).window;
                pays = if requests > goal.requests {
                    self.forget_early(share, (requests - goal.requests).min(several), peer)
                } else if bytes > goal.bytes {
                    self.forget_answer_early(self.requests.oldest_answer_of(share), peer)
                } else {
                    return;
                };
                if pays && self.requests.weight(share) < next - next / FAIRNESS {
                    break;
                }
            }
            if pays {
                shares.push((self.requests.weight(share), share));
            }
        }
    }

    /// Lets the peers pay that have most, until no more than the goal is left. `current` is not let go of.
    #[cold]
    fn make_room_in_all(&mut self, current: u32, goal: Goal) {
        loop {
            let all = &self.requests.window;
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
            self.make_room_in(peer, goal);
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

    /// Forgets the oldest requests of a share before their time; returns whether there were so many.
    fn forget_early(&mut self, share: u32, count: usize, peer: u32) -> bool {
        for _ in 0..count {
            let Some(slot) = self.requests.oldest_of(share) else { return false };
            self.counters.window_forgotten += 1;
            self.keep_as_cause(slot);
            self.requests.forget(slot, &mut self.peers.get_mut(peer).window);
        }
        true
    }

    /// Forgets an answer before its time; returns whether there was one.
    fn forget_answer_early(&mut self, slot: Option<u32>, peer: u32) -> bool {
        let Some(slot) = slot else { return false };
        self.counters.window_evictions += 1;
        self.keep_as_cause(slot);
        let own = &mut self.peers.get_mut(peer).window;
        self.requests.forget_answer(slot, own);
        true
    }

    /// The capability that had a request goes on to know it.
    #[inline(always)]
    fn keep_as_cause(&mut self, slot: u32) {
        let Some((capability, hash, finished_ns, correlated)) = self.requests.handled(slot) else { return };
        let correlation = if correlated { self.requests.correlation(slot) } else { None };
        self.note_handled(capability, hash, finished_ns, correlation.as_deref());
    }

    /// A capability had a request of which nothing else is remembered.
    #[inline(always)]
    pub(crate) fn note_handled(
        &mut self,
        capability: u32,
        hash: u64,
        finished_ns: i64,
        correlation: Option<&str>,
    ) {
        let over_ns = finished_ns.saturating_sub(ns(self.config.window_ms));
        let handled = &mut self.actors[capability as usize].had;
        self.counters.causes_forgotten += handled.push(hash, finished_ns, correlation, over_ns);
    }
}
