//! The state machine: its parts, its turn, and what all its parts share.

use crate::actors::Actor;
use crate::boot::BootState;
use crate::config::{Config, Mode};
use crate::connections::Connection;
use crate::counters::Counters;
use crate::dead_letters::{DeadLetter, DeadLetters, Owner};
use crate::effect::{Effect, Level};
use crate::ids::{ConnectionId, Now};
use crate::lanes::{Completion, Item, Lanes, SYSTEM_SIGNALS_MAX, Sender, Signal};
use crate::peers::Peers;
use crate::requests::{RequestKey, Requests};
use crate::routes::Routes;
use crate::schedules::Schedules;
use crate::subscribers::Subscribers;
use crate::wheel::Wheel;
use hashbrown::HashMap;
use mainspring_message::{Envelope, ErrorData, Failure, Kind, Parts, Started};
use std::hash::{BuildHasher, Hasher};

/// Nanoseconds in a millisecond.
pub(crate) const MS: i64 = 1_000_000;

/// The CQRS event loop: inputs go in by methods, effects come out by [`Kernel::drain_effects`].
///
/// See the [crate's documentation](crate) for an example.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) config: Config,
    pub(crate) life: Life,
    pub(crate) boot_state: BootState,
    pub(crate) effects: Vec<Effect>,
    pub(crate) lanes: Lanes,
    pub(crate) requests: Requests,
    pub(crate) peers: Peers,
    pub(crate) connections: HashMap<ConnectionId, Connection, foldhash::fast::FixedState>,
    pub(crate) actors: Vec<Actor>,
    pub(crate) routes: Routes,
    pub(crate) wheel: Wheel<Job>,
    pub(crate) schedules: Schedules,
    pub(crate) subscribers: Subscribers,
    pub(crate) dead: DeadLetters,
    pub(crate) counters: Counters,
    /// Bytes handed out to connections and not yet written.
    pub(crate) egress_bytes: usize,
    /// The queue of the loop itself in the User lane.
    pub(crate) loop_queue: u32,
    /// `Sys.Stats` requests that wait for the floors below.
    pub(crate) stats_asked: Vec<(u64, RequestKey)>,
    pub(crate) stats_ticket: u64,
    hasher: foldhash::fast::FixedState,
    id_prefix: String,
    id_last: u64,
    scratch: String,
    data_scratch: String,
    id_scratch: String,
    pub(crate) fan_out: Vec<ConnectionId>,
}

/// The stages of the loop's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// From LOAD to ADAPT.
    Booting,
    Running,
    /// No new work; what there is may finish.
    Draining,
    /// All is answered; bytes and actors may leave.
    Flushing,
    Ended,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    Timeout(RequestKey),
    Retry(RequestKey),
    /// A restart or probe of this capability.
    Restart(u32),
    /// The actor kept an overdue request for too long.
    Hang {
        capability: u32,
        incarnation: u32,
    },
    /// A scheduled message.
    Schedule(u32),
    /// The boot took too long.
    Boot,
    /// The drain took too long.
    Drain,
    /// The flush took too long.
    Flush,
}

/// What a turn left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// More can be done at once.
    More,
    /// Nothing until the next input or [`Kernel::next_deadline`].
    Idle,
    /// The loop has ended.
    Ended,
}

impl Kernel {
    /// A kernel before its boot. `nonce` makes its ids differ from those of any other run.
    pub fn new(config: Config, nonce: u64) -> Kernel {
        let mut lanes = Lanes::default();
        Kernel {
            config,
            life: Life::Booting,
            boot_state: BootState::default(),
            effects: Vec::new(),
            loop_queue: lanes.open(Sender::Loop),
            lanes,
            peers: Peers::default(),
            requests: Requests::new(),
            connections: HashMap::default(),
            actors: Vec::new(),
            routes: Routes::default(),
            wheel: Wheel::new(),
            schedules: Schedules::default(),
            subscribers: Subscribers::default(),
            dead: DeadLetters::default(),
            counters: Counters::default(),
            egress_bytes: 0,
            stats_asked: Vec::new(),
            stats_ticket: 1,
            hasher: foldhash::fast::FixedState::with_seed(nonce),
            id_prefix: format!("{nonce:016x}-"),
            id_last: 0,
            scratch: String::new(),
            data_scratch: String::new(),
            id_scratch: String::new(),
            fan_out: Vec::new(),
        }
    }

    /// Moves the effects to the end of `into`, oldest first. An empty buffer is swapped, not copied.
    pub fn drain_effects(&mut self, into: &mut Vec<Effect>) {
        if into.is_empty() {
            std::mem::swap(&mut self.effects, into);
        } else {
            into.append(&mut self.effects);
        }
    }

    /// The earliest monotonic time at which [`Kernel::turn`] has something to do without a further input.
    pub fn next_deadline(&self) -> Option<i64> {
        self.wheel.next_deadline()
    }

    /// The settings in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What has happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Runs one turn: due timers, then the System lane, then Completions (both up to a bound), then one User message.
    pub fn turn(&mut self, now: Now) -> Turn {
        if self.life == Life::Ended {
            return Turn::Ended;
        }
        self.counters.turns += 1;
        self.fire_timers(now);
        self.drain_system(now);
        self.drain_completions(now);
        if self.life != Life::Booting {
            self.serve_user(now);
        }
        self.advance_life(now);
        if self.life == Life::Ended {
            return Turn::Ended;
        }
        let due = self.wheel.next_deadline().is_some_and(|deadline| deadline <= now.mono_ns);
        let blocked =
            self.life == Life::Booting && self.lanes.system.is_empty() && self.lanes.completions.is_empty();
        if due || (!self.lanes.is_empty() && !blocked) { Turn::More } else { Turn::Idle }
    }

