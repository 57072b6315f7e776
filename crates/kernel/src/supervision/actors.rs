//! Actors and their mailboxes. The mailbox belongs to the supervisor: it outlives the actor.

use crate::api::ids::ActorRef;
use crate::api::manifest::Manifest;
use crate::flow::routes::Outbound;
use crate::records::latency::Latency;
use crate::requests::RequestKey;
use crate::requests::handled::Handled;
use crate::supervision::candidate::Contract;
use crate::supervision::last_words::LastWords;
use crate::supervision::succession::Succession;
use crate::time::wheel::TimerKey;
use mainspring_message::{Envelope, Failure, Kind};
use std::collections::VecDeque;

/// Where an actor is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActorState {
    /// Not spawned yet.
    Down,
    /// [`Effect::Spawn`](crate::Effect::Spawn) is out.
    Spawning,
    /// [`Effect::Attach`](crate::Effect::Attach) is out, or the boot has not come to it.
    Attaching,
    /// Working.
    Up,
    /// It failed; the signal is in the System lane.
    Failing,
    /// Waiting for its restart.
    Backoff(TimerKey),
    /// Failed too often; a probe may be planned.
    Unhealthy(Option<TimerKey>),
    /// Ended as it may, and not to be started again.
    Stopped,
}

impl ActorState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ActorState::Down => "down",
            ActorState::Spawning | ActorState::Attaching => "starting",
            ActorState::Up => "up",
            ActorState::Failing => "failing",
            ActorState::Backoff(_) => "backoff",
            ActorState::Unhealthy(_) => "unhealthy",
            ActorState::Stopped => "stopped",
        }
    }
}

/// A message in a mailbox.
#[derive(Debug)]
pub(crate) enum Mail {
    Request(RequestKey),
    Event(Envelope),
}

/// A request that timed out and is still in the actor's hands.
#[derive(Debug)]
pub(crate) struct Overdue {
    pub(crate) id: Box<str>,
    pub(crate) type_name: Box<str>,
    pub(crate) correlation: Option<Box<str>>,
    /// When the actor counts as hung.
    pub(crate) hang_timer: TimerKey,
}

/// A message that the actor took and that may be the cause of what it says.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) message: Envelope,
    /// Whether it is an event taken since the actor's last output: lost if the actor crashes now.
    pub(crate) at_risk: bool,
}

/// How many events back an actor may not use an id again.
pub(crate) const SAID_IDS: usize = 64;

/// The ids of the last events that a life of an actor said, as hashes.
#[derive(Debug, Default)]
pub(crate) struct SaidIds {
    hashes: Vec<u64>,
    /// The oldest of them, once there are as many as are kept.
    oldest: usize,
}

impl SaidIds {
    /// Whether none of the last events had this id; it is one of them from now on.
    pub(crate) fn is_new(&mut self, hash: u64) -> bool {
        if self.hashes.contains(&hash) {
            return false;
        }
        if self.hashes.len() < SAID_IDS {
            self.hashes.push(hash);
        } else {
            self.hashes[self.oldest] = hash;
            self.oldest = (self.oldest + 1) % SAID_IDS;
        }
        true
    }
}

#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) manifest: Manifest,
    /// The kinds and types of `inbound`, as they are named on the wire.
    pub(crate) handles: Vec<(Kind, String)>,
    pub(crate) outbound: Outbound,
    pub(crate) peer: u32,
    /// Its queue in the User lane.
    pub(crate) queue: u32,
    pub(crate) state: ActorState,
    pub(crate) incarnation: u32,
    /// Takes no more for now.
    pub(crate) blocked: bool,
    pub(crate) mailbox: VecDeque<Mail>,
    /// Messages in the mailbox that are still alive, and their bytes.
    pub(crate) mail_len: usize,
    pub(crate) mail_bytes: usize,
    /// Outcomes of requests that the actor made, which pass its concurrency, while it takes nothing. Beyond as many as
    /// a peer may have requests, or the bytes of a mailbox, the actor is at fault.
    pub(crate) answers: VecDeque<Envelope>,
    pub(crate) answers_bytes: usize,
    pub(crate) in_flight: Vec<RequestKey>,
    pub(crate) overdue: Vec<Overdue>,
    pub(crate) recent: VecDeque<Taken>,
    /// Requests that it had, and of which nothing else is remembered.
    pub(crate) had: Handled,
    /// What this life called its last events.
    pub(crate) said: SaidIds,
    pub(crate) recent_bytes: usize,
    /// Bytes that it had when they were last counted, see [`crate::memory`].
    pub(crate) counted_bytes: usize,
    /// How many of `recent` are at risk.
    pub(crate) at_risk: usize,
    /// Times of restarts within the window.
    pub(crate) restarts: VecDeque<i64>,
    /// When this life began, or came up.
    pub(crate) since_ns: i64,
    /// Started by a probe or after one: the next failure within the window makes it unhealthy again.
    pub(crate) on_probation: bool,
    pub(crate) probes: u32,
    pub(crate) faults: u64,
    pub(crate) handled: u64,
    /// What this life wrote, should it fail.
    pub(crate) last_words: LastWords,
    /// How long requests took that it was given.
    pub(crate) latency: Box<Latency>,
    /// Unfinished requests that are its own to handle, wherever they are.
    pub(crate) pending: usize,
    /// How it passes from one manifest or program to the next.
    pub(crate) succession: Succession,
}

