//! What the kernel serves itself: description, timers, subscriptions, supervision, dead letters,
//! numbers.
//!
//! Each built-in has a file, an entry in `catalogue` that says what it is, and a line in the match
//! below. It reads its request, asks or changes the parts that it concerns, and returns an answer
//! or a refusal; one whose work grows with what there is returns a task that works in slices
//! (`chores`). Those that operators look at the daemon with and steer it are in `operators`. Only
//! the flow of messages calls this room.

mod cancel;
mod catalogue;
mod chores;
mod cursors;
mod describe;
mod notes;
mod operators;
mod restrict;
mod result;
mod search;
mod subscribe;
mod timers;
mod whole;

pub use operators::{Census, ConsoleRefused, SettingsRefused};

pub(crate) use catalogue::{BUILTINS, Builtin};
pub(crate) use chores::Chores;
use operators::append;
use whole::Whole;

use crate::api::ids::ConnectionId;
use crate::flow::completions::Words;
use crate::flow::lanes::QueueId;
use crate::flow::refusal::Refusal;
use crate::kernel::Kernel;
use crate::out::Cause;
use crate::requests::{PeerId, Recipient, RequestKey};
use crate::schema::Validator;
use chores::Task;
use mainspring_message::{Envelope, Failure, Kind, Started};
use operators::ListActors;
use serde::Deserialize;
use serde_json::{Value, json};

/// The data of the reply, as JSON text, or why there is none.
type Answer = Result<String, Refusal>;

/// What a built-in comes to that may have much to do.
enum Served {
    AtOnce(String),
    In(Task),
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
struct Caller {
    peer: PeerId,
    recipient: Recipient,
}

/// The data of a request, as the built-in wants it.
fn read<'a, T: Deserialize<'a>>(request: &'a Envelope) -> Result<T, Refusal> {
    request.data_as().map_err(|error| Refusal::new(Failure::Schema, explain(request, &error)))
}

/// What is wrong with the data of a request, in the words of the schema that `Syscall.Describe`
/// tells of it.
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
    pub(crate) fn serve_builtin(&mut self, builtin: Builtin, key: RequestKey, queue: Option<QueueId>) {
        let Some(request) = self.requests.message(key).cloned() else { return };
        let Some((peer, recipient)) = self.requests.caller(key) else { return };
        let caller = Caller { peer, recipient };
        let answer = match builtin {
            Builtin::Ping => return self.answer_builtin(key, &request, request.data()),
            Builtin::Stats | Builtin::Actors if self.config.collect_stats => return self.ask_for_stats(key),
            Builtin::Shutdown => self.syscall_shutdown(&request),
            Builtin::Subscribe => self.subscribe(&request, caller),
            Builtin::Unsubscribe => self.unsubscribe(&request, caller),
            Builtin::Acknowledge => self.acknowledge(&request, caller),
            Builtin::ResetActor => self.reset_by_name(&request),
            Builtin::Stats => self.stats_answer(None, caller),
            Builtin::Restrict => self.restrict(&request, caller),
            Builtin::Tap => self.tap(&request, caller),
            Builtin::Logs => self.tell_logs(&request),
            Builtin::RestartActor => self.restart_actor(&request),
            Builtin::Reload => match self.ask_for_settings(key, &request) {
                Ok(()) => return,
                Err(refusal) => Err(refusal),
            },
            Builtin::Console => match self.ask_for_console(key, &request, caller) {
                Ok(()) => return,
                Err(refusal) => Err(refusal),
            },
            Builtin::NodeTrace => match self.ask_for_node_trace(key, &request, caller) {
                Ok(()) => return,
                Err(refusal) => Err(refusal),
            },
            Builtin::Cancel => self.cancel(&request, caller),
            Builtin::Search => self.search(&request, caller),
            Builtin::Result => self.result_of(&request, caller, key),
            Builtin::TimerSchedule => self.timer_schedule(&request, caller),
            Builtin::TimerCancel => self.timer_cancel(&request, caller),
            // These may have much to do, and work in slices then.
            Builtin::Describe => {
                let served = self.describe(&request, caller);
                return self.begin_served(key, queue, &request, served);
            }
            Builtin::DeadLetters => {
                let served = self.serve_dead_letters(&request, caller);
                return self.begin_served(key, queue, &request, served);
            }
            Builtin::Trace => {
                let served = self.trace(&request, key, caller);
                return self.begin_served(key, queue, &request, served);
            }
            Builtin::TimerList => {
                let served = self.list_timers(&request, caller);
                return self.begin_served(key, queue, &request, served);
            }
            Builtin::Actors => {
                let task = Task::Actors(ListActors::new(caller, Value::Null));
                return self.begin_chore(key, queue, task);
            }
        };
        let is_done = answer.is_ok();
        self.end_builtin(key, &request, answer);
        // Told first, and done only if it was not refused.
        if builtin == Builtin::Shutdown && is_done {
            self.begin_shutdown("asked by Syscall.Shutdown");
        }
    }

