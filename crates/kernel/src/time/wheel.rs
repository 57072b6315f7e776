//! A hierarchical timing wheel: thousands of deadlines, most of which are cancelled before they
//! come.
//!
//! A wheel has 64 slots. A slot holds either a short list of timers or a finer wheel that divides
//! the same stretch of time by 64 again; a list that grows past [`BUCKET_TIMERS_MAX`] is replaced
//! by such a finer wheel. Wheels are therefore only as fine as the timers in them need, and there
//! is nothing to cascade when time moves:
//!
//! * [`schedule`](Wheel::schedule) and [`cancel`](Wheel::cancel) take constant time (at most eleven
//!   wheels are passed, usually none, because the wheel used last is tried first) and allocate
//!   nothing once the tables have reached their peak size;
//! * [`next_deadline`](Wheel::next_deadline) is exact to the nanosecond, not the start of a slot,
//!   so nobody wakes up only to find that nothing is due;
//! * [`pop_due`](Wheel::pop_due) returns timers in deadline order and, among equal deadlines, in
//!   the order in which they were scheduled; never before their deadline.
//!
//! # Range
//!
//! Every `i64` is a valid deadline. Sums are the caller's business: [`deadline_after`] saturates at
//! `i64::MAX`, the end of time, so that a delay beyond the range comes last instead of at once.

#[cfg(test)]
mod tests;

/// The number of bits by which a wheel is finer than the slot it stands in.
const SLOT_BITS: u32 = 6;
/// The number of slots of one wheel.
const SLOTS: usize = 1 << SLOT_BITS;
/// The coarsest wheel's shift: 60 bits per slot, so that 64 slots (16 are used) cover all 64 bits.
const ROOT_SHIFT: u32 = 60;
/// The longest list of different deadlines in one slot: a longer one becomes a finer wheel.
pub const BUCKET_TIMERS_MAX: u32 = 16;

/// "No entry", "no bucket" or "no node" in a table.
const NONE: u32 = u32::MAX;
/// The table index of the coarsest wheel, which always exists.
const ROOT: u32 = 0;
/// The prefix of a wheel that is not in use: no key has it, because prefixes are at least four bits
/// shorter.
const DEAD_PREFIX: u64 = u64::MAX;

/// The instant `delay_ns` after `now_ns`, or the end of time (`i64::MAX`) if that lies beyond the
/// range.
///
/// # Examples
///
/// ```
/// use mainspring_kernel::wheel::deadline_after;
///
/// assert_eq!(deadline_after(1_000, 30), 1_030);
/// assert_eq!(deadline_after(i64::MAX - 1, 30), i64::MAX);
/// ```
#[must_use]
pub fn deadline_after(now_ns: i64, delay_ns: i64) -> i64 {
    now_ns.saturating_add(delay_ns)
}

/// The handle of one scheduled timer. A key whose timer fired or was cancelled names nothing, for
/// ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerKey {
    slot: u32,
    generation: u32,
}

/// A set of deadlines with a value each; see the [module's documentation](self).
///
/// # Examples
///
/// ```
/// use mainspring_kernel::wheel::Wheel;
///
/// let mut wheel = Wheel::new();
/// let tea = wheel.schedule(3_000, "tea");
/// wheel.schedule(5_000, "egg");
/// assert_eq!(wheel.next_deadline(), Some(3_000));
///
/// assert_eq!(wheel.cancel(tea), Some("tea"));
/// assert_eq!(wheel.next_deadline(), Some(5_000));
/// assert_eq!(wheel.pop_due(4_999), None);
/// assert_eq!(wheel.pop_due(5_000), Some((5_000, "egg")));
/// ```
#[derive(Clone, Debug)]
pub struct Wheel<T> {
    entries: Vec<Entry<T>>,
    entries_free: u32,
    buckets: Vec<Bucket>,
    buckets_free: u32,
    nodes: Vec<Node>,
    nodes_free: u32,
    /// The node that took the last timer: the next one usually belongs there too.
    finger: u32,
    /// The earliest key, when it is known: it is asked for far more often than it changes.
    first: Option<u64>,
    len: usize,
}

/// One timer. Timers of a bucket form a list in order of deadline.
#[derive(Clone, Debug)]
struct Entry<T> {
    key: u64,
    previous: u32,
    /// The next timer of the bucket; in a free entry, the next free entry.
    next: u32,
    bucket: u32,
    generation: u32,
    value: Option<T>,
}

/// A sorted list of timers in one slot. More than [`BUCKET_TIMERS_MAX`] of them all have the same
/// deadline.
#[derive(Clone, Debug)]
struct Bucket {
    head: u32,
    tail: u32,
    len: u32,
    /// The node in which this bucket stands; in a free bucket, the next free bucket.
    node: u32,
    slot: u32,
}

