//! What the kernel wants done: plain values, in order.

use crate::api::ids::{ActorRef, ConnectionId, Source};
use mainspring_message::Envelope;

/// One thing that the daemon is to carry out. Effects are carried out in the order in which they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Give the message to the actor: parsed to native code, as its line to a process or guest.
    Deliver {
        /// To whom.
        actor: ActorRef,
        /// What.
        message: Envelope,
    },
    /// Write the message's line (and a line break) to the connection, and say so later with
    /// [`written`](crate::Kernel::written).
    Write {
        /// To whom.
        connection: ConnectionId,
        /// What.
        message: Envelope,
    },
    /// Stop reading from the source until [`Effect::ResumeReading`].
    PauseReading {
        /// From whom.
        source: Source,
    },
    /// Read from the source again.
    ResumeReading {
        /// From whom.
        source: Source,
    },
    /// Write what is buffered and close the connection.
    Close {
        /// Which.
        connection: ConnectionId,
        /// Why, for the log.
        reason: CloseReason,
    },
    /// Create the actor, by the newest program of its capability; answered by [`actor_spawned`](crate::Kernel::actor_spawned).
    Spawn {
        /// Which capability, in which life.
        actor: ActorRef,
    },
    /// Start listening to the actor; answered by [`actor_attached`](crate::Kernel::actor_attached).
    Attach {
        /// Which.
        actor: ActorRef,
    },
    /// End the actor's input, and let it finish in its own time.
    Stop {
        /// Which.
        actor: ActorRef,
    },
    /// End the actor now. Whatever it still says is ignored.
    Terminate {
        /// Which.
        actor: ActorRef,
    },
    /// Start a transport; answered by [`adapter_started`](crate::Kernel::adapter_started).
    StartAdapter {
        /// Its place in the boot plan.
        adapter: u32,
    },
    /// Stop accepting connections and reading from those there are; writing goes on.
    StopAdapter {
        /// Its place in the boot plan.
        adapter: u32,
    },
    /// Collect the numbers of the floors below; answered by
    /// [`stats_collected`](crate::Kernel::stats_collected).
    CollectStats {
        /// Names the question.
        ticket: u64,
    },
    /// The boot is complete; the message is the event `Sys.BootComplete`.
    Ready {
        /// The summary.
        summary: Envelope,
    },
    /// The boot failed; the message is the error `Sys.BootFailed`. [`Effect::Exit`] follows.
    BootFailed {
        /// What failed, in which phase.
        report: Envelope,
    },
    /// Tell the operator.
    Log {
        /// How bad it is.
        level: Level,
        /// The id of the capability that it is about, if it is about one.
        capability: Option<String>,
        /// One line.
        text: String,
    },
    /// Nothing is left to do: end the process with this code.
    Exit {
        /// The exit code.
        code: i32,
    },
}

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Worth knowing.
    Info,
    /// Something is wrong, and is being dealt with.
    Warn,
    /// Something is wrong, and a person should look.
    Error,
}

impl std::fmt::Display for CloseReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CloseReason::Full => "there are too many connections",
            CloseReason::BadLines => "too many of its lines in a row were no messages",
            CloseReason::SlowReader => "it does not read its answers",
            CloseReason::SlowSubscriber => "it does not keep up with its events",
            CloseReason::Memory => "the memory is used up, and it has most of it",
            CloseReason::Shutdown => "the loop is shutting down",
        })
    }
}

/// Why the kernel closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloseReason {
    /// Too many connections or peers.
    Full,
    /// Too many bad lines in a row.
    BadLines,
    /// It has far more to read than it should, and has read none of it for a while.
    SlowReader,
    /// It does not keep up with the events it subscribed to, and chose to be closed.
    SlowSubscriber,
    /// All that may be held is held, and this connection has most of it.
    Memory,
    /// The loop is shutting down.
    Shutdown,
}
