//! The state machine: its parts, and its turn.
//!
//! Each part owns its state, and none looks into another. [`Kernel`] is what they have in common:
//! it calls them one after the other, in the order in which things happen. The turn is here; the
//! way of a message through the parts is in [`flow`](crate::flow), the beginning and the end in
//! [`lifecycle`](crate::lifecycle).

use crate::actors::Actors;
use crate::api::config::Config;
use crate::api::counters::Counters;
use crate::api::effect::Effect;
use crate::api::ids::Now;
use crate::api::rights::Rights;
use crate::builtins::Chores;
use crate::cursors::Cursors;
use crate::dead_letters::DeadLetters;
use crate::durability::Durability;
use crate::egress::Connections;
use crate::flow::fan_out::FanOut;
use crate::flow::lanes::{Completion, Lanes};
use crate::flow::routes::Routes;
use crate::flow::system::Signal;
use crate::flow::{memory, work};
use crate::history::History;
use crate::lifecycle::Lifecycle;
use crate::logs::Logs;
use crate::out::Out;
use crate::requests::Requests;
use crate::tape::Tape;
use crate::taps::Taps;
use crate::time::Job;
use crate::time::schedules::Schedules;
use mainspring_message::Json;
use std::collections::BTreeMap;

/// The state machine that routes messages: inputs go in by methods, effects come out by
/// [`Kernel::drain_effects`].
///
/// See the [crate's documentation](crate) for an example.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) config: Config,
    /// Where every part writes what is to happen.
    pub(crate) out: Out,
    /// Between the boot and the end.
    pub(crate) lifecycle: Lifecycle,
    /// Where messages go.
    pub(crate) routes: Routes,
    pub(crate) lanes: Lanes,
    pub(crate) requests: Requests,
    pub(crate) connections: Connections,
    pub(crate) actors: Actors,
    pub(crate) schedules: Schedules,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) history: History,
    /// Who sees messages pass.
    pub(crate) taps: Taps,
    /// What capabilities wrote to standard error.
    pub(crate) logs: Logs,
    /// The event that is on its way to many subscribers.
    pub(crate) fan_out: FanOut,
    /// Built-ins that are not answered at once.
    pub(crate) chores: Chores,
    /// Bytes that the daemon holds itself on behalf of clients and actors; it says so.
    pub(crate) outside_bytes: usize,
    /// What survives the process.
    pub(crate) durability: Durability,
    /// Durable events, and who reads them.
    pub(crate) cursors: Cursors,
    /// What the peers that the settings name may do.
    pub(crate) peer_rights: BTreeMap<Box<str>, Vec<Rights>>,
    /// Where what happens is recorded, if anybody wants that.
    pub(crate) tape: Option<Box<Tape>>,
}

/// What a turn left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// More can be done at once.
    More,
    /// Nothing until the next input or [`Kernel::next_deadline`].
    Idle,
    /// The kernel has ended.
    Ended,
}

impl Kernel {
    /// A kernel before its boot. `nonce` makes its ids differ from those of any other run.
    pub fn new(config: Config, nonce: u64) -> Kernel {
        let limits = &config.limits;
        Kernel {
            out: Out::new(nonce),
            lifecycle: Lifecycle::default(),
            routes: Routes::default(),
            lanes: Lanes::new(limits),
            requests: Requests::new(&config),
            connections: Connections::new(limits),
            actors: Actors::new(&config),
            schedules: Schedules::new(limits),
            dead_letters: DeadLetters::new(limits),
            history: History::new(limits.history_bytes_max, limits.history_data_bytes_max),
            taps: Taps::new(limits),
            logs: Logs::default(),
            fan_out: FanOut::default(),
            chores: Chores::default(),
            outside_bytes: 0,
            durability: Durability::default(),
            cursors: Cursors::default(),
            peer_rights: BTreeMap::new(),
            tape: None,
            config,
        }
    }

    /// Moves the effects to the end of `into`, oldest first. An empty buffer is swapped, not
    /// copied.
    pub fn drain_effects(&mut self, into: &mut Vec<Effect>) {
        self.note_effects();
        self.out.drain_effects(into);
    }

    /// Takes the facts of an [`Effect::Record`] back once they are written, for their memory.
    #[inline]
    pub fn reuse(&mut self, records: crate::facts::Records) {
        self.out.reuse(records);
    }

    /// The earliest monotonic time at which [`Kernel::turn`] has something to do without a further
    /// input.
    pub fn next_deadline(&self) -> Option<i64> {
        self.out.wheel.next_deadline()
    }

    /// The settings in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What has happened so far.
    pub fn counters(&self) -> &Counters {
        &self.out.counters
    }

    /// The work that was done so far. One unit is about a nanosecond of a usual machine; whoever
    /// bounds the time that the kernel takes need not look at the clock before some ten thousand
    /// more are done.
    pub fn work(&self) -> u64 {
        self.out.work
    }

