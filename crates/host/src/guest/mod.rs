//! A guest: how it is configured, its task on the reactor, what its store carries, how it is ended
//! from outside, its numbers, and how its owner sees it. The host makes guests; the calls of `abi`
//! and the capabilities get them as a `GuestContext`.

pub(crate) mod config;
pub(crate) mod confined;
pub(crate) mod context;
pub(crate) mod control;
pub(crate) mod run;
pub(crate) mod state;
pub(crate) mod stats;

pub use crate::guest::config::{BadGuestConfig, GuestConfig, GuestConfigBuilder};
use crate::guest::context::GuestContext;
use crate::guest::control::GuestControl;
use crate::guest::stats::GuestStats;
use crate::limits::Limit;
use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};

/// How a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// It returned, or asked to exit, with this code.
    Returned(i32),
    /// It did something that cannot be: an instruction that traps, or memory beyond its limits at
    /// the start.
    Trapped(TrapReport),
    /// It was killed, or its reactor was dropped.
    Killed,
    /// It used up a limit.
    OverLimit(Limit),
}

/// What a guest did wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrapReport {
    /// What went wrong, in a few words.
    pub message: String,
    /// The guest's call stack, innermost first, with names if the module has them; a line each.
    pub backtrace: String,
}

impl fmt::Display for TrapReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.backtrace.is_empty() {
            write!(f, "\n{}", self.backtrace)?;
        }
        Ok(())
    }
}

/// Where a guest's end is left for whoever asks.
#[derive(Default)]
pub(crate) struct ExitSlot {
    exit: RefCell<Option<Exit>>,
    waiting: RefCell<Vec<Waker>>,
}

impl ExitSlot {
    /// Fills the slot, unless it has been.
    pub(crate) fn set(&self, exit: Exit) {
        self.exit.borrow_mut().get_or_insert(exit);
        for waker in std::mem::take(&mut *self.waiting.borrow_mut()) {
            waker.wake();
        }
    }
}

/// A guest that was started. Dropping this lets it run on.
#[derive(Clone)]
pub struct GuestHandle {
    pub(crate) context: Rc<GuestContext>,
}

impl GuestHandle {
    /// Ends the guest: see [`GuestControl::kill`].
    pub fn kill(&self) {
        self.control().kill();
    }

    /// Makes the guest's `POLL` return early, as at a shutdown: see [`GuestControl::interrupt`].
    pub fn interrupt(&self) {
        self.control().interrupt();
    }

    /// What can be done to the guest from any thread.
    pub fn control(&self) -> GuestControl {
        GuestControl(self.context.control.clone())
    }

    /// What the guest has done so far.
    pub fn stats(&self) -> GuestStats {
        self.context.counters.snapshot()
    }

    /// How the guest ended, if it has.
    pub fn exit_now(&self) -> Option<Exit> {
        self.context.exit.exit.borrow().clone()
    }

    /// Waits for the guest to end. It may be asked for as often as one likes.
    pub fn exit(&self) -> impl Future<Output = Exit> + use<> {
        let context = self.context.clone();
        poll_fn(move |task| {
            let slot = &context.exit;
            if let Some(exit) = &*slot.exit.borrow() {
                return Poll::Ready(exit.clone());
            }
            let mut waiting = slot.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(task.waker())) {
                waiting.push(task.waker().clone());
            }
            Poll::Pending
        })
    }
}

impl fmt::Debug for GuestHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestHandle")
            .field("stats", &self.stats())
            .field("exit", &self.exit_now())
            .finish_non_exhaustive()
    }
}
