//! The names by which the kernel and the floors below speak of the same things.

use std::fmt;

/// The time, as an input: the kernel never reads a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic nanoseconds, from any origin. Every deadline is on this scale.
    pub mono_ns: i64,
    /// Milliseconds since the Unix epoch. Used for timestamps, and to place the absolute time of a
    /// schedule.
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

/// A capability: its place in the boot plan, or the number that
/// [`Kernel::reload`](crate::Kernel::reload) gave for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapabilityId(pub u32);

impl CapabilityId {
    /// The number, to index a list of capabilities.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CapabilityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One incarnation of one capability's actor.
///
/// What an earlier incarnation still says after it was given up is told apart by the number, and
/// ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorRef {
    /// Whose actor it is.
    pub capability: CapabilityId,
    /// Counts the spawns of that capability, from 1.
    pub incarnation: u32,
}

impl ActorRef {
    /// The actor of this capability in this incarnation.
    #[must_use]
    pub fn new(capability: u32, incarnation: u32) -> ActorRef {
        ActorRef { capability: CapabilityId(capability), incarnation }
    }
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

/// Ids for the messages of one run: a prefix of its own, and a number that is counted up in
/// writing.
#[derive(Debug)]
pub(crate) struct FreshIds {
    last: String,
}

impl FreshIds {
    pub(crate) fn new(nonce: u64) -> FreshIds {
        FreshIds { last: format!("{nonce:016x}-0") }
    }

    /// The next one.
    pub(crate) fn make(&mut self) -> &str {
        let nines = self.last.bytes().rev().take_while(|byte| *byte == b'9').count();
        self.last.truncate(self.last.len() - nines);
        match self.last.pop() {
            Some(digit @ '0'..='8') => self.last.push((digit as u8 + 1) as char),
            // The prefix ends here: one digit more.
            other => {
                self.last.extend(other);
                self.last.push('1');
            }
        }
        self.last.extend(std::iter::repeat_n('0', nines));
        &self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_counted_from_one() {
        let mut ids = FreshIds::new(0x99);
        for number in 1..=1100 {
            assert_eq!(ids.make(), format!("0000000000000099-{number}"));
        }
    }
}
