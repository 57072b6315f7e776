//! The names by which the kernel and the floors below speak of the same things.

use std::fmt;

/// The time, as an input: the kernel never reads a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic nanoseconds, from any origin. Every deadline is on this scale.
    pub mono_ns: i64,
    /// Milliseconds since the Unix epoch. Used for timestamps, and to place the absolute time of a schedule.
    pub unix_ms: u64,
}

/// A client's connection. The daemon chooses the numbers and never uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}", self.0)
    }
}

/// One life of one capability's actor.
///
/// What an earlier incarnation still says after it was given up is told apart by the number, and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorRef {
    /// The place of the capability in the boot plan, or the number that [`Kernel::reload`](crate::Kernel::reload) gave
    /// for it.
    pub capability: u32,
    /// Counts the spawns of that capability, from 1.
    pub incarnation: u32,
}

impl fmt::Display for ActorRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "actor {}#{}", self.capability, self.incarnation)
    }
}

/// Something whose output the daemon reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A client.
    Connection(ConnectionId),
    /// An actor.
    Actor(ActorRef),
}
