//! The one place where a guest waits: its handle of `sys/loop@v1`, and who waits for what.
//!
//! Watches are level-triggered, so a watch that nobody waits for must not stay installed once it
//! has fired: the next POLL would return at once, for ever. But taking it away after each event and
//! installing it again costs two requests per read. So a watch is left where it is, and removed
//! only if it fired and, when the guest next parks, nobody waits for it again. What is to be
//! installed and removed travels in the same write as the POLL: parking is two calls of the host,
//! whatever changed.
//!
//! Timers are kept on this side, ordered by deadline. The host knows one, the earliest, which is
//! moved only to be earlier.

use crate::zi::{self, ErrorCode, RawHandle};
use mainspring_zcl::sys_loop::{
    Event, OP_POLL, OP_TIMER_ARM, OP_WATCH, Poll, PollResponse, Readiness, TIMEOUT_FOREVER, TimerArm,
    TimerCancel, Unwatch, Watch,
};
use mainspring_zcl::{ErrorPayload, Frame, HEADER_BYTES, STATUS_OK};
use slab::Slab;
use std::collections::BTreeMap;
use std::task::Waker;

/// How many events one POLL may bring.
pub(crate) const EVENTS_PER_POLL_MAX: u32 = 64;
/// How many bytes of requests are written before their answers are read.
const REQUEST_BYTES_MAX: usize = 8 * 1024;
/// Room for the answers to that, and for a POLL's events.
const RESPONSE_BYTES_MAX: usize = 8 * 1024;

/// Deadlines beyond what a host can tell, some 292 years, never come.
const DEADLINE_NS_MAX: u64 = i64::MAX as u64;

/// Which watch: a slot and how often it was given away before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchKey {
    slot: u32,
    generation: u32,
}

impl WatchKey {
    /// The id on the wire; never zero.
    fn id(self) -> u64 {
        (u64::from(self.generation) << 32) | (u64::from(self.slot) + 1)
    }

    fn from_id(id: u64) -> Option<WatchKey> {
        let slot = (id as u32).checked_sub(1)?;
        Some(WatchKey { slot, generation: (id >> 32) as u32 })
    }
}

/// What is wanted of one handle in one direction.
#[derive(Debug)]
struct Interest {
    handle: RawHandle,
    events: Readiness,
    generation: u32,
    /// The host has it, or will before the next POLL.
    installed: bool,
    /// It is in the list of changes.
    changed: bool,
    /// What it was last reported for.
    seen: Readiness,
    /// Why the host refused it.
    refused: Option<ErrorCode>,
    waiting: Vec<Waker>,
}

/// A timer: its deadline, and a number that keeps those of the same deadline in order.
pub(crate) type TimerKey = (u64, u64);

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Look, and return at once.
    Not,
    /// Until something happens.
    Forever,
}

/// Everything this guest waits for.
#[derive(Debug, Default)]
pub(crate) struct Driver {
    /// The loop handle, once something was waited for.
    handle: Option<RawHandle>,
    interests: Slab<Interest>,
    /// Generations of freed slots continue from here.
    generation: u32,
    /// Watches to look at before the next POLL.
    changes: Vec<WatchKey>,
    timers: BTreeMap<TimerKey, Waker>,
    timer_sequence: u64,
    /// The id and deadline of the timer that the host has.
    armed: Option<(u64, u64)>,
    armed_sequence: u64,
    requests: Vec<u8>,
    responses: Vec<u8>,
    /// How much of `responses` has been read and not handled.
    responses_length: usize,
    /// Who is to be woken once nothing here is borrowed.
    woken: Vec<Waker>,
    interrupted: bool,
    interruption_waiting: Vec<Waker>,
}

impl Driver {
    /// Makes room for the watch of a handle. Nothing is asked of the host before someone waits.
    pub(crate) fn add_interest(&mut self, handle: RawHandle, events: Readiness) -> WatchKey {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let interest = Interest {
            handle,
            events,
            generation,
            installed: false,
            changed: false,
            seen: Readiness::NONE,
            refused: None,
            waiting: Vec::new(),
        };
        WatchKey { slot: self.interests.insert(interest) as u32, generation }
    }

