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
    Acknowledge,
    Actors,
    ResetActor,
    DeadLetters,
    Stats,
    Trace,
    Restrict,
    Tap,
    Logs,
    RestartActor,
    Reload,
    Console,
    NodeTrace,
    Cancel,
    Search,
    Result,
    TimerSchedule,
    TimerCancel,
    TimerList,
}

/// What is true of a built-in.
pub(crate) struct BuiltinTraits {
    /// Whether only operators may ask it: it changes the daemon, or shows others' traffic.
    pub(crate) is_for_operators: bool,
    /// Whether it concerns the connection that asks, and no other of the same peer.
    pub(crate) is_for_one_connection: bool,
    /// Whether its command changes what survives the process.
    pub(crate) changes_what_is_kept: bool,
    /// Whether its answer tells of that.
    pub(crate) tells_what_is_kept: bool,
}

impl Builtin {
    /// What is true of it. Each built-in is named, so that none is open to everybody by oversight.
    #[inline]
    pub(crate) const fn traits(self) -> BuiltinTraits {
        const PLAIN: BuiltinTraits = BuiltinTraits {
            is_for_operators: false,
            is_for_one_connection: false,
            changes_what_is_kept: false,
            tells_what_is_kept: false,
        };
        match self {
            Builtin::Describe
            | Builtin::Ping
            | Builtin::Actors
            | Builtin::Stats
            | Builtin::NodeTrace
            | Builtin::Cancel
            | Builtin::Search => PLAIN,
            Builtin::Shutdown
            | Builtin::ResetActor
            | Builtin::RestartActor
            | Builtin::Reload
            | Builtin::Console
            | Builtin::Logs => BuiltinTraits { is_for_operators: true, ..PLAIN },
            Builtin::Tap => BuiltinTraits { is_for_operators: true, is_for_one_connection: true, ..PLAIN },
            Builtin::Subscribe | Builtin::Unsubscribe | Builtin::Acknowledge | Builtin::Restrict => {
                BuiltinTraits { is_for_one_connection: true, ..PLAIN }
            }
            Builtin::DeadLetters => BuiltinTraits {
                is_for_operators: true,
                changes_what_is_kept: true,
                tells_what_is_kept: true,
                ..PLAIN
            },
            Builtin::TimerSchedule | Builtin::TimerCancel => {
                BuiltinTraits { changes_what_is_kept: true, ..PLAIN }
            }
            Builtin::TimerList | Builtin::Trace | Builtin::Result => {
                BuiltinTraits { tells_what_is_kept: true, ..PLAIN }
            }
        }
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
        input: concat!(
            r#"{"type":"object","properties":{"capability":{"type":"string"},"#,
            r#""type":{"type":"string"}},"additionalProperties":false}"#,
        ),
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
        description: "Shuts the daemon down: drains, answers the rest, ends. `waitsFor` names the \
            capabilities that have something to do.",
        input: EMPTY,
        output: concat!(
            r#"{"type":"object","properties":{"message":{"type":"string"},"#,
            r#""waitsFor":{"type":"array","items":{"type":"string"}}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::Subscribe,
        type_name: "Sys.Subscribe",
        kinds: &[Kind::Command],
        description: "Sends events of these types to this connection: exact types, `Prefix.*`, or `*`. A \
            connection that does not keep up loses its oldest events and is told (drop_oldest), or \
            is closed (disconnect). With a `cursor`: the durable events of these types after those \
            that were acknowledged under that name of this peer, or after the event `after`; a new \
            cursor begins now.",
        input: concat!(
            r#"{"type":"object","properties":{"types":{"type":"array","items":{"type":"string"},"#,
            r#""minItems":1},"slow":{"enum":["drop_oldest","disconnect"]},"#,
            r#""cursor":{"type":"string","minLength":1,"maxLength":256},"#,
            r#""after":{"type":"integer","minimum":0}},"required":["types"],"#,
            r#""additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"types":{"type":"array","items":{"type":"string"}},"#,
            r#""cursor":{"type":"string"},"after":{"type":"integer"}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::Unsubscribe,
        type_name: "Sys.Unsubscribe",
        kinds: &[Kind::Command],
        description: "Stops sending events of these types to this connection; without types, of all. With a \
            `cursor`: forgets that cursor of this peer.",
        input: concat!(
            r#"{"type":"object","properties":{"types":{"type":"array","items":{"type":"string"}},"#,
            r#""cursor":{"type":"string"}},"additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"types":{"type":"array","items":{"type":"string"}},"#,
            r#""cursor":{"type":"string"}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::Acknowledge,
        type_name: "Sys.Acknowledge",
        kinds: &[Kind::Command],
        description: "Moves a cursor of this peer: its events up to this one (`metadata.event`) are done, \
            and are not sent to it again. It never moves back.",
        input: concat!(
            r#"{"type":"object","properties":{"cursor":{"type":"string"},"#,
            r#""event":{"type":"integer","minimum":0}},"required":["cursor","event"],"#,
            r#""additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"cursor":{"type":"string"},"#,
            r#""event":{"type":"integer"}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::Actors,
        type_name: "Sys.Actors",
        kinds: &[Kind::Query],
        description: "Lists the actors with their state, mailbox and faults, and how long (`latencyNs`) \
            requests took that they were given, from acceptance to outcome, over the last 10 to 20 \
            seconds.",
        input: EMPTY,
        output: concat!(
            r#"{"type":"object","properties":{"actors":{"type":"array","#,
            r#""items":{"type":"object","properties":{"capabilityId":{"type":"string"},"#,
            r#""state":{"type":"string"},"blocked":{"type":"boolean"},"#,
            r#""incarnation":{"type":"integer"},"mailbox":{"type":"integer"},"#,
            r#""mailboxBytes":{"type":"integer"},"inFlight":{"type":"integer"},"#,
            r#""overdue":{"type":"integer"},"handled":{"type":"integer"},"#,
            r#""faults":{"type":"integer"},"restartsInWindow":{"type":"integer"},"#,
            r#""sinceMs":{"type":"integer"},"#,
            r#""latencyNs":{"type":["object","null"],"#,
            r#""properties":{"requests":{"type":"integer"},"mean":{"type":"integer"},"#,
            r#""p50":{"type":"integer"},"p99":{"type":"integer"},"max":{"type":"integer"}}}}}}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::ResetActor,
        type_name: "Sys.ResetActor",
        kinds: &[Kind::Command],
        description: "Forgets the failures of a capability and starts it at once if it does not run.",
        input: concat!(
            r#"{"type":"object","properties":{"capabilityId":{"type":"string"}},"#,
            r#""required":["capabilityId"],"additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"capabilityId":{"type":"string"},"#,
            r#""state":{"type":"string"}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::DeadLetters,
        type_name: "Sys.DeadLetters",
        kinds: &[Kind::Query, Kind::Command],
        description: "Lists or shows dead letters (query); puts one or many back under fresh ids, with other \
            data if asked, or drops them (command). Many are chosen by type, capability, reason \
            and age, or are `all`. For operators.",
        input: concat!(
            r#"{"type":"object","properties":{"action":{"enum":["list","show","requeue","drop"]},"#,
            r#""number":{"type":"integer","minimum":1},"after":{"type":"integer","minimum":0},"#,
            r#""limit":{"type":"integer","minimum":1,"maximum":1000},"all":{"type":"boolean"},"#,
            r#""type":{"type":"string"},"capability":{"type":"string"},"#,
            r#""reason":{"type":"string"},"olderThanMs":{"type":"integer","minimum":0},"#,
            r#""youngerThanMs":{"type":"integer","minimum":0},"data":true},"#,
            r#""additionalProperties":false}"#,
        ),
        output: EMPTY,
    },
    BuiltinEntry {
        builtin: Builtin::Stats,
        type_name: "Sys.Stats",
        kinds: &[Kind::Query],
        description: "Counters and gauges of the kernel and of the floors below, and how long (`latencyNs`) \
            requests took that actors were given, over the last 10 to 20 seconds.",
        input: EMPTY,
        output: concat!(
            r#"{"type":"object","properties":{"counters":{"type":"object"},"#,
            r#""gauges":{"type":"object"},"latencyNs":{"type":["object","null"],"#,
            r#""properties":{"requests":{"type":"integer"},"mean":{"type":"integer"},"#,
            r#""p50":{"type":"integer"},"p99":{"type":"integer"},"max":{"type":"integer"}}},"#,
            r#""floors":{"type":["object","null"]}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::Trace,
        type_name: "Sys.Trace",
        kinds: &[Kind::Query],
        description: "Tells the messages of a workflow (`correlation`), of the tree of causes around one \
            message (`id`), or the latest messages that nothing caused (`latest`), from the \
            history of late: where from and to, when, how long, with which outcome.",
        input: concat!(
            r#"{"type":"object","properties":{"correlation":{"type":"string"},"#,
            r#""id":{"type":"string"},"latest":{"type":"integer","minimum":1,"maximum":1000},"#,
            r#""type":{"type":"string"},"capability":{"type":"string"},"#,
            r#""failed":{"type":"boolean"}},"minProperties":1,"additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"startedAt":{"type":"integer"},"#,
            r#""nodes":{"type":"array","items":{"type":"object"}},"leftOut":{"type":"integer"}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::Search,
        type_name: "Syscall.Search",
        kinds: &[Kind::Query],
        description: "Ranks the commands and queries that may be sent by the words of their type, title, \
            description and capability.",
        input: concat!(
            r#"{"type":"object","properties":{"text":{"type":"string"},"#,
            r#""limit":{"type":"integer","minimum":1,"maximum":100}},"required":["text"],"#,
            r#""additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"types":{"type":"array","#,
            r#""items":{"type":"object","properties":{"type":{"type":"string"},"#,
            r#""kind":{"type":"string"},"capability":{"type":["string","null"]},"#,
            r#""description":{"type":"string"},"hints":{"type":"object"},"#,
            r#""score":{"type":"integer"}}}},"total":{"type":"integer"}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::Cancel,
        type_name: "Syscall.Cancel",
        kinds: &[Kind::Command],
        description: "Ends an own unfinished request at once: it gets the error Sys.Cancelled (499). A \
            capability that has it goes on, and is told by the event Sys.RequestCancelled if its \
            manifest says `cancel`.",
        input: concat!(
            r#"{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"#,
            r#""additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"cancelled":{"type":"boolean"},"#,
            r#""started":{"enum":["yes","no"]}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::Restrict,
        type_name: "Sys.Restrict",
        kinds: &[Kind::Command],
        description: "Gives rights of this connection up, for good: types that it may send and see, and \
            being an operator. Without data it only tells what they are.",
        input: concat!(
            r#"{"type":"object","properties":{"allow":{"type":"array","items":{"type":"string"}},"#,
            r#""operator":{"type":"boolean"}},"additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"peer":{"type":["string","null"]},"#,
            r#""allow":{"type":"array","items":{"type":"string"}},"operator":{"type":"boolean"}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::Tap,
        type_name: "Sys.Tap",
        kinds: &[Kind::Command],
        description: "Sends records of the messages that pass to this connection, as events Sys.Tapped: \
            requests when they end, events when they are told. For operators.",
        input: concat!(
            r#"{"type":"object","properties":{"types":{"type":"array","items":{"type":"string"}},"#,
            r#""capabilities":{"type":"array","items":{"type":"string"}},"#,
            r#""kinds":{"type":"array","items":{"enum":["command","query","event"]}},"#,
            r#""correlation":{"type":"string"},"failed":{"type":"boolean"},"#,
            r#""data":{"type":"boolean"},"trace":{"type":"boolean"},"#,
            r#""perSecond":{"type":"integer","minimum":1},"#,
            r#""gatherMs":{"type":"integer","minimum":0,"maximum":10000},"#,
            r#""off":{"type":"boolean"}},"additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"tapping":{"type":"boolean"},"#,
            r#""recordsPerSecond":{"type":"integer"}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::Logs,
        type_name: "Sys.Logs",
        kinds: &[Kind::Query],
        description: "Tells the last lines that capabilities wrote to standard error, oldest first. New ones \
            are the event Sys.Log. For operators.",
        input: concat!(
            r#"{"type":"object","properties":{"capability":{"type":"string"},"#,
            r#""lines":{"type":"integer","minimum":1,"maximum":1000},"#,
            r#""after":{"type":"integer","minimum":0}},"additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"lines":{"type":"array","#,
            r#""items":{"type":"object","properties":{"number":{"type":"integer"},"#,
            r#""at":{"type":"integer"},"capabilityId":{"type":"string"},"#,
            r#""incarnation":{"type":"integer"},"text":{"type":"string"}}}},"#,
            r#""forgotten":{"type":"integer"}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::RestartActor,
        type_name: "Sys.RestartActor",
        kinds: &[Kind::Command],
        description: "Ends the running incarnation of a capability when it has finished what it has, and \
            starts the next one. For operators.",
        input: concat!(
            r#"{"type":"object","properties":{"capability":{"type":"string"}},"#,
            r#""required":["capability"],"additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"capabilityId":{"type":"string"},"#,
            r#""incarnation":{"type":"integer"},"state":{"type":"string"}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::Reload,
        type_name: "Sys.Reload",
        kinds: &[Kind::Command],
        description: "Has the daemon read its configuration again and take over what has changed. For \
            operators.",
        input: EMPTY,
        output: concat!(
            r#"{"type":"object","properties":{"added":{"type":"array","items":{"type":"string"}},"#,
            r#""changed":{"type":"array","items":{"type":"string"}},"#,
            r#""removed":{"type":"array","items":{"type":"string"}},"#,
            r#""notes":{"type":"array","items":{"type":"string"}}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::Console,
        type_name: "Sys.Console",
        kinds: &[Kind::Command],
        description: "Opens the console for the owner of the daemon's socket: an address with a token that \
            works once, within a minute. For operators.",
        input: EMPTY,
        output: concat!(
            r#"{"type":"object","properties":{"url":{"type":"string"},"#,
            r#""expiresInMs":{"type":"integer"}}}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::NodeTrace,
        type_name: "Sys.NodeTrace",
        kinds: &[Kind::Query],
        description: "Fetches what another node remembers of a request that it was passed, as `Sys.Trace` \
            tells it there. `peer` is who sent the request, if that was not the peer that asks; \
            for operators.",
        input: concat!(
            r#"{"type":"object","properties":{"id":{"type":"string"},"peer":{"type":"string"}},"#,
            r#""required":["id"],"additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"node":{"type":"string"},"#,
            r#""trace":{"type":"object"}},"required":["node","trace"]}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::Result,
        type_name: "Sys.Result",
        kinds: &[Kind::Query],
        description: "Tells what became of a command that the same peer sent under this id: it waits, a \
            capability has it, or it ended, and with which outcome. For clients that come back.",
        input: concat!(
            r#"{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"#,
            r#""additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"id":{"type":"string"},"#,
            r#""state":{"enum":["waiting","delivered","ended"]},"attempts":{"type":"integer"},"#,
            r#""outcome":{"type":["object","null"]}},"required":["id","state"]}"#,
        ),
    },
    BuiltinEntry {
        builtin: Builtin::TimerSchedule,
        type_name: "Timer.Schedule",
        kinds: &[Kind::Command],
        description: "Sends a message later: after `delay` ms, at a Unix time `at` in ms, or every `repeat` \
            ms (`count` times). Its outcome comes to this connection, with `metadata.timerId`; \
            when that is gone, the schedule goes on and its outcomes are events \
            (`Sys.TimerOutcome`). A tick that stands for late ones says how many \
            (`metadata.missedTicks`). All repeating schedules of a peer tick at most so often a \
            second (`limits.peer_ticks_per_second`).",
        input: concat!(
            r#"{"type":"object","properties":{"delay":{"type":"integer","minimum":0},"#,
            r#""at":{"type":"integer","minimum":0},"repeat":{"type":"integer","minimum":1},"#,
            r#""count":{"type":"integer","minimum":1},"timerId":{"type":"string"},"#,
            r#""message":{"type":"object","properties":{"kind":{"enum":["command","query","#,
            r#""event"]},"type":{"type":"string"},"data":true,"#,
            r#""metadata":{"type":"object","properties":{"correlation":{"type":"string"},"#,
            r#""traceparent":{"type":"string"},"timeout":{"type":"integer","minimum":0}}}},"#,
            r#""required":["kind","type","data"]}},"required":["message"],"#,
            r#""dependentRequired":{"count":["repeat"]},"additionalProperties":false}"#,
        ),
        output: r#"{"type":"object","properties":{"timerId":{"type":"string"}}}"#,
    },
    BuiltinEntry {
        builtin: Builtin::TimerCancel,
        type_name: "Timer.Cancel",
        kinds: &[Kind::Command],
        description: "Cancels a scheduled message of the same peer; for operators, that of any `peer`.",
        input: concat!(
            r#"{"type":"object","properties":{"timerId":{"type":"string"},"#,
            r#""peer":{"type":"string"}},"required":["timerId"],"additionalProperties":false}"#,
        ),
        output: r#"{"type":"object","properties":{"cancelled":{"type":"boolean"}}}"#,
    },
    BuiltinEntry {
        builtin: Builtin::TimerList,
        type_name: "Timer.List",
        kinds: &[Kind::Query],
        description: "Lists the scheduled messages of the same peer; for operators, those of `all`.",
        input: r#"{"type":"object","properties":{"all":{"type":"boolean"}}}"#,
        output: concat!(
            r#"{"type":"object","properties":{"timers":{"type":"array","#,
            r#""items":{"type":"object"}}}}"#,
        ),
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
