//! `POLL`: the guest is suspended, and nothing else is.

use super::Loop;
use crate::guest::context::GuestContext;
use crate::guest::stats::count;
use mainspring_reactor::{Handle, Instant};
use mainspring_zcl::sys_loop::{Poll, TIMEOUT_FOREVER};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{self, Waker};
use std::time::Duration;

/// Most polls in a row that are answered from what is known; then the kernel is asked again, so
/// that a handle that is always ready cannot hide the others.
const IMMEDIATE_POLLS_MAX: u32 = 8;

/// Carries out a poll. When this is ready, its response can be read.
pub(crate) async fn poll(target: Rc<Loop>, guest: &GuestContext, rid: u32, poll: Poll) {
    count(&guest.counters.polls, 1);
    let now = guest.reactor.now();
    if poll.timeout_ms == 0 {
        count(&guest.counters.zero_timeout_polls, 1);
        target.turn(guest).await;
    } else if target.has_pending(now) || guest.control.is_interrupted() {
        let asked_enough = target.immediate.get() < IMMEDIATE_POLLS_MAX && !target.fresh.get();
        if asked_enough {
            target.immediate.set(target.immediate.get() + 1);
        } else {
            target.turn(guest).await;
        }
    } else {
        let timeout = Duration::from_millis(u64::from(poll.timeout_ms));
        // A deadline beyond the clock's range never comes.
        let deadline = (poll.timeout_ms != TIMEOUT_FOREVER).then(|| now.checked_add(timeout)).flatten();
        target.wait(guest, deadline).await;
    }
    guest.control.take_interrupt();
    target.respond(guest, rid, poll);
}

impl Loop {
    /// Lets the reactor make a turn, in which it asks the kernel what is ready.
    async fn turn(&self, guest: &GuestContext) {
        guest.make_way().await;
        self.asked();
    }

    fn asked(&self) {
        self.immediate.set(0);
        self.fresh.set(false);
    }

    /// Waits for an event, the deadline or an interruption.
    async fn wait(&self, guest: &GuestContext, deadline: Option<Instant>) {
        let timer = self.timers.borrow().first();
        let until = match (timer, deadline) {
            (Some(timer), Some(deadline)) => Some(timer.min(deadline)),
            (timer, deadline) => timer.or(deadline),
        };
        let mut alarm = pin!(until.map(|until| guest.reactor.sleep_until(until)));
        poll_fn(|context| {
            if guest.control.is_interrupted() || self.watches.borrow_mut().has_ready() {
                return task::Poll::Ready(());
            }
            self.poller.set(Some(context.waker().clone()));
            match alarm.as_mut().as_pin_mut() {
                // The alarm fails only if the reactor is gone; waiting on would be for ever.
                Some(alarm) => alarm.poll(context).map(drop),
                None => task::Poll::Pending,
            }
        })
        .await;
        self.poller.set(None);
        self.asked();
    }
}

/// Ready on the reactor's next turn, after descriptors and timers. Merely waking a task would run
/// it again in the same turn, before the kernel was asked for anything.
pub(crate) async fn next_turn(reactor: &Handle) {
    enum Turn {
        New,
        Deferred(Waker),
        Done,
    }
    let state = Rc::new(Cell::new(Turn::New));
    poll_fn(|context| {
        match state.replace(Turn::Done) {
            Turn::Done => return task::Poll::Ready(()),
            Turn::Deferred(_) => state.set(Turn::Deferred(context.waker().clone())),
            Turn::New => {
                state.set(Turn::Deferred(context.waker().clone()));
                let theirs = state.clone();
                let deferred = reactor.defer(move |_| {
                    if let Turn::Deferred(waker) = theirs.replace(Turn::Done) {
                        waker.wake();
                    }
                });
                if deferred.is_err() {
                    return task::Poll::Ready(());
                }
            }
        }
        task::Poll::Pending
    })
    .await;
}
