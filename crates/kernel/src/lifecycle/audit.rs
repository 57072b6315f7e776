//! Whether the kernel's tables agree with each other: for simulations and tests, which ask after every step.

use crate::flow::lanes::{Completion, Item};
use crate::flow::routes::Handler;
use crate::kernel::{Job, Kernel};
use crate::requests::{Live, Phase, RequestKey};
use crate::supervision::actors::{Actor, Mail};

/// The extremes of everything that is bounded per sender, peer or capability.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// The most messages of one sender in the User lane.
    pub longest_queue: usize,
    /// The most bytes of one sender in the User lane.
    pub widest_queue_bytes: usize,
    /// The most events that wait for one subscriber.
    pub most_waiting_events: usize,
    /// The most unfinished requests of one peer.
    pub most_requests: usize,
    /// The most scheduled messages of one peer.
    pub most_schedules: usize,
    /// The most bytes of scheduled messages of one peer.
    pub most_schedule_bytes: usize,
    /// The bytes of all scheduled messages.
    pub schedule_bytes: usize,
    /// The most remembered commands of one peer.
    pub most_remembered: usize,
    /// The most bytes of remembered answers of one peer.
    pub most_remembered_bytes: usize,
    /// Bytes of memory that remembered answers hold beyond their own.
    pub wasted_bytes: usize,
    /// Messages and bytes in the mailbox of each capability.
    pub mailboxes: Vec<(usize, usize)>,
}

/// Says what does not add up, unless the two are equal.
fn agree<T: PartialEq + std::fmt::Debug>(what: &str, counted: T, kept: T) -> Result<(), String> {
    if counted == kept { Ok(()) } else { Err(format!("{what}: counted {counted:?}, kept {kept:?}")) }
}

impl Kernel {
    /// Compares every table with every other. Takes time in proportion to all that the kernel holds.
    ///
    /// # Errors
    ///
    /// When an unfinished request is not in exactly the one place where it should be, or an account is wrong: a bug of
    /// the kernel, in words.
    pub fn audit(&self) -> Result<Audit, String> {
        let live = self.requests.live_keys();
        for key in &live {
            if let Some(request) = self.requests.get(*key) {
                self.audit_request(*key, request)?;
            }
        }
        let ended = self.counters.requests_replied + self.counters.requests_failed;
        agree("requests accepted", live.len() as u64 + ended, self.counters.requests_accepted)?;
        agree("unfinished requests", live.len(), self.requests.live())?;
        let in_hands =
            live.iter().filter(|key| self.is_in_phase(**key, |phase| matches!(phase, Phase::InFlight(_))));
        let hands: usize = self.actors.iter().map(|actor| actor.in_flight.len()).sum();
        agree("requests in actors' hands", in_hands.count(), hands)?;
        self.audit_handlers(&live)?;
        let mut audit = Audit { wasted_bytes: self.requests.wasted_bytes(), ..Audit::default() };
        self.audit_lanes(&mut audit)?;
        self.audit_peers(&mut audit)?;
        for actor in &self.actors {
            audit.mailboxes.push(self.audit_mailbox(actor)?);
        }
        let egress: usize = self.connections.values().map(|connection| connection.egress_bytes).sum();
        agree("bytes not yet written", egress, self.egress_bytes)?;
        let waiting = self.connections.values().map(|connection| connection.events.len());
        audit.most_waiting_events = waiting.max().unwrap_or(0);
        Ok(audit)
    }

    /// Every capability knows how much is its own to handle, and the loop how many lives are to end.
    fn audit_handlers(&self, live: &[RequestKey]) -> Result<(), String> {
        let mut pending = vec![0; self.actors.len()];
        for key in live {
            if let Handler::Capability(capability) = self.requests.entry(key.slot()).handler {
                pending[capability as usize] += 1;
            }
        }
        let kept: Vec<usize> = self.actors.iter().map(|actor| actor.pending).collect();
        agree("requests of each capability", pending, kept)?;
        let retiring = self.actors.iter().filter(|actor| actor.succession.retiring.is_some());
        agree("lives that are to end", retiring.count(), self.retiring)
    }

    fn is_in_phase(&self, key: RequestKey, fits: impl Fn(Phase) -> bool) -> bool {
        self.requests.get(key).is_some_and(|live| fits(live.phase))
    }

