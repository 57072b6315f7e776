//! What happens within a turn, part by part; `reactor.rs` calls the parts in their order.
//!
//! A turn is: wait; descriptors; wake-ups; timers; deferred calls; tasks. Each part takes a bounded
//! amount of work, so none can starve the others. A panic in user code leaves whatever was fetched
//! but not yet delivered for the next turn.

use crate::core::{Core, WakeupCallback};
use crate::observe::labels::Label;
use crate::observe::stats::count;
use crate::sys::event::{self, Event as KernelEvent};
use crate::sys::{ALARM, EVENTS_PER_TURN_MAX, WAKE, Wait};
use crate::time::timers::{Action, Due};
use crate::watch::fds::Lookup;
use crate::{Event, Handle, Instant, Readiness, Result, Timer, Watcher};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Most timers that fire in one turn.
pub const TIMERS_PER_TURN_MAX: usize = 1024;
/// Most deferred calls that run in one turn.
pub const DEFERRED_PER_TURN_MAX: usize = 1024;
/// Most times that tasks are run in one turn.
pub const TASKS_PER_TURN_MAX: usize = 256;
/// Most distinct tokens of stale registrations that are remembered before the kernel's set is
/// rebuilt.
const STALE_TOKENS_MAX: usize = 64;
/// How long a loop pauses before it waits again on a set that it cannot rebuild for lack of
/// descriptors or memory.
const STALE_SET_PAUSE: Duration = Duration::from_millis(10);

/// What has been fetched and not been delivered yet.
pub(crate) struct Batch {
    events: Vec<KernelEvent>,
    next_event: usize,
    due: Vec<Due>,
    next_due: usize,
    signalled: VecDeque<usize>,
    ended: Vec<usize>,
    /// Tokens of registrations that have ended and that reported nevertheless.
    stale_tokens: Vec<u64>,
    /// Whether the kernel's set must be made anew.
    rebuild: bool,
    alarm_rang: bool,
    woken: bool,
}

impl Batch {
    pub(crate) fn new() -> Batch {
        Batch {
            events: Vec::with_capacity(EVENTS_PER_TURN_MAX),
            next_event: 0,
            due: Vec::new(),
            next_due: 0,
            signalled: VecDeque::new(),
            ended: Vec::new(),
            stale_tokens: Vec::new(),
            rebuild: false,
            alarm_rang: false,
            woken: false,
        }
    }

