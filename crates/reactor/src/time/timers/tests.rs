//! The table against a sorted list.

use super::*;
use proptest::prelude::*;
use std::rc::Rc;

/// What the table should know about a timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Expected {
    deadline: i64,
    arrival: usize,
    slot: u32,
    generation: u32,
}

impl Expected {
    fn timer(self) -> Timer {
        Timer { slot: self.slot, generation: self.generation }
    }
}

/// The table and the list, each told of the same.
struct Pair {
    table: TimerTable,
    model: Vec<Expected>,
    turn: u64,
    /// Held by every callback that has something to drop.
    held: Rc<()>,
    holders: Vec<Timer>,
}

impl Pair {
    fn new(next_sequence: u32) -> Pair {
        let table = TimerTable { next_sequence, ..TimerTable::default() };
        Pair { table, model: Vec::new(), turn: 0, held: Rc::new(()), holders: Vec::new() }
    }

    fn insert(&mut self, deadline: i64, inert: bool, arrival: usize) -> Timer {
        let held = self.held.clone();
        let call: Once = if inert { Box::new(|_| ()) } else { Box::new(move |_| drop(held)) };
        let timer = self.table.insert(Instant::from_nanos(deadline), Action::Once(call), inert, self.turn);
        assert!(self.model.iter().all(|other| other.timer() != timer), "a name is given once");
        self.model.push(Expected { deadline, arrival, slot: timer.slot, generation: timer.generation });
        self.holders.extend((!inert).then_some(timer));
        timer
    }

    fn remove(&mut self, index: usize) {
        let timer = self.model.swap_remove(index).timer();
        let action = self.table.remove(timer).expect("the timer was there");
        assert_eq!(action.is_some(), self.holders.contains(&timer), "what is inert is not handed back");
        drop(action);
        self.holders.retain(|&holder| holder != timer);
        assert!(self.table.remove(timer).is_none(), "it is gone");
        assert!(!self.table.reschedule(timer, Instant::from_nanos(0), self.turn), "it is gone");
    }

    fn reschedule(&mut self, index: usize, deadline: i64, arrival: usize) {
        let expected = &mut self.model[index];
        (expected.deadline, expected.arrival) = (deadline, arrival);
        assert!(self.table.reschedule(expected.timer(), Instant::from_nanos(deadline), self.turn));
    }

    /// Fires what is due in a turn of its own, and returns it.
    fn fire(&mut self, now: i64, limit: usize) -> Vec<Timer> {
        self.turn += 1;
        let mut batch = Vec::new();
        self.table.take_due(Instant::from_nanos(now), self.turn, limit, &mut batch);
        for &due in &batch {
            let (action, _) = self.table.begin(due, Instant::from_nanos(now)).expect("nobody has touched it");
            assert!(matches!(action, Action::Once(_)));
            self.holders.retain(|&holder| holder != due.timer);
        }
        batch.into_iter().map(|due| due.timer).collect()
    }

    /// Takes from the list what should fire.
    fn expect_fired(&mut self, now: i64, limit: usize) -> Vec<Timer> {
        self.model.sort_unstable();
        let due = self.model.partition_point(|expected| expected.deadline <= now).min(limit);
        self.model.drain(..due).map(Expected::timer).collect()
    }

    fn check(&self) {
        let table = &self.table;
        assert_eq!(table.len(), self.model.len());
        let first = self.model.iter().map(|expected| Instant::from_nanos(expected.deadline)).min();
        assert_eq!(table.first_deadline(), first, "the first deadline is a live timer's");
        assert!(table.heap.len() <= 2 * table.len() + SPARE_ENTRIES_MAX, "entries for nothing are bounded");
        assert!(self.model.iter().all(|expected| table.contains(expected.timer())));
        let holders = 1 + self.holders.len();
        assert_eq!(Rc::strong_count(&self.held), holders, "callbacks are dropped at once, and only once");
    }
}

