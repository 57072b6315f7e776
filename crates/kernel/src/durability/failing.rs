//! Disks that are full, or fail.

use super::{CONGESTED_BYTES_MAX, Durably, Storage};
use crate::api::effect::{Effect, Level};
use crate::api::ids::{CapabilityId, Now};
use crate::flow::lanes::Sender;
use crate::flow::routes::Handler;
use crate::kernel::Kernel;
use crate::out::Cause;
use mainspring_message::{Envelope, ErrorData, Failure, Kind, Started};

/// What a capability said that had it paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PausedBy {
    /// A durable command: until not too much waits for the disk.
    Command,
    /// A durable event: also until the disk has room.
    Event,
}

impl Kernel {
    /// The disk of the journal has no room for more, or has room again.
    pub fn storage_full(&mut self, is_full: bool, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.storage_full(is_full));
        match (self.out.facts.storage, is_full) {
            (Storage::Ready, true) => self.out.facts.storage = Storage::Full,
            (Storage::Full, false) => self.out.facts.storage = Storage::Ready,
            _ => {}
        }
        self.resume_senders();
    }

    /// The journal failed, for good. What rests on facts that are not on disk must not be carried
    /// out any more; what that is goes to [`Kernel::effect_lost`].
    ///
    /// Unfinished durable commands end with an error: whether they survive is not known.
    pub fn storage_failed(&mut self, reason: &str, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.storage_failed(reason));
        if !self.out.facts.is_on() {
            return;
        }
        let text = format!("the journal has failed: {reason}; durable commands are refused");
        self.out.log(Level::Error, text);
        self.out.facts.storage = Storage::Failed;
        self.resume_senders();
        self.out.announce("Sys.StorageFailed", serde_json::json!({ "reason": reason }));
        self.end_all_cursors();
        // Their answers were not told, and will not be.
        for (_, key) in std::mem::take(&mut self.out.facts.unflushed_ends) {
            self.requests.forget_answer_of(key);
        }
        for key in self.requests.live_keys() {
            self.fail_durable(key, &format!("the journal failed: {reason}"));
        }
        self.out.facts.flushed = u64::MAX;
    }

    fn fail_durable(&mut self, key: crate::requests::RequestKey, text: &str) {
        let Some((durable, fact)) = self.requests.durably(key) else { return };
        let attempts = self.requests.delivery(key).map_or(0, |(_, attempts, _)| attempts);
        let handler = self.requests.handler(key);
        if durable == Durably::No {
            return;
        }
        let was_delivered = attempts > 0 && fact <= self.out.facts.flushed;
        if was_delivered || durable == Durably::Whole {
            self.keep_as_overdue(key);
        } else if let Some(Handler::Capability(capability)) = handler {
            self.leave_progress(capability, key);
        }
        // It may be on disk, and then the next run goes on with it.
        self.requests.may_have_started(key);
        self.fail(key, Failure::StorageFailed, text);
        if let Some(Handler::Capability(capability)) = handler {
            self.deliver_mail(capability);
        }
    }

    /// An effect was not carried out because it rests on a fact that may not be on disk. Whoever
    /// waits for an answer gets an error instead.
    pub fn effect_lost(&mut self, effect: &Effect, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.effect_lost(effect));
        match effect {
            Effect::Write { connection, message } => {
                self.was_written(*connection, message.line().len() + 1);
                if message.kind().is_outcome() {
                    let told = self.lost(message);
                    let _ = self.write(*connection, told);
                }
            }
            Effect::Deliver { actor, message } if message.kind().is_outcome() => {
                let told = self.lost(message);
                self.deliver_answer(*actor, told);
            }
            // A request ended when the journal failed.
            _ => {}
        }
    }

    fn lost(&mut self, answer: &Envelope) -> Envelope {
        let failure = Failure::StorageFailed;
        let mut data = String::new();
        let error = ErrorData {
            failure,
            message: "the journal failed before the outcome was on disk",
            original_id: answer.causation(),
            original_type: Some(answer.type_name()),
            started: Started::Yes,
        };
        error.write(&mut data);
        self.out.message(Kind::Error, failure.type_name(), &data, Cause::like(answer))
    }

    /// So much waits for the disk that whoever sends durable commands should be paused, or no
    /// longer.
    pub fn storage_congested(&mut self, is_congested: bool, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.storage_congested(is_congested));
        self.durability.is_congested = is_congested;
        if !is_congested {
            self.durability.congested_bytes = 0;
        }
        self.resume_senders();
    }

    /// Whether so much waits for the disk that nobody should add to it. A disk that is full takes
    /// no new commands, and one that failed nothing at all, so that there nobody need be held up.
    #[inline]
    pub(crate) fn is_congested(&self) -> bool {
        self.durability.is_congested && self.out.facts.storage == Storage::Ready
    }

    /// Whether nothing is read from a capability because of the disk.
    #[inline]
    pub(crate) fn waits_for_disk(&self, capability: CapabilityId) -> bool {
        self.durability.paused_capabilities.iter().any(|(paused, _)| *paused == capability)
    }

    /// Whether the disk takes no more durable events for now: too much waits for it, or what room
    /// it has left is for commands that were accepted.
    pub(crate) fn takes_no_events(&self) -> bool {
        self.is_congested() || self.out.facts.storage == Storage::Full
    }

    /// A capability said a durable event: it is paused while the disk takes no more of them.
    pub(super) fn pause_if_disk_is_behind(&mut self, capability: CapabilityId) {
        if self.takes_no_events() {
            self.pause_capability(capability, PausedBy::Event);
        }
    }

    /// Somebody sent a durable command of so many bytes: they are paused while too much waits for
    /// the disk.
    #[inline]
    pub(crate) fn pause_if_congested(&mut self, sender: Sender, bytes: usize) {
        if self.is_congested() {
            self.count_if_congested(bytes);
            self.pause(sender);
        }
    }

    /// Counts what is added though too much waits for the disk.
    pub(super) fn count_if_congested(&mut self, bytes: usize) {
        if self.is_congested() {
            self.durability.congested_bytes += bytes;
        }
    }

    /// Whether so much was added since that nothing more is taken.
    pub(super) fn is_far_behind(&self) -> bool {
        self.is_congested() && self.durability.congested_bytes >= CONGESTED_BYTES_MAX
    }

    #[cold]
    fn pause(&mut self, sender: Sender) {
        match sender {
            Sender::Connection(connection) => {
                if self.connections.set_storage_paused(connection, true, &mut self.out) {
                    self.durability.paused.push(connection);
                }
            }
            Sender::Actor(capability) => self.pause_capability(capability, PausedBy::Command),
            // Schedules miss ticks instead.
            Sender::Kernel => {}
        }
    }

    fn pause_capability(&mut self, capability: CapabilityId, by: PausedBy) {
        let mut paused = self.durability.paused_capabilities.iter_mut();
        if let Some((_, before)) = paused.find(|(paused, _)| *paused == capability) {
            // What is waited for longest.
            *before = (*before).max(by);
            return;
        }
        let (_, queue) = self.actors.sender(capability);
        if !self.lanes.is_paused(queue) {
            self.set_reading(Sender::Actor(capability), true);
        }
        self.durability.paused_capabilities.push((capability, by));
    }

    /// Reads again from those that were paused, if the disk takes what they say.
    fn resume_senders(&mut self) {
        let (is_congested, takes_no_events) = (self.is_congested(), self.takes_no_events());
        if !is_congested {
            for connection in std::mem::take(&mut self.durability.paused) {
                self.connections.set_storage_paused(connection, false, &mut self.out);
            }
        }
        let waits = |(_, by): &(CapabilityId, PausedBy)| match by {
            PausedBy::Command => is_congested,
            PausedBy::Event => takes_no_events,
        };
        let paused = std::mem::take(&mut self.durability.paused_capabilities);
        let (waiting, resumed): (Vec<_>, Vec<_>) = paused.into_iter().partition(waits);
        self.durability.paused_capabilities = waiting;
        for (capability, _) in resumed {
            let (_, queue) = self.actors.sender(capability);
            if !self.lanes.is_paused(queue) {
                self.set_reading(Sender::Actor(capability), false);
            }
        }
    }
}
