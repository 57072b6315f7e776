//! How a child ended, in words.

use mainspring_kernel::ActorExit;
use rustix::process::{Signal, WaitStatus};

/// What the kernel is told of the end of a child.
pub(super) fn outcome(status: &WaitStatus) -> ActorExit {
    if let Some(signal) = status.terminating_signal() {
        let name = Signal::from_named_raw(signal).map(name_of).unwrap_or_default();
        return ActorExit::Failed(format!("it was killed by signal {signal}{name}"));
    }
    match status.exit_status() {
        Some(0) => ActorExit::Done,
        Some(code) => ActorExit::Failed(format!("it ended with exit code {code}")),
        None => ActorExit::Failed("it ended".to_owned()),
    }
}

/// The usual name of a signal, in brackets; nothing for those that need none.
fn name_of(signal: Signal) -> &'static str {
    match signal {
        Signal::HUP => " (SIGHUP)",
        Signal::INT => " (SIGINT)",
        Signal::QUIT => " (SIGQUIT)",
        Signal::ILL => " (SIGILL)",
        Signal::TRAP => " (SIGTRAP)",
        Signal::ABORT => " (SIGABRT)",
        Signal::BUS => " (SIGBUS)",
        Signal::FPE => " (SIGFPE)",
        Signal::KILL => " (SIGKILL)",
        Signal::SEGV => " (SIGSEGV)",
        Signal::PIPE => " (SIGPIPE)",
        Signal::TERM => " (SIGTERM)",
        Signal::XCPU => " (SIGXCPU)",
        Signal::XFSZ => " (SIGXFSZ)",
        Signal::SYS => " (SIGSYS)",
        _ => "",
    }
}
