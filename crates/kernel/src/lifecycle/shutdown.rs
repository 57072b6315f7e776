//! The end: no new work, drain, answer the rest, flush, exit.

use crate::api::effect::{CloseReason, Effect, Level};
use crate::api::ids::{ConnectionId, Now};
use crate::flow::lanes::Hold;
use crate::flow::work;
use crate::kernel::{Job, Kernel, Life, ns};
use crate::lifecycle::boot::AdapterState;
use crate::requests::{Phase, RequestKey};
use crate::supervision::actors::ActorState;
use crate::time::wheel::deadline_after;
use mainspring_message::Failure;
use std::collections::VecDeque;

impl Kernel {
    /// Begins the shutdown: drain, answer the rest, end.
    ///
    /// Clients' new messages are refused from here on; actors may still ask each other to finish what they have.
    /// Scheduled messages that are not due are given up.
    pub fn shutdown(&mut self, reason: &str, now: Now) {
        if self.life == Life::Booting {
            return self.boot_failed_in_phase(&format!("shut down during the boot: {reason}"), now);
        }
        if self.life != Life::Running {
            return;
        }
        self.life = Life::Draining;
        let given_up = self.schedules.len();
        let given_up = match given_up {
            0 => String::new(),
            count => format!("; scheduled messages that are given up: {count}"),
        };
        self.log(Level::Info, format!("shutting down: {reason}{given_up}"));
        self.cancel_all_schedules();
        for (at, adapter) in self.boot_state.adapters.iter_mut().enumerate() {
            if adapter.state != AdapterState::Ended {
                adapter.state = AdapterState::Ended;
                self.effects.push(Effect::StopAdapter { adapter: at as u32 });
            }
        }
        self.announce("Sys.ShutdownStarted", serde_json::json!({ "reason": reason }), now);
        let deadline = deadline_after(now.mono_ns, ns(self.config.drain_ms));
        self.wheel.schedule(deadline, Job::Drain);
    }

    /// Ends the patience of a shutdown: requests in flight are answered now, or, if that has begun, unwritten bytes and actors are given
    /// up as well.
    pub fn hasten(&mut self, now: Now) {
        match self.life {
            Life::Draining => match self.giving_up.take() {
                None => self.answer_the_rest(now),
                Some(rest) => {
                    rest.into_iter().for_each(|key| self.give_up_request(key, now));
                    self.begin_flush(now);
                    self.end(now);
                }
            },
            Life::Flushing => self.end(now),
            Life::Booting | Life::Running | Life::Ended => {}
        }
    }

    /// Moves on when a stage of the loop's life has nothing left to do.
    pub(crate) fn advance_life(&mut self, now: Now) {
        if self.life == Life::Running && self.is_quiescent() {
            self.shutdown("nothing is left to do", now);
        }
        if self.life == Life::Draining
            && self.requests.live() == 0
            && self.lanes.is_empty()
            && !self.fan_out.is_under_way()
            && !self.mail_waits()
        {
            self.begin_flush(now);
        }
        if self.life == Life::Flushing
            && self.egress_bytes == 0
            && self.lanes.is_empty()
            && !self.fan_out.is_under_way()
            && self.actors_are_gone()
        {
            self.end(now);
        }
    }

    /// The drain took too long: every request that is left ends with an error, some in each turn.
    pub(crate) fn answer_the_rest(&mut self, now: Now) {
        if self.life != Life::Draining || self.giving_up.is_some() {
            return;
        }
        let rest = self.requests.live_keys();
        let text = match rest.len() {
            1 => "1 request was not finished in time".to_owned(),
            count => format!("{count} requests were not finished in time"),
        };
        self.log(Level::Warn, text);
        self.giving_up = Some(rest.into());
        self.answer_some_of_the_rest(now);
    }

    /// Answers as many of them as one turn should.
    pub(crate) fn answer_some_of_the_rest(&mut self, now: Now) {
        let until = self.work + work::PART_MAX;
        while self.work < until {
            let Some(key) = self.giving_up.as_mut().and_then(VecDeque::pop_front) else {
                self.giving_up = None;
                return self.begin_flush(now);
            };
            self.give_up_request(key, now);
        }
    }

    fn give_up_request(&mut self, key: RequestKey, now: Now) {
        self.work += work::COMPLETION;
        // An outcome that came in time is in the Completions lane, and will be delivered from there.
        if self.requests.get(key).is_none_or(|live| live.phase == Phase::Answering) {
            return;
        }
        // Its actor may still finish it; that is late then, and no fault.
        self.keep_as_overdue(key, now);
        self.fail(key, Failure::ShuttingDown, "the loop shut down before the request was finished", now);
    }

    fn begin_flush(&mut self, now: Now) {
        self.life = Life::Flushing;
        self.giving_up = None;
        // Every request has its answer: what is left in the lanes costs nobody anything.
        for client in self.connections.values_mut() {
            self.lanes.release(client.queue, Hold::Egress);
        }
        for (capability, actor) in self.actors.iter_mut().enumerate() {
            match actor.state {
                ActorState::Up if actor.succession.input_ended() => {}
                ActorState::Up => {
                    let actor = actor.reference(capability as u32);
                    self.effects.push(Effect::Stop { actor });
                }
                ActorState::Spawning | ActorState::Attaching => {
                    let reference = actor.reference(capability as u32);
                    self.effects.push(Effect::Terminate { actor: reference });
                    actor.state = ActorState::Stopped;
                }
                ActorState::Backoff(timer) | ActorState::Unhealthy(Some(timer)) => {
                    self.wheel.cancel(timer);
                    actor.state = ActorState::Stopped;
                }
                _ => actor.state = ActorState::Stopped,
            }
        }
        for capability in 0..self.actors.len() as u32 {
            self.end_retirement(capability);
            self.empty_mailbox(capability, now);
        }
        let deadline = deadline_after(now.mono_ns, ns(self.config.drain_ms));
        self.wheel.schedule(deadline, Job::Flush);
    }

    /// Whether events wait for an actor that may still take them.
    fn mail_waits(&self) -> bool {
        self.actors.iter().any(|actor| {
            actor.mail_len > 0 && !matches!(actor.state, ActorState::Unhealthy(_) | ActorState::Stopped)
        })
    }

    fn actors_are_gone(&self) -> bool {
        self.actors.iter().all(|actor| matches!(actor.state, ActorState::Stopped | ActorState::Down))
    }

    /// Ends the loop: what is still there is ended or closed.
    pub(crate) fn end(&mut self, now: Now) {
        if self.life != Life::Flushing {
            return;
        }
        for (capability, actor) in self.actors.iter_mut().enumerate() {
            if actor.state == ActorState::Up {
                self.effects.push(Effect::Terminate { actor: actor.reference(capability as u32) });
            }
            actor.state = ActorState::Stopped;
        }
        self.close_all_connections(now);
        self.life = Life::Ended;
        self.effects.push(Effect::Exit { code: 0 });
    }

    pub(crate) fn close_all_connections(&mut self, now: Now) {
        let mut open: Vec<ConnectionId> = self.connections.keys().copied().collect();
        open.sort_unstable();
        for connection in open {
            self.effects.push(Effect::Close { connection, reason: CloseReason::Shutdown });
            self.connection_closed(connection, now);
        }
    }
}