proptest! {
    #[test]
    fn the_table_agrees_with_a_sorted_list(
        before_the_end in prop_oneof![Just(SEQUENCE_END), 0u32..200],
        steps in proptest::collection::vec((0u8..10, any::<proptest::sample::Index>(), 0i64..64, any::<bool>()), 1..600),
    ) {
        let mut pair = Pair::new(SEQUENCE_END - before_the_end);
        for (arrival, (step, pick, deadline, inert)) in steps.into_iter().enumerate() {
            match step {
                0..3 => _ = pair.insert(deadline, inert, arrival),
                3..6 if !pair.model.is_empty() => pair.remove(pick.index(pair.model.len())),
                6..9 if !pair.model.is_empty() => {
                    pair.reschedule(pick.index(pair.model.len()), deadline, arrival);
                }
                9 => {
                    let limit = 1 + pick.index(8);
                    let expected = pair.expect_fired(deadline / 4, limit);
                    prop_assert_eq!(pair.fire(deadline / 4, limit), expected);
                }
                _ => {}
            }
            pair.check();
        }
        let expected = pair.expect_fired(i64::MAX, usize::MAX);
        prop_assert_eq!(pair.fire(i64::MAX, usize::MAX), expected);
        pair.check();
    }
}

#[test]
fn a_crowd_that_is_moved_and_cancelled_leaves_no_more_entries_than_timers() {
    let mut pair = Pair::new(0);
    for arrival in 0..2000 {
        pair.insert(1000 + (arrival as i64 * 7919) % 1000, arrival % 2 == 0, arrival);
    }
    for round in 1..=5 {
        for index in 0..2000 {
            pair.reschedule(index, 1000 + (index as i64 * 104_729) % 1000, round * 2000 + index);
        }
        pair.check();
    }
    while let Some(last) = pair.model.len().checked_sub(1) {
        pair.remove(last / 2);
        if last % 50 == 0 {
            pair.check();
        }
    }
    assert_eq!(pair.table.heap.len(), 0, "nothing is left of them");
}

#[test]
fn equal_deadlines_leave_in_order_of_arrival_even_when_the_numbers_run_out() {
    let mut pair = Pair::new(SEQUENCE_END - 3);
    let timers: Vec<Timer> = (0..8).map(|arrival| pair.insert(5, true, arrival)).collect();
    assert_eq!(pair.fire(5, usize::MAX), timers);
}

#[test]
fn the_first_timer_is_moved_back_just_when_the_numbers_run_out() {
    let mut pair = Pair::new(SEQUENCE_END - 3);
    for (arrival, deadline) in [30, 10, 20].into_iter().enumerate() {
        pair.insert(deadline, false, arrival);
    }
    pair.reschedule(1, 40, 3);
    pair.check();
}

#[test]
fn timers_of_this_turn_wait_for_the_next_even_when_the_numbers_run_out() {
    let mut pair = Pair::new(SEQUENCE_END - 3);
    let old = pair.insert(9, true, 0);
    let moved = pair.insert(9, true, 1);
    pair.turn += 1;
    let new: Vec<Timer> = (2..6).map(|arrival| pair.insert(7, true, arrival)).collect();
    pair.reschedule(1, 1, 6);
    let mut batch = Vec::new();
    pair.table.take_due(Instant::from_nanos(9), pair.turn, usize::MAX, &mut batch);
    assert_eq!(batch.iter().map(|due| due.timer).collect::<Vec<_>>(), [old]);
    assert_eq!(pair.fire(9, usize::MAX), [&[moved], &new[..]].concat());
}

#[test]
fn an_emptied_table_is_filled_from_front_to_back_under_new_names() {
    let mut pair = Pair::new(0);
    let first: Vec<Timer> = (0..10).map(|arrival| pair.insert(1, false, arrival)).collect();
    for index in [3, 0, 6, 2, 1, 4, 0, 1, 0, 0] {
        pair.remove(index);
    }
    for (arrival, old) in first.into_iter().enumerate() {
        let new = pair.insert(1, true, arrival);
        assert_eq!((new.slot, new.generation), (old.slot, old.generation + 1));
    }
    pair.check();
}
