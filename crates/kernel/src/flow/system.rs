//! The System lane: what the kernel tells itself. Bounded in signals and bytes; closed to outside
//! traffic.

use crate::api::ids::ActorRef;
use crate::requests::PeerId;
use mainspring_message::{Envelope, Failure};
use std::collections::VecDeque;

/// Signals that wait in the System lane at most. Beyond: an event of the kernel's own is dropped,
/// and counted.
const SIGNALS_MAX: usize = 65_536;
/// Bytes of the kernel's own events that wait in the System lane at most; same policy.
const BYTES_MAX: usize = 64 << 20;

/// A signal of the control plane.
#[derive(Debug)]
pub(crate) enum Signal {
    /// An actor failed, for this reason.
    Fault { actor: ActorRef, failure: Failure, reason: String },
    /// An event of the kernel itself, for those who may hear it.
    Publish(Envelope, Hearers),
}

/// Which clients may hear an event of the kernel's own, if they subscribe to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hearers {
    /// Everybody.
    All,
    /// It tells of others' traffic: operators, and this peer.
    Operators(Option<PeerId>),
}

/// The queue of signals.
#[derive(Debug, Default)]
pub(crate) struct SystemLane {
    signals: VecDeque<Signal>,
    /// Bytes of the events among them.
    bytes: usize,
}

impl SystemLane {
    /// Adds an event of the kernel's own; returns whether there was room.
    pub(crate) fn announce(&mut self, event: Envelope, hearers: Hearers) -> bool {
        let bytes = self.bytes + event.line().len();
        if self.signals.len() >= SIGNALS_MAX || bytes > BYTES_MAX {
            return false;
        }
        self.bytes = bytes;
        self.signals.push_back(Signal::Publish(event, hearers));
        true
    }

    /// Adds the fault of an actor. There is at most one for each, so these are not bounded.
    pub(crate) fn fault(&mut self, actor: ActorRef, failure: Failure, reason: String) {
        self.signals.push_back(Signal::Fault { actor, failure, reason });
    }

    /// The next signal.
    pub(crate) fn pop(&mut self) -> Option<Signal> {
        let signal = self.signals.pop_front()?;
        if let Signal::Publish(event, _) = &signal {
            self.bytes -= event.line().len();
        }
        Some(signal)
    }

    pub(crate) fn len(&self) -> usize {
        self.signals.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.signals.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_lane_is_bounded_in_bytes_and_has_room_again_when_it_is_served() {
        let data = "x".repeat(1 << 20);
        let line = format!(
            r#"{{"kind":"event","type":"Sys.Test","data":"{data}","metadata":{{"id":"e","timestamp":0}}}}"#
        );
        let large = Envelope::parse(line.as_bytes()).unwrap();
        let mut lane = SystemLane::default();
        let taken = (0..100).filter(|_| lane.announce(large.clone(), Hearers::All)).count();
        assert_eq!(taken, BYTES_MAX / line.len());
        assert!(matches!(lane.pop(), Some(Signal::Publish(..))));
        assert!(lane.announce(large.clone(), Hearers::All) && !lane.announce(large, Hearers::All));
    }
}
