//! The Completions lane and the User lane.
//!
//! Completions is a plain queue. User is one queue per sender, served in turn, so that a sender who
//! floods waits behind itself and not before others. The third lane, System, is in
//! [`system`](crate::flow::system).

#[cfg(test)]
mod tests;

use crate::api::config::Limits;
use crate::api::ids::{CapabilityId, ConnectionId};
use crate::flow::refusal::Refusal;
use crate::requests::RequestKey;
use mainspring_message::{Envelope, Failure};
use slab::Slab;
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// While others have messages, one of this many that are served is of a client that gets large
/// answers.
const LARGE_EVERY: u32 = 64;

/// Queues that are passed over at once because their first message is an event that waits.
const DEFERRED_AT_ONCE: usize = 64;

/// Names the queue of one sender in the User lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueId(u32);

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
    Actor(CapabilityId),
    /// The kernel: the schedules of one peer, or dead letters put back.
    Kernel,
}

/// A message that was taken out of the User lane.
#[derive(Debug)]
pub(crate) struct UserMessage {
    pub(crate) item: Item,
    pub(crate) sender: Sender,
    /// Its queue, unless that is gone.
    pub(crate) queue: Option<QueueId>,
    /// Whether so little is left in it that its sender may be read from again.
    pub(crate) resumes: bool,
    /// Whether only so many requests of its sender may be under way.
    pub(crate) has_window: bool,
}

#[derive(Debug)]
struct SenderQueue {
    sender: Sender,
    /// What waits, with its bytes.
    items: VecDeque<(Item, u32)>,
    bytes: usize,
    /// Whether it stands in the order in which queues are served.
    queued: bool,
    /// Why it is not served for now; nothing if it is.
    held: u8,
    /// How many of the sender's requests may be under way, if it gets large answers.
    window: Option<NonZeroU32>,
    /// Whether reading from the sender was paused for this queue.
    paused: bool,
    /// The sender is gone; the queue goes when it is empty.
    gone: bool,
}

/// The two lanes.
#[derive(Debug)]
pub(crate) struct Lanes {
    completions: VecDeque<Completion>,
    queues: Slab<SenderQueue>,
    /// The queues that hold something, in the order in which they are served. One that is held
    /// leaves when its turn comes.
    turn: VecDeque<QueueId>,
    /// The same for queues of clients that get large answers: one of them is served when no other
    /// is, or now and then.
    large: VecDeque<QueueId>,
    /// Messages that may still be served before one of those must be.
    before_large: u32,
    /// Whether events wait, because one is on its way to many subscribers.
    events_wait: bool,
    /// Queues whose turn came and whose first message is an event that waits; they keep their
    /// order.
    deferred: VecDeque<QueueId>,
    /// Messages in the User lane.
    user: usize,
    /// How many of those messages are in queues that are held.
    held: usize,
    /// Bytes of the messages in the User lane.
    user_bytes: usize,
    /// The queue of dead letters put back.
    own: QueueId,
    /// Messages and bytes of one sender at which reading from it pauses.
    messages_max: usize,
    bytes_max: usize,
}

impl Lanes {
    pub(crate) fn new(limits: &Limits) -> Lanes {
        let mut lanes = Lanes {
            completions: VecDeque::new(),
            queues: Slab::new(),
            turn: VecDeque::new(),
            large: VecDeque::new(),
            before_large: 0,
            events_wait: false,
            deferred: VecDeque::new(),
            user: 0,
            held: 0,
            user_bytes: 0,
            own: QueueId(0),
            messages_max: limits.lane_messages_max,
            bytes_max: limits.lane_bytes_max,
        };
        lanes.own = lanes.open(Sender::Kernel);
        lanes
    }

    /// Adds to the Completions lane.
    #[inline]
    pub(crate) fn complete(&mut self, completion: Completion) {
        self.completions.push_back(completion);
    }

    /// The next completion.
    #[inline]
    pub(crate) fn pop_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// What is in the Completions lane, in order.
    pub(crate) fn completions(&self) -> impl ExactSizeIterator<Item = &Completion> {
        self.completions.iter()
    }

    /// A queue for a sender.
    pub(crate) fn open(&mut self, sender: Sender) -> QueueId {
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
        QueueId(self.queues.insert(queue) as u32)
    }

    /// The queue of dead letters put back.
    pub(crate) fn own_queue(&self) -> QueueId {
        self.own
    }

    fn get(&self, queue: QueueId) -> &SenderQueue {
        &self.queues[queue.0 as usize]
    }

    fn get_mut(&mut self, queue: QueueId) -> &mut SenderQueue {
        &mut self.queues[queue.0 as usize]
    }

    /// The sender is gone. What it sent is still worked on, whether or not it read the answers.
    pub(crate) fn close(&mut self, queue: QueueId) {
        self.get_mut(queue).gone = true;
        self.lift(queue, Hold::Egress as u8 | Hold::Window as u8);
    }

    /// Does not serve a queue until it is released.
    pub(crate) fn hold(&mut self, queue: QueueId, why: Hold) {
        let it = &mut self.queues[queue.0 as usize];
        if it.held == 0 {
            self.held += it.items.len();
        }
        it.held |= why as u8;
    }

    /// Serves a queue again, unless there is another reason not to.
    pub(crate) fn release(&mut self, queue: QueueId, why: Hold) {
        self.lift(queue, why as u8);
    }

