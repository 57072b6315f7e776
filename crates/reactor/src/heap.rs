//! A 4-ary min-heap of deadlines from which entries are taken out lazily.
//!
//! Every slot has at most one live entry, known by its sequence number. Cancelling or moving a timer only changes the
//! number that its slot expects; the old entry stays behind, dead, until it reaches the top or the sweep finds it. So no
//! entry needs to know where it is, and sifting touches nothing but the entries themselves. The sweep looks at two
//! entries whenever one dies while more are dead than alive: the dead never outnumber the living for long, and no call
//! ever pauses to tidy up.

/// Sequence of a slot without an entry.
pub(crate) const ABSENT: u32 = u32::MAX;
/// Sequence of a slot whose timer is due and waits in the batch for its call.
pub(crate) const IN_BATCH: u32 = u32::MAX - 1;
/// Sequence numbers end here, and start again.
const SEQUENCE_END: u32 = IN_BATCH;

const CHILDREN: usize = 4;
/// So few dead entries are not worth a look.
const DEAD_TOLERATED: usize = 64;
/// How many entries the sweep looks at for each one that dies.
const SWEPT_PER_DEATH: usize = 2;

/// A deadline, its place in the order of arrival, and the timer it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) deadline: i64,
    sequence: u32,
    pub(crate) slot: u32,
}

impl Entry {
    /// Earlier deadline first; among equals, first come first served.
    #[inline]
    fn before(&self, other: &Entry) -> bool {
        (self.deadline, self.sequence) < (other.deadline, other.sequence)
    }
}

/// The heap. Slots are small numbers chosen by the caller.
#[derive(Default)]
pub(crate) struct DeadlineHeap {
    /// Living and dead. The first one lives.
    entries: Vec<Entry>,
    /// The sequence of each slot's living entry, or what [`mark`](DeadlineHeap::mark) left there.
    expected: Vec<u32>,
    living: usize,
    /// Where the sweep goes on.
    sweep: usize,
    next_sequence: u32,
    /// Entries from this place in the order of arrival on are new.
    new_from: u32,
}

