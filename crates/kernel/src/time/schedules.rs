//! Messages for later: each is sent under a fresh id when its time comes, once or at a fixed rate.
//!
//! A schedule belongs to its peer. This part keeps the schedules, their deadlines and what each
//! peer has of them; whether a message may be scheduled, and how it is sent, is decided by whoever
//! calls.

use crate::api::config::Limits;
use crate::api::ids::Now;
use crate::api::rights::Rights;
use crate::durability::NOBODY;
use crate::facts::ScheduledMessage;
use crate::flow::lanes::QueueId;
use crate::flow::refusal::Refusal;
use crate::out::{MS, Out, ns};
use crate::requests::{Delegate, PeerId, Recipient};
use crate::time::Job;
use crate::time::wheel::{TimerKey, deadline_after};
use hashbrown::HashMap;
use mainspring_message::{Draft, Envelope, Failure, Kind, Text};
use serde_json::{Value, json};
use slab::Slab;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Names a scheduled message for as long as it is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScheduleId(u32);

/// When a message is sent for the first time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    /// So many milliseconds from now.
    In(u64),
    /// At this Unix time in milliseconds; what is past is due now.
    At(u64),
}

/// A message that is to be scheduled.
#[derive(Debug)]
pub(crate) struct NewSchedule {
    /// Its name among the schedules of its peer.
    pub(crate) timer_id: String,
    /// What is sent; its id is fresh each time.
    pub(crate) draft: Draft,
    pub(crate) peer: PeerId,
    /// Who gets the outcomes.
    pub(crate) to: Recipient,
    pub(crate) start: Start,
    /// The pause between two of them, if it repeats.
    pub(crate) repeat_ms: Option<u64>,
    /// How often it is sent, if not for ever.
    pub(crate) count: Option<u64>,
    /// What it counts for: the bytes of the command that made it.
    pub(crate) bytes: usize,
    /// What whoever scheduled it may do; nothing if that is everything.
    pub(crate) rights: Option<Rights>,
    /// Whether it survives the process.
    pub(crate) is_durable: bool,
}

/// A scheduled message.
#[derive(Debug)]
pub(crate) struct Schedule {
    timer_id: Text,
    /// What is sent; its id is fresh each time.
    draft: Draft,
    peer: PeerId,
    /// Who gets the outcomes.
    to: Recipient,
    timer: TimerKey,
    /// When it is due, by its own clock.
    deadline_ns: i64,
    /// Whether it is due already and waits for its place among the ticks of its peer.
    is_held: bool,
    repeat_ms: Option<u64>,
    /// How often it may still be sent; no bound if `None`.
    left: Option<u64>,
    /// How often it was sent.
    fired: u64,
    /// Ticks that were due since it was sent last and were not sent.
    missed: u64,
    /// What it counts for: the bytes of the command that made it.
    bytes: usize,
    /// What whoever scheduled it may do; nothing if that is everything.
    rights: Option<Rights>,
    /// Whether it survives the process.
    is_durable: bool,
}

/// How far a schedule that survives the process is, as facts tell it.
#[derive(Debug)]
pub(crate) struct ScheduleState {
    pub(crate) timer_id: Text,
    /// What is sent.
    pub(crate) draft: Draft,
    /// When it is due, by its own clock.
    pub(crate) deadline_ns: i64,
    /// The same, if it goes on.
    pub(crate) next_ns: Option<i64>,
    pub(crate) repeat_ms: Option<u64>,
    pub(crate) left: Option<u64>,
    pub(crate) fired: u64,
    pub(crate) bytes: usize,
    pub(crate) rights: Option<Rights>,
}

impl Schedule {
    fn state(&self) -> ScheduleState {
        let is_over = self.repeat_ms.is_none() || self.left == Some(0);
        ScheduleState {
            timer_id: self.timer_id.clone(),
            draft: self.draft.clone(),
            deadline_ns: self.deadline_ns,
            next_ns: (!is_over).then_some(self.deadline_ns),
            repeat_ms: self.repeat_ms,
            left: self.left,
            fired: self.fired,
            bytes: self.bytes,
            rights: self.rights.clone(),
        }
    }

    /// The type of the message that it sends.
    pub(crate) fn type_name(&self) -> &str {
        self.draft.type_name.as_str()
    }

