//! What a shell may complete that only the daemon knows: types, capabilities, timers, nodes.
//!
//! A shell asks at every press of a key, so whatever takes too long or fails is nothing to
//! complete, without a word.

use crate::client::{Address, Client, Flags, ReplyTimeout};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use mainspring_message::{Draft, Json, Kind};
use serde_json::{Value, json};
use std::sync::mpsc;
use std::time::Duration;

/// How long the daemon may take.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(200);
/// The longest description that is shown beside a name.
const HELP_CHARACTERS_MAX: usize = 60;

/// Types of commands.
pub(in crate::cli) fn commands() -> ArgValueCandidates {
    ArgValueCandidates::new(|| handled(&["command"]))
}

/// Types of queries.
pub(in crate::cli) fn queries() -> ArgValueCandidates {
    ArgValueCandidates::new(|| handled(&["query"]))
}

/// Types of events that capabilities take or tell.
pub(in crate::cli) fn events() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let all = describe();
        let mut names: Vec<String> = list(&all["capabilities"])
            .flat_map(|it| {
                let handles = list(&it["handles"]).filter(|it| it["kind"] == "event").map(|it| &it["type"]);
                handles.chain(list(&it["subscribes"])).cloned().collect::<Vec<_>>()
            })
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(CompletionCandidate::new).collect()
    })
}

/// Types and capabilities.
pub(in crate::cli) fn everything() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let mut found = handled(&["command", "query"]);
        found.extend(capability_names());
        found
    })
}

/// Ids of capabilities.
pub(in crate::cli) fn capabilities() -> ArgValueCandidates {
    ArgValueCandidates::new(capability_names)
}

/// Ids of timers.
pub(in crate::cli) fn timers() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let data = ask("Timer.List", json!({})).unwrap_or_default();
        list(&data["timers"]).filter_map(|it| candidate(&it["timerId"], &it["type"])).collect()
    })
}

/// Names of other nodes of the bus.
pub(in crate::cli) fn nodes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let data = ask("Sys.Stats", json!({})).unwrap_or_default();
        list(&data["floors"]["uplink"]["nodes"])
            .filter_map(|it| candidate(&it["node"], &it["state"]))
            .collect()
    })
}

fn capability_names() -> Vec<CompletionCandidate> {
    list(&describe()["capabilities"]).filter_map(|it| candidate(&it["id"], &it["description"])).collect()
}

fn handled(kinds: &[&str]) -> Vec<CompletionCandidate> {
    let all = describe();
    let is_wanted = |kind: &Value| kind.as_str().is_some_and(|kind| kinds.contains(&kind));
    let of_capabilities = list(&all["capabilities"]).flat_map(|it| {
        let handles = list(&it["handles"]).filter(|handle| is_wanted(&handle["kind"]));
        handles.filter_map(|handle| candidate(&handle["type"], &it["description"]))
    });
    let builtins = list(&all["builtins"]).filter(|it| list(&it["kinds"]).any(is_wanted));
    of_capabilities.chain(builtins.filter_map(|it| candidate(&it["type"], &it["description"]))).collect()
}

fn candidate(name: &Value, help: &Value) -> Option<CompletionCandidate> {
    let help: String = help.as_str().unwrap_or_default().chars().take(HELP_CHARACTERS_MAX).collect();
    let help = help.replace(char::is_control, " ");
    Some(CompletionCandidate::new(name.as_str()?).help((!help.is_empty()).then(|| help.into())))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn describe() -> Value {
    ask("Syscall.Describe", json!({})).unwrap_or_default()
}

/// Asks the daemon that a command without flags would talk to.
fn ask(type_name: &'static str, data: Value) -> Option<Value> {
    let (sender, receiver) = mpsc::channel();
    // A thread that may stay behind: the process ends before it does.
    std::thread::spawn(move || {
        let answer = Address::find(Flags::default()).and_then(|address| {
            let mut client = Client::connect(&address, ReplyTimeout::new(Some(ANSWER_TIME_MAX)))?;
            client.request(&Draft::new(Kind::Query, type_name, Json::from(data)))
        });
        let _ = sender.send(answer.ok().filter(|answer| answer.kind() == Kind::Reply));
    });
    let answer = receiver.recv_timeout(ANSWER_TIME_MAX).ok()??;
    serde_json::from_str(answer.data()).ok()
}
