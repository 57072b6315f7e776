//! The state machine: its parts, its turn, and what all its parts share.

use crate::api::config::{Config, Mode};
use crate::api::counters::Counters;
use crate::api::effect::Effect;
use crate::api::ids::{ConnectionId, FreshIds, Now};
use crate::builtins::Chores;
use crate::egress::connections::Connection;
use crate::egress::memory::{self, MemoryAccount};
use crate::egress::subscribers::Subscribers;
use crate::flow::dispatch::FanOut;
use crate::flow::lanes::{Completion, Item, Lanes, Sender, Signal};
use crate::flow::routes::Routes;
use crate::flow::work;
use crate::lifecycle::boot::BootState;
use crate::records::dead_letters::DeadLetters;
use crate::records::history::{Author, History};
use crate::requests::peers::Peers;
use crate::requests::{RequestKey, Requests};
use crate::supervision::actors::Actor;
use crate::time::schedules::Schedules;
use crate::time::wheel::Wheel;
use hashbrown::HashMap;
use std::collections::VecDeque;

/// Nanoseconds in a millisecond.
pub(crate) const MS: i64 = 1_000_000;

/// Milliseconds as nanoseconds; what lies beyond the range lasts for ever.
pub(crate) fn ns(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(MS)
}

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
    /// How many of them have a life that is to end.
    pub(crate) retiring: usize,
    pub(crate) routes: Routes,
    pub(crate) wheel: Wheel<Job>,
    pub(crate) schedules: Schedules,
    pub(crate) subscribers: Subscribers,
    pub(crate) dead: DeadLetters,
    pub(crate) history: History,
    pub(crate) counters: Counters,
    /// Bytes handed out to connections and not yet written.
    pub(crate) egress_bytes: usize,
    /// Events that wait for slow subscribers, and their bytes, each as often as it waits.
    pub(crate) waiting_events: usize,
    pub(crate) waiting_event_bytes: usize,
    /// What is held, and what is held elsewhere on behalf of clients and actors.
    pub(crate) memory: MemoryAccount,
    /// The work that was done, see [`crate::work`].
    pub(crate) work: u64,
    /// Built-ins that work in slices.
    pub(crate) chores: Chores,
    /// The queue of dead letters put back in the User lane.
    pub(crate) loop_queue: u32,
    /// `Sys.Stats` requests that wait for the floors below.
    pub(crate) stats_asked: Vec<(u64, RequestKey)>,
    pub(crate) stats_ticket: u64,
    pub(crate) hasher: foldhash::fast::FixedState,
    pub(crate) fresh_ids: FreshIds,
    pub(crate) scratch: String,
    pub(crate) data_scratch: String,
    /// The event that is being told to many subscribers.
    pub(crate) fan_out: FanOut,
    /// Requests that are still to be answered because the drain took too long.
    pub(crate) giving_up: Option<VecDeque<RequestKey>>,
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
    /// A life that is to end took too long.
    Retire {
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
            history: History::new(config.limits.history_bytes_max),
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
            retiring: 0,
            routes: Routes::default(),
            wheel: Wheel::new(),
            schedules: Schedules::default(),
            subscribers: Subscribers::default(),
            dead: DeadLetters::default(),
            counters: Counters::default(),
            egress_bytes: 0,
            waiting_events: 0,
            waiting_event_bytes: 0,
            memory: MemoryAccount::default(),
            work: 0,
            chores: Chores::default(),
            stats_asked: Vec::new(),
            stats_ticket: 1,
            hasher: foldhash::fast::FixedState::with_seed(nonce),
            fresh_ids: FreshIds::new(nonce),
            scratch: String::new(),
            data_scratch: String::new(),
            fan_out: FanOut::default(),
            giving_up: None,
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

    /// The work that was done so far. One unit is about a nanosecond of a usual machine; whoever bounds the time that the
    /// kernel takes need not look at the clock before some ten thousand more are done.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Whether the next turn will do something that takes much longer than most: what was handed out before should have
    /// left by then.
    pub fn is_next_heavy(&self) -> bool {
        self.is_slice_next() || self.lanes.is_next_large()
    }

    /// Runs one turn: due timers, then the System lane, then Completions (both up to a bound), then one User message. What
    /// can be a lot of work is cut into slices of counted work and goes on in the next turn.
    pub fn turn(&mut self, now: Now) -> Turn {
        if self.life == Life::Ended {
            return Turn::Ended;
        }
        self.counters.turns += 1;
        let work_before = self.work;
        self.work += work::TURN;
        self.fire_timers(now);
        if !self.fan_out.is_under_way() || self.go_on_telling(now) {
            self.drain_system(now);
        }
        self.drain_completions(now);
        // What is told to many is told to all of them before anything else is, so that nobody hears two events in another
        // order than the others.
        if self.life != Life::Booting && !self.fan_out.is_under_way() {
            self.serve_user(now);
        }
        if !self.chores.is_empty() {
            self.work_on_chores(now);
        }
        if self.giving_up.is_some() {
            self.answer_some_of_the_rest(now);
        }
        if self.counters.turns.is_multiple_of(memory::TURNS_BETWEEN_LOOKS)
            || self.work - work_before >= work::SLICE_MAX
        {
            self.look_at_memory(now);
        }
        self.advance_retirements(now);
        self.advance_life(now);
        if self.life == Life::Ended {
            return Turn::Ended;
        }
        let due = self.wheel.next_deadline().is_some_and(|deadline| deadline <= now.mono_ns);
        let blocked =
            self.life == Life::Booting && self.lanes.system.is_empty() && self.lanes.completions.is_empty();
        let goes_on = self.fan_out.is_under_way() || !self.chores.is_empty() || self.giving_up.is_some();
        if due || goes_on || (self.lanes.is_ready() && !blocked) { Turn::More } else { Turn::Idle }
    }

    fn fire_timers(&mut self, now: Now) {
        let until = self.work + work::PART_MAX;
        for _ in 0..self.config.limits.timers_per_turn.max(1) {
            if self.work >= until {
                return;
            }
            let Some((_, job)) = self.wheel.pop_due(now.mono_ns) else { return };
            self.work += work::TIMER;
            match job {
                Job::Timeout(key) => self.lanes.completions.push_back(Completion::Timeout(key)),
                Job::Retry(key) => self.retry(key, now),
                Job::Restart(capability) => self.respawn(capability, now),
                Job::Hang { capability, incarnation } => self.hung(capability, incarnation),
                Job::Retire { capability, incarnation } => {
                    self.retirement_overdue(capability, incarnation, now);
                }
                Job::Schedule(schedule) => self.fire_schedule(schedule, now),
                Job::Boot => self.boot_too_slow(now),
                Job::Drain => self.answer_the_rest(now),
                Job::Flush => self.end(now),
            }
        }
    }

    fn drain_system(&mut self, now: Now) {
        let until = self.work + work::PART_MAX;
        for _ in 0..self.config.limits.system_per_turn.max(1) {
            if self.work >= until || self.fan_out.is_under_way() {
                return;
            }
            match self.lanes.pop_signal() {
                Some(Signal::Fault { capability, incarnation, failure, reason }) => {
                    self.handle_fault(capability, incarnation, failure, &reason, now);
                }
                // What the loop says of itself has no causes, and is no part of the history.
                Some(Signal::Publish(event)) => {
                    self.publish(&event, now);
                }
                None => return,
            }
            self.counters.system_served += 1;
        }
    }

    fn drain_completions(&mut self, now: Now) {
        let until = self.work + work::PART_MAX;
        for _ in 0..self.config.limits.completions_per_turn.max(1) {
            if self.work >= until {
                return;
            }
            match self.lanes.completions.pop_front() {
                Some(Completion::Outcome(key, answer)) => {
                    // Whoever made it has worked for it, whether or not somebody is there to take it.
                    self.work += answer.line().len() as u64 / work::BYTES_PER_WORK;
                    self.complete(key, answer, now);
                }
                Some(Completion::Timeout(key)) => self.time_out(key, now),
                None => return,
            }
            self.work += work::COMPLETION;
            self.counters.completions_served += 1;
        }
    }

    fn serve_user(&mut self, now: Now) {
        let Some((item, sender, queue)) = self.lanes.pop() else { return };
        self.counters.user_served += 1;
        if let Some(queue) = queue {
            self.relieve(queue);
        }
        match item {
            Item::Request(key) => self.dispatch(key, queue, now),
            Item::Repetition(message) => {
                if let Sender::Connection(connection) = sender {
                    self.ingest_again(connection, message, now);
                }
            }
            Item::Event(event) => {
                let to = self.publish(&event, now);
                let from = match sender {
                    Sender::Connection(connection) => Author::Connection(connection),
                    Sender::Actor(capability) => Author::Capability(capability),
                    Sender::Loop => Author::Loop,
                };
                self.remember_event(&event, from, to, now);
            }
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
            && !self.fan_out.is_under_way()
    }

    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.life, Life::Draining | Life::Flushing | Life::Ended)
    }
}