    fn lift(&mut self, queue: QueueId, reasons: u8) {
        let it = &mut self.queues[queue.0 as usize];
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
                self.queues.remove(queue.0 as usize);
            }
        } else if !it.queued {
            it.queued = true;
            let order = if it.window.is_some() { &mut self.large } else { &mut self.turn };
            order.push_back(queue);
        }
    }

    /// Lets so many requests of the sender be under way at once; any number if `None`.
    pub(crate) fn set_window(&mut self, queue: QueueId, window: Option<NonZeroU32>) {
        self.get_mut(queue).window = window;
    }

    /// Serves a sender that gets large answers while few enough of its requests are under way:
    /// those that it is owed an outcome for, but for those that still wait here.
    pub(crate) fn mind_window(&mut self, queue: QueueId, owed: usize) {
        let it = self.get(queue);
        let under_way = owed.saturating_sub(it.items.len());
        if it.window.is_some_and(|window| under_way >= window.get() as usize) {
            self.hold(queue, Hold::Window);
        } else {
            self.release(queue, Hold::Window);
        }
    }

    /// Refuses what would go beyond twice the bound of a sender's queue.
    #[inline]
    pub(crate) fn check(&self, queue: QueueId) -> Result<(), Refusal> {
        let queue = self.get(queue);
        if queue.items.len() >= self.messages_max.saturating_mul(2)
            || queue.bytes >= self.bytes_max.saturating_mul(2)
        {
            let text = format!(
                "{} messages of this sender are waiting already (limits.lane_messages_max, limits.lane_bytes_max)",
                queue.items.len()
            );
            return Err(Refusal::new(Failure::LimitExceeded, text));
        }
        Ok(())
    }

    /// Whether as many messages wait as may before the sender is paused.
    pub(crate) fn is_crowded(&self, queue: QueueId) -> bool {
        self.get(queue).items.len() >= self.messages_max
    }

    /// Whether reading from the sender was paused for this queue.
    pub(crate) fn is_paused(&self, queue: QueueId) -> bool {
        self.get(queue).paused
    }

    /// Bytes that wait in a queue.
    pub(crate) fn bytes_of(&self, queue: QueueId) -> usize {
        self.get(queue).bytes
    }

    /// Puts a message into the User lane; returns the sender if that is to be paused for it.
    #[must_use]
    pub(crate) fn push(&mut self, queue: QueueId, item: Item, bytes: usize) -> Option<Sender> {
        let it = &mut self.queues[queue.0 as usize];
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
        if it.paused || (it.items.len() <= self.messages_max && it.bytes <= self.bytes_max) {
            return None;
        }
        it.paused = true;
        Some(it.sender)
    }

    /// The next User message.
    pub(crate) fn pop(&mut self) -> Option<UserMessage> {
        let queue = loop {
            let queue = if self.large.is_empty() { self.turn.pop_front()? } else { self.pop_with_large()? };
            let it = &mut self.queues[queue.0 as usize];
            if it.held != 0 {
                it.queued = false;
            } else if !self.events_wait || !self.defer(queue)? {
                break queue;
            }
        };
        let it = &mut self.queues[queue.0 as usize];
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
            self.queues.remove(queue.0 as usize);
            return Some(UserMessage { item, sender, queue: None, resumes: false, has_window: false });
        }
        let resumes = it.paused && it.items.len() <= self.messages_max / 2 && it.bytes <= self.bytes_max / 2;
        if resumes {
            it.paused = false;
        }
        Some(UserMessage { item, sender, queue: Some(queue), resumes, has_window: it.window.is_some() })
    }

    /// Serves no event until [`Lanes::release_events`]: a queue whose first message is one waits
    /// with all that is in it.
    pub(crate) fn hold_events(&mut self) {
        self.events_wait = true;
    }

    /// Serves events again, and first of all the queues whose turn it was.
    pub(crate) fn release_events(&mut self) {
        self.events_wait = false;
        while let Some(queue) = self.deferred.pop_back() {
            let has_window = self.get(queue).window.is_some();
            let order = if has_window { &mut self.large } else { &mut self.turn };
            order.push_front(queue);
        }
    }

    /// Whether a queue whose turn it is has to wait because an event comes first in it. Nothing if
    /// so many were deferred already that it is time for something else.
    #[cold]
    fn defer(&mut self, queue: QueueId) -> Option<bool> {
        if !matches!(self.get(queue).items.front(), Some((Item::Event(_), _))) {
            return Some(false);
        }
        self.deferred.push_back(queue);
        (!self.deferred.len().is_multiple_of(DEFERRED_AT_ONCE)).then_some(true)
    }

    /// The next queue, while there are some whose messages take much longer than those of others.
    #[cold]
    fn pop_with_large(&mut self) -> Option<QueueId> {
        if self.turn.is_empty() || self.before_large == 0 {
            self.before_large = LARGE_EVERY;
            return self.large.pop_front();
        }
        self.before_large -= 1;
        self.turn.pop_front()
    }

    /// What waits in each queue of the User lane, with its bytes; for audits.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (usize, impl Iterator<Item = &(Item, u32)>)> {
        self.queues.iter().map(|(_, queue)| (queue.bytes, queue.items.iter()))
    }

    /// Messages in the User lane.
    pub(crate) fn user_len(&self) -> usize {
        self.user
    }

    /// Those of them in queues that are not served for now.
    pub(crate) fn held_len(&self) -> usize {
        self.held
    }

    /// Bytes of the messages in the User lane.
    pub(crate) fn bytes(&self) -> usize {
        self.user_bytes
    }

    /// Whether the next message is of a client that gets large answers.
    pub(crate) fn is_next_large(&self) -> bool {
        !self.large.is_empty() && (self.turn.is_empty() || self.before_large == 0)
    }

    /// Whether a turn has something to serve from here.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        !self.completions.is_empty() || self.user > self.held
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.completions.is_empty() && self.user == 0
    }
}
