//! The wheel against a sorted list that does the same thing slowly.

use proptest::prelude::*;

use super::*;

/// The same contract, kept by a vector: (deadline, order of scheduling, key, value).
#[derive(Default)]
struct SortedList {
    timers: Vec<(i64, u64, TimerKey, u32)>,
    scheduled: u64,
}

impl SortedList {
    fn schedule(&mut self, deadline: i64, key: TimerKey, value: u32) {
        self.scheduled += 1;
        self.timers.push((deadline, self.scheduled, key, value));
        self.timers.sort_by_key(|&(deadline, order, ..)| (deadline, order));
    }

    fn cancel(&mut self, key: TimerKey) -> Option<u32> {
        let at = self.timers.iter().position(|timer| timer.2 == key)?;
        Some(self.timers.remove(at).3)
    }

    fn next_deadline(&self) -> Option<i64> {
        self.timers.first().map(|timer| timer.0)
    }

    fn pop_due(&mut self, now: i64) -> Option<(i64, u32)> {
        let &(deadline, _, _, value) = self.timers.first()?;
        (deadline <= now).then(|| {
            self.timers.remove(0);
            (deadline, value)
        })
    }
}

#[derive(Clone, Debug)]
enum Step {
    Schedule(i64),
    /// Cancels one of the keys ever given out, which may be long dead.
    Cancel(usize),
    Reschedule(usize, i64),
    /// Moves time forward by so much and pops everything due.
    Advance(i64),
    PopOne(i64),
}

/// Delays at every scale at which a wheel can be: equal, neighbouring, and far apart.
fn delay() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 0_i64..4,
        4 => 0_i64..300,
        3 => (0_u32..40, 0_i64..8).prop_map(|(shift, low)| (low << shift) + low),
        2 => Just(30_000_000_000),
        1 => any::<i64>(),
        1 => Just(i64::MAX),
        1 => Just(i64::MIN),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => delay().prop_map(Step::Schedule),
        4 => any::<usize>().prop_map(Step::Cancel),
        1 => (any::<usize>(), delay()).prop_map(|(which, delay)| Step::Reschedule(which, delay)),
        2 => (0_u32..36).prop_map(|shift| Step::Advance(1 << shift)),
        1 => delay().prop_map(Step::PopOne),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn does_what_a_sorted_list_does(start in delay(), steps in prop::collection::vec(step(), 1..400)) {
        let mut wheel = Wheel::new();
        let mut list = SortedList::default();
        let mut keys: Vec<TimerKey> = Vec::new();
        let mut now = start;
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Schedule(delay) => {
                    let deadline = deadline_after(now, delay);
                    let value = u32::try_from(at).unwrap();
                    let key = wheel.schedule(deadline, value);
                    prop_assert!(!keys.contains(&key), "a key was given out twice");
                    keys.push(key);
                    list.schedule(deadline, key, value);
                }
                Step::Cancel(which) if !keys.is_empty() => {
                    let key = keys[which % keys.len()];
                    prop_assert_eq!(wheel.cancel(key), list.cancel(key));
                }
                Step::Reschedule(which, delay) if !keys.is_empty() => {
                    let key = keys[which % keys.len()];
                    let deadline = deadline_after(now, delay);
                    let moved = list.cancel(key);
                    prop_assert_eq!(wheel.reschedule(key, deadline), moved.is_some());
                    if let Some(value) = moved {
                        list.schedule(deadline, key, value);
                        prop_assert_eq!(wheel.deadline(key), Some(deadline));
                        prop_assert_eq!(wheel.get(key), Some(&value));
                    }
                }
                Step::Advance(by) => {
                    now = now.saturating_add(by);
                    loop {
                        let (popped, expected) = (wheel.pop_due(now), list.pop_due(now));
                        prop_assert_eq!(popped, expected);
                        if popped.is_none() { break; }
                    }
                }
                Step::PopOne(at) => prop_assert_eq!(wheel.pop_due(at), list.pop_due(at)),
                Step::Cancel(_) | Step::Reschedule(..) => {}
            }
            prop_assert_eq!(wheel.next_deadline(), list.next_deadline());
            prop_assert_eq!(wheel.len(), list.timers.len());
            prop_assert_eq!(wheel.is_empty(), list.timers.is_empty());
        }
        while let Some((deadline, value)) = wheel.pop_due(i64::MAX) {
            prop_assert_eq!(Some((deadline, value)), list.pop_due(i64::MAX));
        }
        prop_assert_eq!(list.timers.len(), 0);
        prop_assert_eq!(wheel.nodes[ROOT as usize].occupied, 0);
    }
}

