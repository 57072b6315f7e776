//! The obvious alternative: a binary heap in which what is cancelled stays until it comes first.

use crate::workload::Timers;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Entries are never taken out of the middle; a slot whose generation has moved on is dead. When
/// the dead outnumber the living, the heap is made anew, or a day of answered requests would stay
/// in it for 30 s each.
#[derive(Default)]
pub(crate) struct LazyHeap {
    heap: BinaryHeap<Reverse<Entry>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    living: usize,
    scheduled: u64,
}

/// Ordered by deadline, then by age.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    deadline_ns: i64,
    number: u64,
    key: (u32, u32),
}

struct Slot {
    generation: u32,
    value: Option<[u64; 2]>,
}

impl LazyHeap {
    fn is_alive(slots: &[Slot], (slot, generation): (u32, u32)) -> bool {
        slots[slot as usize].generation == generation
    }

    fn take(&mut self, (slot, generation): (u32, u32)) -> Option<[u64; 2]> {
        let place = &mut self.slots[slot as usize];
        if place.generation != generation {
            return None;
        }
        place.generation = generation.wrapping_add(1);
        self.free.push(slot);
        self.living -= 1;
        place.value.take()
    }

    fn next_deadline(&mut self) -> Option<i64> {
        while let Some(Reverse(first)) = self.heap.peek() {
            if LazyHeap::is_alive(&self.slots, first.key) {
                return Some(first.deadline_ns);
            }
            self.heap.pop();
        }
        None
    }
}

impl Timers for LazyHeap {
    type Key = (u32, u32);
    const NAME: &'static str = "BinaryHeap, lazy deletion";

    fn schedule(&mut self, deadline_ns: i64) -> (u32, u32) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.value = Some([0; 2]);
        let key = (slot, place.generation);
        self.heap.push(Reverse(Entry { deadline_ns, number: self.scheduled, key }));
        self.scheduled += 1;
        self.living += 1;
        key
    }

    fn cancel(&mut self, key: (u32, u32)) {
        self.take(key);
        if self.heap.len() > 2 * self.living + 64 {
            let slots = &self.slots;
            self.heap.retain(|Reverse(entry)| LazyHeap::is_alive(slots, entry.key));
        }
    }

    fn turn(&mut self, now_ns: i64) -> usize {
        let mut fired = 0;
        while self.next_deadline().is_some_and(|deadline_ns| deadline_ns <= now_ns) {
            let Some(Reverse(first)) = self.heap.pop() else { break };
            fired += usize::from(self.take(first.key).is_some());
        }
        std::hint::black_box(self.next_deadline());
        fired
    }
}
