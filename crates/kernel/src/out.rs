//! The desk at which every part of the kernel works: where it writes what is to happen, and where
//! it reads the time.
//!
//! A part owns its state and looks into no other. What it wants done it writes here: effects for
//! the daemon, signals for the System lane, deadlines in the wheel, counts. What another part has
//! to do next it returns to whoever called it.

use crate::api::counters::Counters;
use crate::api::effect::{Effect, Level};
use crate::api::ids::{FreshIds, Now};
use crate::durability::{FactBook, Storage};
use crate::facts::Records;
use crate::flow::system::{Hearers, SystemLane};
use crate::time::Job;
use crate::time::wheel::{TimerKey, Wheel, deadline_after};
use mainspring_message::{Draft, Envelope, ErrorData, Failure, Kind, Parts, Started};
use std::hash::{BuildHasher, Hasher};

/// Nanoseconds in a millisecond.
pub(crate) const MS: i64 = 1_000_000;

/// Milliseconds as nanoseconds; what lies beyond the range lasts for ever.
pub(crate) fn ns(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(MS)
}

/// `ms`, doubled so many times.
pub(crate) fn doubled(ms: u64, times: u32) -> u64 {
    // No pause stays none, however often it is doubled.
    if ms == 0 {
        return 0;
    }
    1u64.checked_shl(times).and_then(|factor| ms.checked_mul(factor)).unwrap_or(u64::MAX >> 1)
}

/// What every part may write to; see the [module's documentation](self).
#[derive(Debug)]
pub(crate) struct Out {
    /// The time of the input that is being worked on; set by each of the kernel's public methods.
    pub(crate) now: Now,
    /// Every deadline of the kernel.
    pub(crate) wheel: Wheel<Job>,
    /// What has happened so far.
    pub(crate) counters: Counters,
    /// The work that was done so far, in the units of [`crate::flow::work`].
    pub(crate) work: u64,
    /// Faults, and events of the kernel's own.
    pub(crate) system: SystemLane,
    /// What was recorded, and what of it is on disk.
    pub(crate) facts: FactBook,
    /// Effects that the daemon has not taken yet, oldest first.
    effects: Vec<Effect>,
    /// Where among them the facts stand: all in one place, before whatever rests on them.
    records_at: Option<usize>,
    /// Facts that were written, for their memory.
    spare_records: Records,
    fresh_ids: FreshIds,
    hasher: foldhash::fast::FixedState,
    /// Where messages are composed; kept for its room.
    line: String,
    /// Where the data of errors is composed; kept for its room.
    data: String,
}

/// What made the kernel say something, and what is taken over from that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cause<'a> {
    pub(crate) id: Option<&'a str>,
    pub(crate) correlation: Option<&'a str>,
    pub(crate) traceparent: Option<&'a str>,
}

impl<'a> Cause<'a> {
    /// Nothing did.
    pub(crate) const NONE: Cause<'static> = Cause { id: None, correlation: None, traceparent: None };

