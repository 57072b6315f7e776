//! The port: how an actor answers.

use crate::daemon::kernel_cell::KernelCell;
use mainspring_kernel::{ActorExit, ActorRef, Fact};
use mainspring_message::lines::{Line, LineSplitter};
use mainspring_message::{Draft, Envelope, Json};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// No message is shorter.
const MESSAGE_BYTES_MIN: usize = 64;
/// The most that is read at a time.
const READ_BYTES_MAX: usize = 64 << 10;

/// One actor's way to the kernel. Cheap to clone; it may be used from any callback on the daemon's
/// thread, and from inside every method of [`Actor`](crate::daemon::actors::Actor).
///
/// What an actor says after it was given up is recognised by its incarnation, and ignored.
#[derive(Clone)]
pub struct Port {
    kernel_cell: Rc<KernelCell>,
    actor: ActorRef,
    name: Rc<str>,
    farewell: Rc<Farewell>,
}

/// Whether the end of an actor may be told yet. The kernel takes the end of one that is not
/// attached for a failure of the boot; but one that does not live long is a crash of that
/// capability alone, however quick it is.
#[derive(Default)]
struct Farewell {
    may_be_told: Cell<bool>,
    early: RefCell<Option<ActorExit>>,
}

impl Port {
    pub(crate) fn new(kernel_cell: Rc<KernelCell>, actor: ActorRef, name: Rc<str>) -> Port {
        Port { kernel_cell, actor, name, farewell: Rc::default() }
    }

    /// The actor is attached, or is to stop: from now on its end is told at once, and now if it has
    /// come already.
    pub(super) fn allow_farewell(&self) {
        self.farewell.may_be_told.set(true);
        let early = self.farewell.early.take();
        if let Some(exit) = early {
            self.exited(exit);
        }
    }

    /// Which incarnation of which capability this is.
    #[must_use]
    pub fn actor(&self) -> ActorRef {
        self.actor
    }

    /// The id of the capability.
    #[must_use]
    pub fn name(&self) -> &Rc<str> {
        &self.name
    }

    /// The longest line that the actor may say.
    #[must_use]
    pub fn line_bytes_max(&self) -> usize {
        self.kernel_cell.with(|kernel, _| kernel.config().limits.line_bytes_max)
    }

    /// The most to be read of what the actor says before the kernel has seen it: no message is
    /// shorter than 64 bytes, so that a sender which is paused in time is never over its bound.
    pub(crate) fn read_bytes_max(&self) -> usize {
        self.kernel_cell.with(|kernel, _| {
            let limits = &kernel.config().limits;
            let lane_bytes =
                limits.lane_messages_max.saturating_mul(MESSAGE_BYTES_MIN).min(limits.lane_bytes_max);
            lane_bytes.clamp(MESSAGE_BYTES_MIN, READ_BYTES_MAX)
        })
    }

    /// Changes whenever the kernel has seen what it was told.
    pub(super) fn kernel_turns(&self) -> u64 {
        self.kernel_cell.turns()
    }

    /// The actor is there, or could not be started.
    pub fn spawned(&self, result: Result<(), String>) {
        self.kernel_cell.feed(|kernel, now| kernel.actor_spawned(self.actor, result, now));
    }

    /// The actor said a line (without its line break).
    pub fn line(&self, line: &[u8]) {
        self.kernel_cell.feed(|kernel, now| kernel.actor_line(self.actor, line, now));
    }

    /// The actor began a line beyond the limit: it is at fault.
    pub fn line_too_long(&self) {
        self.kernel_cell.feed(|kernel, now| kernel.actor_line_too_long(self.actor, now));
    }

    /// The actor said these bytes: the lines that end in them, in one go.
    pub(super) fn said(&self, bytes: &[u8], lines: &mut LineSplitter, line_bytes_max: usize) {
        self.kernel_cell.feed(|kernel, now| {
            lines.split(bytes, line_bytes_max, |line| match line {
                Line::Whole(line) => kernel.actor_line(self.actor, line, now),
                Line::TooLong => kernel.actor_line_too_long(self.actor, now),
            });
        });
    }

    /// The actor will say no more: its last line needs no end.
    pub(super) fn said_the_last(&self, lines: &mut LineSplitter) {
        if let Some(Line::Whole(line)) = lines.finish().filter(|line| !line.is_blank()) {
            self.line(line);
        }
    }

    /// The actor, which is native, said a message.
    pub fn message(&self, draft: Draft) {
        self.kernel_cell.feed(|kernel, now| kernel.actor_message(self.actor, draft, now));
    }

    /// The actor, which is native, replies to a request that it was given.
    pub fn reply(&self, request: &Envelope, data: &Json) {
        self.kernel_cell.feed(|kernel, now| kernel.actor_reply(self.actor, request, data, now));
    }

    /// The actor, which is native, tells an event that `cause` made it tell. `data` is asked for it
    /// if somebody wants the event; it must not use this port.
    pub fn event(&self, cause: &Envelope, type_name: &str, data: impl FnOnce() -> Json) {
        self.kernel_cell.feed(|kernel, now| kernel.actor_event(self.actor, cause, type_name, data, now));
    }

    /// The actor, which is native and whose manifest says that all it keeps is facts, changed what
    /// it keeps. `fact` is asked for it, with the capability's id, if there is a journal.
    pub(crate) fn record<'a>(&'a self, fact: impl FnOnce(&'a str) -> Fact<&'a str>) {
        self.kernel_cell.feed(|kernel, now| {
            if kernel.is_durable() {
                kernel.actor_record(self.actor, &fact(&self.name), now);
            }
        });
    }

    /// The actor wrote a line to its standard error, or to what stands for that. The kernel has
    /// nothing to do for it.
    pub fn complained(&self, line: &[u8]) {
        let is_told = self.kernel_cell.with(|kernel, now| kernel.actor_complained(self.actor, line, now));
        if is_told {
            // Somebody follows the log: the kernel has an event to tell.
            self.kernel_cell.feed(|_, _| ());
        }
    }

    /// The actor takes no more for now.
    pub fn blocked(&self) {
        self.kernel_cell.feed(|kernel, now| kernel.actor_blocked(self.actor, now));
    }

    /// The actor takes messages again.
    pub fn ready(&self) {
        self.kernel_cell.feed(|kernel, now| kernel.actor_ready(self.actor, now));
    }

    /// The actor has ended.
    pub fn exited(&self, exit: ActorExit) {
        if !self.farewell.may_be_told.get() {
            self.farewell.early.borrow_mut().get_or_insert(exit);
            return;
        }
        self.kernel_cell.feed(|kernel, now| kernel.actor_exited(self.actor, exit, now));
    }
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("actor", &self.actor).field("name", &self.name).finish_non_exhaustive()
    }
}
