//! What the kernel wants done: plain values, in order.

use crate::api::ids::{ActorRef, CapabilityId, ConnectionId, Source};
use crate::facts::Records;
use mainspring_message::Envelope;

/// One thing that the daemon is to carry out. Effects are carried out in the order in which they
/// come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Give the message to the actor: parsed to native code, as its line to a process or guest.
    Deliver {
        /// The actor; the daemon ignores an incarnation that is gone.
        actor: ActorRef,
        /// A request, an event, or the outcome of a request that the actor made.
        message: Envelope,
    },
    /// Write the message's line (and a line break) to the connection, and say so later with
    /// [`written`](crate::Kernel::written).
    Write {
        /// The connection.
        connection: ConnectionId,
        /// An outcome or an event.
        message: Envelope,
    },
    /// Write these facts to the journal, behind those before them. Facts are counted from 1; only a
    /// kernel that was told of a journal ([`restore`](crate::Kernel::restore)) has any. They come
    /// before every effect that rests on them.
    Record(Records),
    /// The next effect rests on this fact and those before it: it may be carried out when they are
    /// on disk. Whatever follows for the same connection or actor must not overtake it.
    After {
        /// The number of the fact.
        fact: u64,
    },
    /// Stop reading from the source until [`Effect::ResumeReading`].
    PauseReading {
        /// The client or actor that sends more than can be served for now.
        source: Source,
    },
    /// Read from the source again.
    ResumeReading {
        /// The client or actor that was paused.
        source: Source,
    },
    /// Write what is buffered and close the connection.
    Close {
        /// The connection; the kernel has forgotten it already.
        connection: ConnectionId,
        /// Why, for the log.
        reason: CloseReason,
    },
    /// Create the actor, by the newest program of its capability; answered by
    /// [`actor_spawned`](crate::Kernel::actor_spawned).
    Spawn {
        /// The capability, and the number of the incarnation to create.
        actor: ActorRef,
    },
    /// Start listening to the actor; answered by [`actor_attached`](crate::Kernel::actor_attached).
    Attach {
        /// An actor that was spawned.
        actor: ActorRef,
    },
    /// End the actor's input, and let it finish in its own time.
    Stop {
        /// An actor that has nothing in progress.
        actor: ActorRef,
    },
    /// End the actor now. Whatever it still says is ignored.
    Terminate {
        /// An actor that failed, hung or took too long.
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
        /// Names the question; the answer repeats it.
        ticket: u64,
    },
    /// Read the settings again and take over what has changed; answered by
    /// [`settings_read`](crate::Kernel::settings_read).
    ReadSettings {
        /// Names the question.
        ticket: u64,
    },
    /// Make an address that opens the console once; answered by
    /// [`console_opened`](crate::Kernel::console_opened).
    OpenConsole {
        /// Names the question.
        ticket: u64,
        /// Who asks, by the name of its peer.
        peer: String,
    },
    /// Ask the node that had this request what it remembers of it; answered by
    /// [`node_trace_fetched`](crate::Kernel::node_trace_fetched).
    FetchNodeTrace {
        /// Names the question.
        ticket: u64,
        /// Who sent the request.
        peer: String,
        /// The id of the request.
        id: String,
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

/// Whom an effect is for, if it must keep its place among others for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EffectTarget {
    /// A connection.
    Connection(ConnectionId),
    /// Whichever actor the capability has.
    Capability(CapabilityId),
}

impl Effect {
    /// Whom it is for, if it must not overtake what came before it for the same: an effect that
    /// rests on a fact ([`Effect::After`]) has those behind it wait that have its target.
    #[inline]
    #[must_use]
    pub fn target(&self) -> Option<EffectTarget> {
        match self {
            Effect::Deliver { actor, .. } | Effect::Stop { actor } => {
                Some(EffectTarget::Capability(actor.capability))
            }
            Effect::Write { connection, .. } | Effect::Close { connection, .. } => {
                Some(EffectTarget::Connection(*connection))
            }
            Effect::Record(_)
            | Effect::After { .. }
            | Effect::PauseReading { .. }
            | Effect::ResumeReading { .. }
            | Effect::Spawn { .. }
            | Effect::Attach { .. }
            | Effect::Terminate { .. }
            | Effect::StartAdapter { .. }
            | Effect::StopAdapter { .. }
            | Effect::CollectStats { .. }
            | Effect::ReadSettings { .. }
            | Effect::OpenConsole { .. }
            | Effect::FetchNodeTrace { .. }
            | Effect::Ready { .. }
            | Effect::BootFailed { .. }
            | Effect::Log { .. }
            | Effect::Exit { .. } => None,
        }
    }
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
            CloseReason::BadLines => "too many invalid lines in a row",
            CloseReason::SlowReader => "it does not read its answers",
            CloseReason::SlowSubscriber => "it does not keep up with its events",
            CloseReason::Memory => "the memory is used up, and it has most of it",
            CloseReason::Shutdown => "the daemon is shutting down",
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
    /// The daemon is shutting down.
    Shutdown,
}

impl CloseReason {
    /// Whether what it has not read is dropped: that is why it is closed.
    pub fn drops_what_is_unread(self) -> bool {
        match self {
            CloseReason::SlowReader | CloseReason::SlowSubscriber | CloseReason::Memory => true,
            CloseReason::Full | CloseReason::BadLines | CloseReason::Shutdown => false,
        }
    }
}