impl Actor {
    pub(crate) fn new(contract: Contract, peer: u32, queue: u32) -> Actor {
        let Contract { manifest, handles, outbound } = contract;
        Actor {
            manifest,
            handles,
            outbound,
            peer,
            queue,
            state: ActorState::Down,
            incarnation: 0,
            blocked: false,
            mailbox: VecDeque::new(),
            mail_len: 0,
            mail_bytes: 0,
            answers: VecDeque::new(),
            answers_bytes: 0,
            in_flight: Vec::new(),
            overdue: Vec::new(),
            recent: VecDeque::new(),
            had: Handled::default(),
            said: SaidIds::default(),
            recent_bytes: 0,
            counted_bytes: 0,
            at_risk: 0,
            restarts: VecDeque::new(),
            since_ns: 0,
            on_probation: false,
            probes: 0,
            faults: 0,
            handled: 0,
            last_words: LastWords::default(),
            latency: Box::default(),
            pending: 0,
            succession: Succession::default(),
        }
    }

    /// Holds the next life to another contract.
    pub(crate) fn adopt(&mut self, contract: Contract) {
        let Contract { manifest, handles, outbound } = contract;
        (self.manifest, self.handles, self.outbound) = (manifest, handles, outbound);
    }

    /// Its state, as an operator sees it.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.state {
            ActorState::Up if self.succession.retiring.is_some() => "retiring",
            ActorState::Stopped if self.succession.removed => "removed",
            state => state.name(),
        }
    }

    /// Why it takes no mail, and the error for a request that comes now.
    pub(crate) fn trouble(&self) -> (Failure, String) {
        let failure = if self.is_gone() { Failure::Routing } else { Failure::Unhealthy };
        let remedy = match failure {
            Failure::Unhealthy => "; the log says why, and Sys.ResetActor starts it anew",
            _ => "",
        };
        (failure, format!("{} is {}{remedy}", self.manifest.id, self.state_name()))
    }

    /// Whether it was taken out of the loop and has ended: only its place is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.succession.removed && self.state == ActorState::Stopped
    }

    /// This life of the actor.
    pub(crate) fn reference(&self, capability: u32) -> ActorRef {
        ActorRef { capability, incarnation: self.incarnation }
    }

    /// Whether another request fits into its hands.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight.len() + self.overdue.len() < self.manifest.limits.concurrency as usize
    }

    /// Whether the mailbox takes a message of so many bytes.
    pub(crate) fn mailbox_takes(&self, bytes: usize) -> bool {
        let limits = &self.manifest.limits;
        self.mail_len < limits.mailbox_messages
            && self.mail_bytes.saturating_add(bytes) <= limits.mailbox_bytes
    }

    /// Remembers a message as a possible cause.
    pub(crate) fn remember(&mut self, message: &Envelope, at_risk: bool, recent_max: usize) {
        if self.recent.len() >= recent_max.max(1)
            && let Some(oldest) = self.recent.pop_front()
        {
            self.at_risk -= usize::from(oldest.at_risk);
            self.recent_bytes -= oldest.message.line().len();
        }
        self.recent_bytes += message.line().len();
        self.at_risk += usize::from(at_risk);
        self.recent.push_back(Taken { message: message.clone(), at_risk });
    }

    /// The actor spoke: the events that it took before are finished.
    pub(crate) fn nothing_at_risk(&mut self) {
        if self.at_risk == 0 {
            return;
        }
        self.at_risk = 0;
        for taken in &mut self.recent {
            taken.at_risk = false;
        }
    }
}
