//! `Sys.Stats`: the kernel's numbers, and those of the floors below when they are asked.

use super::list_actors::ListActors;
use crate::api::effect::Effect;
use crate::api::ids::Now;
use crate::builtins::chores::Task;
use crate::builtins::{Answer, Builtin, Caller};
use crate::flow::routes::Handler;
use crate::kernel::Kernel;
use crate::requests::RequestKey;
use mainspring_message::Json;
use serde_json::{Map, Value, json};

/// Where every message is at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Census {
    /// Unfinished requests, wherever they are.
    pub requests: usize,
    /// Signals in the System lane.
    pub system_lane: usize,
    /// Outcomes in the Completions lane.
    pub completions_lane: usize,
    /// Messages in the User lane.
    pub user_lane: usize,
    /// Those of them whose sender is held back.
    pub user_held: usize,
    /// Messages in the mailboxes.
    pub mailboxes: usize,
    /// Requests in progress with their actors.
    pub in_flight: usize,
    /// Requests that timed out and that their actors have not answered.
    pub overdue: usize,
    /// Events that wait for slow subscribers.
    pub waiting_events: usize,
    /// Remembered commands, with their answers or without, and the bytes of the answers.
    pub window_answers: usize,
    /// See above.
    pub window_bytes: usize,
    /// Dead letters, and their bytes.
    pub dead_letters: usize,
    /// See above.
    pub dead_letter_bytes: usize,
    /// Bytes of the history.
    pub history_bytes: usize,
    /// Durable events that are kept, their bytes, and cursors.
    pub durable_events: usize,
    /// See above.
    pub durable_event_bytes: usize,
    /// See above.
    pub cursors: usize,
    /// Scheduled messages.
    pub schedules: usize,
    /// Timers of every kind.
    pub timers: usize,
    /// Connections.
    pub connections: usize,
    /// Peers that something refers to.
    pub peers: usize,
    /// Bytes written to connections that have not left.
    pub egress_bytes: usize,
    /// Bytes that clients and actors make the daemon hold.
    pub memory_bytes: usize,
}

impl Kernel {
    /// Counts where everything is.
    pub fn census(&self) -> Census {
        let actors = self.actors.totals();
        let (durable_events, durable_event_bytes, cursors) = self.cursors.totals();
        Census {
            requests: self.requests.live(),
            system_lane: self.out.system.len(),
            completions_lane: self.lanes.completions().len(),
            user_lane: self.lanes.user_len(),
            user_held: self.lanes.held_len(),
            mailboxes: actors.mail,
            in_flight: actors.in_progress,
            overdue: actors.overdue,
            waiting_events: self.connections.waiting_events(),
            window_answers: self.requests.remembered(),
            window_bytes: self.requests.remembered_bytes(),
            dead_letters: self.dead_letters.len(),
            dead_letter_bytes: self.dead_letters.bytes(),
            history_bytes: self.history.bytes(),
            durable_events,
            durable_event_bytes,
            cursors,
            schedules: self.schedules.len(),
            timers: self.out.wheel.len(),
            connections: self.connections.len(),
            peers: self.requests.peers_len(),
            egress_bytes: self.connections.egress_bytes(),
            memory_bytes: self.memory_bytes(),
        }
    }

    pub(in crate::builtins) fn ask_for_stats(&mut self, key: RequestKey) {
        self.requests.enter_outside(key);
        let requests = &self.requests;
        let ticket = self.chores.wait_outside(key, |key| requests.message(key).is_none());
        self.out.push(Effect::CollectStats { ticket });
    }

    /// Answers [`Effect::CollectStats`] with a JSON object.
    pub fn stats_collected(&mut self, ticket: u64, numbers: Json, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.stats_collected(ticket, &numbers));
        let Some(key) = self.chores.take_outside(ticket) else { return };
        let Some(request) = self.requests.message(key).cloned() else { return };
        let Some((peer, recipient)) = self.requests.caller(key) else { return };
        let caller = Caller { peer, recipient };
        if self.requests.handler(key) == Some(Handler::Builtin(Builtin::Actors)) {
            let mut floors: Value = serde_json::from_str(numbers.as_str()).unwrap_or_default();
            let task = Task::Actors(ListActors::new(caller, floors["actors"].take()));
            return self.begin_chore(key, None, task);
        }
        if let Ok(data) = self.stats_answer(Some(&numbers), caller) {
            self.answer_builtin(key, &request, &data);
        }
    }

    pub(in crate::builtins) fn stats_answer(&self, floors: Option<&Json>, caller: Caller) -> Answer {
        let counters: Map<String, Value> = self
            .out
            .counters
            .each()
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count.into()))
            .collect();
        let census = self.census();
        let mut floors: Value =
            floors.and_then(|numbers| serde_json::from_str(numbers.as_str()).ok()).unwrap_or_default();
        if !self.is_operator(caller.recipient)
            && let Some(daemon) = floors.get_mut("daemon").and_then(Value::as_object_mut)
        {
            daemon.remove("configuration");
            daemon.remove("listeners");
        }
        Ok(json!({
            "counters": counters,
            "gauges": {
                "requests": census.requests,
                "systemLane": census.system_lane,
                "completionsLane": census.completions_lane,
                "userLane": census.user_lane,
                "userHeld": census.user_held,
                "mailboxes": census.mailboxes,
                "inFlight": census.in_flight,
                "overdue": census.overdue,
                "waitingEvents": census.waiting_events,
                "windowAnswers": census.window_answers,
                "windowBytes": census.window_bytes,
                "deadLetters": census.dead_letters,
                "deadLetterBytes": census.dead_letter_bytes,
                "historyBytes": census.history_bytes,
                "durableEvents": census.durable_events,
                "durableEventBytes": census.durable_event_bytes,
                "cursors": census.cursors,
                "schedules": census.schedules,
                "timers": census.timers,
                "connections": census.connections,
                "peers": census.peers,
                "egressBytes": census.egress_bytes,
                "memoryBytes": census.memory_bytes,
                "memoryBytesMax": self.config.limits.memory_bytes_max,
            },
            "latencyNs": self.actors.latency(&self.out),
            "floors": floors,
        })
        .to_string())
    }
}