    /// Forgets a watch. If the handle is about to be closed, that ends what the host has of it.
    pub(crate) fn remove_interest(&mut self, key: WatchKey, closing: bool) {
        let Some(interest) = self.interest(key) else { return };
        if interest.installed && !closing {
            self.requests.extend(Unwatch { watch_id: key.id() }.to_frame(0));
        }
        self.interests.remove(key.slot as usize);
    }

    fn interest(&mut self, key: WatchKey) -> Option<&mut Interest> {
        self.interests.get_mut(key.slot as usize).filter(|interest| interest.generation == key.generation)
    }

    /// Wakes `waker` when the watch fires.
    ///
    /// # Errors
    ///
    /// Why the host refused the watch.
    pub(crate) fn wait_ready(&mut self, key: WatchKey, waker: &Waker) -> Result<(), ErrorCode> {
        let Some(interest) = self.interest(key) else { return Err(ErrorCode::Closed) };
        if let Some(code) = interest.refused.take() {
            return Err(code);
        }
        if !interest.waiting.iter().any(|other| other.will_wake(waker)) {
            interest.waiting.push(waker.clone());
        }
        if !interest.installed && !interest.changed {
            interest.changed = true;
            self.changes.push(key);
        }
        Ok(())
    }

    /// What the watch was reported for since this was last asked.
    pub(crate) fn take_seen(&mut self, key: WatchKey) -> Readiness {
        self.interest(key).map_or(Readiness::NONE, |interest| std::mem::take(&mut interest.seen))
    }

    /// Wakes `waker` at a deadline.
    pub(crate) fn add_timer(&mut self, deadline_ns: u64, waker: &Waker) -> TimerKey {
        self.timer_sequence += 1;
        let key = (deadline_ns, self.timer_sequence);
        self.timers.insert(key, waker.clone());
        key
    }

    /// Replaces who is woken. False if the timer has fired.
    pub(crate) fn renew_timer(&mut self, key: TimerKey, waker: &Waker) -> bool {
        let Some(kept) = self.timers.get_mut(&key) else { return false };
        kept.clone_from(waker);
        true
    }

    pub(crate) fn remove_timer(&mut self, key: TimerKey) {
        self.timers.remove(&key);
    }

    /// Whether the host has asked this guest to finish; if not, wakes `waker` when it does.
    pub(crate) fn wait_interrupted(&mut self, waker: &Waker) -> bool {
        if !self.interrupted && !self.interruption_waiting.iter().any(|other| other.will_wake(waker)) {
            self.interruption_waiting.push(waker.clone());
        }
        self.interrupted
    }

