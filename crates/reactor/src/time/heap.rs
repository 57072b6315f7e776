//! A 4-ary min-heap of deadlines that puts itself in order only when it must.
//!
//! An entry is one 128-bit number: deadline, place in the order of arrival, slot. So one comparison
//! settles both the deadline and the tie. The four children of a node are one group of 64 bytes,
//! aligned to a cache line; unused places hold the greatest number, so that looking for the least
//! child never asks how many there are.
//!
//! New entries are only written behind the others. Not before the first entry is to go are they
//! sifted in, or, when they are the most, all made a heap anew in linear time. Timers that come and
//! go without ever being first cost no more than that.
//!
//! The heap does not know where an entry is: only the first can be taken out by itself, and any
//! number in one pass. That is what `timers.rs` beside it needs, and it spares every sift a note in
//! a table of positions, which would be a cache miss each.

const CHILDREN: usize = 4;
/// Node of the first entry, chosen so that the children of a node are a whole group.
const ROOT: usize = CHILDREN - 1;
const ENTRY_BYTES: usize = size_of::<Entry>();
const GROUP_BYTES: usize = CHILDREN * ENTRY_BYTES;

/// A deadline, its place in the order of arrival, and the slot it belongs to, from the most
/// significant bit down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry(u128);

impl Entry {
    /// What an unused place holds: later than every entry.
    const NONE: Entry = Entry(u128::MAX);

    #[inline]
    pub(crate) fn new(deadline: i64, sequence: u32, slot: u32) -> Entry {
        // With its sign turned round, the deadline keeps its order when the bits are read as a
        // number without one.
        let deadline = deadline.cast_unsigned() ^ (1 << 63);
        Entry((u128::from(deadline) << 64) | (u128::from(sequence) << 32) | u128::from(slot))
    }

    #[inline]
    pub(crate) fn deadline(self) -> i64 {
        ((self.0 >> 64) as u64 ^ (1 << 63)).cast_signed()
    }

    #[inline]
    pub(crate) fn sequence(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub(crate) fn slot(self) -> u32 {
        self.0 as u32
    }
}

/// The heap, and the entries that came since it was last put in order.
pub(crate) struct DeadlineHeap {
    /// The nodes, after `padding`. Where they are in order, groups are whole.
    entries: Vec<Entry>,
    /// How many places are left free so that the groups are aligned.
    padding: usize,
    /// How many entries are in order; the rest follows as it came.
    ordered: usize,
    len: usize,
    /// The earliest entry of all.
    first: Entry,
}

impl Default for DeadlineHeap {
    fn default() -> DeadlineHeap {
        DeadlineHeap { entries: Vec::new(), padding: 0, ordered: 0, len: 0, first: Entry::NONE }
    }
}

impl DeadlineHeap {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The earliest entry.
    #[inline]
    pub(crate) fn first(&self) -> Option<Entry> {
        (self.len > 0).then_some(self.first)
    }

    /// Adds an entry.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        let place = self.padding + ROOT + self.len;
        match self.entries.get_mut(place) {
            Some(free) => *free = entry,
            None => self.append(entry),
        }
        self.len += 1;
        if entry < self.first {
            self.set_first(entry);
        }
    }

    /// Adds an entry where no place has been yet.
    #[inline]
    fn append(&mut self, entry: Entry) {
        // Room for the rest of the group as well, so that filling it up moves nothing.
        if self.entries.capacity() - self.entries.len() < CHILDREN {
            self.grow();
        }
        self.entries.push(entry);
    }

    // Not inlined, so that entries that do not come first, as most do not, pay for a comparison
    // only.
    #[cold]
    #[inline(never)]
    fn set_first(&mut self, entry: Entry) {
        self.first = entry;
    }

    /// Makes room, and aligns the groups where that room is.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.entries.reserve(4 * CHILDREN);
        if self.entries.is_empty() {
            self.entries.resize(self.padding + ROOT, Entry::NONE);
        }
        let misaligned = self.entries.as_ptr().addr() % GROUP_BYTES / ENTRY_BYTES;
        let padding = (CHILDREN - misaligned) % CHILDREN;
        if padding > self.padding {
            self.entries.splice(0..0, std::iter::repeat_n(Entry::NONE, padding - self.padding));
        } else {
            self.entries.drain(0..self.padding - padding);
        }
        self.padding = padding;
    }

    /// Takes the earliest entry out.
    #[inline]
    pub(crate) fn pop_first(&mut self) {
        // One that came since needs no order of its own: it goes, or it takes the place of the one
        // that goes.
        if self.len - self.ordered > 1 {
            self.order();
        }
        let Some(last) = self.len.checked_sub(1) else { return };
        let nodes = &mut self.entries[self.padding..];
        let entry = std::mem::replace(&mut nodes[ROOT + last], Entry::NONE);
        (self.len, self.ordered) = (last, last);
        if entry != self.first {
            sift_down(nodes, ROOT, entry);
        }
        self.first = nodes[ROOT];
    }

    /// Forgets all entries.
    pub(crate) fn clear(&mut self) {
        self.entries.truncate(self.padding + ROOT);
        (self.len, self.ordered, self.first) = (0, 0, Entry::NONE);
    }

    /// Takes all entries out, in no particular order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Entry> {
        std::mem::take(self).entries.into_iter().filter(|&entry| entry != Entry::NONE)
    }

    /// Drops the entries that `stays` refuses, which the first must not be among. In linear time.
    pub(crate) fn retain(&mut self, mut stays: impl FnMut(Entry) -> bool) {
        let start = self.padding + ROOT;
        let Some(entries) = self.entries.get_mut(start..start + self.len) else { return };
        let mut kept = 0;
        for place in 0..entries.len() {
            let entry = entries[place];
            // Written in any case: what stays is anyone's guess, and a wrong guess of the
            // processor's costs more.
            entries[kept] = entry;
            kept += usize::from(stays(entry));
        }
        entries[kept..].fill(Entry::NONE);
        (self.len, self.ordered) = (kept, 0);
        debug_assert!(self.first().is_none_or(stays), "the first entry stays");
    }

    /// Puts all entries in order.
    #[inline(never)]
    fn order(&mut self) {
        let end = ROOT + self.len;
        let groups_end = self.padding + end.next_multiple_of(CHILDREN);
        if self.entries.len() < groups_end {
            self.entries.resize(groups_end, Entry::NONE);
        }
        let nodes = &mut self.entries[self.padding..];
        if self.len - self.ordered > self.ordered {
            // From the last node that has children up to the root.
            for node in (ROOT..=parent(end - 1).max(ROOT)).rev() {
                sift_down(nodes, node, nodes[node]);
            }
        } else {
            for node in ROOT + self.ordered..end {
                sift_up(nodes, node, nodes[node]);
            }
        }
        self.ordered = self.len;
    }
}

