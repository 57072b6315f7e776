//! Whether the kernel's tables agree with each other: for simulations and tests, which ask after
//! every step.

use crate::flow::lanes::{Completion, Item};
use crate::flow::routes::Handler;
use crate::kernel::Kernel;
use crate::requests::{RequestKey, Whereabouts};
use crate::time::Job;

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
pub(crate) fn agree<T: PartialEq + std::fmt::Debug>(what: &str, counted: T, kept: T) -> Result<(), String> {
    if counted == kept { Ok(()) } else { Err(format!("{what}: counted {counted:?}, kept {kept:?}")) }
}

impl Kernel {
    /// Compares every table with every other. Takes time in proportion to all that the kernel
    /// holds.
    ///
    /// # Errors
    ///
    /// When an unfinished request is not in exactly the one place where it should be, or an account
    /// is wrong: a bug of the kernel, in words.
    pub fn audit(&self) -> Result<Audit, String> {
        let mut audit = Audit::default();
        let live = self.requests.live_keys();
        for key in &live {
            self.audit_request(*key)?;
        }
        let ended = self.out.counters.requests_replied
            + self.out.counters.requests_failed
            + self.durability.left_for_next_run;
        agree("requests accepted", live.len() as u64 + ended, self.out.counters.requests_accepted)?;
        let in_progress = live.iter().filter(|key| self.requests.place(**key).is_some()).count();
        agree("requests in progress", in_progress, self.actors.totals().in_progress)?;
        let (counted, kept) = self.actors.audit_retiring();
        agree("incarnations that are to end", counted, kept)?;
        self.requests.audit(&mut audit)?;
        self.audit_lanes(&mut audit)?;
        self.audit_schedules(&mut audit)?;
        for capability in self.actors.ids() {
            let mailbox = self.actors.audit_mailbox(capability, |key| self.requests.waits_in_mailbox(key))?;
            audit.mailboxes.push(mailbox);
        }
        audit.most_waiting_events = self.connections.audit()?;
        self.cursors.audit()?;
        Ok(audit)
    }

    /// An unfinished request is where it is said to be, once, and its deadline is watched.
    fn audit_request(&self, key: RequestKey) -> Result<(), String> {
        let Some(handler) = self.requests.handler(key) else { return Ok(()) };
        let of_actor = |count: &dyn Fn(crate::CapabilityId) -> usize| match handler {
            Handler::Capability(capability) => count(capability),
            Handler::Builtin(_) => 0,
        };
        let (whereabouts, deadline) = self.requests.whereabouts(key);
        let places = match whereabouts {
            Whereabouts::Lane => {
                let items = self.lanes.queues().flat_map(|(_, items)| items);
                items.filter(|(item, _)| matches!(item, Item::Request(there) if *there == key)).count()
            }
            Whereabouts::Mailbox => of_actor(&|actor| self.actors.count_in_mailbox(actor, key)),
            Whereabouts::InProgress => of_actor(&|actor| self.actors.count_in_progress(actor, key)),
            Whereabouts::Retrying(timer) => {
                usize::from(matches!(self.out.wheel.get(timer), Some(Job::Retry(there)) if *there == key))
            }
            Whereabouts::Answering => {
                let outcomes = self.lanes.completions();
                outcomes.filter(|it| matches!(it, Completion::Outcome(there, _) if *there == key)).count()
            }
            Whereabouts::Chores => self.chores.count(key),
        };
        let id = self.requests.message(key).map_or("", |message| message.id());
        agree(&format!("places of request {id} ({whereabouts:?})"), places, 1)?;
        let is_watched = deadline.is_some_and(|(timer, deadline_ns)| {
            matches!(self.out.wheel.get(timer), Some(Job::Timeout(there)) if *there == key)
                && self.out.wheel.deadline(timer) == Some(deadline_ns)
        });
        let is_timing_out =
            self.lanes.completions().any(|it| matches!(it, Completion::Timeout(there) if *there == key));
        // An answer that came before the timeout was served ends the request without either.
        if !is_watched && !is_timing_out && whereabouts != Whereabouts::Answering {
            return Err(format!("nobody watches the deadline of request {id}"));
        }
        Ok(())
    }

    fn audit_lanes(&self, audit: &mut Audit) -> Result<(), String> {
        let mut waiting = 0;
        for (kept, items) in self.lanes.queues() {
            let (mut len, mut bytes) = (0, 0);
            for (_, own) in items {
                (len, bytes) = (len + 1, bytes + *own as usize);
            }
            agree("bytes of a queue", bytes, kept)?;
            waiting += len;
            audit.longest_queue = audit.longest_queue.max(len);
            audit.widest_queue_bytes = audit.widest_queue_bytes.max(bytes);
        }
        agree("messages in the User lane", waiting, self.lanes.user_len())
    }

    fn audit_schedules(&self, audit: &mut Audit) -> Result<(), String> {
        let mut schedules = 0;
        for (_, count, bytes) in self.schedules.by_peer() {
            schedules += count;
            audit.schedule_bytes += bytes;
            audit.most_schedules = audit.most_schedules.max(count);
            audit.most_schedule_bytes = audit.most_schedule_bytes.max(bytes);
        }
        agree("schedules of all peers", schedules, self.schedules.len())?;
        agree("bytes of schedules of all peers", audit.schedule_bytes, self.schedules.bytes())
    }
}