    /// Whether everything that was fetched has been delivered, which only a panic prevents.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.next_event == self.events.len() && self.next_due == self.due.len() && self.signalled.is_empty()
    }

    /// Whether another thread has asked for a turn since this was last asked.
    pub(crate) fn take_woken(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }

    /// Whether all events that were fetched have been delivered.
    #[inline]
    pub(crate) fn events_done(&self) -> bool {
        self.next_event == self.events.len()
    }

    /// Waits for events and nothing else.
    #[inline]
    pub(crate) fn fetch_events(&mut self, handle: &Handle) -> Result<()> {
        let core = handle.core();
        self.next_event = 0;
        core.poller.borrow_mut().wait(&mut self.events, Wait::Block, None)?;
        count(&core.counters.events, self.events.len() as u64);
        Ok(())
    }

    /// Waits. Says whether it may have blocked.
    pub(crate) fn fetch(&mut self, handle: &Handle, wait: Wait, deadline: Option<Instant>) -> Result<Wait> {
        let core = handle.core();
        let wait = if core.has_immediate_work() { Wait::Now } else { wait };
        core.fds.borrow_mut().begin_batch();
        self.next_event = 0;
        core.note(|observer| observer.before_wait());
        let result = if core.virtual_clock().is_some() {
            self.wait_virtually(handle, wait, deadline)
        } else {
            let next = core.next_deadline();
            let until = match (next, deadline) {
                (Some(next), Some(deadline)) => Some(next.min(deadline)),
                (next, deadline) => next.or(deadline),
            };
            core.poller.borrow_mut().wait(&mut self.events, wait, until)
        };
        core.note(|observer| observer.after_wait());
        count(&core.counters.events, self.events.len() as u64);
        result.map(|()| wait)
    }

    /// Lets virtual time pass instead of waiting, once nothing real is ready.
    fn wait_virtually(&mut self, handle: &Handle, wait: Wait, deadline: Option<Instant>) -> Result<()> {
        let core = handle.core();
        let mut poller = core.poller.borrow_mut();
        poller.wait(&mut self.events, Wait::Now, None)?;
        if !self.events.is_empty() || wait == Wait::Now {
            return Ok(());
        }
        let blocking_calls = core.pool().borrow().in_flight() > 0;
        let next = [core.next_deadline(), deadline].into_iter().flatten().min();
        match (core.virtual_clock(), next) {
            (Some(clock), Some(next)) if clock.auto_advances() && !blocking_calls => {
                clock.advance_to(next);
                Ok(())
            }
            // Time stands still, so a deadline of the caller's would never come.
            (_, Some(_)) if deadline.is_some() && !blocking_calls => Ok(()),
            _ => {
                // Nothing ends this wait but an event: a signal handler that interrupts it does
                // not.
                while self.events.is_empty() {
                    poller.wait(&mut self.events, Wait::Block, None)?;
                }
                Ok(())
            }
        }
    }

    /// Delivers the events of the batch. `OBSERVED` is a constant, so that a loop that nobody times
    /// pays nothing for being timed: this is what every event passes.
    pub(crate) fn dispatch_events<const OBSERVED: bool>(&mut self, handle: &Handle) -> usize {
        let mut ran = 0;
        let mut index = self.next_event;
        while let Some(kernel_event) = self.events.get(index) {
            let (token, readiness) = (event::token(kernel_event), event::readiness(kernel_event));
            index += 1;
            // What a panic leaves undelivered starts here.
            self.next_event = index;
            ran += self.dispatch::<OBSERVED>(handle, token, readiness) as usize;
        }
        ran
    }

    /// Delivers one event. The handler is called where it lies: to take it out of the table for the
    /// call and put it back would write to its slot twice for every event.
    #[inline]
    fn dispatch<const OBSERVED: bool>(&mut self, handle: &Handle, token: u64, ready: Readiness) -> u32 {
        let core = handle.core();
        let call = match core.begin_call(token, ready) {
            Lookup::Found(call) => call,
            Lookup::Ignored => return 0,
            missed => return self.take_other(handle, token, matches!(missed, Lookup::Stale)),
        };
        if call.oneshot {
            disarm(core, call.watcher);
        }
        let event = Event::new(handle, call.watcher, call.readiness);
        let mut handler = call.handler;
        // SAFETY: the table keeps the handler alive until `end_call`, even if the call unwatches or
        // replaces it, and nobody else calls it: there is no dispatch within a dispatch, because
        // that takes `&mut Reactor`.
        let handler = unsafe { handler.as_mut() };
        let guard = CallGuard(core);
        let ran = if OBSERVED {
            observed(handle, core.label_of(call.watcher), || handler.ready(&event))
        } else {
            handler.ready(&event)
        };
        drop(guard);
        if ran == 0 {
            silence(core, call.watcher);
        }
        ran
    }

    /// An event that is no watcher's: the loop's own, or one of the past. Their slots lie beyond
    /// every descriptor's, so the common case need not ask for them.
    #[cold]
    fn take_other(&mut self, handle: &Handle, token: u64, stale: bool) -> u32 {
        match token {
            WAKE => self.open_inbox(handle),
            ALARM => {
                handle.core().poller.borrow_mut().alarm_rang();
                self.alarm_rang = true;
                handle.core().remote_side().set_attention(true);
            }
            _ => self.discard(handle, token, stale),
        }
        0
    }

    /// Drops an event whose registration has ended. A stale one that comes again belongs to a
    /// description that lives on under another number and can no longer be removed: only a new set
    /// gets rid of it.
    fn discard(&mut self, handle: &Handle, token: u64, stale: bool) {
        count(&handle.core().counters.stale_events, 1);
        let is_known = self.stale_tokens.contains(&token) || self.stale_tokens.len() == STALE_TOKENS_MAX;
        if stale && is_known {
            self.rebuild = true;
            handle.core().remote_side().set_attention(true);
        } else if stale {
            self.stale_tokens.push(token);
        }
    }

    /// Replaces the kernel's set if a stale registration has reported again. If the system has no
    /// room for another set, that is tried again in every turn: the old one still reports what it
    /// should, among the rest.
    pub(crate) fn rebuild_if_stale(&mut self, handle: &Handle) {
        if self.rebuild && handle.core().rebuild().is_ok() {
            self.rebuild = false;
            self.stale_tokens.clear();
        }
    }

    /// Whether the kernel's set holds a stale registration that could not be removed yet.
    pub(crate) fn has_stale_set(&self) -> bool {
        self.rebuild
    }

    /// Pauses for a moment, because no wait on a set with a stale registration blocks. Ends early
    /// for other threads and for deadlines.
    #[cold]
    pub(crate) fn pause(handle: &Handle, deadline: Option<Instant>) {
        let core = handle.core();
        if core.has_immediate_work() {
            return;
        }
        let next = [core.next_deadline(), deadline].into_iter().flatten().min();
        let left = next.map_or(STALE_SET_PAUSE, |next| next.saturating_duration_since(core.now()));
        core.remote_side().wake_fd.await_readable(left.min(STALE_SET_PAUSE));
    }

    /// Takes in what other threads have left.
    fn open_inbox(&mut self, handle: &Handle) {
        let core = handle.core();
        count(&core.counters.wakeups, 1);
        self.woken = true;
        core.remote_side().set_attention(true);
        core.remote_side().acknowledge();
        let mut inbox = core.remote_side().inbox();
        self.signalled.extend(inbox.signalled.drain(..));
        self.ended.append(&mut inbox.ended);
        let runnables = std::mem::take(&mut inbox.runnables);
        let mut deferred = core.deferred.borrow_mut();
        let taken = inbox.calls.len().min(DEFERRED_PER_TURN_MAX.saturating_sub(deferred.len()));
        for call in inbox.calls.drain(..taken) {
            deferred.push_back(call);
        }
        let more = !inbox.calls.is_empty();
        drop((inbox, deferred));
        if more {
            // The rest waits where its number is bounded, for the next turn.
            core.remote_side().notify();
        }
        for runnable in runnables {
            core.remote_side().push_ready(runnable);
        }
    }

    pub(crate) fn run_wakeups(&mut self, handle: &Handle) -> usize {
        let mut ran = 0;
        while let Some(key) = self.signalled.pop_front() {
            ran += usize::from(run_wakeup(handle, key));
        }
        for key in std::mem::take(&mut self.ended) {
            let slot = handle.core().wakeups.borrow_mut().try_remove(key);
            drop(slot);
        }
        ran
    }

    pub(crate) fn run_timers(&mut self, handle: &Handle, waited: Wait) -> usize {
        let core = handle.core();
        if self.next_due == self.due.len() {
            let alarm_rang = std::mem::take(&mut self.alarm_rang);
            if core.timers.borrow().first_deadline().is_none() {
                return 0;
            }
            // After a wait with an alarm, silence means that nothing is due, unless the batch had
            // no room for the alarm.
            let has_alarm = core.virtual_clock().is_none() && core.poller.borrow().has_alarm();
            let silent = !alarm_rang && self.events.len() < EVENTS_PER_TURN_MAX;
            if has_alarm && waited == Wait::Block && silent && !core.timer_known_due() {
                return 0;
            }
            self.due.clear();
            self.next_due = 0;
            let turn = core.counters.turns.get();
            core.timers.borrow_mut().take_due(core.now(), turn, TIMERS_PER_TURN_MAX, &mut self.due);
        }
        let mut ran = 0;
        while let Some(&due) = self.due.get(self.next_due) {
            self.next_due += 1;
            ran += usize::from(fire(handle, due));
        }
        ran
    }
}

