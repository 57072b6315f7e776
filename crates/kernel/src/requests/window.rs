//! The window: finished commands that are remembered, oldest to newest, over all peers and in each
//! share.
//!
//! Only commands are remembered: a query has no effects, so asking it again does no harm.

use super::Requests;
use super::answers::AnswerPlace;
use super::live::{Live, RequestKey};
use super::shares::{PLACE_BYTES, ShareId};
use super::table::{NIL, Slot, SlotState};
use mainspring_message::Envelope;

/// The neighbours of a slot in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) older: u32,
    pub(super) newer: u32,
}

pub(super) const UNLINKED: Link = Link { older: NIL, newer: NIL };

/// The ends of a list of finished slots, with their number and the bytes of their answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) oldest: u32,
    newest: u32,
    pub(super) requests: usize,
    pub(super) bytes: usize,
}

impl Default for Window {
    fn default() -> Window {
        Window { oldest: NIL, newest: NIL, requests: 0, bytes: 0 }
    }
}

/// Adds a slot to a list as its newest; `of` is the place of that list's links.
#[inline(always)]
fn link(
    slots: &mut [Slot],
    window: &mut Window,
    slot: u32,
    bytes: usize,
    of: impl Fn(&mut Slot) -> &mut Link,
) {
    *of(&mut slots[slot as usize]) = Link { older: window.newest, newer: NIL };
    match window.newest {
        NIL => window.oldest = slot,
        newest => of(&mut slots[newest as usize]).newer = slot,
    }
    window.newest = slot;
    window.requests += 1;
    window.bytes += bytes;
}

/// Takes a slot with these links out of a list; its own links stay what they were.
#[inline(always)]
fn unlink(
    slots: &mut [Slot],
    window: &mut Window,
    links: Link,
    bytes: usize,
    of: impl Fn(&mut Slot) -> &mut Link,
) {
    match links.older {
        NIL => window.oldest = links.newer,
        older => of(&mut slots[older as usize]).newer = links.newer,
    }
    match links.newer {
        NIL => window.newest = links.older,
        newer => of(&mut slots[newer as usize]).older = links.older,
    }
    window.requests -= 1;
    window.bytes -= bytes;
}

impl Requests {
    /// Ends an unfinished request and forgets it.
    #[inline]
    pub(super) fn remove_live(&mut self, key: RequestKey) -> Option<Box<Live>> {
        self.get(key)?;
        let state = self.release(key.slot());
        self.live -= 1;
        match state {
            SlotState::Live(live) => Some(live),
            _ => None,
        }
    }

    /// Ends an unfinished request and remembers it as the newest of its share, with its answer if
    /// there is one to keep.
    #[inline]
    pub(super) fn remember(
        &mut self,
        key: RequestKey,
        share: ShareId,
        answer: Option<&Envelope>,
        now_ns: i64,
    ) -> Option<Box<Live>> {
        self.get(key)?;
        self.live -= 1;
        match self.enter_window(key.slot(), share, answer, now_ns) {
            SlotState::Live(live) => Some(live),
            _ => None,
        }
    }

    /// Makes a slot the newest of its share, with its answer if there is one to keep; returns what
    /// was in it.
    #[inline]
    pub(super) fn enter_window(
        &mut self,
        slot: u32,
        share: ShareId,
        answer: Option<&Envelope>,
        now_ns: i64,
    ) -> SlotState {
        let answer = match answer {
            Some(answer) => {
                let id = answer.causation().unwrap_or_default();
                self.answers.keep(answer.line(), id, answer.causation_place())
            }
            None => AnswerPlace::FORGOTTEN,
        };
        let finished = SlotState::Finished { answer, finished_ns: now_ns };
        let it = &mut self.slots[slot as usize];
        let peer = it.peer;
        let state = std::mem::replace(&mut it.state, finished);
        link(&mut self.slots, &mut self.window, slot, answer.len(), |slot| &mut slot.all);
        let share = &mut self.shares[share.index()];
        link(&mut self.slots, &mut share.window, slot, answer.len(), |slot| &mut slot.own);
        if share.answered == NIL && !answer.is_forgotten() {
            share.answered = slot;
        }
        let own = &mut self.peers.get_mut(peer).window;
        own.requests += 1;
        own.bytes += answer.len();
        if answer.is_forgotten() {
            self.leave_index(slot);
        }
        state
    }

