//! What the loop serves itself: description, timers, subscriptions, supervision, dead letters, numbers.

mod catalogue;
mod chores;
mod dead_letters;
mod describe;
mod list_actors;
mod stats;
mod subscribe;
mod trace;
mod whole;

pub use stats::Census;

pub(crate) use catalogue::{BUILTINS, Builtin};
pub(crate) use chores::{Chores, Slice};
pub(crate) use list_actors::append;
pub(crate) use whole::Whole;

use crate::api::ids::{ConnectionId, Now};
use crate::flow::ingest::Refusal;
use crate::flow::routes::{Handler, Route, Routes};
use crate::kernel::Kernel;
use crate::requests::{Origin, Recipient, RequestKey};
use crate::schema::Validator;
use crate::time::schedules::ListTimers;
use chores::Task;
use list_actors::ListActors;
use mainspring_message::{Envelope, Failure, Kind, Started};
use serde::Deserialize;
use serde_json::{Value, json};

/// The data of the reply, as JSON text, or why there is none.
pub(crate) type Answer = Result<String, Refusal>;

/// What a built-in comes to that may have much to do.
pub(crate) enum Served {
    AtOnce(String),
    In(Task),
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) peer: u32,
    pub(crate) recipient: Recipient,
}

/// Adds the ways to the built-ins; no capability can take them later.
pub(crate) fn add_routes(routes: &mut Routes) {
    for builtin in BUILTINS {
        for kind in builtin.kinds {
            let route = Route { handler: Handler::Builtin(builtin.builtin), inbound: None };
            let _ = routes.add_handler(*kind, builtin.type_name, route);
        }
    }
}

pub(crate) fn read<'a, T: Deserialize<'a>>(request: &'a Envelope) -> Result<T, Refusal> {
    request.data_as().map_err(|error| Refusal::new(Failure::Schema, explain(request, &error)))
}

/// What is wrong with the data of a request, in the words of the schema that `Syscall.Describe` tells of it.
#[cold]
fn explain(request: &Envelope, error: &serde_json::Error) -> String {
    let published = BUILTINS.iter().find(|entry| entry.type_name == request.type_name());
    let schema = published.and_then(|entry| serde_json::from_str(entry.input).ok());
    let validator = schema.and_then(|schema: serde_json::Value| Validator::of_data(&schema).ok());
    match validator.map(|validator| validator.check(request.data(), "")) {
        Some(Err(violation)) => violation.to_string(),
        // The place in the text of the data means nothing to whoever wrote a message around it.
        _ => format!("data: {}", error.to_string().split(" at line ").next().unwrap_or_default()),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResetData {
    capability_id: String,
}

impl Kernel {
    pub(crate) fn serve_builtin(&mut self, builtin: Builtin, key: RequestKey, queue: Option<u32>, now: Now) {
        let Some(live) = self.requests.get(key) else { return };
        let request = live.message.clone();
        let recipient = match &live.origin {
            Origin::Connection(connection) => Recipient::Connection(*connection),
            Origin::Actor(actor) => Recipient::Actor(*actor),
            Origin::Delegate(delegate) => delegate.to,
        };
        let caller = Caller { peer: self.requests.entry(key.slot()).peer, recipient };
        let answer = match builtin {
            Builtin::Ping => return self.answer_builtin(key, &request, request.data(), now),
            Builtin::Stats if self.config.collect_stats => return self.ask_for_stats(key),
            Builtin::Shutdown => self.syscall_shutdown(&request),
            Builtin::Subscribe => self.subscribe(&request, caller),
            Builtin::Unsubscribe => self.unsubscribe(&request, caller),
            Builtin::ResetActor => self.reset_by_name(&request, now),
            Builtin::Stats => self.stats_answer(None, now),
            Builtin::TimerSchedule => self.timer_schedule(&request, caller, now),
            Builtin::TimerCancel => self.timer_cancel(&request, caller),
            Builtin::Describe
            | Builtin::Actors
            | Builtin::DeadLetters
            | Builtin::Trace
            | Builtin::TimerList => match self.task_of(builtin, &request, caller, key, now) {
                Ok(Served::In(task)) => return self.begin_chore(key, queue, task, now),
                Ok(Served::AtOnce(data)) => Ok(data),
                Err(refusal) => Err(refusal),
            },
        };
        let is_done = answer.is_ok();
        self.end_builtin(key, &request, answer, now);
        // Told first, and done only if it was not refused.
        if builtin == Builtin::Shutdown && is_done {
            self.shutdown("asked by Syscall.Shutdown", now);
        }
    }

    /// What a built-in that may have much to do comes to: its answer, or a task that works in slices.
    fn task_of(
        &mut self,
        builtin: Builtin,
        request: &Envelope,
        caller: Caller,
        key: RequestKey,
        now: Now,
    ) -> Result<Served, Refusal> {
        match builtin {
            Builtin::Describe => self.describe(request),
            Builtin::DeadLetters => self.serve_dead_letters(request, caller, now),
            Builtin::Trace => self.trace(request, key),
            Builtin::TimerList => Ok(Served::In(Task::Timers(ListTimers::of(caller.peer)))),
            _ => Ok(Served::In(Task::Actors(ListActors::default()))),
        }
    }

    /// Ends a built-in with its answer or refusal.
    fn end_builtin(&mut self, key: RequestKey, request: &Envelope, answer: Answer, now: Now) {
        match answer {
            Ok(data) => self.answer_builtin(key, request, &data, now),
            Err(refusal) => {
                let answer = self.failure(request, refusal.failure, &refusal.text, Started::No, now);
                self.finish(key, answer, false, now);
            }
        }
    }

    pub(crate) fn answer_builtin(&mut self, key: RequestKey, request: &Envelope, data: &str, now: Now) {
        let (causation, correlation) = (Some(request.id()), request.correlation());
        let answer = self.loop_message(Kind::Reply, request.type_name(), data, causation, correlation, now);
        // A subscription ends with its connection, so its answer means nothing to the next one.
        let remember = !self.requests.entry(key.slot()).handler.is_for_one_connection();
        self.finish(key, answer, remember, now);
    }

    fn syscall_shutdown(&mut self, request: &Envelope) -> Answer {
        let _: serde_json::Map<String, Value> = read(request)?;
        Ok(json!({ "message": "shutting down" }).to_string())
    }

    fn reset_by_name(&mut self, request: &Envelope, now: Now) -> Answer {
        let data: ResetData = read(request)?;
        let found = self
            .actors
            .iter()
            .position(|actor| actor.manifest.id == data.capability_id && !actor.succession.removed);
        let Some(capability) = found else {
            let text = format!("data.capabilityId: there is no capability {:?}", data.capability_id);
            return Err(Refusal::new(Failure::Routing, text));
        };
        self.reset_actor(capability as u32, now);
        Ok(json!({ "capabilityId": data.capability_id, "state": self.actors[capability].state_name() })
            .to_string())
    }
}

/// The connection of a client that asks, or a refusal for anybody else.
pub(crate) fn client(caller: Caller) -> Result<ConnectionId, Refusal> {
    match caller.recipient {
        Recipient::Connection(connection) => Ok(connection),
        Recipient::Actor(_) => Err(Refusal::new(
            Failure::Forbidden,
            "only clients subscribe by message; a capability subscribes by its manifest",
        )),
    }
}