#[inline]
fn sift_up(nodes: &mut [Entry], mut node: usize, entry: Entry) {
    while node > ROOT {
        let above = nodes[parent(node)];
        if above < entry {
            break;
        }
        nodes[node] = above;
        node = parent(node);
    }
    nodes[node] = entry;
}

#[inline]
fn sift_down(nodes: &mut [Entry], mut node: usize, entry: Entry) {
    while let Some(group) = nodes.get(children(node)..).and_then(<[Entry]>::first_chunk) {
        prefetch(nodes, children(children(node)));
        let (which, least) = least(group);
        if entry < least {
            break;
        }
        nodes[node] = least;
        node = children(node) + which;
    }
    nodes[node] = entry;
}

/// Asks for the groups that the next step chooses from, while this one still chooses: in a large
/// heap each is a cache miss.
#[inline]
fn prefetch(nodes: &[Entry], first: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(groups) = nodes.get(first..first + CHILDREN * CHILDREN) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for group in groups.chunks_exact(CHILDREN) {
            // SAFETY: a hint about a place that exists; every x86-64 processor has the instruction.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(group.as_ptr().cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (nodes, first);
}

/// The least of a group and which it is. A tournament, so that no comparison but the last waits for
/// another.
#[inline]
fn least(group: &[Entry; CHILDREN]) -> (usize, Entry) {
    let [a, b, c, d] = *group;
    let left = if b < a { (1, b) } else { (0, a) };
    let right = if d < c { (3, d) } else { (2, c) };
    if right.1 < left.1 { right } else { left }
}

/// The node above.
#[inline]
fn parent(node: usize) -> usize {
    node / CHILDREN + ROOT - 1
}

/// The first of the nodes below.
#[inline]
fn children(node: usize) -> usize {
    (node - (ROOT - 1)) * CHILDREN
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_heap_agrees_with_a_sorted_list(
            steps in proptest::collection::vec((0u8..10, -8i64..8), 1..400),
        ) {
            let mut heap = DeadlineHeap::default();
            let mut model: Vec<Entry> = Vec::new();
            for (arrival, (step, deadline)) in (0..).zip(steps) {
                match step {
                    0..6 => {
                        let entry = Entry::new(deadline, arrival, arrival % 7);
                        heap.push(entry);
                        model.push(entry);
                    }
                    6..9 => {
                        model.sort_unstable_by(|a, b| b.cmp(a));
                        prop_assert_eq!(heap.first(), model.pop());
                        heap.pop_first();
                    }
                    _ => {
                        let first = heap.first();
                        let stays = |entry: Entry| entry.slot().is_multiple_of(2) || Some(entry) == first;
                        heap.retain(stays);
                        model.retain(|&entry| stays(entry));
                    }
                }
                prop_assert_eq!(heap.len(), model.len());
                prop_assert_eq!(heap.first(), model.iter().min().copied());
            }
            let mut rest: Vec<Entry> = heap.drain().collect();
            rest.sort_unstable();
            model.sort_unstable();
            prop_assert_eq!(rest, model);
        }
    }

    #[test]
    fn an_entry_gives_back_what_it_is_made_of_and_deadlines_come_first() {
        let deadlines = [i64::MIN, -1, 0, 1, i64::MAX];
        let entries = deadlines.map(|deadline| Entry::new(deadline, deadline as u32 % 97, 7));
        assert_eq!(entries.map(Entry::deadline), deadlines);
        assert_eq!(entries.map(Entry::sequence), deadlines.map(|deadline| deadline as u32 % 97));
        assert!(entries.is_sorted() && entries.iter().all(|entry| entry.slot() == 7));
    }

    #[test]
    fn groups_stay_aligned_to_cache_lines_while_the_heap_grows() {
        let mut heap = DeadlineHeap::default();
        for sequence in (0..20_000).rev() {
            heap.push(Entry::new(i64::from(sequence), sequence, 0));
            let address = heap.entries[heap.padding..].as_ptr().addr();
            assert_eq!(address % GROUP_BYTES, 0, "with {} entries", heap.len());
        }
        for sequence in 0..20_000 {
            assert_eq!(heap.first().map(Entry::sequence), Some(sequence));
            heap.pop_first();
        }
    }
}
