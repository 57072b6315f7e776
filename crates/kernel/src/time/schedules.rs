//! Messages for later: `Timer.Schedule`, `Timer.Cancel`, `Timer.List`.

use crate::api::ids::Now;
use crate::builtins::{Answer, Caller, Slice, Whole, append, read};
use crate::flow::ingest::{Applicant, Refusal, is_reserved};
use crate::flow::lanes::{Item, Sender};
use crate::flow::work;
use crate::kernel::{Job, Kernel, MS, ns};
use crate::requests::{Delegate, Origin, Recipient};
use crate::time::wheel::{TimerKey, deadline_after};
use mainspring_message::{Draft, Envelope, Failure, Json, Kind, Parts, Text};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use slab::Slab;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Nanoseconds in a second.
const SECOND: i64 = 1_000 * MS;

/// A scheduled message.
#[derive(Debug)]
pub(crate) struct Schedule {
    timer_id: Text,
    /// What is sent; its id is fresh each time.
    draft: Draft,
    peer: u32,
    to: Recipient,
    timer: TimerKey,
    /// When it is due, by its own clock.
    deadline_ns: i64,
    /// Whether it is due already and waits for its place among the ticks of its peer.
    is_held: bool,
    repeat_ms: Option<u64>,
    /// How often it may still be sent.
    left: Option<u64>,
    fired: u64,
    /// Ticks that were due since it was sent last and were not sent.
    missed: u64,
    /// What it counts for: the bytes of the command that made it.
    bytes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Schedules {
    slots: Slab<Schedule>,
    /// By peer and timer id, in order.
    by_id: BTreeMap<(u32, Box<str>), u32>,
    bytes: usize,
    /// Monotonic time at Unix time 0, as a schedule for an absolute time found it.
    epoch_ns: Option<i128>,
}

impl Schedules {
    /// When it will be `at_ms` by the wall clock. The wall clock tells milliseconds, the monotonic clock nanoseconds; so
    /// that the same time is the same deadline whenever in a millisecond it is asked for, the latest beginning of that
    /// millisecond that was seen counts: never early, and never before what was asked for earlier. Only when the wall
    /// clock was set forward it begins anew.
    fn deadline_at(&mut self, at_ms: u64, now: Now) -> i64 {
        let seen_ns = i128::from(now.mono_ns) - i128::from(now.unix_ms) * i128::from(MS);
        let same_clock = self.epoch_ns.filter(|epoch_ns| epoch_ns - seen_ns <= i128::from(MS));
        let epoch_ns = same_clock.map_or(seen_ns, |epoch_ns| epoch_ns.max(seen_ns));
        self.epoch_ns = Some(epoch_ns);
        let deadline_ns = epoch_ns + i128::from(at_ms) * i128::from(MS);
        // What is past is due now.
        i64::try_from(deadline_ns).unwrap_or(i64::MAX).max(now.mono_ns)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The scheduled messages of a peer, as far as they were listed.
#[derive(Debug)]
pub(crate) struct ListTimers {
    peer: u32,
    /// The last one in the list.
    after: Option<Box<str>>,
    text: String,
}

impl ListTimers {
    pub(crate) fn of(peer: u32) -> ListTimers {
        ListTimers { peer, after: None, text: String::new() }
    }

    /// Works for a slice; the answer when it is done.
    pub(crate) fn step(&mut self, kernel: &Kernel, slice: &mut Slice, now: Now) -> Option<Answer> {
        let start = match self.after.take() {
            Some(after) => Bound::Excluded((self.peer, after)),
            None => Bound::Included((self.peer, "".into())),
        };
        let rest = kernel.schedules.by_id.range((start, Bound::Unbounded));
        for ((_, timer_id), slot) in rest.take_while(|((peer, _), _)| *peer == self.peer) {
            let schedule = &kernel.schedules.slots[*slot as usize];
            let left_ns = schedule.deadline_ns.saturating_sub(now.mono_ns).max(0);
            let item = json!({
                "timerId": schedule.timer_id.as_str(),
                "kind": schedule.draft.kind.as_str(),
                "type": schedule.draft.type_name.as_str(),
                // Rounded up: never sooner than it says.
                "dueInMs": (left_ns as u64).div_ceil(MS as u64),
                "repeat": schedule.repeat_ms,
                "left": schedule.left,
                "fired": schedule.fired,
                "missed": schedule.missed,
            });
            append(&mut self.text, &item);
            slice.spend(work::ITEM);
            if slice.is_over() {
                self.after = Some(timer_id.clone());
                return None;
            }
        }
        Some(Ok(format!("{{\"timers\":[{}]}}", self.text)))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScheduleData<'a> {
    delay: Option<Whole>,
    at: Option<Whole>,
    repeat: Option<Whole>,
    count: Option<Whole>,
    timer_id: Option<String>,
    #[serde(borrow)]
    message: Inner<'a>,
}

#[derive(Deserialize)]
struct Inner<'a> {
    kind: String,
    #[serde(rename = "type")]
    type_name: String,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(default)]
    metadata: InnerMetadata,
}

/// Of the inner metadata only these count: the loop makes the id and the timestamp.
#[derive(Default, Deserialize)]
struct InnerMetadata {
    correlation: Option<String>,
    timeout: Option<Whole>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CancelData {
    timer_id: String,
}

fn wrong(text: impl Into<String>) -> Refusal {
    Refusal::new(Failure::Schema, text)
}

impl Kernel {
    pub(crate) fn timer_schedule(&mut self, request: &Envelope, caller: Caller, now: Now) -> Answer {
        if self.is_ending() {
            return Err(Refusal::new(Failure::ShuttingDown, "the loop is shutting down"));
        }
        let data: ScheduleData<'_> = read(request)?;
        let (repeat_ms, count) = (data.repeat.map(|Whole(ms)| ms), data.count.map(|Whole(count)| count));
        let (delay_ms, at_ms) = match (data.delay, data.at) {
            (Some(Whole(delay)), None) => (delay, None),
            (None, Some(Whole(at))) => (0, Some(at)),
            // A schedule that only repeats starts one period from now.
            (None, None) => (repeat_ms.ok_or_else(|| wrong("data: needs delay, at or repeat"))?, None),
            (Some(_), Some(_)) => return Err(wrong("data: delay and at exclude each other")),
        };
        if repeat_ms == Some(0) || count == Some(0) {
            return Err(wrong("data: repeat and count must be at least 1"));
        }
        if count.is_some() && repeat_ms.is_none() {
            return Err(wrong("data.count: says how often to repeat, so it needs data.repeat"));
        }
        let draft = self.inner_draft(request, &data.message, now)?;
        let timer_id = match data.timer_id {
            Some(id) if id.is_empty() || id.len() > 256 => {
                return Err(wrong("data.timerId: must be 1 to 256 bytes long"));
            }
            Some(id) => id,
            None => self.fresh_ids.make().to_owned(),
        };
        if self.schedules.by_id.contains_key(&(caller.peer, timer_id.as_str().into())) {
            return Err(Refusal::new(Failure::Conflict, format!("data.timerId: {timer_id:?} is taken")));
        }
        let bytes = request.line().len();
        self.check_schedule_limits(caller.peer, bytes)?;
        let deadline_ns = match at_ms {
            Some(at_ms) => self.schedules.deadline_at(at_ms, now),
            None => deadline_after(now.mono_ns, ns(delay_ms)),
        };
        let slot = self.schedules.slots.vacant_key() as u32;
        let timer = self.wheel.schedule(deadline_ns, Job::Schedule(slot));
        self.schedules.by_id.insert((caller.peer, timer_id.as_str().into()), slot);
        self.schedules.bytes += bytes;
        let peer = self.peers.get_mut(caller.peer);
        peer.timers += 1;
        peer.timer_bytes += bytes;
        peer.timer_queue.get_or_insert_with(|| self.lanes.open(Sender::Loop));
        self.schedules.slots.insert(Schedule {
            timer_id: timer_id.as_str().into(),
            draft,
            peer: caller.peer,
            to: caller.recipient,
            timer,
            deadline_ns,
            is_held: false,
            repeat_ms,
            left: count.or(if repeat_ms.is_none() { Some(1) } else { None }),
            fired: 0,
            missed: 0,
            bytes,
        });
        Ok(json!({ "timerId": timer_id }).to_string())
    }

