//! How the end of a guest is told.

use mainspring_host::{Exit, Limit};
use mainspring_kernel::ActorExit;

/// What the kernel is told, and with it whoever had asked the guest for something. `reason` is why the daemon itself killed the guest.
pub(super) fn of(exit: &Exit, reason: Option<String>) -> ActorExit {
    match exit {
        Exit::Returned(0) => ActorExit::Done,
        Exit::Returned(code) => ActorExit::Failed(format!("it returned {code}")),
        Exit::Trapped(report) => {
            let message = report.message.strip_prefix("wasm trap: ").unwrap_or(&report.message);
            ActorExit::Failed(format!("it trapped: {message}"))
        }
        Exit::OverLimit(limit) => ActorExit::Failed(format!("it used up its limit: {}", name_of(*limit))),
        _ => ActorExit::Failed(reason.unwrap_or_else(|| "it was killed".to_owned())),
    }
}

/// A limit as a manifest calls it; those that it cannot set have a name of their own.
fn name_of(limit: Limit) -> &'static str {
    match limit {
        Limit::Memory => "limits.memory",
        Limit::CpuTotal => "limits.cpu",
        Limit::Handles => "limits.handles",
        Limit::Watches => "limits.watches",
        Limit::Timers => "limits.timers",
        Limit::BufferedBytes => "limits.buffered",
        Limit::Bandwidth => "limits.bandwidth",
        Limit::FolderBytes => "limits.folder",
        other => other.name(),
    }
}

/// Where it trapped, for the log.
pub(super) fn place(exit: &Exit) -> Option<&str> {
    match exit {
        Exit::Trapped(report) if !report.backtrace.is_empty() => Some(&report.backtrace),
        _ => None,
    }
}
