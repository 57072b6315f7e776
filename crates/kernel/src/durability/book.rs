//! The count of facts: what was recorded, what is on disk, and what is said just now rests on.

use crate::api::effect::Effect;
use crate::api::fact::Fact;
use crate::api::ids::CapabilityId;
use crate::out::Out;
use crate::requests::RequestKey;
use std::collections::VecDeque;

/// Whether facts can be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Storage {
    /// There is no journal.
    #[default]
    None,
    Ready,
    /// There is no room: what was accepted can end, nothing new is accepted.
    Full,
    /// It failed, for good.
    Failed,
    /// The boot failed, so that this run leaves everything as it was.
    Untouched,
}

/// What every part may know of facts.
#[derive(Debug, Default)]
pub(crate) struct FactBook {
    pub(crate) storage: Storage,
    /// How many facts were recorded, and how many of them are on disk.
    recorded: u64,
    pub(crate) flushed: u64,
    /// The fact that what is written and delivered just now rests on.
    resting: u64,
    /// The last fact that came of what a capability said, of any and of each.
    said: u64,
    said_by: Vec<u64>,
    /// Commands that ended, by the fact that says so, until that is on disk.
    pub(super) unflushed_ends: VecDeque<(u64, RequestKey)>,
}

impl FactBook {
    /// Whether facts are recorded.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        matches!(self.storage, Storage::Ready | Storage::Full)
    }

    /// Facts up to this one are on disk.
    pub(super) fn note_flushed(&mut self, fact: u64) {
        self.flushed = self.flushed.max(fact);
        while self.unflushed_ends.front().is_some_and(|(ended, _)| *ended <= fact) {
            self.unflushed_ends.pop_front();
        }
    }

    /// Whatever this capability says from now on rests on that fact; whatever the kernel tells of
    /// what is kept does so too.
    pub(super) fn note_said(&mut self, capability: Option<CapabilityId>, fact: u64) {
        if let Some(capability) = capability {
            let at = capability.index();
            if self.said_by.len() <= at {
                self.said_by.resize(at + 1, 0);
            }
            self.said_by[at] = self.said_by[at].max(fact);
        }
        self.said = self.said.max(fact);
    }

    /// The last fact of a capability, on which whatever it says rests; 0 if all is on disk.
    #[inline]
    pub(crate) fn of(&self, capability: CapabilityId) -> u64 {
        if self.said > self.flushed { self.said_by.get(capability.index()).copied().unwrap_or(0) } else { 0 }
    }

    /// The last fact of any capability: for what was said a while ago, by whomever.
    #[inline]
    pub(crate) fn of_any(&self) -> u64 {
        self.said
    }
}

impl Out {
    /// Records a fact, if there is a journal; gives its number, 0 if there is none.
    #[inline]
    pub(crate) fn record<T: AsRef<str>>(&mut self, fact: &Fact<T>) -> u64 {
        if !self.facts.is_on() {
            return 0;
        }
        self.facts.recorded += 1;
        self.records().push(fact);
        self.facts.recorded
    }

    /// What is written and delivered from now on rests on this fact; gives what it rested on
    /// before.
    #[inline]
    pub(crate) fn rest_on(&mut self, fact: u64) -> u64 {
        std::mem::replace(&mut self.facts.resting, fact)
    }

    /// Adds an effect that leaves the daemon: it may be carried out when what it rests on is on
    /// disk.
    #[inline]
    pub(crate) fn push_resting(&mut self, effect: Effect) {
        if self.facts.resting > self.facts.flushed {
            let fact = self.facts.resting;
            self.push(Effect::After { fact });
        }
        self.push(effect);
    }

    /// The same for an effect that rests on this fact, whatever is said just now.
    #[inline]
    pub(crate) fn push_after(&mut self, fact: u64, effect: Effect) {
        let rested = self.rest_on(fact);
        self.push_resting(effect);
        self.rest_on(rested);
    }
}
