//! `sys/loop@v1`: the one place where a guest waits.
//!
//! Requests are carried out as they are written. `POLL` alone suspends the guest: `zi_write` takes
//! the bytes up to and including the `POLL` frame, and comes back once its response can be read.

mod timers;
mod wait;
mod watches;

pub(crate) use wait::{next_turn, poll};

use crate::capabilities::{Capability, CapabilityId, Opened, Opening};
use crate::framing::requests::{Inbox, Input};
use crate::framing::responses::{Outbox, RESPONSE_BYTES_DEFAULT};
use crate::guest::context::GuestContext;
use crate::guest::stats::{count, uncount};
use crate::handles::resource::Resource;
use crate::handles::table::HandleEntry;
use crate::limits::Limit;
use mainspring_reactor::Instant;
use mainspring_zcl::Frame;
use mainspring_zcl::abi::{ErrorCode, cap_flags, handle_flags};
use mainspring_zcl::sys_loop::{self as wire, Event, Poll, PollResponse, TimerArm, Watch};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use timers::{ArmError, Timers};
use watches::Watches;

/// Most events that one `POLL` returns, whatever it asks for.
pub const EVENTS_PER_POLL_MAX: usize = 1024;

/// The capability.
pub(crate) struct SysLoop;

impl Capability for SysLoop {
    const ID: CapabilityId = CapabilityId::new("sys", "loop", 1);
    const FLAGS: u32 = cap_flags::CAN_OPEN | cap_flags::MAY_BLOCK;
    type Config = ();
    type State = ();

    fn open(&self, opening: Opening<'_, '_>) -> Result<Opened, ErrorCode> {
        opening.no_params()?;
        Ok(Opened(HandleEntry::Loop(Loop::new())))
    }
}

/// An open loop handle.
pub(crate) struct Loop {
    inbox: RefCell<Inbox>,
    outbox: RefCell<Outbox>,
    watches: RefCell<Watches>,
    timers: RefCell<Timers>,
    /// The guest's task, while it waits in a poll of this handle.
    poller: Cell<Option<Waker>>,
    /// Whether the next event should be a timer's, if both kinds are pending.
    timers_next: Cell<bool>,
    /// Whether a watch was added whose readiness the kernel has not been asked about yet.
    fresh: Cell<bool>,
    /// Polls that returned without a turn of the reactor in between.
    immediate: Cell<u32>,
}

/// How far a write came.
pub(crate) enum Written {
    /// Everything that could be done at once has been. The guest is told this.
    Done(Result<usize, ErrorCode>),
    /// A poll is next: `taken` bytes up to and including its frame.
    Poll { taken: usize, rid: u32, poll: Poll },
}

impl Loop {
    fn new() -> Rc<Loop> {
        Rc::new(Loop {
            inbox: RefCell::new(Inbox::new(wire::REQUEST_PAYLOAD_BYTES_MAX, |header| {
                wire::Request::check_header(header).map_err(wire::BadRequest::message)
            })),
            outbox: RefCell::default(),
            watches: RefCell::default(),
            timers: RefCell::default(),
            poller: Cell::new(None),
            timers_next: Cell::new(false),
            fresh: Cell::new(false),
            immediate: Cell::new(0),
        })
    }

    /// Carries out the requests in `bytes`, up to the first poll or until the responses fill up.
    pub(crate) fn write(self: &Rc<Loop>, guest: &GuestContext, bytes: &[u8]) -> Written {
        let mut inbox = self.inbox.borrow_mut();
        let mut taken = 0;
        while taken < bytes.len() {
            let refused = |code| Written::Done(if taken > 0 { Ok(taken) } else { Err(code) });
            if let Err(code) = self.outbox.borrow().room(guest, RESPONSE_BYTES_DEFAULT) {
                return refused(code);
            }
            let (count, input) = inbox.take(guest, &bytes[taken..]);
            match input {
                Input::Incomplete => {}
                Input::NoRoom => return refused(ErrorCode::OutOfMemory),
                Input::Malformed { op, rid, message } => self.fail(guest, op, rid, message),
                Input::Request(request) => {
                    if let Some((rid, poll)) = self.carry_out(guest, &request) {
                        return Written::Poll { taken: taken + count, rid, poll };
                    }
                }
            }
            taken += count;
        }
        Written::Done(Ok(taken))
    }

    /// Carries out a request, unless it is a poll, which is returned.
    fn carry_out(self: &Rc<Loop>, guest: &GuestContext, request: &Frame<'_>) -> Option<(u32, Poll)> {
        let outcome = match wire::Request::decode(request) {
            Ok(wire::Request::Poll(poll)) => return Some((request.rid, poll)),
            Ok(wire::Request::Watch(watch)) => self.watch(guest, watch),
            Ok(wire::Request::Unwatch(unwatch)) => self.unwatch(guest, unwatch.watch_id),
            Ok(wire::Request::TimerArm(arm)) => self.arm(guest, &arm),
            Ok(wire::Request::TimerCancel(cancel)) => self.cancel(guest, cancel.timer_id),
            Err(bad) => Err(bad.message()),
        };
        match outcome {
            Ok(()) => self.outbox.borrow_mut().push_ok(guest, request.op, request.rid, &[]),
            Err(message) => self.fail(guest, request.op, request.rid, message),
        }
        None
    }

    fn fail(&self, guest: &GuestContext, op: u16, rid: u32, message: &str) {
        self.outbox.borrow_mut().push_error(guest, op, rid, wire::TRACE, message);
    }