    /// Takes those who are to be woken.
    pub(crate) fn take_woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.woken)
    }

    /// Gives the list back, so that its memory is used again.
    pub(crate) fn keep_list(&mut self, list: Vec<Waker>) {
        if self.woken.is_empty() {
            self.woken = list;
        }
    }

    /// Whether any event can come at all.
    pub(crate) fn has_sources(&self) -> bool {
        !self.interests.is_empty() || !self.timers.is_empty()
    }

    /// One POLL: tells the host what changed, waits, and lists whoever waited for what happened
    /// (see [`Driver::take_woken`]).
    ///
    /// # Errors
    ///
    /// What is wrong with the loop handle: without it, nothing can be waited for.
    pub(crate) fn poll(&mut self, wait: Wait) -> Result<(), ParkError> {
        let handle = self.open()?;
        self.write_changes(handle)?;
        self.write_timer();
        let timeout_ms = if wait == Wait::Not { 0 } else { TIMEOUT_FOREVER };
        self.requests.extend(Poll { max_events: EVENTS_PER_POLL_MAX, timeout_ms }.to_frame(0));
        self.flush(handle)?;
        let events = self.read_events(handle)?;
        if events == 0 && wait == Wait::Forever {
            self.interrupt();
        }
        Ok(())
    }

    fn open(&mut self) -> Result<RawHandle, ParkError> {
        if let Some(handle) = self.handle {
            return Ok(handle);
        }
        let handle = zi::open("sys", "loop", &[]).map_err(ParkError::Open)?;
        self.handle = Some(handle);
        Ok(handle)
    }

    fn write_changes(&mut self, handle: RawHandle) -> Result<(), ParkError> {
        let mut changes = std::mem::take(&mut self.changes);
        for key in changes.drain(..) {
            let Some(interest) = self.interest(key) else { continue };
            interest.changed = false;
            let wanted = !interest.waiting.is_empty();
            if wanted == interest.installed {
                continue;
            }
            interest.installed = wanted;
            let (watched, events) = (interest.handle as u32, interest.events);
            let rid = key.slot + 1;
            if wanted {
                let watch = Watch { handle: watched, events, watch_id: key.id() };
                self.requests.extend(watch.to_frame(rid));
            } else {
                self.requests.extend(Unwatch { watch_id: key.id() }.to_frame(0));
            }
            if self.requests.len() + Watch::FRAME_BYTES > REQUEST_BYTES_MAX {
                self.flush(handle)?;
                self.read_acknowledgements(handle)?;
            }
        }
        self.changes = changes;
        Ok(())
    }

    /// Moves the host's timer if the earliest deadline is before it.
    fn write_timer(&mut self) {
        let Some((&(deadline_ns, _), _)) = self.timers.first_key_value() else { return };
        if deadline_ns > DEADLINE_NS_MAX {
            return;
        }
        if let Some((timer_id, armed_ns)) = self.armed {
            if armed_ns <= deadline_ns {
                return;
            }
            self.requests.extend(TimerCancel { timer_id }.to_frame(0));
        }
        self.armed_sequence += 1;
        let timer_id = self.armed_sequence;
        let timer = TimerArm { timer_id, due_mono_ns: deadline_ns, interval_ns: 0, relative: false };
        self.requests.extend(timer.to_frame(0));
        self.armed = Some((timer_id, deadline_ns));
    }

    /// Writes all requests. A host whose buffer is full says AGAIN; reading the answers makes room.
    fn flush(&mut self, handle: RawHandle) -> Result<(), ParkError> {
        let requests = std::mem::take(&mut self.requests);
        let mut written = 0;
        while written < requests.len() {
            match zi::write(handle, &requests[written..]) {
                Ok(0) => return Err(ParkError::Protocol("a write to the loop took nothing")),
                Ok(count) => written += count,
                Err(ErrorCode::Again) => self.read_acknowledgements(handle)?,
                Err(code) => return Err(ParkError::Call(code)),
            }
        }
        self.requests = requests;
        self.requests.clear();
        Ok(())
    }

    /// Reads answers until there is none.
    fn read_acknowledgements(&mut self, handle: RawHandle) -> Result<(), ParkError> {
        while self.read_more(handle)? {
            self.take_responses()?;
        }
        Ok(())
    }

    /// Reads answers up to that of the POLL, and returns how many events it brought.
    fn read_events(&mut self, handle: RawHandle) -> Result<usize, ParkError> {
        loop {
            if let Some(events) = self.take_responses()? {
                return Ok(events);
            }
            if !self.read_more(handle)? {
                return Err(ParkError::Protocol("the loop did not answer a POLL"));
            }
        }
    }

    fn read_more(&mut self, handle: RawHandle) -> Result<bool, ParkError> {
        self.responses.resize(RESPONSE_BYTES_MAX, 0);
        match zi::read(handle, &mut self.responses[self.responses_length..]) {
            Ok(0) => Err(ParkError::Protocol("the loop handle is at its end")),
            Ok(count) => {
                self.responses_length += count;
                Ok(true)
            }
            Err(ErrorCode::Again) => Ok(false),
            Err(code) => Err(ParkError::Call(code)),
        }
    }

    /// Handles the complete answers that have been read; how many events there were if a POLL's was
    /// among them.
    fn take_responses(&mut self) -> Result<Option<usize>, ParkError> {
        let mut responses = std::mem::take(&mut self.responses);
        let mut rest = &responses[..self.responses_length];
        let mut polled = None;
        while let Some((frame, after)) =
            Frame::decode(rest).map_err(|_| ParkError::Protocol("the loop sent what is not a frame"))?
        {
            rest = after;
            if frame.op == OP_POLL {
                polled = Some(self.take_poll(&frame)?);
            } else if frame.status != STATUS_OK {
                self.take_refusal(&frame);
            }
        }
        let left = rest.len();
        responses.copy_within(self.responses_length - left..self.responses_length, 0);
        self.responses_length = left;
        self.responses = responses;
        Ok(polled)
    }

    fn take_poll(&mut self, frame: &Frame<'_>) -> Result<usize, ParkError> {
        let malformed = || ParkError::Protocol("the loop's answer to a POLL is malformed");
        if frame.status != STATUS_OK {
            return Err(malformed());
        }
        let response = PollResponse::decode(frame.payload).map_err(|_| malformed())?;
        for event in response.events() {
            match event.map_err(|_| malformed())? {
                Event::Ready { watch_id, events, .. } => self.fire_watch(watch_id, events),
                Event::Timer { timer_id, now_mono_ns } => self.fire_timer(timer_id, now_mono_ns),
            }
        }
        Ok(response.len())
    }

    fn fire_watch(&mut self, id: u64, events: Readiness) {
        let Some(key) = WatchKey::from_id(id) else { return };
        let Some(interest) = self.interest(key) else { return };
        interest.seen |= events;
        let mut waiting = std::mem::take(&mut interest.waiting);
        // If nobody waits again before the next POLL, the watch has to go.
        let newly_changed = !std::mem::replace(&mut interest.changed, true);
        self.woken.append(&mut waiting);
        if let Some(interest) = self.interest(key) {
            interest.waiting = waiting;
        }
        if newly_changed {
            self.changes.push(key);
        }
    }

    fn fire_timer(&mut self, timer_id: u64, now_ns: u64) {
        if self.armed.is_some_and(|(armed, _)| armed == timer_id) {
            self.armed = None;
        }
        let later = self.timers.split_off(&(now_ns, u64::MAX));
        let due = std::mem::replace(&mut self.timers, later);
        self.woken.extend(due.into_values());
    }

    /// A watch was refused: whoever waits for it gets to know. A refused timer is asked for again.
    /// Refusals of UNWATCH and TIMER_CANCEL mean that the handle was closed or the timer fired in
    /// the meantime.
    fn take_refusal(&mut self, frame: &Frame<'_>) {
        match frame.op {
            OP_WATCH => {}
            OP_TIMER_ARM => return self.armed = None,
            _ => return,
        }
        let Some(slot) = frame.rid.checked_sub(1) else { return };
        let Some(interest) = self.interests.get_mut(slot as usize) else { return };
        let full =
            ErrorPayload::decode(frame.payload).is_ok_and(|error| error.message.starts_with("too many"));
        interest.refused = Some(if full { ErrorCode::OutOfMemory } else { ErrorCode::NoSys });
        interest.installed = false;
        self.woken.append(&mut interest.waiting);
    }

    /// A POLL without end that brings nothing is the host's way to say that it shuts down.
    fn interrupt(&mut self) {
        self.interrupted = true;
        self.woken.append(&mut self.interruption_waiting);
    }
}

/// Why a guest cannot wait.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParkError {
    #[error("this host has no sys/loop@v1 ({0}), and a guest can wait for nothing without it")]
    Open(ErrorCode),
    #[error("the loop handle failed: {0}")]
    Call(ErrorCode),
    #[error("{0}")]
    Protocol(&'static str),
}

/// The header and the largest answer fit; checked here so that the constants cannot drift apart.
const _: () =
    assert!(PollResponse::frame_bytes(EVENTS_PER_POLL_MAX as usize) + HEADER_BYTES <= RESPONSE_BYTES_MAX);