    /// Ends a built-in that may have much to do, or begins its task.
    fn begin_served(
        &mut self,
        key: RequestKey,
        queue: Option<QueueId>,
        request: &Envelope,
        served: Result<Served, Refusal>,
    ) {
        match served {
            Ok(Served::In(task)) => self.begin_chore(key, queue, task),
            Ok(Served::AtOnce(data)) => self.end_builtin(key, request, Ok(data)),
            Err(refusal) => self.end_builtin(key, request, Err(refusal)),
        }
    }

    /// Ends a built-in with its answer or refusal.
    fn end_builtin(&mut self, key: RequestKey, request: &Envelope, answer: Answer) {
        match answer {
            Ok(data) => self.answer_builtin(key, request, &data),
            Err(refusal) => {
                let answer = self.out.failure(request, refusal.failure, &refusal.text, Started::No);
                self.finish(key, answer, false, Words::OfHandler);
            }
        }
    }

    pub(crate) fn answer_builtin(&mut self, key: RequestKey, request: &Envelope, data: &str) {
        let answer = self.out.message(Kind::Reply, request.type_name(), data, Cause::of(request));
        // A subscription ends with its connection, so its answer means nothing to the next one.
        let handler = self.requests.handler(key);
        let remember = !handler.is_some_and(|handler| handler.is_for_one_connection());
        self.finish(key, answer, remember, Words::OfHandler);
    }

    fn syscall_shutdown(&mut self, request: &Envelope) -> Answer {
        let _: serde_json::Map<String, Value> = read(request)?;
        let waits_for: Vec<String> = self.actors.busy().iter().map(ToString::to_string).collect();
        Ok(match waits_for.is_empty() {
            true => json!({ "message": "shutting down" }),
            false => json!({ "message": "shutting down", "waitsFor": waits_for }),
        }
        .to_string())
    }

    fn reset_by_name(&mut self, request: &Envelope) -> Answer {
        let data: ResetData = read(request)?;
        let Some((capability, false)) = self.actors.find(&data.capability_id) else {
            let text = format!("data.capabilityId: there is no capability {:?}", data.capability_id);
            return Err(Refusal::new(Failure::Routing, text));
        };
        self.actors.reset(capability, &mut self.out);
        let state = self.actors.state_name(capability);
        Ok(json!({ "capabilityId": data.capability_id, "state": state }).to_string())
    }
}

/// The connection of a client that asks, or a refusal for anybody else.
fn client(caller: Caller) -> Result<ConnectionId, Refusal> {
    match caller.recipient {
        Recipient::Connection(connection) => Ok(connection),
        Recipient::Actor(_) => Err(Refusal::new(
            Failure::Forbidden,
            "only clients subscribe by message; a capability subscribes by its manifest",
        )),
    }
}