    /// This message.
    #[inline]
    pub(crate) fn of(message: &'a Envelope) -> Cause<'a> {
        Cause { id: Some(message.id()), ..Cause::like(message) }
    }

    /// Whatever caused this message.
    #[inline]
    pub(crate) fn like(message: &'a Envelope) -> Cause<'a> {
        let (correlation, traceparent) = (message.correlation(), message.traceparent());
        Cause { id: message.causation(), correlation, traceparent }
    }

    /// Something of which nothing but a name is known.
    pub(crate) fn named(id: &'a str) -> Cause<'a> {
        Cause { id: Some(id), ..Cause::NONE }
    }
}

impl Out {
    /// An empty desk. `nonce` makes the ids of this run differ from those of any other.
    pub(crate) fn new(nonce: u64) -> Out {
        Out {
            now: Now::default(),
            wheel: Wheel::new(),
            counters: Counters::default(),
            work: 0,
            system: SystemLane::default(),
            facts: FactBook::default(),
            effects: Vec::new(),
            records_at: None,
            spare_records: Records::default(),
            fresh_ids: FreshIds::new(nonce),
            hasher: foldhash::fast::FixedState::with_seed(nonce),
            line: String::new(),
            data: String::new(),
        }
    }

    /// Adds an effect behind all others.
    #[inline]
    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// The facts that the daemon has not taken yet, to add to.
    #[inline]
    pub(crate) fn records(&mut self) -> &mut Records {
        let at = *self.records_at.get_or_insert_with(|| {
            self.effects.push(Effect::Record(std::mem::take(&mut self.spare_records)));
            self.effects.len() - 1
        });
        match &mut self.effects[at] {
            Effect::Record(records) => records,
            _ => unreachable!("effects keep their places until all are taken"),
        }
    }

    /// Takes back facts that were written: the next ones get their memory.
    #[inline]
    pub(crate) fn reuse(&mut self, records: Records) {
        let records = records.emptied();
        if records.room() > self.spare_records.room() {
            self.spare_records = records;
        }
    }

    /// The effects that the daemon has not taken yet, oldest first.
    pub(crate) fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// Moves the effects to the end of `into`. An empty buffer is swapped, not copied.
    pub(crate) fn drain_effects(&mut self, into: &mut Vec<Effect>) {
        self.records_at = None;
        if into.is_empty() {
            std::mem::swap(&mut self.effects, into);
        } else {
            into.append(&mut self.effects);
        }
    }

    /// Has `job` done in so many milliseconds.
    pub(crate) fn schedule_in(&mut self, ms: u64, job: Job) -> TimerKey {
        let deadline_ns = deadline_after(self.now.mono_ns, ns(ms));
        self.wheel.schedule(deadline_ns, job)
    }

    /// An id that no other message of this run has.
    pub(crate) fn fresh_id(&mut self) -> &str {
        self.fresh_ids.make()
    }

    /// The hash of a message's id.
    #[inline]
    pub(crate) fn hash_id(&self, id: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(id.as_bytes());
        hasher.finish()
    }

    /// A hash of what a message asks: the same for a repetition, different for another request
    /// under the same id. Where there is a journal, it is the one that stands there.
    #[inline]
    pub(crate) fn fingerprint(&self, message: &Envelope) -> u64 {
        if self.facts.storage != Storage::None {
            return crate::facts::fingerprint(message);
        }
        let mut hasher = self.hasher.build_hasher();
        hasher.write(message.type_name().as_bytes());
        hasher.write_u8(message.kind() as u8);
        hasher.write(message.data().as_bytes());
        hasher.finish()
    }

    /// Composes a draft, with a fresh id unless it has one.
    pub(crate) fn compose(&mut self, draft: &Draft) -> Envelope {
        let id = if draft.id.is_none() { self.fresh_ids.make() } else { "" };
        draft.compose(id, self.now.unix_ms, &mut self.line)
    }

    /// Composes a draft under a fresh id, with more members of its metadata (JSON text that begins
    /// with a comma).
    pub(crate) fn compose_with(&mut self, draft: &Draft, extra: &str) -> Envelope {
        let parts = Parts { extra, ..draft.parts(self.fresh_ids.make(), self.now.unix_ms) };
        parts.compose(&mut self.line)
    }

    /// A message of the kernel's own, with these data.
    pub(crate) fn message(&mut self, kind: Kind, type_name: &str, data: &str, cause: Cause<'_>) -> Envelope {
        let parts = Parts {
            kind,
            type_name,
            data,
            id: self.fresh_ids.make(),
            timestamp_ms: self.now.unix_ms,
            causation: cause.id,
            correlation: cause.correlation,
            traceparent: cause.traceparent,
            timeout_ms: None,
            extra: "",
        };
        parts.compose(&mut self.line)
    }

    /// The error by which the kernel ends, or refuses, a message.
    pub(crate) fn failure(
        &mut self,
        request: &Envelope,
        failure: Failure,
        text: &str,
        started: Started,
    ) -> Envelope {
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        let error = ErrorData {
            failure,
            message: text,
            original_id: Some(request.id()),
            original_type: Some(request.type_name()),
            started,
        };
        error.write(&mut data);
        let answer = self.message(Kind::Error, failure.type_name(), &data, Cause::of(request));
        self.data = data;
        answer
    }

    /// Publishes an event of the kernel's own, by way of the System lane. `data` writes itself as
    /// JSON.
    pub(crate) fn announce(&mut self, type_name: &str, data: impl std::fmt::Display) {
        self.announce_for(Hearers::All, type_name, data);
    }

    /// The same for operators alone: it tells of others' traffic.
    pub(crate) fn announce_to_operators(&mut self, type_name: &str, data: impl std::fmt::Display) {
        self.announce_for(Hearers::Operators(None), type_name, data);
    }

    /// The same for those who may hear it.
    pub(crate) fn announce_for(&mut self, hearers: Hearers, type_name: &str, data: impl std::fmt::Display) {
        let event = self.message(Kind::Event, type_name, &data.to_string(), Cause::NONE);
        if !self.system.announce(event, hearers) {
            self.counters.signals_dropped += 1;
        }
    }

    /// Tells the operator something.
    pub(crate) fn log(&mut self, level: Level, text: String) {
        self.effects.push(Effect::Log { level, capability: None, text });
    }

    /// Tells the operator something about the capability of this id.
    pub(crate) fn log_about(&mut self, id: &str, level: Level, text: String) {
        self.effects.push(Effect::Log { level, capability: Some(id.to_owned()), text });
    }
}
