//! The table of timers: slots, generations and the heap of their deadlines.
//!
//! Bookkeeping only. The turn takes due timers out in a batch before it runs any of them, leaving those that were set or
//! moved during this turn for the next one; whatever a callback does to a timer of the batch takes effect before that
//! timer runs.

use crate::heap::{ABSENT, DeadlineHeap};
use crate::labels::Label;
use crate::timer::{Once, Repeat};
use crate::{Instant, Timer};
use std::task::Waker;

/// Position of a timer that is due and waits in the batch for its call.
const IN_BATCH: u32 = u32::MAX - 1;

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

struct Slot {
    generation: u32,
    label: Label,
    action: Action,
}

/// A due timer as the batch remembers it.
#[derive(Clone, Copy)]
pub(crate) struct Due {
    pub(crate) timer: Timer,
    pub(crate) deadline: Instant,
}

pub(crate) struct TimerTable {
    slots: Vec<Slot>,
    heap: DeadlineHeap,
    /// Vacant slots, the latest last: a list of its own, so that taking one does not wait for the one before.
    free: Vec<u32>,
    active: usize,
    /// The latest turn in which a timer was set or moved.
    newest_turn: u64,
}

impl Default for TimerTable {
    fn default() -> TimerTable {
        TimerTable {
            slots: Vec::new(),
            heap: DeadlineHeap::default(),
            free: Vec::new(),
            active: 0,
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
        self.heap.first_deadline().map(Instant::from_nanos)
    }

    /// Everything from here on was set or moved in `turn`.
    #[inline]
    fn note_turn(&mut self, turn: u64) {
        if self.newest_turn != turn {
            self.newest_turn = turn;
            self.heap.begin_new();
        }
    }

    pub(crate) fn insert(&mut self, deadline: Instant, action: Action, label: Label, turn: u64) -> Timer {
        self.note_turn(turn);
        let timer = match self.free.pop() {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                slot.action = action;
                slot.label = label;
                Timer { slot: index, generation: slot.generation }
            }
            None => {
                self.slots.push(Slot { generation: 0, label, action });
                Timer { slot: (self.slots.len() - 1) as u32, generation: 0 }
            }
        };
        self.heap.insert(timer.slot, deadline.as_nanos());
        self.active += 1;
        timer
    }

    fn live(&self, timer: Timer) -> Option<&Slot> {
        self.slots.get(timer.slot as usize).filter(|slot| slot.generation == timer.generation)
    }

    pub(crate) fn contains(&self, timer: Timer) -> bool {
        self.live(timer).is_some_and(|slot| !matches!(slot.action, Action::Vacant))
    }

    /// Ends a timer and hands its action back, to be dropped where user code may run.
    pub(crate) fn remove(&mut self, timer: Timer) -> Option<Action> {
        if !self.contains(timer) {
            return None;
        }
        let position = self.heap.position(timer.slot);
        if position < IN_BATCH {
            self.heap.remove(position);
        }
        Some(self.vacate(timer))
    }

    /// Moves a timer, due or not, to a new deadline. False if it is gone.
    pub(crate) fn reschedule(&mut self, timer: Timer, deadline: Instant, turn: u64) -> bool {
        if !self.contains(timer) {
            return false;
        }
        self.note_turn(turn);
        let position = self.heap.position(timer.slot);
        if position < IN_BATCH {
            self.heap.reschedule(position, deadline.as_nanos());
        } else {
            self.heap.insert(timer.slot, deadline.as_nanos());
        }
        true
    }

    pub(crate) fn set_label(&mut self, timer: Timer, label: Label) -> bool {
        let there = self.contains(timer);
        if there {
            self.slots[timer.slot as usize].label = label;
        }
        there
    }

    /// Gives a sleeping task a new waker.
    pub(crate) fn set_waker(&mut self, timer: Timer, waker: &Waker) -> Option<Waker> {
        if !self.contains(timer) {
            return None;
        }
        match &mut self.slots[timer.slot as usize].action {
            Action::Wake(current) if !current.will_wake(waker) => {
                Some(std::mem::replace(current, waker.clone()))
            }
            _ => None,
        }
    }

    /// Moves every timer that is due at `now` and was set before this turn, up to `limit` of them, into the batch.
    pub(crate) fn take_due(&mut self, now: Instant, turn: u64, limit: usize, batch: &mut Vec<Due>) {
        let mut too_new = Vec::new();
        while batch.len() < limit {
            let Some(entry) = self.heap.pop_due(now.as_nanos()) else { break };
            if self.newest_turn == turn && self.heap.is_new(&entry) {
                too_new.push(entry);
                continue;
            }
            self.heap.mark(entry.slot, IN_BATCH);
            let generation = self.slots[entry.slot as usize].generation;
            let timer = Timer { slot: entry.slot, generation };
            batch.push(Due { timer, deadline: Instant::from_nanos(entry.deadline) });
        }
        for entry in too_new {
            self.heap.restore(entry);
        }
    }

    /// Takes the action of a batched timer that nothing has cancelled or moved meanwhile. A one-shot is gone with it; a
    /// repeating timer has its next deadline already.
    pub(crate) fn begin(&mut self, due: Due, now: Instant) -> Option<(Action, Label)> {
        let timer = due.timer;
        if self.live(timer).is_none() || self.heap.position(timer.slot) != IN_BATCH {
            return None;
        }
        let slot = &mut self.slots[timer.slot as usize];
        let label = slot.label;
        if !matches!(slot.action, Action::Repeat(_)) {
            return Some((self.vacate(timer), label));
        }
        let mut action = std::mem::replace(&mut slot.action, Action::Running);
        if let Action::Repeat(repeat) = &mut action {
            match repeat.advance(due.deadline, now) {
                Some(next) => self.heap.insert(timer.slot, next.as_nanos()),
                // There is no later tick: this call is the last.
                None => drop(self.vacate(timer)),
            }
        }
        Some((action, label))
    }

    /// Puts a repeating timer's action back after its call. Hands it back if the call cancelled the timer.
    pub(crate) fn finish(&mut self, timer: Timer, action: Action) -> Option<Action> {
        match self.slots.get_mut(timer.slot as usize) {
            Some(slot) if slot.generation == timer.generation && matches!(slot.action, Action::Running) => {
                slot.action = action;
                None
            }
            _ => Some(action),
        }
    }

    fn vacate(&mut self, timer: Timer) -> Action {
        let slot = &mut self.slots[timer.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let action = std::mem::replace(&mut slot.action, Action::Vacant);
        self.free.push(timer.slot);
        self.heap.mark(timer.slot, ABSENT);
        self.active -= 1;
        action
    }
}
