//! The three lanes: System, Completions, User.
//!
//! System and Completions are plain queues. User is one queue per sender, served in turn, so that a sender who floods
//! waits behind itself and not before others.

use crate::ids::ConnectionId;
use crate::requests::RequestKey;
use mainspring_message::{Envelope, Failure};
use slab::Slab;
use std::collections::VecDeque;

/// Signals that wait in the System lane at most. Beyond: an event of the loop's own is dropped, and counted.
const SYSTEM_SIGNALS_MAX: usize = 65_536;
/// Bytes of the loop's own events that wait in the System lane at most; same policy.
const SYSTEM_BYTES_MAX: usize = 64 << 20;

/// A signal of the control plane.
#[derive(Debug)]
pub(crate) enum Signal {
    /// An actor failed.
    Fault { capability: u32, incarnation: u32, failure: Failure, reason: String },
    /// An event of the loop itself.
    Publish(Envelope),
}

/// An outcome on its way to the requester.
#[derive(Debug)]
pub(crate) enum Completion {
    /// What the actor answered.
    Outcome(RequestKey, Envelope),
    /// The deadline passed.
    Timeout(RequestKey),
}

/// A message in the User lane.
#[derive(Debug)]
pub(crate) enum Item {
    Request(RequestKey),
    Event(Envelope),
}

/// Who fills a queue of the User lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Connection(ConnectionId),
    Actor(u32),
    /// The loop: the schedules of one peer, or dead letters put back.
    Loop,
}

#[derive(Debug)]
pub(crate) struct SenderQueue {
    pub(crate) sender: Sender,
    items: VecDeque<(Item, u32)>,
    bytes: usize,
    queued: bool,
    /// Whether reading from the sender was paused for this queue.
    pub(crate) paused: bool,
    /// The sender is gone; the queue goes when it is empty.
    gone: bool,
}

impl SenderQueue {
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What waits, with its bytes.
    pub(crate) fn items(&self) -> impl Iterator<Item = &(Item, u32)> {
        self.items.iter()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Lanes {
    pub(crate) system: VecDeque<Signal>,
    system_bytes: usize,
    pub(crate) completions: VecDeque<Completion>,
    queues: Slab<SenderQueue>,
    /// The queues that hold something, in the order in which they are served.
    turn: VecDeque<u32>,
    user: usize,
}

impl Lanes {
    /// Puts an event of the loop's own into the System lane; returns whether there was room.
    pub(crate) fn announce(&mut self, event: Envelope) -> bool {
        let bytes = self.system_bytes + event.line().len();
        if self.system.len() >= SYSTEM_SIGNALS_MAX || bytes > SYSTEM_BYTES_MAX {
            return false;
        }
        self.system_bytes = bytes;
        self.system.push_back(Signal::Publish(event));
        true
    }

    /// The next signal of the System lane.
    pub(crate) fn pop_signal(&mut self) -> Option<Signal> {
        let signal = self.system.pop_front()?;
        if let Signal::Publish(event) = &signal {
            self.system_bytes -= event.line().len();
        }
        Some(signal)
    }

    pub(crate) fn open(&mut self, sender: Sender) -> u32 {
        let queue = SenderQueue {
            sender,
            items: VecDeque::new(),
            bytes: 0,
            queued: false,
            paused: false,
            gone: false,
        };
        self.queues.insert(queue) as u32
    }

    /// The sender is gone. What it sent is still worked on.
    pub(crate) fn close(&mut self, queue: u32) {
        let it = &mut self.queues[queue as usize];
        it.gone = true;
        if it.items.is_empty() {
            self.queues.remove(queue as usize);
        }
    }

    pub(crate) fn queue(&self, queue: u32) -> &SenderQueue {
        &self.queues[queue as usize]
    }

    pub(crate) fn queue_mut(&mut self, queue: u32) -> &mut SenderQueue {
        &mut self.queues[queue as usize]
    }

    pub(crate) fn push(&mut self, queue: u32, item: Item, bytes: usize) {
        let it = &mut self.queues[queue as usize];
        it.items.push_back((item, bytes as u32));
        it.bytes += bytes;
        self.user += 1;
        if !it.queued {
            it.queued = true;
            self.turn.push_back(queue);
        }
    }

    /// The next User message, who sent it, and its queue unless that is gone.
    pub(crate) fn pop(&mut self) -> Option<(Item, Sender, Option<u32>)> {
        let queue = self.turn.pop_front()?;
        let it = &mut self.queues[queue as usize];
        let (item, bytes) = it.items.pop_front()?;
        let sender = it.sender;
        it.bytes -= bytes as usize;
        self.user -= 1;
        it.queued = !it.items.is_empty();
        if it.queued {
            self.turn.push_back(queue);
        } else if it.gone {
            self.queues.remove(queue as usize);
            return Some((item, sender, None));
        }
        Some((item, sender, Some(queue)))
    }

    /// The queues of the User lane, with what is in them.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &SenderQueue> {
        self.queues.iter().map(|(_, queue)| queue)
    }

    /// Messages in the User lane.
    pub(crate) fn user_len(&self) -> usize {
        self.user
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.system.is_empty() && self.completions.is_empty() && self.user == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str) -> Item {
        let line = format!(
            r#"{{"kind":"event","type":"Test.Happened","data":1,"metadata":{{"id":"{id}","timestamp":0}}}}"#
        );
        Item::Event(Envelope::parse(line.as_bytes()).unwrap())
    }

    #[test]
    fn the_system_lane_is_bounded_in_bytes_and_has_room_again_when_it_is_served() {
        let data = "x".repeat(1 << 20);
        let line = format!(
            r#"{{"kind":"event","type":"Sys.Test","data":"{data}","metadata":{{"id":"e","timestamp":0}}}}"#
        );
        let large = Envelope::parse(line.as_bytes()).unwrap();
        let mut lanes = Lanes::default();
        let taken = (0..100).filter(|_| lanes.announce(large.clone())).count();
        assert_eq!(taken, SYSTEM_BYTES_MAX / line.len());
        assert!(matches!(lanes.pop_signal(), Some(Signal::Publish(_))));
        assert!(lanes.announce(large.clone()) && !lanes.announce(large));
    }

    fn pop_id(lanes: &mut Lanes) -> String {
        match lanes.pop().unwrap().0 {
            Item::Event(message) => message.id().to_owned(),
            Item::Request(_) => unreachable!(),
        }
    }

    #[test]
    fn senders_take_turns_and_each_keeps_its_order() {
        let mut lanes = Lanes::default();
        let flood = lanes.open(Sender::Connection(ConnectionId(1)));
        let quiet = lanes.open(Sender::Connection(ConnectionId(2)));
        for id in ["a1", "a2", "a3"] {
            lanes.push(flood, event(id), 10);
        }
        lanes.push(quiet, event("b1"), 10);
        let order: Vec<String> = (0..4).map(|_| pop_id(&mut lanes)).collect();
        assert_eq!(order, ["a1", "b1", "a2", "a3"]);
        assert!(lanes.is_empty());
    }

    #[test]
    fn a_queue_outlives_its_sender_until_it_is_empty() {
        let mut lanes = Lanes::default();
        let queue = lanes.open(Sender::Loop);
        lanes.push(queue, event("a"), 10);
        lanes.close(queue);
        assert_eq!(pop_id(&mut lanes), "a");
        assert_eq!(lanes.open(Sender::Loop), queue);
    }
}