/// Calls a timer's callback, or wakes its task. True if a callback ran.
fn fire(handle: &Handle, due: Due) -> bool {
    let core = handle.core();
    let now = core.latest_now.get();
    let Some((action, label)) = core.timers.borrow_mut().begin(due, now) else { return false };
    count(&core.counters.timers, 1);
    core.note(|observer| observer.timer_lag(now.saturating_duration_since(due.deadline)));
    match action {
        Action::Once(call) => observed(handle, label, || call(handle)),
        Action::Repeat(repeat) => {
            let mut guard = RepeatGuard { handle, timer: due.timer, repeat: Some(repeat) };
            if let Some(repeat) = &mut guard.repeat {
                observed(handle, label, || repeat.call(handle, due.timer, due.deadline));
            }
        }
        Action::Wake(waker) => {
            waker.wake();
            return false;
        }
        Action::Running | Action::Vacant => return false,
    }
    true
}

fn run_wakeup(handle: &Handle, key: usize) -> bool {
    let callback = {
        let mut wakeups = handle.core().wakeups.borrow_mut();
        let Some(slot) = wakeups.get_mut(key) else { return false };
        // From here on a signal means another call.
        slot.signalled.store(false, Ordering::Release);
        slot.callback.take()
    };
    let mut guard = WakeupGuard { handle, key, callback };
    match &mut guard.callback {
        Some(callback) => observed(handle, Label::NONE, || callback(handle)),
        None => return false,
    }
    true
}

