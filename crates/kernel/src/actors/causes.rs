//! What an actor took and said lately: what may be the cause of what it says, and ids that it may
//! not use again.

use super::Actors;
use crate::api::ids::CapabilityId;
use crate::requests::Workflow;
use mainspring_message::Envelope;
use std::collections::VecDeque;

/// How many events back an actor may not use an id again.
pub(super) const SAID_IDS: usize = 64;

/// A message that the actor took and that may be the cause of what it says.
#[derive(Debug)]
struct Taken {
    message: Envelope,
    /// Whether it is an event taken since the actor's last output: lost if the actor crashes now.
    at_risk: bool,
}

/// What one actor took and said lately.
#[derive(Debug, Default)]
pub(super) struct Causes {
    recent: VecDeque<Taken>,
    /// Bytes of those.
    bytes: usize,
    /// How many of them are at risk.
    at_risk: usize,
    /// What this incarnation called its last events.
    said: SaidIds,
    /// Whether it has said anything at all.
    has_spoken: bool,
}

impl Causes {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether no event was taken since the last output.
    pub(super) fn has_nothing_at_risk(&self) -> bool {
        self.at_risk == 0
    }

    /// Remembers a message as a possible cause.
    pub(super) fn remember(&mut self, message: &Envelope, at_risk: bool, recent_max: usize) {
        if self.recent.len() >= recent_max.max(1)
            && let Some(oldest) = self.recent.pop_front()
        {
            self.at_risk -= usize::from(oldest.at_risk);
            self.bytes -= oldest.message.line().len();
        }
        self.bytes += message.line().len();
        self.at_risk += usize::from(at_risk);
        self.recent.push_back(Taken { message: message.clone(), at_risk });
    }

    /// The actor spoke: the events that it took before are finished.
    #[inline]
    pub(super) fn nothing_at_risk(&mut self) {
        if self.at_risk == 0 {
            return;
        }
        self.at_risk = 0;
        for taken in &mut self.recent {
            taken.at_risk = false;
        }
    }

    /// Forgets everything that was taken; returns the events at risk.
    pub(super) fn take_at_risk(&mut self) -> Vec<Envelope> {
        (self.bytes, self.at_risk) = (0, 0);
        let recent = std::mem::take(&mut self.recent);
        recent.into_iter().filter(|taken| taken.at_risk).map(|taken| taken.message).collect()
    }

    /// The next incarnation begins.
    pub(super) fn forget_said(&mut self) {
        self.said = SaidIds::default();
        self.has_spoken = false;
    }
}

/// The ids of the last events that an incarnation said, as hashes.
#[derive(Debug, Default)]
struct SaidIds {
    hashes: Vec<u64>,
    /// The oldest of them, once there are as many as are kept.
    oldest: usize,
}

impl SaidIds {
    /// Whether none of the last events had this id; it is one of them from now on.
    fn is_new(&mut self, hash: u64) -> bool {
        if self.hashes.contains(&hash) {
            return false;
        }
        if self.hashes.len() < SAID_IDS {
            self.hashes.push(hash);
        } else {
            self.hashes[self.oldest] = hash;
            self.oldest = (self.oldest + 1) % SAID_IDS;
        }
        true
    }
}

impl Actors {
    /// An actor speaks, so it did not die of the events that it took before.
    #[inline]
    pub(crate) fn spoke(&mut self, capability: CapabilityId) {
        let causes = &mut self.get_mut(capability).causes;
        causes.has_spoken = true;
        causes.nothing_at_risk();
    }

    /// Whether the actor has said anything since it began.
    pub(crate) fn has_spoken(&self, capability: CapabilityId) -> bool {
        self.get(capability).causes.has_spoken
    }

    /// The workflow of a message with this id that the actor took lately, or has overdue, if there
    /// is such a message.
    pub(crate) fn find_taken(&self, capability: CapabilityId, id: &str) -> Option<Workflow> {
        let it = self.get(capability);
        if let Some(taken) = it.causes.recent.iter().rev().find(|taken| taken.message.id() == id) {
            return Some(Workflow::of(&taken.message));
        }
        Some(it.progress.find_overdue(id)?.workflow.clone())
    }

    /// An actor says an event: whether its last ones did not have this id, whose hash this is.
    pub(crate) fn note_said(
        &mut self,
        capability: CapabilityId,
        event: &Envelope,
        hash: u64,
    ) -> Result<(), String> {
        if self.get_mut(capability).causes.said.is_new(hash) {
            return Ok(());
        }
        let (type_name, id) = (event.type_name(), event.id());
        Err(format!("event {type_name} with the id {id:?} of one of its last {SAID_IDS} events"))
    }
}