    /// An unfinished request is where its phase says, once, and its deadline is watched.
    fn audit_request(&self, key: RequestKey, request: &Live) -> Result<(), String> {
        let handler = self.requests.entry(key.slot()).handler;
        let actor = match handler {
            Handler::Capability(capability) => Some(&self.actors[capability as usize]),
            Handler::Builtin(_) => None,
        };
        let places = match request.phase {
            Phase::Lane => {
                let items = self.lanes.queues().flat_map(|queue| queue.items());
                items.filter(|(item, _)| matches!(item, Item::Request(there) if *there == key)).count()
            }
            Phase::Mailbox => actor.map_or(0, |actor| {
                actor
                    .mailbox
                    .iter()
                    .filter(|mail| matches!(mail, Mail::Request(there) if *there == key))
                    .count()
            }),
            Phase::InFlight(_) => {
                actor.map_or(0, |actor| actor.in_flight.iter().filter(|there| **there == key).count())
            }
            Phase::Retrying(timer) => {
                usize::from(matches!(self.wheel.get(timer), Some(Job::Retry(there)) if *there == key))
            }
            Phase::Answering => {
                let outcomes = self.lanes.completions.iter();
                outcomes.filter(|it| matches!(it, Completion::Outcome(there, _) if *there == key)).count()
            }
            Phase::Served => self.chores.keys().filter(|there| *there == key).count(),
            Phase::Outside => self.stats_asked.iter().filter(|(_, there)| *there == key).count(),
        };
        let id = request.message.id();
        agree(&format!("places of request {id} in phase {:?}", request.phase), places, 1)?;
        let watched = match request.timer {
            Some(timer) => {
                matches!(self.wheel.get(timer), Some(Job::Timeout(there)) if *there == key)
                    && self.wheel.deadline(timer) == Some(request.deadline_ns)
            }
            None => false,
        };
        let is_timing_out =
            self.lanes.completions.iter().any(|it| matches!(it, Completion::Timeout(there) if *there == key));
        // An answer that came before the timeout was served ends the request without either.
        if !watched && !is_timing_out && request.phase != Phase::Answering {
            return Err(format!("nobody watches the deadline of request {id}"));
        }
        Ok(())
    }

    fn audit_lanes(&self, audit: &mut Audit) -> Result<(), String> {
        let mut waiting = 0;
        for queue in self.lanes.queues() {
            let bytes: usize = queue.items().map(|(_, bytes)| *bytes as usize).sum();
            agree("bytes of a queue", bytes, queue.bytes())?;
            waiting += queue.len();
            audit.longest_queue = audit.longest_queue.max(queue.len());
            audit.widest_queue_bytes = audit.widest_queue_bytes.max(bytes);
        }
        agree("messages in the User lane", waiting, self.lanes.user_len())
    }

    fn audit_peers(&self, audit: &mut Audit) -> Result<(), String> {
        let (mut requests, mut schedules, mut answers, mut bytes) = (0, 0, 0, 0);
        for peer in self.peers.each() {
            requests += peer.requests;
            schedules += peer.timers;
            audit.schedule_bytes += peer.timer_bytes;
            audit.most_schedule_bytes = audit.most_schedule_bytes.max(peer.timer_bytes);
            self.requests.agrees_with(&peer.window)?;
            answers += peer.window.requests;
            audit.most_remembered = audit.most_remembered.max(peer.window.requests);
            audit.most_remembered_bytes = audit.most_remembered_bytes.max(peer.window.bytes);
            bytes += peer.window.bytes;
            audit.most_requests = audit.most_requests.max(peer.requests);
            audit.most_schedules = audit.most_schedules.max(peer.timers);
        }
        agree("requests of all peers", requests, self.requests.live())?;
        agree("schedules of all peers", schedules, self.schedules.len())?;
        agree("bytes of schedules of all peers", audit.schedule_bytes, self.schedules.bytes())?;
        agree("remembered commands of all peers", answers, self.requests.window.requests)?;
        agree("remembered bytes of all peers", bytes, self.requests.window.bytes)
    }

    /// Messages and bytes in a mailbox; what timed out there does not count.
    fn audit_mailbox(&self, actor: &Actor) -> Result<(usize, usize), String> {
        let waiting: Vec<usize> = actor
            .mailbox
            .iter()
            .filter_map(|mail| match mail {
                Mail::Request(key) => {
                    let live = self.requests.get(*key).filter(|live| live.phase == Phase::Mailbox)?;
                    Some(live.message.line().len())
                }
                Mail::Event(event) => Some(event.line().len()),
            })
            .collect();
        agree("messages in a mailbox", waiting.len(), actor.mail_len)?;
        agree("bytes in a mailbox", waiting.iter().sum(), actor.mail_bytes)?;
        Ok((actor.mail_len, actor.mail_bytes))
    }
}
