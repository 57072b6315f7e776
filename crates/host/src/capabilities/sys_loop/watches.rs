//! The watches of a `sys/loop` handle, and which of them may be ready.
//!
//! A watch that may be ready stands in a queue, once. A poll takes from the front and, because
//! readiness is a level, puts what it reports at the back: so watches take turns, and a poll costs
//! what is ready, not what is watched.

use crate::readiness::signal::{Signal, SubscriptionKey};
use mainspring_zcl::sys_loop::{Event, Readiness, Watch};
use slab::Slab;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

#[derive(Default)]
pub(super) struct Watches {
    entries: Slab<WatchEntry>,
    keys: HashMap<u64, usize>,
    /// Watches that may be ready, each at most once, with the generation that they had.
    queue: VecDeque<(usize, u64)>,
    generation: u64,
}

pub(super) struct WatchEntry {
    watch: Watch,
    pub(super) signal: Rc<Signal>,
    pub(super) subscription: SubscriptionKey,
    generation: u64,
    queued: bool,
}

impl WatchEntry {
    fn ready(&self) -> Readiness {
        self.signal.readiness().intersection(self.watch.events)
    }
}

/// How many watches at the front of the queue the current poll has not looked at.
pub(super) struct Candidates(usize);

impl Watches {
    pub(super) fn contains(&self, watch_id: u64) -> bool {
        self.keys.contains_key(&watch_id)
    }

    pub(super) fn insert(&mut self, watch: Watch, signal: Rc<Signal>) -> usize {
        self.generation += 1;
        let key = self.entries.insert(WatchEntry {
            watch,
            signal,
            subscription: SubscriptionKey::default(),
            generation: self.generation,
            queued: false,
        });
        self.keys.insert(watch.watch_id, key);
        key
    }

    /// Remembers how the handle's signal knows a watch.
    pub(super) fn subscribed(&mut self, key: usize, subscription: SubscriptionKey) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.subscription = subscription;
        }
    }

    pub(super) fn remove(&mut self, watch_id: u64) -> Option<WatchEntry> {
        let key = self.keys.remove(&watch_id)?;
        let entry = self.entries.remove(key);
        self.shrink();
        Some(entry)
    }

    pub(super) fn remove_key(&mut self, key: usize) {
        if let Some(entry) = self.entries.try_remove(key) {
            self.keys.remove(&entry.watch.watch_id);
        }
        self.shrink();
    }

    /// Drops leftovers of ended watches once they outnumber the living, so that the queue stays
    /// bounded.
    fn shrink(&mut self) {
        if self.queue.len() > 2 * self.entries.len() + 16 {
            let entries = &self.entries;
            self.queue.retain(|(key, generation)| is_current(entries, *key, *generation));
        }
    }

    pub(super) fn clear(&mut self) -> Vec<WatchEntry> {
        self.keys.clear();
        self.queue.clear();
        std::mem::take(&mut self.entries).into_iter().map(|(_, entry)| entry).collect()
    }

    /// Queues a watch. False if it stood in the queue already or is gone.
    pub(super) fn mark(&mut self, key: usize) -> bool {
        match self.entries.get_mut(key) {
            Some(entry) if !entry.queued => {
                entry.queued = true;
                self.queue.push_back((key, entry.generation));
                true
            }
            _ => false,
        }
    }

    /// Takes watches that are not ready off the front of the queue; says whether one that is ready
    /// is left.
    pub(super) fn has_ready(&mut self) -> bool {
        let candidates = self.candidates();
        self.has_more(candidates)
    }

    pub(super) fn candidates(&self) -> Candidates {
        Candidates(self.queue.len())
    }

    /// The next ready watch among the candidates; it goes to the back of the queue.
    pub(super) fn next(&mut self, candidates: &mut Candidates) -> Option<Event> {
        while candidates.0 > 0 {
            candidates.0 -= 1;
            let (key, generation) = self.queue.pop_front()?;
            let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.generation == generation) else {
                continue;
            };
            let events = entry.ready();
            if events.is_empty() {
                entry.queued = false;
                continue;
            }
            self.queue.push_back((key, generation));
            return Some(Event::Ready { watch_id: entry.watch.watch_id, handle: entry.watch.handle, events });
        }
        None
    }

    /// Whether a candidate that has not been looked at is ready.
    pub(super) fn has_more(&mut self, candidates: Candidates) -> bool {
        for _ in 0..candidates.0 {
            let Some(&(key, generation)) = self.queue.front() else { return false };
            if let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.generation == generation) {
                if !entry.ready().is_empty() {
                    return true;
                }
                entry.queued = false;
            }
            self.queue.pop_front();
        }
        false
    }
}

fn is_current(entries: &Slab<WatchEntry>, key: usize, generation: u64) -> bool {
    entries.get(key).is_some_and(|entry| entry.generation == generation)
}