    /// Forgets requests whose time is over.
    #[inline]
    pub(super) fn forget_old(&mut self, now_ns: i64) {
        while let Some(slot) = self.slots.get(self.window.oldest as usize) {
            let SlotState::Finished { finished_ns, .. } = slot.state else { return };
            if finished_ns.saturating_add(self.bounds.window_ns) > now_ns {
                return;
            }
            let peer = slot.peer;
            self.forget(self.window.oldest);
            self.peers.release(peer);
        }
    }

    /// Forgets a remembered request.
    pub(super) fn forget(&mut self, slot: u32) {
        let it = &self.slots[slot as usize];
        let (SlotState::Finished { answer, .. }, Some(share)) = (&it.state, it.share) else { return };
        let (answer, all, of_share, peer) = (*answer, it.all, it.own, it.peer);
        if self.sweep == slot {
            self.sweep = all.newer;
        }
        if !answer.is_forgotten() {
            self.answers.forget(answer);
            self.note_answer_gone(share, slot, of_share.newer);
        }
        unlink(&mut self.slots, &mut self.window, all, answer.len(), |slot| &mut slot.all);
        let window = &mut self.shares[share.index()].window;
        unlink(&mut self.slots, window, of_share, answer.len(), |slot| &mut slot.own);
        let own = &mut self.peers.get_mut(peer).window;
        own.requests -= 1;
        own.bytes -= answer.len();
        self.release(slot);
    }

    /// Forgets the answer of a remembered request, which stays known.
    pub(super) fn forget_answer(&mut self, slot: u32) {
        self.leave_index(slot);
        let it = &mut self.slots[slot as usize];
        let (newer, peer) = (it.own.newer, it.peer);
        let (SlotState::Finished { answer: place, .. }, Some(share)) = (&mut it.state, it.share) else {
            return;
        };
        let answer = std::mem::replace(place, AnswerPlace::FORGOTTEN);
        if answer.is_forgotten() {
            return;
        }
        self.answers.forget(answer);
        self.note_answer_gone(share, slot, newer);
        self.share_mut(share).window.bytes -= answer.len();
        self.window.bytes -= answer.len();
        self.peers.get_mut(peer).window.bytes -= answer.len();
    }

    /// Finds the oldest answer of a share anew when the one of `slot`, which stands before `newer`,
    /// is gone.
    #[inline]
    fn note_answer_gone(&mut self, share: ShareId, slot: u32, mut newer: u32) {
        if self.share(share).answered != slot {
            return;
        }
        // One that was too large to be kept may stand in between.
        while newer != NIL && self.has_lost_answer(newer) {
            newer = self.slots[newer as usize].own.newer;
        }
        self.share_mut(share).answered = newer;
    }

    fn has_lost_answer(&self, slot: u32) -> bool {
        matches!(&self.slots[slot as usize].state, SlotState::Finished { answer, .. } if answer.is_forgotten())
    }

    /// Bytes of the answer that is remembered in a slot.
    pub(super) fn answer_bytes(&self, slot: u32) -> usize {
        match self.slots[slot as usize].state {
            SlotState::Finished { answer, .. } => answer.len(),
            _ => 0,
        }
    }

    /// Moves a few answers together when more than half of the window's bytes lies between them,
    /// after one of so many bytes came.
    ///
    /// Whoever's answers stay while those of others around them are forgotten would hold large
    /// pieces of memory by them. Moving four bytes for one that comes, a round through the window
    /// ends before a quarter of its bytes came, so that never more than the bound is wasted.
    #[inline]
    pub(super) fn tidy(&mut self, bytes: usize) {
        if self.answers.wasted_bytes() > self.bounds.window_bytes / 2 {
            self.move_answers(4 * (bytes + PLACE_BYTES));
        }
    }

    #[cold]
    fn move_answers(&mut self, bytes: usize) {
        let mut moved = 0;
        while moved < bytes {
            if self.sweep == NIL {
                self.sweep = self.window.oldest;
            }
            let Some(slot) = self.slots.get_mut(self.sweep as usize) else { return };
            self.sweep = slot.all.newer;
            moved += PLACE_BYTES;
            if let SlotState::Finished { answer, .. } = &mut slot.state
                && !answer.is_forgotten()
            {
                moved += answer.len();
                *answer = self.answers.move_to_end(*answer);
            }
        }
    }
}