#[test]
fn equal_deadlines_fire_first_in_first_out() {
    let mut wheel = Wheel::new();
    for value in 0..1_000 {
        wheel.schedule(7, value);
    }
    wheel.schedule(6, 5_000);
    assert_eq!(wheel.pop_due(7), Some((6, 5_000)));
    for value in 0..1_000 {
        assert_eq!(wheel.pop_due(7), Some((7, value)));
    }
    assert_eq!(wheel.pop_due(i64::MAX), None);
}

#[test]
fn nothing_fires_a_nanosecond_early() {
    let mut wheel = Wheel::new();
    for shift in 0..62 {
        wheel.schedule(1 << shift, shift);
    }
    for shift in 0..62 {
        let deadline = 1_i64 << shift;
        assert_eq!(wheel.next_deadline(), Some(deadline));
        assert_eq!(wheel.pop_due(deadline - 1), None);
        assert_eq!(wheel.pop_due(deadline), Some((deadline, shift)));
    }
}

#[test]
fn the_edges_of_the_range_are_ordinary_deadlines() {
    let mut wheel = Wheel::new();
    wheel.schedule(i64::MAX, 'z');
    wheel.schedule(i64::MIN, 'a');
    wheel.schedule(0, 'm');
    assert_eq!(wheel.pop_due(i64::MIN), Some((i64::MIN, 'a')));
    assert_eq!(wheel.pop_due(i64::MAX - 1), Some((0, 'm')));
    assert_eq!(wheel.pop_due(i64::MAX - 1), None);
    assert_eq!(wheel.pop_due(i64::MAX), Some((i64::MAX, 'z')));
}

#[test]
fn a_delay_beyond_the_range_saturates_instead_of_wrapping() {
    assert_eq!(deadline_after(i64::MAX, 1), i64::MAX);
    assert_eq!(deadline_after(i64::MIN, -1), i64::MIN);
}

#[test]
fn a_dead_key_names_nothing_even_when_its_place_is_taken_again() {
    let mut wheel = Wheel::new();
    let old = wheel.schedule(1, "old");
    assert_eq!(wheel.cancel(old), Some("old"));
    let new = wheel.schedule(1, "new");
    assert_ne!(old, new);
    assert_eq!(wheel.cancel(old), None);
    assert!(!wheel.reschedule(old, 9));
    assert_eq!(wheel.get(old), None);
    assert_eq!(wheel.cancel(new), Some("new"));
}

#[test]
fn the_tables_do_not_grow_in_steady_state() {
    let mut wheel = Wheel::new();
    let mut keys = std::collections::VecDeque::new();
    let mut peak = (0, 0, 0);
    for at in 0..300_000_i64 {
        keys.push_back(wheel.schedule(at * 10_000 + 30_000_000_000, at));
        if keys.len() > 10_000 {
            wheel.cancel(keys.pop_front().unwrap()).unwrap();
        }
        let tables = (wheel.entries.capacity(), wheel.buckets.capacity(), wheel.nodes.capacity());
        if at == 100_000 {
            peak = tables;
        } else if at > 100_000 {
            assert_eq!(tables, peak, "a table grew at step {at}");
        }
    }
}
