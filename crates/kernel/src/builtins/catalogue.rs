//! The list of built-ins, with what `Syscall.Describe` says about them.

use mainspring_message::Kind;

/// A command or query that the kernel serves itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    Describe,
    Ping,
    Shutdown,
    Subscribe,
    Unsubscribe,
    Actors,
    ResetActor,
    DeadLetters,
    Stats,
    Trace,
    Result,
    TimerSchedule,
    TimerCancel,
    TimerList,
}

impl Builtin {
    /// Whether its command changes what survives the process.
    pub(crate) fn changes_what_is_kept(self) -> bool {
        matches!(self, Builtin::TimerSchedule | Builtin::TimerCancel | Builtin::DeadLetters)
    }

    /// Whether its answer tells of that.
    pub(crate) fn tells_what_is_kept(self) -> bool {
        matches!(self, Builtin::TimerList | Builtin::DeadLetters | Builtin::Trace | Builtin::Result)
    }
}

/// A built-in's entry.
pub(crate) struct BuiltinEntry {
    pub(crate) builtin: Builtin,
    pub(crate) type_name: &'static str,
    pub(crate) kinds: &'static [Kind],
    pub(crate) description: &'static str,
    /// JSON Schemas of the data of the request and of the reply.
    pub(crate) input: &'static str,
    pub(crate) output: &'static str,
}

const EMPTY: &str = r#"{"type":"object"}"#;