    fn fire_timers(&mut self, now: Now) {
        for _ in 0..self.config.limits.timers_per_turn {
            let Some((deadline_ns, job)) = self.wheel.pop_due(now.mono_ns) else { return };
            match job {
                Job::Timeout(key) => self.lanes.completions.push_back(Completion::Timeout(key)),
                Job::Retry(key) => self.retry(key, now),
                Job::Restart(capability) => self.respawn(capability, now),
                Job::Hang { capability, incarnation } => self.hung(capability, incarnation),
                Job::Schedule(schedule) => self.fire_schedule(schedule, deadline_ns, now),
                Job::Boot => self.boot_too_slow(now),
                Job::Drain => self.answer_the_rest(now),
                Job::Flush => self.end(now),
            }
        }
    }

    fn drain_system(&mut self, now: Now) {
        for _ in 0..self.config.limits.system_per_turn {
            match self.lanes.system.pop_front() {
                Some(Signal::Fault { capability, incarnation, failure, reason }) => {
                    self.handle_fault(capability, incarnation, failure, &reason, now);
                }
                Some(Signal::Publish(event)) => self.publish(&event, now),
                None => return,
            }
            self.counters.system_served += 1;
        }
    }

    fn drain_completions(&mut self, now: Now) {
        for _ in 0..self.config.limits.completions_per_turn {
            match self.lanes.completions.pop_front() {
                Some(Completion::Outcome(key, answer)) => self.complete(key, answer, now),
                Some(Completion::Timeout(key)) => self.time_out(key, now),
                None => return,
            }
            self.counters.completions_served += 1;
        }
    }

    fn serve_user(&mut self, now: Now) {
        let Some((item, queue)) = self.lanes.pop() else { return };
        self.counters.user_served += 1;
        if let Some(queue) = queue {
            self.relieve(queue);
        }
        match item {
            Item::Request(key) => self.dispatch(key, now),
            Item::Event(event) => self.publish(&event, now),
        }
    }

    /// Whether the loop is in batch mode and has nothing left to do or to wait for.
    pub(crate) fn is_quiescent(&self) -> bool {
        self.config.mode == Mode::Batch
            && self.boot_state.adapters_active() == 0
            && self.requests.live() == 0
            && self.schedules.is_empty()
            && self.egress_bytes == 0
            && self.lanes.is_empty()
    }

    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.life, Life::Draining | Life::Flushing | Life::Ended)
    }

    // What all parts share: hashes, ids, messages of the loop's own, logs, dead letters.

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

    /// A fresh id.
    pub(crate) fn fresh_id(&mut self) -> String {
        self.id_last += 1;
        format!("{}{}", self.id_prefix, self.id_last)
    }

    /// Composes a draft, with a fresh id unless it has one.
    pub(crate) fn compose(&mut self, draft: &mainspring_message::Draft, now: Now) -> Envelope {
        let mut id = std::mem::take(&mut self.id_scratch);
        id.clear();
        if draft.id.is_none() {
            self.write_fresh_id(&mut id);
        }
        let message = draft.compose(&id, now.unix_ms, &mut self.scratch);
        self.id_scratch = id;
        message
    }

    fn write_fresh_id(&mut self, into: &mut String) {
        self.id_last += 1;
        into.push_str(&self.id_prefix);
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = self.id_last;
        while rest > 0 || at == digits.len() {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        into.push_str(str::from_utf8(&digits[at..]).unwrap_or("0"));
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
        let mut id = std::mem::take(&mut self.id_scratch);
        id.clear();
        self.write_fresh_id(&mut id);
        let parts = Parts {
            kind,
            type_name,
            data,
            id: &id,
            timestamp_ms: now.unix_ms,
            causation,
            correlation,
            timeout_ms: None,
            extra: "",
        };
        let message = parts.compose(&mut self.scratch);
        self.id_scratch = id;
        message
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

    /// Puts an event of the loop's own into the System lane.
    pub(crate) fn announce(&mut self, type_name: &str, data: serde_json::Value, now: Now) {
        if self.lanes.system.len() >= SYSTEM_SIGNALS_MAX {
            self.counters.signals_dropped += 1;
            return;
        }
        let event = self.loop_message(Kind::Event, type_name, &data.to_string(), None, None, now);
        self.lanes.system.push_back(Signal::Publish(event));
    }

    pub(crate) fn log(&mut self, level: Level, text: String) {
        self.effects.push(Effect::Log { level, text });
    }

    /// Keeps a message that ended badly.
    pub(crate) fn bury(&mut self, owner: Owner, message: Envelope, reason: &str, attempts: u32, now: Now) {
        self.counters.dead_letters += 1;
        let letter =
            DeadLetter { number: 0, unix_ms: now.unix_ms, reason: reason.to_owned(), attempts, message };
        let limits = &self.config.limits;
        self.dead.add(owner, letter, limits.dead_letters_max, limits.dead_letter_bytes_max);
    }
}
