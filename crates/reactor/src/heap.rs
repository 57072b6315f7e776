//! An indexed 4-ary min-heap of deadlines.
//!
//! Entries are 16 bytes, so the four children of a node share a cache line; the heap tells a `positions` table where
//! each slot's entry is, so that any entry can be removed or moved in O(log n) without a search.

/// Position of a slot that has no entry.
pub(crate) const ABSENT: u32 = u32::MAX;
const CHILDREN: usize = 4;

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

/// The heap. Slots are numbers chosen by the caller, each with at most one entry.
#[derive(Default)]
pub(crate) struct DeadlineHeap {
    entries: Vec<Entry>,
    /// Index into `entries` by slot, or a value that the caller put there.
    positions: Vec<u32>,
    next_sequence: u32,
    /// Entries from this place in the order of arrival on are new.
    new_from: u32,
}

impl DeadlineHeap {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The earliest deadline.
    #[inline]
    pub(crate) fn first_deadline(&self) -> Option<i64> {
        self.entries.first().map(|entry| entry.deadline)
    }

    /// Where the slot's entry is, or what [`mark`](DeadlineHeap::mark) left there.
    #[inline]
    pub(crate) fn position(&self, slot: u32) -> u32 {
        self.positions[slot as usize]
    }

    /// Remembers `value` for a slot that has no entry.
    pub(crate) fn mark(&mut self, slot: u32, value: u32) {
        self.positions[slot as usize] = value;
    }

    /// Adds an entry for a slot that has none.
    pub(crate) fn insert(&mut self, slot: u32, deadline: i64) {
        if slot as usize >= self.positions.len() {
            self.positions.resize(slot as usize + 1, ABSENT);
        }
        let entry = Entry { deadline, sequence: self.take_sequence(), slot };
        self.entries.push(entry);
        self.sift_up(self.entries.len() - 1, entry);
    }

    /// Gives the entry at `position` a new deadline, behind all others that have the same.
    pub(crate) fn reschedule(&mut self, position: u32, deadline: i64) {
        let sequence = self.take_sequence();
        let index = position as usize;
        let entry = Entry { deadline, sequence, slot: self.entries[index].slot };
        self.settle(index, entry);
    }

    /// Removes the entry at `position`.
    pub(crate) fn remove(&mut self, position: u32) {
        let index = position as usize;
        self.positions[self.entries[index].slot as usize] = ABSENT;
        if let Some(last) = self.entries.pop()
            && index < self.entries.len()
        {
            self.settle(index, last);
        }
    }

    /// From here on, entries that are added or moved are new.
    pub(crate) fn begin_new(&mut self) {
        self.new_from = self.next_sequence;
    }

    /// Whether an entry was added or moved since [`begin_new`](DeadlineHeap::begin_new).
    pub(crate) fn is_new(&self, entry: &Entry) -> bool {
        entry.sequence >= self.new_from
    }

    /// Puts an entry back that was removed, into its old place.
    pub(crate) fn restore(&mut self, entry: Entry) {
        self.entries.push(entry);
        self.sift_up(self.entries.len() - 1, entry);
    }

    /// Removes the first entry if its deadline is not after `now`.
    pub(crate) fn pop_due(&mut self, now: i64) -> Option<Entry> {
        let first = *self.entries.first()?;
        if first.deadline > now {
            return None;
        }
        self.positions[first.slot as usize] = ABSENT;
        if let Some(last) = self.entries.pop()
            && !self.entries.is_empty()
        {
            self.sift_down(0, last);
        }
        Some(first)
    }

    /// The next number in the order of arrival.
    fn take_sequence(&mut self) -> u32 {
        if self.next_sequence == u32::MAX {
            self.renumber();
        }
        self.next_sequence += 1;
        self.next_sequence - 1
    }

    /// Numbers the live entries anew in the order of their arrival, when the numbers run out after four billion
    /// insertions, so that the rule holds for ever. No entry changes its place by it.
    #[cold]
    fn renumber(&mut self) {
        let mut order: Vec<u32> = self.entries.iter().map(|entry| entry.sequence).collect();
        order.sort_unstable();
        let rank = |sequence: u32| order.partition_point(|&other| other < sequence) as u32;
        for entry in &mut self.entries {
            entry.sequence = rank(entry.sequence);
        }
        self.new_from = rank(self.new_from);
        self.next_sequence = self.entries.len() as u32;
    }

    /// Puts `entry` at `index` or where the order wants it.
    fn settle(&mut self, index: usize, entry: Entry) {
        if index > 0 && entry.before(&self.entries[parent(index)]) {
            self.sift_up(index, entry);
        } else {
            self.sift_down(index, entry);
        }
    }

    fn sift_up(&mut self, mut index: usize, entry: Entry) {
        while index > 0 {
            let above = self.entries[parent(index)];
            if !entry.before(&above) {
                break;
            }
            self.place(index, above);
            index = parent(index);
        }
        self.place(index, entry);
    }

    fn sift_down(&mut self, mut index: usize, entry: Entry) {
        loop {
            let first = index * CHILDREN + 1;
            let Some(least) = self.least_child(first) else { break };
            let below = self.entries[least];
            if !below.before(&entry) {
                break;
            }
            self.place(index, below);
            index = least;
        }
        self.place(index, entry);
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

    #[inline]
    fn place(&mut self, index: usize, entry: Entry) {
        self.entries[index] = entry;
        self.positions[entry.slot as usize] = index as u32;
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
        heap.reschedule(heap.position(0), 1);
        let entries: Vec<Entry> = std::iter::from_fn(|| heap.pop_due(i64::MAX)).collect();
        let new: Vec<u32> =
            entries.iter().filter(|entry| heap.is_new(entry)).map(|entry| entry.slot).collect();
        assert_eq!(new, [0, 2, 3, 4, 5]);
        entries.into_iter().rev().for_each(|entry| heap.restore(entry));
        let slots: Vec<u32> = drain(&mut heap).into_iter().map(|(_, slot)| slot).collect();
        assert_eq!(slots, [0, 1, 2, 3, 4, 5]);
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
                        heap.reschedule(heap.position(slot), deadline);
                        model[index] = (deadline, arrival, slot);
                    }
                    (2, Some(index)) => {
                        heap.remove(heap.position(slot));
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