impl DeadlineHeap {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.living
    }

    /// The earliest deadline.
    #[inline]
    pub(crate) fn first_deadline(&self) -> Option<i64> {
        self.entries.first().map(|entry| entry.deadline)
    }

    /// Whether the slot has a living entry.
    #[inline]
    pub(crate) fn is_armed(&self, slot: u32) -> bool {
        self.expected[slot as usize] < SEQUENCE_END
    }

    /// What [`mark`](DeadlineHeap::mark) left for a slot that has no entry.
    #[inline]
    pub(crate) fn marked(&self, slot: u32) -> u32 {
        self.expected[slot as usize]
    }

    /// Remembers [`ABSENT`] or [`IN_BATCH`] for a slot that has no entry.
    #[inline]
    pub(crate) fn mark(&mut self, slot: u32, mark: u32) {
        self.expected[slot as usize] = mark;
    }

    /// Adds an entry for a slot that has none.
    #[inline]
    pub(crate) fn insert(&mut self, slot: u32, deadline: i64) {
        if slot as usize >= self.expected.len() {
            self.expected.resize(slot as usize + 1, ABSENT);
        }
        let entry = Entry { deadline, sequence: self.take_sequence(), slot };
        self.restore(entry);
    }

    /// Gives an armed slot a new deadline, behind all others that have the same.
    pub(crate) fn reschedule(&mut self, slot: u32, deadline: i64) {
        self.living -= 1;
        self.insert(slot, deadline);
        self.bury();
    }

    /// Takes an armed slot's entry out.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        self.expected[slot as usize] = ABSENT;
        self.living -= 1;
        self.bury();
    }

    /// From here on, entries that are added or moved are new.
    pub(crate) fn begin_new(&mut self) {
        self.new_from = self.next_sequence;
    }

    /// Whether an entry was added or moved since [`begin_new`](DeadlineHeap::begin_new).
    pub(crate) fn is_new(&self, entry: &Entry) -> bool {
        entry.sequence >= self.new_from
    }

    /// Puts an entry in, with the place in the order of arrival that it has.
    #[inline]
    pub(crate) fn restore(&mut self, entry: Entry) {
        self.expected[entry.slot as usize] = entry.sequence;
        self.living += 1;
        self.entries.push(entry);
        self.sift_up(self.entries.len() - 1, entry);
    }

    /// Removes the first entry if its deadline is not after `now`.
    pub(crate) fn pop_due(&mut self, now: i64) -> Option<Entry> {
        let first = *self.entries.first()?;
        if first.deadline > now {
            return None;
        }
        self.expected[first.slot as usize] = ABSENT;
        self.living -= 1;
        self.pop_first();
        self.uncover_living();
        Some(first)
    }

    #[inline]
    fn is_living(&self, entry: &Entry) -> bool {
        self.expected[entry.slot as usize] == entry.sequence
    }

    fn pop_first(&mut self) {
        if let Some(last) = self.entries.pop()
            && !self.entries.is_empty()
        {
            self.sift_down(0, last);
        }
    }

    /// An entry has died: keeps the first one living and the dead few.
    #[inline]
    fn bury(&mut self) {
        if self.entries.len() > 2 * self.living + DEAD_TOLERATED {
            self.sweep_some();
        }
        self.uncover_living();
    }

    /// Makes the first entry a living one, if there is any.
    #[inline]
    fn uncover_living(&mut self) {
        if self.living == 0 {
            self.entries.clear();
            return;
        }
        while self.entries.first().is_some_and(|first| !self.is_living(first)) {
            self.pop_first();
        }
    }

    fn sweep_some(&mut self) {
        for _ in 0..SWEPT_PER_DEATH {
            if self.sweep >= self.entries.len() {
                self.sweep = 0;
            }
            let Some(entry) = self.entries.get(self.sweep) else { return };
            if self.is_living(entry) {
                self.sweep += 1;
            } else if let Some(last) = self.entries.pop()
                && self.sweep < self.entries.len()
            {
                // What takes its place has not been looked at, unless it came from above.
                self.settle(self.sweep, last);
            }
        }
    }

    /// The next number in the order of arrival.
    #[inline]
    fn take_sequence(&mut self) -> u32 {
        if self.next_sequence == SEQUENCE_END {
            self.renumber();
        }
        self.next_sequence += 1;
        self.next_sequence - 1
    }

    /// Numbers the living entries anew in the order of their arrival, when the numbers run out after four billion
    /// insertions, so that the rule holds for ever.
    #[cold]
    fn renumber(&mut self) {
        let expected = &self.expected;
        let mut living: Vec<Entry> = self.entries.drain(..).collect();
        living.retain(|entry| expected[entry.slot as usize] == entry.sequence);
        let mut order: Vec<u32> = living.iter().map(|entry| entry.sequence).collect();
        order.sort_unstable();
        let rank = |sequence: u32| order.partition_point(|&other| other < sequence) as u32;
        self.new_from = rank(self.new_from);
        self.next_sequence = living.len() as u32;
        self.living = 0;
        for entry in living {
            self.restore(Entry { sequence: rank(entry.sequence), ..entry });
        }
    }

    /// Puts `entry` at `index` or where the order wants it.
    fn settle(&mut self, index: usize, entry: Entry) {
        if index > 0 && entry.before(&self.entries[parent(index)]) {
            self.sift_up(index, entry);
        } else {
            self.sift_down(index, entry);
        }
    }

    #[inline]
    fn sift_up(&mut self, mut index: usize, entry: Entry) {
        while index > 0 {
            let above = self.entries[parent(index)];
            if !entry.before(&above) {
                break;
            }
            self.entries[index] = above;
            index = parent(index);
        }
        self.entries[index] = entry;
    }

    fn sift_down(&mut self, mut index: usize, entry: Entry) {
        while let Some(least) = self.least_child(index * CHILDREN + 1) {
            let below = self.entries[least];
            if !below.before(&entry) {
                break;
            }
            self.entries[index] = below;
            index = least;
        }
        self.entries[index] = entry;
    }

    #[inline]
    fn least_child(&self, first: usize) -> Option<usize> {
        let end = self.entries.len().min(first + CHILDREN);
        let children = self.entries.get(first..end)?;
        let (mut least, rest) = (0, children.get(1..)?);
        for (index, child) in rest.iter().enumerate() {
            if child.before(&children[least]) {
                least = index + 1;
            }
        }
        Some(first + least)
    }
}