    fn check_schedule_limits(&self, peer: u32, bytes: usize) -> Result<(), Refusal> {
        let (limits, own) = (&self.config.limits, self.peers.get(peer));
        if own.timers >= limits.peer_timers_max {
            let text = format!("more than {} scheduled messages of one peer", limits.peer_timers_max);
            return Err(Refusal::new(Failure::LimitExceeded, text));
        }
        if own.timer_bytes.saturating_add(bytes) > limits.peer_timer_bytes_max {
            let text =
                format!("more than {} bytes of scheduled messages of one peer", limits.peer_timer_bytes_max);
            return Err(Refusal::new(Failure::LimitExceeded, text));
        }
        if self.schedules.len() >= limits.timers_max {
            let text = format!("more than {} scheduled messages in all", limits.timers_max);
            return Err(Refusal::new(Failure::Overloaded, text));
        }
        if self.schedules.bytes.saturating_add(bytes) > limits.timer_bytes_max {
            let text = format!("more than {} bytes of scheduled messages in all", limits.timer_bytes_max);
            return Err(Refusal::new(Failure::Overloaded, text));
        }
        Ok(())
    }

    /// Checks the message to be sent as if it were sent now, so that mistakes show while somebody listens.
    fn inner_draft(&mut self, request: &Envelope, inner: &Inner<'_>, now: Now) -> Result<Draft, Refusal> {
        let kind = Kind::from_wire(&inner.kind)
            .filter(|kind| !kind.is_outcome())
            .ok_or_else(|| wrong("data.message.kind: must be command, query or event"))?;
        let data =
            Json::parse(inner.data.get()).map_err(|error| wrong(format!("data.message.data: {error}")))?;
        let mut draft = Draft::caused_by(request, kind, inner.type_name.as_str(), data);
        if let Some(correlation) = &inner.metadata.correlation {
            draft.correlation = Some(correlation.as_str().into());
        }
        draft.timeout_ms = inner.metadata.timeout.map(|Whole(ms)| ms);
        draft.check().map_err(|(field, reason)| wrong(format!("data.message.{field}: {reason}")))?;
        if is_reserved(&inner.type_name) {
            return Err(Refusal::new(
                Failure::Forbidden,
                format!("data.message.type: {} cannot be scheduled", inner.type_name),
            ));
        }
        if draft.timeout_ms.is_some_and(|timeout_ms| timeout_ms > self.config.timeout_ms_max) {
            return Err(wrong("data.message.metadata.timeout: is above the limit"));
        }
        if kind.is_request() {
            let sample = self.compose(&draft, now);
            self.route_request(&sample)
                .map_err(|refusal| Refusal { text: format!("data.message: {}", refusal.text), ..refusal })?;
        }
        Ok(draft)
    }