    /// What `Timer.List` tells of it.
    pub(crate) fn describe(&self, now: Now) -> Value {
        let left_ns = self.deadline_ns.saturating_sub(now.mono_ns).max(0);
        json!({
            "timerId": self.timer_id.as_str(),
            "kind": self.draft.kind.as_str(),
            "type": self.draft.type_name.as_str(),
            // Rounded up: never sooner than it says.
            "dueInMs": (left_ns as u64).div_ceil(MS as u64),
            "repeat": self.repeat_ms,
            "left": self.left,
            "fired": self.fired,
            "missed": self.missed,
        })
    }
}

/// What one peer has of the schedules; there while there are any.
#[derive(Debug)]
struct PeerSchedules {
    count: usize,
    bytes: usize,
    /// Where they wait in the User lane when they are due, so that they wait behind themselves
    /// only.
    queue: QueueId,
}

/// A schedule whose time has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) peer: PeerId,
    pub(crate) to: Recipient,
    /// The queue of its peer's schedules.
    pub(crate) queue: QueueId,
    /// Whether it is a tick, of which there will be more.
    pub(crate) repeats: bool,
    /// Whether it is a tick that has not had its place among those of its peer.
    pub(crate) needs_place: bool,
    /// Whether it survives the process, so that each firing is a fact.
    pub(crate) is_durable: bool,
}

/// What became of a schedule whose time has come.
#[derive(Debug)]
pub(crate) struct Fired {
    /// What is to be sent, and for whom; nothing if the tick was missed.
    pub(crate) send: Option<(Envelope, Delegate)>,
    /// What whoever scheduled it may do; nothing if that is everything.
    pub(crate) rights: Option<Rights>,
    /// There was no other.
    pub(crate) gone: Option<GoneSchedule>,
    /// How far it is, if it was sent and survives the process.
    pub(crate) durable: Option<ScheduleState>,
}

/// A schedule that is no more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoneSchedule {
    pub(crate) peer: PeerId,
    /// The queue of its peer's schedules, if this was the last of them.
    pub(crate) queue: Option<QueueId>,
}

/// The bounds on schedules, from [`Limits`].
#[derive(Debug)]
struct ScheduleBounds {
    peer_count: usize,
    peer_bytes: usize,
    count: usize,
    bytes: usize,
}

/// All scheduled messages.
#[derive(Debug)]
pub(crate) struct Schedules {
    slots: Slab<Schedule>,
    /// By peer and timer id, in order.
    by_id: BTreeMap<(PeerId, Box<str>), ScheduleId>,
    by_peer: HashMap<PeerId, PeerSchedules, foldhash::fast::FixedState>,
    /// What all of them count for.
    bytes: usize,
    /// Monotonic time at Unix time 0, as a schedule for an absolute time found it.
    epoch_ns: Option<i128>,
    bounds: ScheduleBounds,
}