/// One wheel of 64 slots.
#[derive(Clone, Debug)]
struct Node {
    /// Which slots hold something.
    occupied: u64,
    /// Which of those hold a finer wheel instead of a bucket.
    finer: u64,
    /// What the keys in this wheel have in common, above its own bits.
    prefix: u64,
    shift: u32,
    /// The coarser wheel around this one; in a free node, the next free node.
    parent: u32,
    children: [u32; SLOTS],
}

impl Node {
    fn slot_of(&self, key: u64) -> u32 {
        ((key >> self.shift) & (SLOTS as u64 - 1)) as u32
    }

    fn covers(&self, key: u64) -> bool {
        self.prefix == prefix_of(key, self.shift)
    }
}

/// What a wheel with this shift calls `key`'s prefix: all bits above the slot number.
fn prefix_of(key: u64, shift: u32) -> u64 {
    key.checked_shr(shift + SLOT_BITS).unwrap_or(0)
}

/// Deadlines as unsigned numbers in the same order.
fn key_of(deadline_ns: i64) -> u64 {
    deadline_ns.cast_unsigned() ^ (1 << 63)
}

fn deadline_of(key: u64) -> i64 {
    (key ^ (1 << 63)).cast_signed()
}

fn bit(slot: u32) -> u64 {
    1 << slot
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Wheel<T> {
    /// A wheel without timers.
    #[must_use]
    pub fn new() -> Self {
        let root = Node {
            occupied: 0,
            finer: 0,
            prefix: 0,
            shift: ROOT_SHIFT,
            parent: NONE,
            children: [NONE; SLOTS],
        };
        Self {
            entries: Vec::new(),
            entries_free: NONE,
            buckets: Vec::new(),
            buckets_free: NONE,
            nodes: vec![root],
            nodes_free: NONE,
            finger: ROOT,
            first: None,
            len: 0,
        }
    }

    /// The number of timers that have neither fired nor been cancelled.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no timer is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a timer. A deadline in the past is due at once.
    ///
    /// # Panics
    ///
    /// Beyond 2^32 - 1 pending timers; callers bound their timers far below that.
    pub fn schedule(&mut self, deadline_ns: i64, value: T) -> TimerKey {
        let key = key_of(deadline_ns);
        let entry = self.new_entry(key, value);
        self.place(entry, key);
        self.note_placed(key);
        self.len += 1;
        TimerKey { slot: entry, generation: self.entries[entry as usize].generation }
    }

    /// Removes a timer and returns its value, or nothing if it fired or was cancelled before.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        self.find(key)?;
        self.unlink(key.slot);
        self.free_entry(key.slot)
    }

    /// Moves a pending timer to another deadline, as if cancelled and scheduled again under the
    /// same key. Returns whether there was such a timer.
    pub fn reschedule(&mut self, key: TimerKey, deadline_ns: i64) -> bool {
        if self.find(key).is_none() {
            return false;
        }
        let moved = key_of(deadline_ns);
        self.unlink(key.slot);
        self.entries[key.slot as usize].key = moved;
        self.place(key.slot, moved);
        // The timer itself counts as pending here, so the earliest of the others may not be known.
        if self.first.is_some_and(|first| moved < first) {
            self.first = Some(moved);
        }
        true
    }

    /// The value of a pending timer.
    #[must_use]
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.find(key)?.value.as_ref()
    }

    /// The deadline of a pending timer.
    #[must_use]
    pub fn deadline(&self, key: TimerKey) -> Option<i64> {
        Some(deadline_of(self.find(key)?.key))
    }

    /// The earliest deadline, exactly, or nothing if no timer is pending.
    #[must_use]
    pub fn next_deadline(&self) -> Option<i64> {
        match self.first {
            Some(first) => Some(deadline_of(first)),
            None => Some(deadline_of(self.entries[self.earliest()? as usize].key)),
        }
    }

    /// Takes the earliest timer if its deadline is not later than `now_ns`: called until it returns
    /// nothing, it yields everything that is due in deadline order, first in first out among
    /// equals.
    pub fn pop_due(&mut self, now_ns: i64) -> Option<(i64, T)> {
        if self.first.is_some_and(|first| deadline_of(first) > now_ns) {
            return None;
        }
        let entry = self.earliest()?;
        let key = self.entries[entry as usize].key;
        let deadline_ns = deadline_of(key);
        if deadline_ns > now_ns {
            self.first = Some(key);
            return None;
        }
        self.unlink(entry);
        self.free_entry(entry).map(|value| (deadline_ns, value))
    }

    fn find(&self, key: TimerKey) -> Option<&Entry<T>> {
        let entry = self.entries.get(key.slot as usize)?;
        (entry.generation == key.generation && entry.value.is_some()).then_some(entry)
    }

    fn earliest(&self) -> Option<u32> {
        let mut node = &self.nodes[ROOT as usize];
        if node.occupied == 0 {
            return None;
        }
        loop {
            let slot = node.occupied.trailing_zeros();
            let child = node.children[slot as usize];
            if node.finer & bit(slot) == 0 {
                return Some(self.buckets[child as usize].head);
            }
            node = &self.nodes[child as usize];
        }
    }

    /// Keeps the earliest key up to date after a timer was added.
    fn note_placed(&mut self, key: u64) {
        match self.first {
            Some(first) if key < first => self.first = Some(key),
            None if self.len == 0 => self.first = Some(key),
            _ => {}
        }
    }

    /// Puts an entry into the finest wheel that covers its key, making finer ones as needed.
    fn place(&mut self, entry: u32, key: u64) {
        let mut at = if self.nodes[self.finger as usize].covers(key) { self.finger } else { ROOT };
        loop {
            let node = &self.nodes[at as usize];
            let slot = node.slot_of(key);
            let child = node.children[slot as usize];
            if node.occupied & bit(slot) == 0 {
                self.new_bucket(at, slot, entry);
                break;
            } else if node.finer & bit(slot) != 0 {
                at = child;
            } else if self.has_room(child, key) {
                self.insert_sorted(child, entry, key);
                break;
            } else {
                at = self.refine(at, slot, child);
            }
        }
        self.finger = at;
    }

    fn has_room(&self, bucket: u32, key: u64) -> bool {
        let bucket = &self.buckets[bucket as usize];
        bucket.len < BUCKET_TIMERS_MAX
            || (self.entries[bucket.head as usize].key == key
                && self.entries[bucket.tail as usize].key == key)
    }

    fn insert_sorted(&mut self, bucket: u32, entry: u32, key: u64) {
        let tail = self.buckets[bucket as usize].tail;
        let mut before = tail;
        while before != NONE && self.entries[before as usize].key > key {
            before = self.entries[before as usize].previous;
        }
        self.link_after(bucket, before, entry);
    }

    /// Links `entry` behind `before`, or first if that is `NONE`.
    fn link_after(&mut self, bucket: u32, before: u32, entry: u32) {
        let list = &mut self.buckets[bucket as usize];
        let after = if before == NONE { list.head } else { self.entries[before as usize].next };
        if before == NONE {
            list.head = entry;
        } else {
            self.entries[before as usize].next = entry;
        }
        if after == NONE {
            list.tail = entry;
        } else {
            self.entries[after as usize].previous = entry;
        }
        list.len += 1;
        let linked = &mut self.entries[entry as usize];
        (linked.previous, linked.next, linked.bucket) = (before, after, bucket);
    }

    /// Replaces a full bucket by a finer wheel with the same timers, and returns that wheel.
    fn refine(&mut self, parent: u32, slot: u32, bucket: u32) -> u32 {
        let Bucket { head, tail, .. } = self.buckets[bucket as usize];
        let (first, last) = (self.entries[head as usize].key, self.entries[tail as usize].key);
        let shift = self.nodes[parent as usize].shift - SLOT_BITS;
        let finer = self.new_node(parent, shift, prefix_of(first, shift));
        self.nodes[parent as usize].children[slot as usize] = finer;
        self.nodes[parent as usize].finer |= bit(slot);

        let node = &self.nodes[finer as usize];
        if node.slot_of(first) == node.slot_of(last) {
            // The list is sorted, so all of it belongs to one slot: however long it is, it moves as
            // a whole.
            let slot = node.slot_of(first);
            self.stand_bucket(finer, slot, bucket);
        } else {
            self.free_bucket(bucket);
            self.spread(finer, head);
        }
        finer
    }

    /// Deals a sorted list of timers, beginning with `head`, out to the slots of an empty wheel.
    fn spread(&mut self, node: u32, head: u32) {
        let mut entry = head;
        while entry != NONE {
            let Entry { key, next, .. } = self.entries[entry as usize];
            let slot = self.nodes[node as usize].slot_of(key);
            if self.nodes[node as usize].occupied & bit(slot) == 0 {
                self.new_bucket(node, slot, entry);
            } else {
                let bucket = self.nodes[node as usize].children[slot as usize];
                self.link_after(bucket, self.buckets[bucket as usize].tail, entry);
            }
            entry = next;
        }
    }

    /// Takes an entry out of its bucket, and gives back the bucket and the wheels that are empty
    /// then.
    fn unlink(&mut self, entry: u32) {
        let Entry { key, previous, next, bucket, .. } = self.entries[entry as usize];
        if self.first == Some(key) {
            // Whatever stands beside it in the earliest list is the earliest now; equal ones stand
            // before it.
            self.first = match (previous, next) {
                (NONE, NONE) => None,
                (NONE, next) => Some(self.entries[next as usize].key),
                _ => Some(key),
            };
        }
        let list = &mut self.buckets[bucket as usize];
        list.len -= 1;
        if previous == NONE {
            list.head = next;
        } else {
            self.entries[previous as usize].next = next;
        }
        if next == NONE {
            list.tail = previous;
        } else {
            self.entries[next as usize].previous = previous;
        }
        if list.len == 0 {
            let (node, slot) = (list.node, list.slot);
            self.free_bucket(bucket);
            self.vacate(node, slot);
        }
    }

    fn vacate(&mut self, node: u32, slot: u32) {
        let (mut at, mut slot) = (node, slot);
        loop {
            let node = &mut self.nodes[at as usize];
            node.occupied &= !bit(slot);
            node.finer &= !bit(slot);
            if node.occupied != 0 || at == ROOT {
                return;
            }
            let (parent, prefix) = (node.parent, node.prefix);
            if self.finger == at {
                self.finger = parent;
            }
            self.free_node(at);
            // The last bits of a wheel's prefix are its slot in the coarser wheel.
            slot = (prefix & (SLOTS as u64 - 1)) as u32;
            at = parent;
        }
    }

    fn new_entry(&mut self, key: u64, value: T) -> u32 {
        if self.entries_free != NONE {
            let entry = self.entries_free;
            let slot = &mut self.entries[entry as usize];
            self.entries_free = slot.next;
            slot.key = key;
            slot.value = Some(value);
            return entry;
        }
        let entry = table_index(self.entries.len());
        self.entries.push(Entry {
            key,
            previous: NONE,
            next: NONE,
            bucket: NONE,
            generation: 0,
            value: Some(value),
        });
        entry
    }

    fn free_entry(&mut self, entry: u32) -> Option<T> {
        self.len -= 1;
        let slot = &mut self.entries[entry as usize];
        // A slot whose generations are used up is never given out again, so that no old key can
        // name a new timer.
        if let Some(generation) = slot.generation.checked_add(1) {
            slot.generation = generation;
            slot.next = self.entries_free;
            self.entries_free = entry;
        }
        slot.value.take()
    }

    /// Makes a bucket of one entry in a free slot of a node.
    fn new_bucket(&mut self, node: u32, slot: u32, entry: u32) {
        let list = Bucket { head: entry, tail: entry, len: 1, node, slot };
        let bucket = if self.buckets_free == NONE {
            self.buckets.push(list);
            table_index(self.buckets.len() - 1)
        } else {
            let bucket = self.buckets_free;
            self.buckets_free = self.buckets[bucket as usize].node;
            self.buckets[bucket as usize] = list;
            bucket
        };
        let only = &mut self.entries[entry as usize];
        (only.previous, only.next, only.bucket) = (NONE, NONE, bucket);
        self.stand_bucket(node, slot, bucket);
    }

    fn stand_bucket(&mut self, node: u32, slot: u32, bucket: u32) {
        let list = &mut self.buckets[bucket as usize];
        (list.node, list.slot) = (node, slot);
        let node = &mut self.nodes[node as usize];
        node.occupied |= bit(slot);
        node.children[slot as usize] = bucket;
    }

    fn free_bucket(&mut self, bucket: u32) {
        self.buckets[bucket as usize].node = self.buckets_free;
        self.buckets_free = bucket;
    }

    fn new_node(&mut self, parent: u32, shift: u32, prefix: u64) -> u32 {
        if self.nodes_free == NONE {
            self.nodes.push(Node { occupied: 0, finer: 0, prefix, shift, parent, children: [NONE; SLOTS] });
            return table_index(self.nodes.len() - 1);
        }
        let free = self.nodes_free;
        let node = &mut self.nodes[free as usize];
        self.nodes_free = node.parent;
        (node.occupied, node.finer) = (0, 0);
        (node.prefix, node.shift, node.parent) = (prefix, shift, parent);
        free
    }

    fn free_node(&mut self, node: u32) {
        self.nodes[node as usize].prefix = DEAD_PREFIX;
        self.nodes[node as usize].parent = self.nodes_free;
        self.nodes_free = node;
    }
}

fn table_index(index: usize) -> u32 {
    u32::try_from(index).ok().filter(|&index| index != NONE).expect("fewer than 2^32 - 1 timers")
}