    pub(crate) fn timer_cancel(&mut self, request: &Envelope, caller: Caller) -> Answer {
        let data: CancelData = read(request)?;
        let slot = self.schedules.by_id.get(&(caller.peer, data.timer_id.into())).copied();
        if let Some(slot) = slot {
            self.remove_schedule(slot);
        }
        Ok(json!({ "cancelled": slot.is_some() }).to_string())
    }

    /// A scheduled message is due: it is sent as if it had come in, with a fresh id.
    pub(crate) fn fire_schedule(&mut self, slot: u32, now: Now) {
        let schedule = &self.schedules.slots[slot as usize];
        let (peer, repeat_ms, is_held) = (schedule.peer, schedule.repeat_ms, schedule.is_held);
        if let (Some(_), false) = (repeat_ms, is_held)
            && let Some(place_ns) = self.place_of_tick(peer, now)
        {
            return self.hold_tick(slot, place_ns);
        }
        // Each peer's schedules have a queue of their own, so that they wait behind themselves only.
        let queue = self.peers.get(peer).timer_queue.unwrap_or(self.loop_queue);
        // Nor is there a point in more for a client that has not read what it has.
        let to = self.schedules.slots[slot as usize].to;
        let unread = matches!(to, Recipient::Connection(connection) if self.is_full(connection));
        let crowded = unread || self.lanes.queue(queue).len() >= self.config.limits.lane_messages_max;
        match repeat_ms {
            Some(repeat_ms) => self.tick(slot, repeat_ms, queue, crowded, now),
            None => {
                self.send_scheduled(slot, queue, 0, now);
                self.remove_schedule(slot);
            }
        }
    }

    /// When a tick of this peer may be sent, if not now: by then the ticks before it have had their places.
    fn place_of_tick(&mut self, peer: u32, now: Now) -> Option<i64> {
        let rate = i64::try_from(self.config.limits.peer_ticks_per_second).unwrap_or(i64::MAX).max(1);
        let own = self.peers.get_mut(peer);
        let ahead_ns = own.ticks_until_ns.saturating_sub(now.mono_ns).max(0);
        own.ticks_until_ns = now.mono_ns.saturating_add(ahead_ns).saturating_add(SECOND / rate);
        // A second's worth may come at once.
        (ahead_ns >= SECOND).then(|| now.mono_ns.saturating_add(ahead_ns - SECOND + SECOND / rate))
    }

    /// Keeps a tick until its place comes. Those that are due in the meantime fold into it.
    fn hold_tick(&mut self, slot: u32, place_ns: i64) {
        let timer = self.wheel.schedule(place_ns, Job::Schedule(slot));
        let schedule = &mut self.schedules.slots[slot as usize];
        schedule.timer = timer;
        schedule.is_held = true;
    }