/// All of them.
pub(crate) const BUILTINS: &[BuiltinEntry] = &[
    BuiltinEntry {
        builtin: Builtin::Describe,
        type_name: "Syscall.Describe",
        kinds: &[Kind::Query],
        description: "Describes everything, one capability, or one type, with JSON Schemas.",
        input: r#"{"type":"object","properties":{"capability":{"type":"string"},"type":{"type":"string"}},"additionalProperties":false}"#,
        output: EMPTY,
    },
    BuiltinEntry {
        builtin: Builtin::Ping,
        type_name: "Syscall.Ping",
        kinds: &[Kind::Query],
        description: "Replies with the data of the request.",
        input: "true",
        output: "true",
    },
    BuiltinEntry {
        builtin: Builtin::Shutdown,
        type_name: "Syscall.Shutdown",
        kinds: &[Kind::Command],
        description: "Shuts the daemon down: drains, answers the rest, ends.",
        input: EMPTY,
        output: r#"{"type":"object","properties":{"message":{"type":"string"}}}"#,
    },
    BuiltinEntry {
        builtin: Builtin::Subscribe,
        type_name: "Sys.Subscribe",
        kinds: &[Kind::Command],
        description: "Sends events of these types to this connection: exact types, `Prefix.*`, or `*`. A connection that does not keep up loses its oldest events and is told (drop_oldest), or is closed (disconnect).",
        input: r#"{"type":"object","properties":{"types":{"type":"array","items":{"type":"string"},"minItems":1},"slow":{"enum":["drop_oldest","disconnect"]}},"required":["types"],"additionalProperties":false}"#,
        output: r#"{"type":"object","properties":{"types":{"type":"array","items":{"type":"string"}}}}"#,
    },
    BuiltinEntry {
        builtin: Builtin::Unsubscribe,
        type_name: "Sys.Unsubscribe",
        kinds: &[Kind::Command],
        description: "Stops sending events of these types to this connection; without types, of all.",
        input: r#"{"type":"object","properties":{"types":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}"#,
        output: r#"{"type":"object","properties":{"types":{"type":"array","items":{"type":"string"}}}}"#,
    },
    BuiltinEntry {
        builtin: Builtin::Actors,
        type_name: "Sys.Actors",
        kinds: &[Kind::Query],
        description: "Lists the actors with their state, mailbox and faults, and how long (`latencyNs`) requests took that they were given, from acceptance to outcome, over the last 10 to 20 seconds.",
        input: EMPTY,
        output: r#"{"type":"object","properties":{"actors":{"type":"array","items":{"type":"object","properties":{"capabilityId":{"type":"string"},"state":{"type":"string"},"blocked":{"type":"boolean"},"incarnation":{"type":"integer"},"mailbox":{"type":"integer"},"mailboxBytes":{"type":"integer"},"inFlight":{"type":"integer"},"overdue":{"type":"integer"},"handled":{"type":"integer"},"faults":{"type":"integer"},"restartsInWindow":{"type":"integer"},"sinceMs":{"type":"integer"},"latencyNs":{"type":["object","null"],"properties":{"requests":{"type":"integer"},"mean":{"type":"integer"},"p50":{"type":"integer"},"p99":{"type":"integer"},"max":{"type":"integer"}}}}}}}}"#,
    },
    BuiltinEntry {
        builtin: Builtin::ResetActor,
        type_name: "Sys.ResetActor",
        kinds: &[Kind::Command],
        description: "Forgets the failures of a capability and starts it at once if it does not run.",
        input: r#"{"type":"object","properties":{"capabilityId":{"type":"string"}},"required":["capabilityId"],"additionalProperties":false}"#,
        output: r#"{"type":"object","properties":{"capabilityId":{"type":"string"},"state":{"type":"string"}}}"#,
    },
    BuiltinEntry {
        builtin: Builtin::DeadLetters,
        type_name: "Sys.DeadLetters",
        kinds: &[Kind::Query, Kind::Command],
        description: "Lists or shows dead letters (query); puts one back under a fresh id, or drops one or all (command).",
        input: r#"{"type":"object","properties":{"action":{"enum":["list","show","requeue","drop"]},"number":{"type":"integer","minimum":1},"after":{"type":"integer","minimum":0},"limit":{"type":"integer","minimum":1,"maximum":1000}},"additionalProperties":false}"#,
        output: EMPTY,
    },
    BuiltinEntry {
        builtin: Builtin::Stats,
        type_name: "Sys.Stats",
        kinds: &[Kind::Query],
        description: "Counters and gauges of the kernel and of the floors below, and how long (`latencyNs`) requests took that actors were given, over the last 10 to 20 seconds.",
        input: EMPTY,
        output: r#"{"type":"object","properties":{"counters":{"type":"object"},"gauges":{"type":"object"},"latencyNs":{"type":["object","null"],"properties":{"requests":{"type":"integer"},"mean":{"type":"integer"},"p50":{"type":"integer"},"p99":{"type":"integer"},"max":{"type":"integer"}}},"floors":{"type":["object","null"]}}}"#,
    },
    BuiltinEntry {
        builtin: Builtin::Trace,
        type_name: "Sys.Trace",
        kinds: &[Kind::Query],
        description: "Tells the messages of a workflow (`correlation`), or of the tree of causes around one message (`id`), from the history of late: where from and to, when, how long, with which outcome.",
        input: r#"{"type":"object","properties":{"correlation":{"type":"string"},"id":{"type":"string"}},"minProperties":1,"maxProperties":1,"additionalProperties":false}"#,
        output: r#"{"type":"object","properties":{"startedAt":{"type":"integer"},"nodes":{"type":"array","items":{"type":"object"}},"leftOut":{"type":"integer"}}}"#,
    },
    BuiltinEntry {
        builtin: Builtin::Result,
        type_name: "Sys.Result",
        kinds: &[Kind::Query],
        description: "Tells what became of a command that the same peer sent under this id: it waits, a capability has it, or it ended, and with which outcome. For clients that come back.",
        input: r#"{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}"#,
        output: r#"{"type":"object","properties":{"id":{"type":"string"},"state":{"enum":["waiting","delivered","ended"]},"attempts":{"type":"integer"},"outcome":{"type":["object","null"]}},"required":["id","state"]}"#,
    },
    BuiltinEntry {
        builtin: Builtin::TimerSchedule,
        type_name: "Timer.Schedule",
        kinds: &[Kind::Command],
        description: "Sends a message later: after `delay` ms, at a Unix time `at` in ms, or every `repeat` ms (`count` times). Its outcome comes to this connection, with `metadata.timerId`; when that is gone, the schedule goes on and its outcomes are events (`Sys.TimerOutcome`). A tick that stands for late ones says how many (`metadata.missedTicks`). All repeating schedules of a peer tick at most so often a second (`limits.peer_ticks_per_second`).",
        input: r#"{"type":"object","properties":{"delay":{"type":"integer","minimum":0},"at":{"type":"integer","minimum":0},"repeat":{"type":"integer","minimum":1},"count":{"type":"integer","minimum":1},"timerId":{"type":"string"},"message":{"type":"object","properties":{"kind":{"enum":["command","query","event"]},"type":{"type":"string"},"data":true,"metadata":{"type":"object","properties":{"correlation":{"type":"string"},"timeout":{"type":"integer","minimum":0}}}},"required":["kind","type","data"]}},"required":["message"],"dependentRequired":{"count":["repeat"]},"additionalProperties":false}"#,
        output: r#"{"type":"object","properties":{"timerId":{"type":"string"}}}"#,
    },
    BuiltinEntry {
        builtin: Builtin::TimerCancel,
        type_name: "Timer.Cancel",
        kinds: &[Kind::Command],
        description: "Cancels a scheduled message of the same peer.",
        input: r#"{"type":"object","properties":{"timerId":{"type":"string"}},"required":["timerId"],"additionalProperties":false}"#,
        output: r#"{"type":"object","properties":{"cancelled":{"type":"boolean"}}}"#,
    },
    BuiltinEntry {
        builtin: Builtin::TimerList,
        type_name: "Timer.List",
        kinds: &[Kind::Query],
        description: "Lists the scheduled messages of the same peer.",
        input: EMPTY,
        output: r#"{"type":"object","properties":{"timers":{"type":"array","items":{"type":"object"}}}}"#,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_has_a_legal_type_and_valid_schemas() {
        for entry in BUILTINS {
            assert!(mainspring_message::check_type_name(entry.type_name).is_ok());
            for schema in [entry.input, entry.output] {
                let schema = serde_json::from_str(schema).unwrap();
                assert!(crate::schema::Validator::of_data(&schema).is_ok(), "{}", entry.type_name);
            }
        }
    }
}
