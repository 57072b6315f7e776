//! The three lanes: System, Completions, User.
//!
//! System and Completions are plain queues. User is one queue per sender, served in turn, so that a sender who floods
//! waits behind itself and not before others.

use crate::api::ids::ConnectionId;
use crate::requests::RequestKey;
use mainspring_message::{Envelope, Failure};
use slab::Slab;
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// Signals that wait in the System lane at most. Beyond: an event of the loop's own is dropped, and counted.
const SYSTEM_SIGNALS_MAX: usize = 65_536;
/// Bytes of the loop's own events that wait in the System lane at most; same policy.
const SYSTEM_BYTES_MAX: usize = 64 << 20;

/// While others have messages, one of this many that are served is of a client that gets large answers.
const LARGE_EVERY: u32 = 64;

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
    /// A request that was answered before, of a client that has not read what it has.
    Repetition(Envelope),
}

/// Why a queue of the User lane is not served for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// The client has not read what it has.
    Egress = 1,
    /// A built-in that the sender asked for works on in slices.
    Chore = 2,
    /// The client gets large answers, and enough of its requests are under way.
    Window = 4,
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
    /// Whether it stands in the order in which queues are served.
    queued: bool,
    /// Why it is not served for now; nothing if it is.
    held: u8,
    /// How many of the sender's requests may be under way, if it gets large answers.
    pub(crate) window: Option<NonZeroU32>,
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
    /// The queues that hold something, in the order in which they are served. One that is held leaves when its turn comes.
    turn: VecDeque<u32>,
    /// The same for queues of clients that get large answers: one of them is served when no other is, or now and then.
    large: VecDeque<u32>,
    /// Messages that may still be served before one of those must be.
    before_large: u32,
    user: usize,
    /// How many of those messages are in queues that are held.
    held: usize,
    /// Bytes of the messages in the User lane.
    user_bytes: usize,
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
            held: 0,
            window: None,
            paused: false,
            gone: false,
        };
        self.queues.insert(queue) as u32
    }

    /// The sender is gone. What it sent is still worked on, whether or not it read the answers.
    pub(crate) fn close(&mut self, queue: u32) {
        self.queues[queue as usize].gone = true;
        self.lift(queue, Hold::Egress as u8 | Hold::Window as u8);
    }

    /// Does not serve a queue until it is released.
    pub(crate) fn hold(&mut self, queue: u32, why: Hold) {
        let it = &mut self.queues[queue as usize];
        if it.held == 0 {
            self.held += it.items.len();
        }
        it.held |= why as u8;
    }

    /// Serves a queue again, unless there is another reason not to.
    pub(crate) fn release(&mut self, queue: u32, why: Hold) {
        self.lift(queue, why as u8);
    }

    fn lift(&mut self, queue: u32, reasons: u8) {
        let it = &mut self.queues[queue as usize];
        let was_held = it.held != 0;
        it.held &= !reasons;
        if it.held != 0 {
            return;
        }
        if was_held {
            self.held -= it.items.len();
        }
        if it.items.is_empty() {
            if it.gone && !it.queued {
                self.queues.remove(queue as usize);
            }
        } else if !it.queued {
            it.queued = true;
            let order = if it.window.is_some() { &mut self.large } else { &mut self.turn };
            order.push_back(queue);
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
        self.user_bytes += bytes;
        if it.held != 0 {
            self.held += 1;
        } else if !it.queued {
            it.queued = true;
            let order = if it.window.is_some() { &mut self.large } else { &mut self.turn };
            order.push_back(queue);
        }
    }

    /// The next User message, who sent it, and its queue unless that is gone.
    pub(crate) fn pop(&mut self) -> Option<(Item, Sender, Option<u32>)> {
        let queue = loop {
            let queue = if self.large.is_empty() { self.turn.pop_front()? } else { self.pop_with_large()? };
            let it = &mut self.queues[queue as usize];
            if it.held == 0 {
                break queue;
            }
            it.queued = false;
        };
        let it = &mut self.queues[queue as usize];
        let (item, bytes) = it.items.pop_front()?;
        let sender = it.sender;
        it.bytes -= bytes as usize;
        self.user -= 1;
        self.user_bytes -= bytes as usize;
        it.queued = !it.items.is_empty();
        if it.queued {
            let order = if it.window.is_some() { &mut self.large } else { &mut self.turn };
            order.push_back(queue);
        } else if it.gone {
            self.queues.remove(queue as usize);
            return Some((item, sender, None));
        }
        Some((item, sender, Some(queue)))
    }

    /// The next queue, while there are some whose messages take much longer than those of others.
    #[cold]
    fn pop_with_large(&mut self) -> Option<u32> {
        if self.turn.is_empty() || self.before_large == 0 {
            self.before_large = LARGE_EVERY;
            return self.large.pop_front();
        }
        self.before_large -= 1;
        self.turn.pop_front()
    }

    /// The queues of the User lane, with what is in them.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &SenderQueue> {
        self.queues.iter().map(|(_, queue)| queue)
    }

    /// Messages in the User lane.
    pub(crate) fn user_len(&self) -> usize {
        self.user
    }

    /// Those of them in queues that are not served for now.
    pub(crate) fn held_len(&self) -> usize {
        self.held
    }

    /// Bytes of the messages in the User and System lanes.
    pub(crate) fn bytes(&self) -> usize {
        self.user_bytes + self.system_bytes
    }

    /// Whether the next message is of a client that gets large answers.
    pub(crate) fn is_next_large(&self) -> bool {
        !self.large.is_empty() && (self.turn.is_empty() || self.before_large == 0)
    }

    /// Whether a turn has something to serve.
    pub(crate) fn is_ready(&self) -> bool {
        !self.system.is_empty() || !self.completions.is_empty() || self.user > self.held
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
            Item::Request(_) | Item::Repetition(_) => unreachable!(),
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
    fn whoever_gets_large_answers_comes_after_the_others_but_is_not_forgotten() {
        let mut lanes = Lanes::default();
        let (large, usual) = (lanes.open(Sender::Loop), lanes.open(Sender::Loop));
        lanes.queue_mut(large).window = NonZeroU32::new(4);
        for id in ["l1", "l2", "l3"] {
            lanes.push(large, event(id), 10);
        }
        for _ in 0..100 {
            lanes.push(usual, event("u"), 10);
        }
        let order: Vec<String> = (0..103).map(|_| pop_id(&mut lanes)).collect();
        let places: Vec<usize> = (0..103).filter(|at| order[*at] != "u").collect();
        assert_eq!(places, [0, 65, 102]);
        assert!(lanes.is_empty());
    }

    #[test]
    fn a_queue_that_is_held_keeps_its_place_and_its_order_and_the_others_are_served() {
        let mut lanes = Lanes::default();
        let (slow, other) = (lanes.open(Sender::Loop), lanes.open(Sender::Loop));
        lanes.push(slow, event("a1"), 10);
        lanes.push(slow, event("a2"), 10);
        lanes.push(other, event("b1"), 10);
        lanes.hold(slow, Hold::Egress);
        lanes.hold(slow, Hold::Chore);
        assert_eq!((lanes.user_len(), lanes.held_len(), lanes.is_ready()), (3, 2, true));
        assert_eq!(pop_id(&mut lanes), "b1");
        assert!(lanes.pop().is_none() && !lanes.is_ready() && !lanes.is_empty());
        lanes.push(slow, event("a3"), 10);
        lanes.release(slow, Hold::Egress);
        assert!(lanes.pop().is_none(), "it is still held for the other reason");
        lanes.release(slow, Hold::Chore);
        let order: Vec<String> = (0..3).map(|_| pop_id(&mut lanes)).collect();
        assert_eq!(
            (order, lanes.held_len(), lanes.bytes()),
            (vec!["a1".into(), "a2".into(), "a3".into()], 0, 0)
        );
    }

    #[test]
    fn what_a_sender_sent_before_it_left_is_served_though_it_was_held() {
        let mut lanes = Lanes::default();
        let queue = lanes.open(Sender::Loop);
        lanes.push(queue, event("a"), 10);
        lanes.hold(queue, Hold::Egress);
        assert!(lanes.pop().is_none());
        lanes.close(queue);
        assert_eq!(pop_id(&mut lanes), "a");
        assert_eq!(lanes.open(Sender::Loop), queue);
        // Held for a chore, it stays until that is over.
        lanes.hold(queue, Hold::Chore);
        lanes.close(queue);
        assert_ne!(lanes.open(Sender::Loop), queue);
        lanes.release(queue, Hold::Chore);
        assert_eq!(lanes.open(Sender::Loop), queue);
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