impl Schedules {
    pub(crate) fn new(limits: &Limits) -> Schedules {
        let bounds = ScheduleBounds {
            peer_count: limits.peer_timers_max,
            peer_bytes: limits.peer_timer_bytes_max,
            count: limits.timers_max,
            bytes: limits.timer_bytes_max,
        };
        Schedules {
            slots: Slab::new(),
            by_id: BTreeMap::new(),
            by_peer: HashMap::default(),
            bytes: 0,
            epoch_ns: None,
            bounds,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// What all of them count for.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The queue of a peer's schedules, while it has any.
    pub(crate) fn queue_of(&self, peer: PeerId) -> Option<QueueId> {
        self.by_peer.get(&peer).map(|own| own.queue)
    }

    /// Whether a peer may schedule one more, under this name and of so many bytes.
    pub(crate) fn check(&self, peer: PeerId, timer_id: &str, bytes: usize) -> Result<(), Refusal> {
        if self.by_id.contains_key(&(peer, timer_id.into())) {
            return Err(Refusal::new(Failure::Conflict, format!("data.timerId: {timer_id:?} is taken")));
        }
        let own = self.by_peer.get(&peer);
        let (own_count, own_bytes) = own.map_or((0, 0), |own| (own.count, own.bytes));
        let bounds = &self.bounds;
        let refused = |failure: Failure, text: String| Err(Refusal::new(failure, text));
        if own_count >= bounds.peer_count {
            let text = format!("more than {} scheduled messages of one peer", bounds.peer_count);
            return refused(Failure::LimitExceeded, text);
        }
        if own_bytes.saturating_add(bytes) > bounds.peer_bytes {
            let text = format!("more than {} bytes of scheduled messages of one peer", bounds.peer_bytes);
            return refused(Failure::LimitExceeded, text);
        }
        if self.len() >= bounds.count {
            let text = format!("more than {} scheduled messages in all", bounds.count);
            return refused(Failure::Overloaded, text);
        }
        if self.bytes.saturating_add(bytes) > bounds.bytes {
            let text = format!("more than {} bytes of scheduled messages in all", bounds.bytes);
            return refused(Failure::Overloaded, text);
        }
        Ok(())
    }

    /// Adds one that was [checked](Schedules::check). `queue` is that of its peer's schedules.
    pub(crate) fn add(&mut self, new: NewSchedule, queue: QueueId, out: &mut Out) {
        let NewSchedule { timer_id, draft, peer, to, start, repeat_ms, count, bytes, rights, is_durable } =
            new;
        let deadline_ns = match start {
            Start::In(delay_ms) => deadline_after(out.now.mono_ns, ns(delay_ms)),
            Start::At(at_ms) => self.deadline_at(at_ms, out.now),
        };
        let id = ScheduleId(self.slots.vacant_key() as u32);
        let timer = out.wheel.schedule(deadline_ns, Job::Schedule(id));
        self.by_id.insert((peer, timer_id.as_str().into()), id);
        self.bytes += bytes;
        let own = self.by_peer.entry(peer).or_insert(PeerSchedules { count: 0, bytes: 0, queue });
        own.count += 1;
        own.bytes += bytes;
        self.slots.insert(Schedule {
            timer_id: timer_id.as_str().into(),
            draft,
            peer,
            to,
            timer,
            deadline_ns,
            is_held: false,
            repeat_ms,
            left: count.or(if repeat_ms.is_none() { Some(1) } else { None }),
            fired: 0,
            missed: 0,
            bytes,
            rights,
            is_durable,
        });
    }

    /// Adds a schedule of an earlier run, which is due then. What was due meanwhile is due now, and
    /// a repeating one says how much it missed.
    pub(crate) fn restore(
        &mut self,
        (peer, queue): (PeerId, QueueId),
        timer_id: &str,
        restored: &ScheduledMessage,
        deadline_ns: i64,
        out: &mut Out,
    ) {
        let Ok(message) = Envelope::parse(restored.line.as_bytes()) else { return };
        let mut draft = Draft::new(message.kind(), message.type_text(), message.data_json());
        draft.causation = message.causation().map(Text::from);
        draft.correlation = message.correlation_text();
        draft.traceparent = message.traceparent_text();
        draft.timeout_ms = message.timeout_ms();
        let bytes = usize::try_from(restored.bytes).unwrap_or(usize::MAX);
        let id = ScheduleId(self.slots.vacant_key() as u32);
        let timer = out.wheel.schedule(deadline_ns.max(out.now.mono_ns), Job::Schedule(id));
        self.by_id.insert((peer, timer_id.into()), id);
        self.bytes += bytes;
        let own = self.by_peer.entry(peer).or_insert(PeerSchedules { count: 0, bytes: 0, queue });
        own.count += 1;
        own.bytes += bytes;
        let repeat_ms = restored.repeat_ms.filter(|ms| *ms > 0);
        self.slots.insert(Schedule {
            timer_id: timer_id.into(),
            draft,
            peer,
            to: Recipient::Connection(NOBODY),
            timer,
            deadline_ns,
            is_held: false,
            repeat_ms,
            left: restored.left.filter(|left| *left > 0).or(repeat_ms.is_none().then_some(1)),
            fired: restored.fired,
            missed: 0,
            bytes,
            rights: restored.rights.clone(),
            is_durable: true,
        });
    }

    /// How far the schedule of that name is.
    pub(crate) fn state(&self, peer: PeerId, timer_id: &str) -> Option<ScheduleState> {
        let id = self.by_id.get(&(peer, timer_id.into()))?;
        Some(self.slots[id.0 as usize].state())
    }

    /// Whether the schedule of that name survives the process.
    pub(crate) fn is_durable(&self, peer: PeerId, timer_id: &str) -> bool {
        let id = self.by_id.get(&(peer, timer_id.into()));
        id.is_some_and(|id| self.slots[id.0 as usize].is_durable)
    }

    /// The type of the message that a schedule sends.
    pub(crate) fn type_name(&self, peer: PeerId, timer_id: &str) -> Option<&str> {
        let id = self.by_id.get(&(peer, timer_id.into()))?;
        Some(self.slots[id.0 as usize].type_name())
    }

    /// The names of a peer's schedules that survive the process.
    pub(crate) fn durable_names(&self, peer: PeerId) -> Vec<Text> {
        let own = self.after(peer, None).filter(|(_, schedule)| schedule.is_durable);
        own.map(|(name, _)| Text::from(name)).collect()
    }

    /// When it will be `at_ms` by the wall clock. The wall clock tells milliseconds, the monotonic
    /// clock nanoseconds; so that the same time is the same deadline whenever in a millisecond it
    /// is asked for, the latest beginning of that millisecond that was seen counts: never early,
    /// and never before what was asked for earlier. Only when the wall clock was set forward it
    /// begins anew.
    fn deadline_at(&mut self, at_ms: u64, now: Now) -> i64 {
        let seen_ns = i128::from(now.mono_ns) - i128::from(now.unix_ms) * i128::from(MS);
        let same_clock = self.epoch_ns.filter(|epoch_ns| epoch_ns - seen_ns <= i128::from(MS));
        let epoch_ns = same_clock.map_or(seen_ns, |epoch_ns| epoch_ns.max(seen_ns));
        self.epoch_ns = Some(epoch_ns);
        let deadline_ns = epoch_ns + i128::from(at_ms) * i128::from(MS);
        // What is past is due now.
        i64::try_from(deadline_ns).unwrap_or(i64::MAX).max(now.mono_ns)
    }

    /// A schedule whose time has come.
    pub(crate) fn due(&self, id: ScheduleId) -> Option<Due> {
        let schedule = self.slots.get(id.0 as usize)?;
        let queue = self.queue_of(schedule.peer)?;
        let Schedule { peer, to, is_held, is_durable, .. } = *schedule;
        let repeats = schedule.repeat_ms.is_some();
        Some(Due { peer, to, queue, repeats, needs_place: repeats && !is_held, is_durable })
    }

    /// The type of the command that a schedule sends, if it sends one.
    pub(crate) fn command(&self, id: ScheduleId) -> Option<&str> {
        let draft = &self.slots.get(id.0 as usize)?.draft;
        (draft.kind == Kind::Command).then_some(&*draft.type_name)
    }

    /// Keeps a tick until its place comes. Those that are due in the meantime fold into it.
    pub(crate) fn hold_tick(&mut self, id: ScheduleId, place_ns: i64, out: &mut Out) {
        let schedule = &mut self.slots[id.0 as usize];
        schedule.timer = out.wheel.schedule(place_ns, Job::Schedule(id));
        schedule.is_held = true;
    }

    /// Sends a message whose time has come. A tick that is `crowded` out, because it would only
    /// lengthen the queue, is a missed tick; a message that is sent once is sent all the same.
    pub(crate) fn fire(&mut self, id: ScheduleId, crowded: bool, out: &mut Out) -> Fired {
        let Some(repeat_ms) = self.slots[id.0 as usize].repeat_ms else {
            let rights = self.slots[id.0 as usize].rights.clone();
            let send = Some(self.compose(id, 0, out));
            let durable = self.durable_state(id);
            return Fired { send, rights, gone: Some(self.remove(id, out)), durable };
        };
        let schedule = &mut self.slots[id.0 as usize];
        let ticks = mainspring_ticks::fold(schedule.deadline_ns, ns(repeat_ms), out.now.mono_ns);
        let missed = ticks.missed.saturating_add(u64::from(crowded));
        schedule.missed = schedule.missed.saturating_add(missed);
        // What lies beyond the range of time never comes.
        schedule.deadline_ns = ticks.next.unwrap_or(i64::MAX);
        schedule.is_held = false;
        out.counters.timer_ticks_missed += missed;
        let send = if crowded {
            None
        } else {
            let missed = std::mem::take(&mut schedule.missed);
            schedule.left = schedule.left.map(|left| left - 1);
            Some(self.compose(id, missed, out))
        };
        let durable = if send.is_some() { self.durable_state(id) } else { None };
        let schedule = &mut self.slots[id.0 as usize];
        let rights = schedule.rights.clone();
        if schedule.left == Some(0) {
            return Fired { send, rights, gone: Some(self.remove(id, out)), durable };
        }
        schedule.timer = out.wheel.schedule(schedule.deadline_ns, Job::Schedule(id));
        Fired { send, rights, gone: None, durable }
    }

    fn durable_state(&self, id: ScheduleId) -> Option<ScheduleState> {
        let schedule = &self.slots[id.0 as usize];
        schedule.is_durable.then(|| schedule.state())
    }

    /// The message to send now; it says how many ticks it stands for besides its own.
    fn compose(&mut self, id: ScheduleId, missed: u64, out: &mut Out) -> (Envelope, Delegate) {
        out.counters.timers_fired += 1;
        let schedule = &mut self.slots[id.0 as usize];
        schedule.fired += 1;
        let extra = if missed > 0 { format!(",\"missedTicks\":{missed}") } else { String::new() };
        let delegate = Delegate { to: schedule.to, timer_id: Some(schedule.timer_id.clone()) };
        (out.compose_with(&schedule.draft, &extra), delegate)
    }

    /// The scheduled messages of all peers behind this one, in order.
    pub(crate) fn all_after(
        &self,
        after: Option<&(PeerId, Box<str>)>,
    ) -> impl Iterator<Item = (&(PeerId, Box<str>), &Schedule)> {
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone()));
        self.by_id.range((from, Bound::Unbounded)).map(|(name, id)| (name, &self.slots[id.0 as usize]))
    }

