//! `Sys.Stats`: the loop's numbers, and those of the floors below when they are asked.

use super::Answer;
use crate::api::effect::Effect;
use crate::api::ids::Now;
use crate::kernel::Kernel;
use crate::records::latency::{Latency, Summary};
use crate::requests::{Phase, RequestKey};
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
    /// Requests in actors' hands.
    pub in_flight: usize,
    /// Requests that timed out and are still in actors' hands.
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
    /// Scheduled messages.
    pub schedules: usize,
    /// Timers of every kind.
    pub timers: usize,
    /// Connections.
    pub connections: usize,
    /// Peers that something refers to.
    pub peers: usize,
    /// Bytes handed out and not yet written.
    pub egress_bytes: usize,
    /// Bytes that clients and actors make the daemon hold.
    pub memory_bytes: usize,
}

impl Kernel {
    /// Counts where everything is.
    pub fn census(&self) -> Census {
        Census {
            requests: self.requests.live(),
            system_lane: self.lanes.system.len(),
            completions_lane: self.lanes.completions.len(),
            user_lane: self.lanes.user_len(),
            user_held: self.lanes.held_len(),
            mailboxes: self.actors.iter().map(|actor| actor.mail_len).sum(),
            in_flight: self.actors.iter().map(|actor| actor.in_flight.len()).sum(),
            overdue: self.actors.iter().map(|actor| actor.overdue.len()).sum(),
            waiting_events: self.waiting_events,
            window_answers: self.requests.window.requests,
            window_bytes: self.requests.window.bytes,
            dead_letters: self.dead.len(),
            dead_letter_bytes: self.dead.bytes(),
            history_bytes: self.history.bytes(),
            schedules: self.schedules.len(),
            timers: self.wheel.len(),
            connections: self.connections.len(),
            peers: self.peers.len(),
            egress_bytes: self.egress_bytes,
            memory_bytes: self.memory_bytes(),
        }
    }

    pub(super) fn ask_for_stats(&mut self, key: RequestKey) {
        let ticket = self.stats_ticket;
        self.stats_ticket += 1;
        if let Some(live) = self.requests.get_mut(key) {
            live.phase = Phase::Outside;
        }
        // Those that timed out in the meantime have no one waiting any more.
        let requests = &self.requests;
        self.stats_asked.retain(|(_, key)| requests.get(*key).is_some());
        self.stats_asked.push((ticket, key));
        self.effects.push(Effect::CollectStats { ticket });
    }

    /// Answers [`Effect::CollectStats`] with a JSON object.
    pub fn stats_collected(&mut self, ticket: u64, numbers: Json, now: Now) {
        let Some(at) = self.stats_asked.iter().position(|(asked, _)| *asked == ticket) else { return };
        let (_, key) = self.stats_asked.swap_remove(at);
        let Some(request) = self.requests.get(key).map(|live| live.message.clone()) else { return };
        if let Ok(data) = self.stats_answer(Some(&numbers), now) {
            self.answer_builtin(key, &request, &data, now);
        }
    }

    pub(super) fn stats_answer(&self, floors: Option<&Json>, now: Now) -> Answer {
        let counters: Map<String, Value> =
            self.counters.each().into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
        let census = self.census();
        let floors: Value =
            floors.and_then(|numbers| serde_json::from_str(numbers.as_str()).ok()).unwrap_or_default();
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
                "schedules": census.schedules,
                "timers": census.timers,
                "connections": census.connections,
                "peers": census.peers,
                "egressBytes": census.egress_bytes,
                "memoryBytes": census.memory_bytes,
                "memoryBytesMax": self.config.limits.memory_bytes_max,
            },
            "latencyNs": told(Latency::summary(self.actors.iter().map(|actor| &*actor.latency), now.mono_ns)),
            "floors": floors,
        })
        .to_string())
    }
}

/// How long requests took of late, for `Sys.Stats` and `Sys.Actors`; nothing if none ended.
pub(super) fn told(latency: Option<Summary>) -> Value {
    let Some(Summary { requests, mean_ns, p50_ns, p99_ns, max_ns }) = latency else { return Value::Null };
    json!({ "requests": requests, "mean": mean_ns, "p50": p50_ns, "p99": p99_ns, "max": max_ns })
}
