//! The table of timers: slots, generations and the order in which they are due.
//!
//! Bookkeeping only. The turn takes due timers out in a batch before it runs any of them, leaving
//! those that were set or moved during this turn for the next one; whatever a callback does to a
//! timer of the batch takes effect before that timer runs.
//!
//! Most timers are cancelled or moved long before they are due, so neither touches the heap: a slot
//! knows the number of its entry, and an entry with another number stands for nothing. Such an
//! entry is dropped when it comes first, so that the first entry always is a timer's, or together
//! with its kind when they are more than half of all.

use crate::observe::labels::Label;
use crate::time::heap::{DeadlineHeap, Entry};
use crate::time::timer::{Once, Repeat};
use crate::{Instant, Timer};
use std::task::Waker;

#[cfg(test)]
mod tests;

/// What a slot has for an entry when it is free.
const VACANT: u32 = u32::MAX;
/// What a slot has for an entry when its timer is due and waits in the batch for its call.
const IN_BATCH: u32 = u32::MAX - 1;
/// Marks the entry of a timer whose callback has nothing to drop.
const INERT: u32 = 1 << 31;
/// Entries are numbered below this.
const SEQUENCE_END: u32 = INERT - 2;
/// Most entries that stand for nothing, beyond as many as stand for a timer.
const SPARE_ENTRIES_MAX: usize = 64;

/// What a timer does when it is due.
pub(crate) enum Action {
    /// Call once and forget.
    Once(Once),
    /// Call again and again.
    Repeat(Box<Repeat>),
    /// Wake a task.
    Wake(Waker),
    /// The callback is on the stack right now.
    Running,
    /// The slot is free.
    Vacant,
}

/// Whose a slot is and where it stands. Small and apart from the rest, so that many are in the
/// cache.
#[derive(Clone, Copy)]
struct TimerSlot {
    /// The number of its entry in the heap, perhaps with [`INERT`]; or [`IN_BATCH`] or [`VACANT`].
    entry: u32,
    generation: u32,
}

impl TimerSlot {
    #[inline]
    fn is_queued(self) -> bool {
        self.entry < IN_BATCH
    }

    #[inline]
    fn has_entry(self, entry: Entry) -> bool {
        self.entry & !INERT == entry.sequence()
    }
}

/// A due timer as the batch remembers it.
#[derive(Clone, Copy)]
pub(crate) struct Due {
    pub(crate) timer: Timer,
    pub(crate) deadline: Instant,
}

pub(crate) struct TimerTable {
    slots: Vec<TimerSlot>,
    /// By slot.
    actions: Vec<Action>,
    /// By slot, as far as any was given.
    labels: Vec<Label>,
    /// Vacant slots below `unused`, the latest last: a list of its own, so that taking one does not
    /// wait for the one before.
    free: Vec<u32>,
    /// From here on all slots are vacant.
    unused: usize,
    active: usize,
    heap: DeadlineHeap,
    /// How many timers have an entry in the heap. Its other entries stand for nothing.
    queued: usize,
    /// The number of the next entry, which is its place in the order of arrival.
    next_sequence: u32,
    /// The entries from here on are of the newest turn.
    new_from: u32,
    /// The latest turn in which a timer was set or moved.
    newest_turn: u64,
}

impl Default for TimerTable {
    fn default() -> TimerTable {
        TimerTable {
            slots: Vec::new(),
            actions: Vec::new(),
            labels: Vec::new(),
            free: Vec::new(),
            unused: 0,
            active: 0,
            heap: DeadlineHeap::default(),
            queued: 0,
            next_sequence: 0,
            new_from: 0,
            newest_turn: u64::MAX,
        }
    }
}

impl TimerTable {
    /// How many timers have yet to fire, or fire again.
    pub(crate) fn len(&self) -> usize {
        self.active
    }