    /// Cancels the scheduled message of that name, if the peer has one.
    pub(crate) fn cancel(&mut self, peer: PeerId, timer_id: &str, out: &mut Out) -> Option<GoneSchedule> {
        let id = *self.by_id.get(&(peer, timer_id.into()))?;
        Some(self.remove(id, out))
    }

    /// Cancels the scheduled messages of one peer.
    pub(crate) fn cancel_all_of(&mut self, peer: PeerId, out: &mut Out) -> Vec<GoneSchedule> {
        let own = self.by_id.range((peer, "".into())..).take_while(|((owner, _), _)| *owner == peer);
        let own: Vec<ScheduleId> = own.map(|(_, id)| *id).collect();
        own.into_iter().map(|id| self.remove(id, out)).collect()
    }

    /// Cancels all scheduled messages.
    pub(crate) fn cancel_all(&mut self, out: &mut Out) -> Vec<GoneSchedule> {
        let all: Vec<ScheduleId> = self.by_id.values().copied().collect();
        all.into_iter().map(|id| self.remove(id, out)).collect()
    }

    fn remove(&mut self, id: ScheduleId, out: &mut Out) -> GoneSchedule {
        let schedule = self.slots.remove(id.0 as usize);
        out.wheel.cancel(schedule.timer);
        let peer = schedule.peer;
        self.by_id.remove(&(peer, schedule.timer_id.as_str().into()));
        self.bytes -= schedule.bytes;
        let mut queue = None;
        if let Some(own) = self.by_peer.get_mut(&peer) {
            own.count -= 1;
            own.bytes -= schedule.bytes;
            if own.count == 0 {
                queue = Some(own.queue);
                self.by_peer.remove(&peer);
            }
        }
        GoneSchedule { peer, queue }
    }

    /// The schedules of a peer whose names come after this one, with their names, in order.
    pub(crate) fn after(&self, peer: PeerId, name: Option<&str>) -> impl Iterator<Item = (&str, &Schedule)> {
        let start = match name {
            Some(name) => Bound::Excluded((peer, name.into())),
            None => Bound::Included((peer, "".into())),
        };
        let rest = self.by_id.range((start, Bound::Unbounded));
        rest.take_while(move |((owner, _), _)| *owner == peer)
            .map(|((_, name), id)| (&**name, &self.slots[id.0 as usize]))
    }

    /// What each peer has: how many, and what they count for.
    pub(crate) fn by_peer(&self) -> impl Iterator<Item = (PeerId, usize, usize)> {
        self.by_peer.iter().map(|(peer, own)| (*peer, own.count, own.bytes))
    }
}
