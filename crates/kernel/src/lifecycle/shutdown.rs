//! The end: no new work, drain, answer the rest, flush, exit.

use super::Stage;
use crate::api::config::Mode;
use crate::api::effect::{Effect, Level};
use crate::api::fact::Fact;
use crate::api::ids::Now;
use crate::flow::lanes::Hold;
use crate::flow::work;
use crate::kernel::Kernel;
use crate::requests::RequestKey;
use crate::time::Job;
use mainspring_message::Failure;
use serde_json::json;
use std::collections::VecDeque;

/// When the operator is told what a shutdown waits for, and how often again.
const TELL_AFTER_MS: u64 = 1_000;
const TELL_EVERY_MS: u64 = 5_000;
/// Capabilities that are named.
const NAMED_MAX: usize = 8;

/// Names in words, as many as a line should have.
fn listed<T: ToString>(all: &[T]) -> String {
    let mut names: Vec<String> = all.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    if all.len() > NAMED_MAX {
        names.push(format!("{} more", all.len() - NAMED_MAX));
    }
    names.join(", ")
}

fn at_most(ms: u64) -> String {
    match ms % 1000 {
        0 => format!("at most {}s", ms / 1000),
        _ => format!("at most {ms}ms"),
    }
}

impl Kernel {
    /// Begins the shutdown: drain, answer the rest, end.
    ///
    /// Clients' new messages are refused from here on; actors may still ask each other to finish
    /// what they have. Scheduled messages that are not due are given up.
    pub fn shutdown(&mut self, reason: &str, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.shutdown(reason));
        self.begin_shutdown(reason);
    }

    pub(crate) fn begin_shutdown(&mut self, reason: &str) {
        if self.lifecycle.is_booting() {
            return self.boot_failed_in_phase(&format!("shut down during the boot: {reason}"));
        }
        if self.lifecycle.stage != Stage::Running {
            return;
        }
        self.lifecycle.stage = Stage::Draining;
        let given_up = self.schedules.cancel_all(&mut self.out);
        let text = match given_up.len() {
            0 => String::new(),
            count if self.is_durable() => format!("; scheduled messages that are kept: {count}"),
            count => format!("; scheduled messages that are given up: {count}"),
        };
        let busy = match self.actors.busy() {
            busy if busy.is_empty() => String::new(),
            busy => format!("; waiting {} for {}", at_most(self.config.drain_ms), listed(&busy)),
        };
        self.out.log(Level::Info, format!("shutting down: {reason}{text}{busy}"));
        for gone in given_up {
            self.schedule_gone(gone);
        }
        self.lifecycle.stop_adapters(false, &mut self.out);
        self.out.announce("Sys.ShutdownStarted", json!({ "reason": reason }));
        self.out.schedule_in(self.config.drain_ms, Job::Drain);
        self.out.schedule_in(TELL_AFTER_MS, Job::StillEnding);
    }

    /// The shutdown goes on: says what it waits for, now and again.
    pub(crate) fn tell_what_ends(&mut self) {
        let text = match self.lifecycle.stage {
            Stage::Draining => listed(&self.actors.busy()),
            Stage::Flushing => match self.actors.alive() {
                alive if !alive.is_empty() => format!("{} to end", listed(&alive)),
                _ => "clients to read their answers".to_owned(),
            },
            Stage::Booting | Stage::Running | Stage::Ended => return,
        };
        if !text.is_empty() {
            self.out.log(Level::Warn, format!("still waiting for {text}"));
        }
        self.out.schedule_in(TELL_EVERY_MS, Job::StillEnding);
    }

    /// Ends the patience of a shutdown: requests in flight are answered now, or, if that has begun,
    /// unwritten bytes and actors are given up as well.
    pub fn hasten(&mut self, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.hasten());
        match self.lifecycle.stage {
            Stage::Draining => match self.lifecycle.giving_up.take() {
                None => self.give_up_requests(),
                Some(rest) => {
                    rest.into_iter().for_each(|key| self.give_up_request(key));
                    self.begin_flush();
                    self.end();
                }
            },
            Stage::Flushing => self.end(),
            Stage::Booting | Stage::Running | Stage::Ended => {}
        }
    }

    /// Whether this is a batch and nothing is left to do or to wait for.
    fn is_quiescent(&self) -> bool {
        self.config.mode == Mode::Batch
            && !self.lifecycle.has_adapters()
            && self.requests.live() == 0
            && self.schedules.is_empty()
            && self.connections.egress_bytes() == 0
            && self.nothing_is_to_be_served()
    }

    /// Whether the lanes are empty and no event is on its way.
    fn nothing_is_to_be_served(&self) -> bool {
        self.lanes.is_empty() && self.out.system.is_empty() && !self.fan_out.is_under_way()
    }

    /// Moves on when a stage has nothing left to do.
    #[inline]
    pub(crate) fn advance_stage(&mut self) {
        if self.lifecycle.stage == Stage::Running {
            if self.is_quiescent() {
                self.begin_shutdown("nothing is left to do");
            } else {
                return;
            }
        }
        self.advance_end();
    }

    #[cold]
    fn advance_end(&mut self) {
        if self.lifecycle.stage == Stage::Draining
            && self.requests.live() == 0
            && self.nothing_is_to_be_served()
            && !self.actors.mail_waits()
        {
            self.begin_flush();
        }
        if self.lifecycle.stage == Stage::Flushing
            && self.connections.egress_bytes() == 0
            && self.nothing_is_to_be_served()
            && self.actors.are_all_gone()
        {
            self.end();
        }
    }

    /// The drain took too long: every request that is left ends with an error, some in each turn.
    pub(crate) fn give_up_requests(&mut self) {
        if self.lifecycle.stage != Stage::Draining || self.lifecycle.giving_up.is_some() {
            return;
        }
        let rest = self.requests.live_keys();
        let text = match rest.len() {
            1 => "1 request was not finished in time".to_owned(),
            count => format!("{count} requests were not finished in time"),
        };
        self.out.log(Level::Warn, text);
        self.lifecycle.giving_up = Some(rest.into());
        self.give_up_some_requests();
    }

    /// Answers as many of them as one turn should.
    #[inline]
    pub(crate) fn give_up_some_requests(&mut self) {
        if !self.lifecycle.is_giving_up() {
            return;
        }
        let until = self.out.work + work::PART_MAX;
        while self.out.work < until {
            let Some(key) = self.lifecycle.giving_up.as_mut().and_then(VecDeque::pop_front) else {
                return self.begin_flush();
            };
            self.give_up_request(key);
        }
    }

    fn give_up_request(&mut self, key: RequestKey) {
        self.out.work += work::COMPLETION;
        // An outcome that came in time is in the Completions lane, and will be delivered from
        // there.
        if self.requests.is_answered(key) {
            return;
        }
        if self.leave_for_next_run(key) {
            return;
        }
        // Its actor may still finish it; that is late then, and no fault.
        self.keep_as_overdue(key);
        self.fail(key, Failure::ShuttingDown, "the daemon shut down before the request was finished");
    }

    fn begin_flush(&mut self) {
        self.lifecycle.stage = Stage::Flushing;
        self.lifecycle.giving_up = None;
        // Every request has its answer: what is left in the lanes costs nobody anything.
        for queue in self.connections.queues() {
            self.lanes.release(queue, Hold::Egress);
        }
        self.actors.stop_all(&mut self.out);
        for capability in self.actors.ids() {
            self.actors.end_retirement(capability, &mut self.out);
            self.empty_mailbox(capability);
        }
        self.out.schedule_in(self.config.drain_ms, Job::Flush);
    }

    /// Ends the kernel: what is still there is ended or closed.
    pub(crate) fn end(&mut self) {
        if self.lifecycle.stage != Stage::Flushing {
            return;
        }
        self.actors.terminate_all(false, &mut self.out);
        self.close_all_connections();
        self.record_all_letters();
        let unix_ms = self.out.now.unix_ms;
        self.out.record(&Fact::<&str>::Stopped { unix_ms });
        self.lifecycle.stage = Stage::Ended;
        self.out.push(Effect::Exit { code: 0 });
    }
}