#[inline]
fn parent(index: usize) -> usize {
    (index - 1) / CHILDREN
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain(heap: &mut DeadlineHeap) -> Vec<(i64, u32)> {
        std::iter::from_fn(|| heap.pop_due(i64::MAX)).map(|entry| (entry.deadline, entry.slot)).collect()
    }

    #[test]
    fn equal_deadlines_leave_in_order_of_arrival_even_when_the_sequence_numbers_run_out() {
        let mut heap = DeadlineHeap { next_sequence: u32::MAX - 3, ..DeadlineHeap::default() };
        for slot in 0..8 {
            heap.insert(slot, 5);
        }
        heap.insert(8, 4);
        let slots: Vec<u32> = drain(&mut heap).into_iter().map(|(_, slot)| slot).collect();
        assert_eq!(slots, [8, 0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn new_entries_are_told_from_old_ones_even_when_the_sequence_numbers_run_out() {
        let mut heap = DeadlineHeap { next_sequence: u32::MAX - 3, ..DeadlineHeap::default() };
        heap.insert(0, 9);
        heap.insert(1, 5);
        heap.begin_new();
        for slot in 2..6 {
            heap.insert(slot, 7);
        }
        heap.reschedule(0, 1);
        let entries: Vec<Entry> = std::iter::from_fn(|| heap.pop_due(i64::MAX)).collect();
        let new: Vec<u32> =
            entries.iter().filter(|entry| heap.is_new(entry)).map(|entry| entry.slot).collect();
        assert_eq!(new, [0, 2, 3, 4, 5]);
        entries.into_iter().rev().for_each(|entry| heap.restore(entry));
        let slots: Vec<u32> = drain(&mut heap).into_iter().map(|(_, slot)| slot).collect();
        assert_eq!(slots, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn the_dead_never_outnumber_the_living_by_much() {
        let mut heap = DeadlineHeap::default();
        let few = |heap: &DeadlineHeap| heap.entries.len() < 3 * heap.len() + 8 * DEAD_TOLERATED;
        for slot in 0..1000 {
            heap.insert(slot, i64::from(slot % 7) + 1000);
        }
        for round in 0..200_000_u32 {
            heap.reschedule(round.wrapping_mul(7919) % 1000, i64::from(round.wrapping_mul(31) % 5000));
            assert!(few(&heap), "{} entries", heap.entries.len());
        }
        for slot in 0..1000 {
            heap.remove(slot);
            assert!(few(&heap), "{} entries", heap.entries.len());
        }
        assert_eq!(heap.entries.len(), 0);
    }

    proptest! {
        #[test]
        fn the_heap_agrees_with_a_sorted_list(steps in proptest::collection::vec((0u8..4, 0u32..64, 0i64..32), 1..400)) {
            let mut heap = DeadlineHeap::default();
            let mut model: Vec<(i64, u64, u32)> = Vec::new();
            for (arrival, (step, slot, deadline)) in steps.into_iter().enumerate() {
                let arrival = arrival as u64;
                let live = model.iter().position(|entry| entry.2 == slot);
                match (step, live) {
                    (0 | 1, None) => {
                        heap.insert(slot, deadline);
                        model.push((deadline, arrival, slot));
                    }
                    (1, Some(index)) => {
                        heap.reschedule(slot, deadline);
                        model[index] = (deadline, arrival, slot);
                    }
                    (2, Some(index)) => {
                        heap.remove(slot);
                        model.swap_remove(index);
                    }
                    (3, _) => {
                        model.sort_unstable();
                        let due = model.first().is_some_and(|entry| entry.0 <= deadline);
                        let expected = due.then(|| model.remove(0)).map(|entry| entry.2);
                        prop_assert_eq!(heap.pop_due(deadline).map(|entry| entry.slot), expected);
                    }
                    _ => {}
                }
                prop_assert_eq!(heap.len(), model.len());
                prop_assert_eq!(heap.first_deadline(), model.iter().map(|entry| entry.0).min());
            }
            model.sort_unstable();
            let expected: Vec<(i64, u32)> = model.into_iter().map(|entry| (entry.0, entry.2)).collect();
            prop_assert_eq!(drain(&mut heap), expected);
        }
    }
}
