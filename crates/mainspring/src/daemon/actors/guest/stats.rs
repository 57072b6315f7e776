//! What a guest has done, for `Sys.Stats`: enough to answer "why is this guest awake?".

use mainspring_host::{GuestPhase, GuestStats, Limit};
use serde_json::{Value, json};

pub(super) fn of(stats: &GuestStats) -> Value {
    let refused = Limit::ALL.into_iter().filter(|limit| stats.refused(*limit) > 0);
    let refused = refused.map(|limit| (limit.name().to_owned(), stats.refused(limit).into()));
    json!({
        "kind": "guest",
        "phase": match stats.phase {
            GuestPhase::Starting => "starting",
            GuestPhase::Running => "running",
            GuestPhase::Waiting => "waiting",
            _ => "ended",
        },
        "wakeups": stats.wakeups,
        "polls": stats.polls,
        "emptyPolls": stats.empty_polls,
        "zeroTimeoutPolls": stats.zero_timeout_polls,
        "agains": stats.agains,
        "preemptions": stats.preemptions,
        "cpuUs": u64::try_from(stats.cpu_time.as_micros()).unwrap_or(u64::MAX),
        "bytesRead": stats.bytes_read,
        "bytesWritten": stats.bytes_written,
        "memoryBytes": stats.memory_bytes,
        "handles": stats.handles,
        "refused": Value::Object(refused.collect()),
    })
}