    fn watch(self: &Rc<Loop>, guest: &GuestContext, watch: Watch) -> Result<(), &'static str> {
        if self.watches.borrow().contains(watch.watch_id) {
            return Err("watch_id in use");
        }
        if guest.counters.watches.get() >= guest.limits().watches as u64 {
            guest.refuse(Limit::Watches);
            return Err("too many watches");
        }
        let entry = i32::try_from(watch.handle).ok().and_then(|number| guest.entry(number).ok());
        let entry = entry.ok_or("unknown handle")?;
        let watchable = entry.resource().watchable().ok_or("handle is not watchable")?;
        let signal = watchable.signal();
        let key = self.watches.borrow_mut().insert(watch, signal.clone());
        let subscription = signal.subscribe(self, key, watch.events);
        self.watches.borrow_mut().subscribed(key, subscription);
        count(&guest.counters.watches, 1);
        if watchable.arm(guest, signal.interest()).is_err() {
            // The watch never was.
            let _ = self.unwatch(guest, watch.watch_id);
            return Err("watch failed");
        }
        self.fresh.set(true);
        if signal.readiness().intersects(watch.events) {
            self.mark(key);
        }
        Ok(())
    }

    fn unwatch(&self, guest: &GuestContext, watch_id: u64) -> Result<(), &'static str> {
        let watch = self.watches.borrow_mut().remove(watch_id).ok_or("unknown watch_id")?;
        watch.signal.unsubscribe(watch.subscription);
        uncount(&guest.counters.watches, 1);
        Ok(())
    }

    fn arm(&self, guest: &GuestContext, arm: &TimerArm) -> Result<(), &'static str> {
        if guest.counters.timers.get() >= guest.limits().timers as u64 {
            guest.refuse(Limit::Timers);
            return Err("too many timers");
        }
        match self.timers.borrow_mut().arm(arm, guest.reactor.now()) {
            Ok(()) => {
                count(&guest.counters.timers, 1);
                Ok(())
            }
            Err(ArmError::InUse) => Err("timer_id in use"),
            Err(ArmError::OutOfRange) => Err("deadline out of range"),
        }
    }

    fn cancel(&self, guest: &GuestContext, timer_id: u64) -> Result<(), &'static str> {
        if !self.timers.borrow_mut().cancel(timer_id) {
            return Err("unknown timer_id");
        }
        uncount(&guest.counters.timers, 1);
        Ok(())
    }

    /// A watch may have become ready: look at it in the next poll, and wake the guest if it waits
    /// in one.
    pub(crate) fn mark(&self, key: usize) {
        if self.watches.borrow_mut().mark(key) {
            self.wake();
        }
    }

    /// The watched handle was closed.
    pub(crate) fn end_watch(&self, key: usize) {
        self.watches.borrow_mut().remove_key(key);
    }

    fn wake(&self) {
        if let Some(waker) = self.poller.take() {
            waker.wake();
        }
    }

    /// Whether a poll would have something to return.
    fn has_pending(&self, now: Instant) -> bool {
        self.timers.borrow().is_due(now) || self.watches.borrow_mut().has_ready()
    }

    /// Writes the response to a poll: events of both kinds in turn, as long as there are any, and
    /// whether there are more.
    fn respond(&self, guest: &GuestContext, rid: u32, poll: Poll) {
        let now = guest.reactor.now();
        let mut outbox = self.outbox.borrow_mut();
        let room = outbox.room(guest, RESPONSE_BYTES_DEFAULT).unwrap_or(0);
        let events_room = room.saturating_sub(PollResponse::frame_bytes(0)) / Event::BYTES;
        let events_max = (poll.max_events as usize).min(EVENTS_PER_POLL_MAX).min(events_room.max(1));
        let (mut watches, mut timers) = (self.watches.borrow_mut(), self.timers.borrow_mut());
        let prefix = outbox.reserve(guest, PollResponse::frame_bytes(0));
        let mut candidates = watches.candidates();
        let mut delivered = 0;
        while delivered < events_max {
            let timer_first = self.timers_next.get();
            let mut next = if timer_first { timers.next(now) } else { watches.next(&mut candidates) };
            if next.is_none() {
                next = if timer_first { watches.next(&mut candidates) } else { timers.next(now) };
            }
            let Some(event) = next else { break };
            self.timers_next.set(matches!(event, Event::Ready { .. }));
            outbox.push(guest, &event.encode());
            delivered += 1;
        }
        let more = timers.is_due(now) || watches.has_more(candidates);
        guest.counters.timers.set(guest.counters.timers.get().saturating_sub(timers.take_ended()));
        outbox.fill(prefix, &PollResponse::frame_prefix(rid, more, delivered as u32));
        count(&guest.counters.events, delivered as u64);
        if delivered == 0 {
            count(&guest.counters.empty_polls, 1);
        }
    }
}

impl Resource for Loop {
    fn flags(&self) -> u32 {
        handle_flags::READABLE | handle_flags::WRITABLE | handle_flags::ENDABLE
    }

    fn read(&self, guest: &GuestContext, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
        self.outbox.borrow_mut().read(guest, buffer)
    }

    /// Its watches and timers end with it.
    fn close(&self, guest: &GuestContext) {
        let ended = self.watches.borrow_mut().clear();
        uncount(&guest.counters.watches, ended.len() as u64);
        for watch in ended {
            watch.signal.unsubscribe(watch.subscription);
        }
        uncount(&guest.counters.timers, self.timers.borrow_mut().clear() as u64);
        self.inbox.borrow_mut().close(guest);
        self.outbox.borrow_mut().close(guest);
    }
}
