//! How a child ended, in words.

use mainspring_kernel::ActorExit;
use rustix::process::{Signal, WaitStatus};

/// What the kernel is told of the end of a child.
pub(super) fn outcome(status: &WaitStatus) -> ActorExit {
    if let Some(signal) = status.terminating_signal() {
        let name = match Signal::from_named_raw(signal) {
            Some(name) => format!(" ({name:?})"),
            None => String::new(),
        };
        return ActorExit::Failed(format!("it was killed by signal {signal}{name}"));
    }
    match status.exit_status() {
        Some(0) => ActorExit::Done,
        Some(code) => ActorExit::Failed(format!("it ended with exit code {code}")),
        None => ActorExit::Failed("it ended".to_owned()),
    }
}