    /// One tick of a repeating schedule, and the next at a fixed rate from the first. Ticks that are already past fold into
    /// this one, which says how many.
    fn tick(&mut self, slot: u32, repeat_ms: u64, queue: u32, crowded: bool, now: Now) {
        let period_ns = ns(repeat_ms);
        let schedule = &mut self.schedules.slots[slot as usize];
        let late_ns = now.mono_ns.saturating_sub(schedule.deadline_ns).max(0);
        let past = late_ns / period_ns;
        // A tick that would only lengthen the queue is a missed tick.
        let missed = past as u64 + u64::from(crowded);
        schedule.missed = schedule.missed.saturating_add(missed);
        schedule.deadline_ns =
            schedule.deadline_ns.saturating_add(period_ns.saturating_mul(past.saturating_add(1)));
        schedule.is_held = false;
        self.counters.timer_ticks_missed += missed;
        if !crowded {
            let missed = std::mem::take(&mut schedule.missed);
            schedule.left = schedule.left.map(|left| left - 1);
            self.send_scheduled(slot, queue, missed, now);
        }
        let schedule = &self.schedules.slots[slot as usize];
        if schedule.left == Some(0) {
            return self.remove_schedule(slot);
        }
        let timer = self.wheel.schedule(schedule.deadline_ns, Job::Schedule(slot));
        self.schedules.slots[slot as usize].timer = timer;
    }

    fn send_scheduled(&mut self, slot: u32, queue: u32, missed: u64, now: Now) {
        self.counters.timers_fired += 1;
        let schedule = &mut self.schedules.slots[slot as usize];
        schedule.fired += 1;
        let (draft, peer, to) = (schedule.draft.clone(), schedule.peer, schedule.to);
        let timer_id = schedule.timer_id.clone();
        let id = self.fresh_ids.make();
        let extra = if missed > 0 { format!(",\"missedTicks\":{missed}") } else { String::new() };
        let parts = Parts { extra: &extra, ..draft.parts(id, now.unix_ms) };
        let message = parts.compose(&mut self.scratch);
        self.send_for(message, peer, queue, Delegate { to, timer_id: Some(timer_id) }, now);
    }

    /// Sends a message on behalf of somebody, from a queue of the loop's: a schedule, or a dead letter put back.
    ///
    /// What is refused ends in an error all the same, because whoever asked for it was told that it would be sent.
    pub(crate) fn send_for(
        &mut self,
        message: Envelope,
        peer: u32,
        queue: u32,
        delegate: Delegate,
        now: Now,
    ) {
        let sent = if message.kind() == Kind::Event {
            self.check_lane(queue).map(|()| {
                self.counters.events_accepted += 1;
                self.enqueue(queue, Item::Event(message.clone()), message.line().len());
            })
        } else {
            let origin = Origin::Delegate(Box::new(delegate.clone()));
            let applicant = Applicant { message: &message, origin, peer, queue, cause: None };
            self.admit(applicant, now).map(|_| ())
        };
        if let Err(refusal) = sent {
            self.counters.refused += 1;
            let answer = self.failure(&message, refusal.failure, &refusal.text, refusal.started, now);
            self.deliver_delegated(peer, &delegate, &message, 0, answer, now);
        }
    }

    fn remove_schedule(&mut self, slot: u32) {
        let schedule = self.schedules.slots.remove(slot as usize);
        self.wheel.cancel(schedule.timer);
        self.schedules.by_id.remove(&(schedule.peer, schedule.timer_id.as_str().into()));
        self.schedules.bytes -= schedule.bytes;
        let peer = self.peers.get_mut(schedule.peer);
        peer.timers -= 1;
        peer.timer_bytes -= schedule.bytes;
        if peer.timers == 0
            && let Some(queue) = peer.timer_queue.take()
        {
            self.lanes.close(queue);
        }
        self.peers.release(schedule.peer);
    }

    /// Cancels the scheduled messages of one peer; returns how many there were.
    pub(crate) fn cancel_schedules_of(&mut self, peer: u32) -> usize {
        let own =
            self.schedules.by_id.range((peer, "".into())..).take_while(|((owner, _), _)| *owner == peer);
        let own: Vec<u32> = own.map(|(_, slot)| *slot).collect();
        for slot in &own {
            self.remove_schedule(*slot);
        }
        own.len()
    }

    pub(crate) fn cancel_all_schedules(&mut self) {
        let all: Vec<u32> = self.schedules.by_id.values().copied().collect();
        for slot in all {
            self.remove_schedule(slot);
        }
    }
}