    /// Whether the next turn will do something that takes much longer than most: effects of earlier
    /// turns should be carried out by then.
    pub fn is_next_heavy(&self) -> bool {
        self.is_slice_next() || self.lanes.is_next_large()
    }

    /// Runs one turn: due timers, then the System lane, then Completions (both up to a bound), then
    /// one User message. What can be a lot of work is cut into slices of counted work and goes on
    /// in the next turn.
    pub fn turn(&mut self, now: Now) -> Turn {
        self.out.now = now;
        self.note(now, |pen| pen.turn());
        if self.lifecycle.has_ended() {
            return Turn::Ended;
        }
        self.out.counters.turns += 1;
        let work_before = self.out.work;
        self.out.work += work::TURN;
        self.fire_timers();
        if self.fan_out.is_under_way() {
            self.go_on_with_fan_out();
        }
        self.drain_system();
        self.drain_completions();
        if !self.lifecycle.is_booting() {
            self.serve_user();
        }
        if !self.chores.is_empty() {
            self.work_on_chores();
        }
        if !self.taps.is_empty() {
            self.flush_taps();
        }
        if self.cursors.are_hungry() {
            self.feed_readers();
        }
        self.give_up_some_requests();
        if self.out.counters.turns.is_multiple_of(memory::TURNS_BETWEEN_LOOKS)
            || self.out.work - work_before >= work::SLICE_MAX
        {
            self.look_at_memory();
        }
        self.advance_retirements();
        self.advance_stage();
        self.record_letters();
        self.after_turn()
    }

    fn after_turn(&self) -> Turn {
        if self.lifecycle.has_ended() {
            return Turn::Ended;
        }
        let is_due = self.next_deadline().is_some_and(|deadline| deadline <= self.out.now.mono_ns);
        let goes_on = self.fan_out.is_under_way()
            || !self.chores.is_empty()
            || self.cursors.are_hungry()
            || self.lifecycle.is_giving_up()
            || self.taps.wait(self.out.now.mono_ns);
        // Before READY no User message is served.
        let is_ready = match self.lifecycle.is_booting() {
            true => self.lanes.completions().len() > 0,
            false => self.lanes.is_ready(),
        };
        if is_due || goes_on || is_ready || !self.out.system.is_empty() { Turn::More } else { Turn::Idle }
    }

    fn fire_timers(&mut self) {
        let until = self.out.work + work::PART_MAX;
        for _ in 0..self.config.limits.timers_per_turn.max(1) {
            if self.out.work >= until {
                return;
            }
            let Some((_, job)) = self.out.wheel.pop_due(self.out.now.mono_ns) else { return };
            self.out.work += work::TIMER;
            match job {
                Job::Timeout(key) => self.lanes.complete(Completion::Timeout(key)),
                Job::Retry(key) => self.retry(key),
                Job::Restart(capability) => self.actors.respawn(capability, &mut self.out),
                Job::Hang(actor) => self.hung(actor),
                Job::Retire(actor) => self.retirement_overdue(actor),
                Job::Schedule(schedule) => self.fire_schedule(schedule),
                Job::Tap => self.taps.alarm_rang(),
                Job::Boot => self.boot_too_slow(),
                Job::Drain => self.give_up_requests(),
                Job::StillEnding => self.tell_what_ends(),
                Job::Flush => self.end(),
            }
        }
    }

    fn drain_system(&mut self) {
        let until = self.out.work + work::PART_MAX;
        for _ in 0..self.config.limits.system_per_turn.max(1) {
            // While an event is on its way to many, no other is published.
            if self.out.work >= until || self.fan_out.is_under_way() {
                return;
            }
            match self.out.system.pop() {
                Some(Signal::Fault { actor, failure, reason }) => self.handle_fault(actor, failure, &reason),
                // What the kernel says of itself has no causes, and is no part of the history.
                Some(Signal::Publish(event, hearers)) => {
                    self.publish_to(&event, hearers);
                }
                None => return,
            }
            self.out.counters.system_served += 1;
        }
    }

    fn drain_completions(&mut self) {
        let until = self.out.work + work::PART_MAX;
        for _ in 0..self.config.limits.completions_per_turn.max(1) {
            if self.out.work >= until {
                return;
            }
            match self.lanes.pop_completion() {
                Some(Completion::Outcome(key, answer)) => {
                    // Whoever made it has worked for it, whether or not somebody is there to take
                    // it.
                    self.out.work += answer.line().len() as u64 / work::BYTES_PER_WORK;
                    self.complete(key, answer);
                }
                Some(Completion::Timeout(key)) => self.time_out(key),
                None => return,
            }
            self.out.work += work::COMPLETION;
            self.out.counters.completions_served += 1;
        }
    }
}

/// The object with one more member, whose value is JSON that came from outside and is passed on as
/// it was written.
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