pub(crate) fn run_deferred(handle: &Handle) -> usize {
    let core = handle.core();
    let count = core.deferred.borrow().len().min(DEFERRED_PER_TURN_MAX);
    for done in 0..count {
        let Some(call) = core.deferred.borrow_mut().pop_front() else { return done };
        observed(handle, Label::NONE, || call(handle));
    }
    count
}

/// Runs woken tasks, those that they wake included. True if any ran.
pub(crate) fn run_tasks(handle: &Handle) -> bool {
    let core = handle.core();
    let mut ran = 0;
    while ran < TASKS_PER_TURN_MAX as u64
        && let Some(runnable) = core.remote_side().pop_ready()
    {
        ran += 1;
        count(&core.counters.task_polls, 1);
        observed(handle, Label::NONE, || runnable.run());
        if core.is_closed() {
            // The task that closed the loop is ready once more, to be dropped.
            core.end_tasks();
            break;
        }
    }
    ran > 0
}

/// Runs user code with the observer told about it, if there is one.
#[inline]
fn observed<R>(handle: &Handle, label: Label, call: impl FnOnce() -> R) -> R {
    let core = handle.core();
    if !core.observed.get() {
        return call();
    }
    let _guard = ObserveGuard { handle, label, start: core.note(|observer| observer.enter(label)) };
    call()
}

/// Tells the observer that a callback has ended, even if it panicked.
struct ObserveGuard<'a> {
    handle: &'a Handle,
    label: Label,
    start: Option<Instant>,
}

impl Drop for ObserveGuard<'_> {
    fn drop(&mut self) {
        self.handle.core().note(|observer| observer.leave(self.label, self.start));
    }
}

#[cold]
fn disarm(core: &Core, watcher: Watcher) {
    core.fds.borrow_mut().disarm(watcher);
}

/// Silences a level watcher that was told of something for which it has no callback, or it would be
/// told for ever.
#[cold]
fn silence(core: &Core, watcher: Watcher) {
    core.remote_side().set_attention(true);
    if core.fds.borrow_mut().park(watcher) {
        core.leave_set(watcher.raw_fd());
    }
}

/// Ends a call in the table, even if it panicked.
struct CallGuard<'a>(&'a Core);

impl Drop for CallGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Dropped only now, when the table is free: an owned source may do anything on its way out.
        drop(self.0.end_call());
    }
}

/// Puts a repeating timer's action back, even if its call panicked.
struct RepeatGuard<'a> {
    handle: &'a Handle,
    timer: Timer,
    repeat: Option<Box<crate::time::timer::Repeat>>,
}

impl Drop for RepeatGuard<'_> {
    fn drop(&mut self) {
        if let Some(repeat) = self.repeat.take() {
            let ended = self.handle.core().timers.borrow_mut().finish(self.timer, Action::Repeat(repeat));
            drop(ended);
        }
    }
}

/// Puts a wake-up's callback back, even if its call panicked.
struct WakeupGuard<'a> {
    handle: &'a Handle,
    key: usize,
    callback: WakeupCallback,
}

impl Drop for WakeupGuard<'_> {
    fn drop(&mut self) {
        let callback = self.callback.take();
        let unplaced = match self.handle.core().wakeups.borrow_mut().get_mut(self.key) {
            Some(slot) => std::mem::replace(&mut slot.callback, callback),
            None => callback,
        };
        drop(unplaced);
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("events", &self.events.len()).finish_non_exhaustive()
    }
}
