//! What all parts of the kernel share: hashes, fresh ids, messages of the loop's own, logs, dead letters.

use crate::api::effect::{Effect, Level};
use crate::api::ids::Now;
use crate::kernel::Kernel;
use crate::records::dead_letters::{DeadLetter, Owner};
use mainspring_message::{Draft, Envelope, ErrorData, Failure, Json, Kind, Parts, Started};
use std::hash::{BuildHasher, Hasher};

impl Kernel {
    pub(crate) fn hash_id(&self, id: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(id.as_bytes());
        hasher.finish()
    }

    /// A hash of what a message asks: the same for a repetition, different for another request under the same id.
    pub(crate) fn fingerprint(&self, message: &Envelope) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(message.type_name().as_bytes());
        hasher.write_u8(message.kind() as u8);
        hasher.write(message.data().as_bytes());
        hasher.finish()
    }

    /// Composes a draft, with a fresh id unless it has one.
    pub(crate) fn compose(&mut self, draft: &Draft, now: Now) -> Envelope {
        let id = if draft.id.is_none() { self.fresh_ids.make() } else { "" };
        draft.compose(id, now.unix_ms, &mut self.scratch)
    }

    /// A message of the loop's own.
    pub(crate) fn loop_message(
        &mut self,
        kind: Kind,
        type_name: &str,
        data: &str,
        causation: Option<&str>,
        correlation: Option<&str>,
        now: Now,
    ) -> Envelope {
        let parts = Parts {
            kind,
            type_name,
            data,
            id: self.fresh_ids.make(),
            timestamp_ms: now.unix_ms,
            causation,
            correlation,
            timeout_ms: None,
            extra: "",
        };
        parts.compose(&mut self.scratch)
    }

    /// The error by which the loop ends, or refuses, a message.
    pub(crate) fn failure(
        &mut self,
        request: &Envelope,
        failure: Failure,
        text: &str,
        started: Started,
        now: Now,
    ) -> Envelope {
        let mut data = std::mem::take(&mut self.data_scratch);
        data.clear();
        let error = ErrorData {
            failure,
            message: text,
            original_id: Some(request.id()),
            original_type: Some(request.type_name()),
            started,
        };
        error.write(&mut data);
        let (causation, correlation) = (Some(request.id()), request.correlation());
        let answer = self.loop_message(Kind::Error, failure.type_name(), &data, causation, correlation, now);
        self.data_scratch = data;
        answer
    }

    /// Puts an event of the loop's own into the System lane. `data` writes itself as JSON.
    pub(crate) fn announce(&mut self, type_name: &str, data: impl std::fmt::Display, now: Now) {
        let event = self.loop_message(Kind::Event, type_name, &data.to_string(), None, None, now);
        if !self.lanes.announce(event) {
            self.counters.signals_dropped += 1;
        }
    }

    pub(crate) fn log(&mut self, level: Level, text: String) {
        self.effects.push(Effect::Log { level, capability: None, text });
    }

    /// Tells the operator something about one capability.
    pub(crate) fn log_about(&mut self, capability: u32, level: Level, text: String) {
        let id = self.actors[capability as usize].manifest.id.clone();
        self.effects.push(Effect::Log { level, capability: Some(id), text });
    }

    /// Keeps a message that ended badly.
    pub(crate) fn bury(&mut self, owner: Owner, message: Envelope, reason: &str, attempts: u32, now: Now) {
        self.counters.dead_letters += 1;
        let letter = DeadLetter::new(message, reason, attempts, now.unix_ms);
        let limits = &self.config.limits;
        self.dead.add(owner, letter, limits.dead_letters_max, limits.dead_letter_bytes_max);
    }
}

/// The object with one more member, whose value is JSON that came from outside and is passed on as it was written.
///
/// Where that would nest too deeply for a message, the value is a string with the same text.
pub(crate) fn with_verbatim(object: &serde_json::Value, name: &str, value: &str) -> String {
    let mut text = object.to_string();
    text.pop();
    text.push_str(&format!(",\"{name}\":"));
    let head = text.len();
    text.push_str(value);
    text.push('}');
    if Json::parse(&text).is_err() {
        text.truncate(head);
        mainspring_message::write_json_string(value, &mut text);
        text.push('}');
    }
    text
}