    #[inline]
    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.heap.first().map(|entry| Instant::from_nanos(entry.deadline()))
    }

    /// Sets a timer. One whose action is `inert` has nothing to drop.
    #[inline(always)]
    pub(crate) fn insert(&mut self, deadline: Instant, action: Action, inert: bool, turn: u64) -> Timer {
        self.prepare(turn);
        let slot = self.take_slot();
        // What was there has nothing to drop.
        std::mem::forget(std::mem::replace(&mut self.actions[slot as usize], action));
        self.active += 1;
        self.enqueue(slot, deadline, if inert { INERT } else { 0 });
        Timer { slot, generation: self.slots[slot as usize].generation }
    }

    #[inline]
    /// What all timers would have done, at the end of their loop.
    pub(crate) fn into_actions(self) -> impl Iterator<Item = Action> {
        self.actions.into_iter()
    }

    pub(crate) fn contains(&self, timer: Timer) -> bool {
        self.live(timer).is_some()
    }

    /// Ends a timer and hands its action back, to be dropped where user code may run, unless it is
    /// inert.
    #[inline(always)]
    pub(crate) fn remove(&mut self, timer: Timer) -> Option<Option<Action>> {
        let slot = self.live(timer)?;
        self.vacate(timer);
        if !slot.is_queued() {
            return Some(Some(self.take_action(timer)));
        }
        self.queued -= 1;
        self.tidy(slot);
        // A look at an action that has nothing to drop would be for nothing, and often a cache
        // miss.
        Some(if slot.entry & INERT != 0 { None } else { Some(self.take_action(timer)) })
    }

    /// Moves a timer, due or not, to a new deadline. False if it is gone.
    #[inline]
    pub(crate) fn reschedule(&mut self, timer: Timer, deadline: Instant, turn: u64) -> bool {
        self.prepare(turn);
        let Some(slot) = self.live(timer) else { return false };
        if slot.is_queued() {
            self.enqueue(timer.slot, deadline, slot.entry & INERT);
            self.queued -= 1;
            self.tidy(slot);
        } else {
            self.enqueue(timer.slot, deadline, 0);
        }
        true
    }

    pub(crate) fn set_label(&mut self, timer: Timer, label: Label) -> bool {
        let there = self.contains(timer);
        if there {
            let slot = timer.slot as usize;
            if slot >= self.labels.len() {
                self.labels.resize(slot + 1, Label::NONE);
            }
            self.labels[slot] = label;
        }
        there
    }

    /// Gives a sleeping task a new waker.
    pub(crate) fn set_waker(&mut self, timer: Timer, waker: &Waker) -> Option<Waker> {
        if !self.contains(timer) {
            return None;
        }
        match &mut self.actions[timer.slot as usize] {
            Action::Wake(current) if !current.will_wake(waker) => {
                Some(std::mem::replace(current, waker.clone()))
            }
            _ => None,
        }
    }

    /// Moves every timer that is due at `now` and was set before this turn, up to `limit` of them,
    /// into the batch.
    pub(crate) fn take_due(&mut self, now: Instant, turn: u64, limit: usize, batch: &mut Vec<Due>) {
        let mut too_new = Vec::new();
        while batch.len() < limit
            && let Some(first) = self.heap.first()
            && first.deadline() <= now.as_nanos()
        {
            self.heap.pop_first();
            if self.newest_turn == turn && first.sequence() >= self.new_from {
                too_new.push(first);
            } else {
                let slot = &mut self.slots[first.slot() as usize];
                slot.entry = IN_BATCH;
                self.queued -= 1;
                let timer = Timer { slot: first.slot(), generation: slot.generation };
                batch.push(Due { timer, deadline: Instant::from_nanos(first.deadline()) });
            }
            if self.is_first_abandoned() {
                self.drop_abandoned_first();
            }
        }
        for entry in too_new {
            self.heap.push(entry);
        }
        self.drop_abandoned_if_many();
    }

    /// Takes the action of a batched timer that nothing has cancelled or moved meanwhile. A
    /// one-shot is gone with it; a repeating timer has its next deadline already.
    pub(crate) fn begin(&mut self, due: Due, now: Instant) -> Option<(Action, Label)> {
        let timer = due.timer;
        if self.live(timer)?.entry != IN_BATCH {
            return None;
        }
        let label = self.labels.get(timer.slot as usize).map_or(Label::NONE, |&label| label);
        let mut action = self.take_action(timer);
        let next = match &mut action {
            Action::Repeat(repeat) => repeat.advance(due.deadline, now),
            _ => None,
        };
        match next {
            Some(next) => {
                self.actions[timer.slot as usize] = Action::Running;
                self.reserve_sequence();
                self.enqueue(timer.slot, next, 0);
            }
            // A one-shot, or a repeating timer that has no later tick: this call is the last.
            None => self.vacate(timer),
        }
        Some((action, label))
    }

    /// Puts a repeating timer's action back after its call. Hands it back if the call cancelled the
    /// timer.
    pub(crate) fn finish(&mut self, timer: Timer, action: Action) -> Option<Action> {
        let live = self.contains(timer);
        match self.actions.get_mut(timer.slot as usize) {
            Some(place) if live && matches!(place, Action::Running) => {
                *place = action;
                None
            }
            _ => Some(action),
        }
    }

    /// Prepares for a timer to be set or moved in `turn`.
    #[inline]
    fn prepare(&mut self, turn: u64) {
        self.reserve_sequence();
        if self.newest_turn != turn {
            self.newest_turn = turn;
            self.new_from = self.next_sequence;
        }
    }

    // Slots

    #[inline]
    fn live(&self, timer: Timer) -> Option<TimerSlot> {
        let slot = *self.slots.get(timer.slot as usize)?;
        (slot.generation == timer.generation && slot.entry != VACANT).then_some(slot)
    }

    #[inline]
    fn take_slot(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        if self.unused == self.slots.len() {
            self.slots.push(TimerSlot { entry: VACANT, generation: 0 });
            self.actions.push(Action::Vacant);
        }
        self.unused += 1;
        (self.unused - 1) as u32
    }

    /// Frees the slot of a timer, but for its action.
    #[inline(always)]
    fn vacate(&mut self, timer: Timer) {
        let generation = timer.generation.wrapping_add(1);
        self.slots[timer.slot as usize] = TimerSlot { entry: VACANT, generation };
        if let Some(label) = self.labels.get_mut(timer.slot as usize) {
            *label = Label::NONE;
        }
        self.active -= 1;
        if self.active > 0 {
            self.free.push(timer.slot);
        } else {
            // From front to back is how a table is filled best.
            self.free.clear();
            self.unused = 0;
        }
    }

    #[inline]
    fn take_action(&mut self, timer: Timer) -> Action {
        std::mem::replace(&mut self.actions[timer.slot as usize], Action::Vacant)
    }

    // Order

    /// Gives a slot an entry in the heap, behind all others that are due at the same time.
    #[inline(always)]
    fn enqueue(&mut self, slot: u32, deadline: Instant, inert: u32) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.slots[slot as usize].entry = sequence | inert;
        self.heap.push(Entry::new(deadline.as_nanos(), sequence, slot));
        self.queued += 1;
    }

    /// Looks after the heap when the entry that `slot` had has come to stand for nothing.
    #[inline(always)]
    fn tidy(&mut self, slot: TimerSlot) {
        if self.heap.first().is_some_and(|first| slot.has_entry(first)) {
            self.drop_abandoned_first();
        }
        self.drop_abandoned_if_many();
    }

    #[inline]
    fn is_first_abandoned(&self) -> bool {
        self.heap.first().is_some_and(|first| is_abandoned(&self.slots, first))
    }

    /// Drops entries until the first one stands for a timer.
    #[inline(never)]
    fn drop_abandoned_first(&mut self) {
        if self.queued == 0 {
            return self.heap.clear();
        }
        while self.is_first_abandoned() {
            self.heap.pop_first();
        }
    }

    #[inline(always)]
    fn drop_abandoned_if_many(&mut self) {
        if self.heap.len() > 2 * self.queued + SPARE_ENTRIES_MAX {
            self.drop_abandoned();
        }
    }

    #[cold]
    #[inline(never)]
    fn drop_abandoned(&mut self) {
        self.heap.retain(|entry| !is_abandoned(&self.slots, entry));
    }

    /// Sees to it that the next entry can have a number.
    #[inline]
    fn reserve_sequence(&mut self) {
        if self.next_sequence == SEQUENCE_END {
            self.renumber();
        }
    }

    /// Numbers the entries anew in the order of their arrival, when the numbers run out after two
    /// billion, so that the rule holds for ever.
    #[cold]
    fn renumber(&mut self) {
        self.drop_abandoned();
        let mut entries: Vec<Entry> = self.heap.drain().collect();
        entries.sort_unstable_by_key(|entry| entry.sequence());
        self.new_from = entries.partition_point(|entry| entry.sequence() < self.new_from) as u32;
        self.next_sequence = entries.len() as u32;
        for (sequence, entry) in (0..).zip(entries) {
            let slot = &mut self.slots[entry.slot() as usize];
            slot.entry = sequence | slot.entry & INERT;
            self.heap.push(Entry::new(entry.deadline(), sequence, entry.slot()));
        }
    }
}

/// Whether the entry stands for nothing any more.
#[inline]
fn is_abandoned(slots: &[TimerSlot], entry: Entry) -> bool {
    !slots[entry.slot() as usize].has_entry(entry)
}
