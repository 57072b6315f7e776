//! Built-ins whose work grows with what there is: they are cut by counted work and go on in the
//! next turn.
//!
//! One of them works at a time, and each sender has one at most: its queue in the User lane is not
//! served until that is done. So what they hold is bounded, whoever asks waits behind itself, and
//! everybody else's messages come between two slices.

use super::Answer;
use super::describe::DescribeAll;
use super::operators::{ListActors, ListLetters, Trace};
use super::timers::ListTimers;
use crate::flow::lanes::{Hold, QueueId};
use crate::flow::work;
use crate::kernel::Kernel;
use crate::requests::RequestKey;
use std::collections::VecDeque;

/// What a built-in may still do in this slice.
#[derive(Debug)]
pub(crate) struct Slice {
    left: u64,
}

impl Slice {
    /// Counts work that was done.
    pub(crate) fn spend(&mut self, work: u64) {
        self.left = self.left.saturating_sub(work);
    }

    /// Whether the rest has to wait for the next slice.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }
}

/// What a built-in has done so far, and how it goes on.
#[derive(Debug)]
pub(crate) enum Task {
    Describe(DescribeAll),
    Actors(ListActors),
    DeadLetters(ListLetters),
    Timers(ListTimers),
    Trace(Box<Trace>),
}

impl Task {
    /// Works for a slice; the answer when it is done.
    fn step(&mut self, kernel: &Kernel, slice: &mut Slice) -> Option<Answer> {
        match self {
            Task::Describe(task) => task.step(kernel, slice),
            Task::Actors(task) => task.step(kernel, slice),
            Task::DeadLetters(task) => task.step(kernel, slice),
            Task::Timers(task) => task.step(kernel, slice),
            Task::Trace(task) => task.step(kernel, slice),
        }
    }
}

#[derive(Debug)]
struct Chore {
    key: RequestKey,
    /// Where it came from: not served until it is done.
    queue: Option<QueueId>,
    task: Task,
}

/// The built-ins that have not been answered yet.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    /// Those that work in slices; the first of them is under way.
    waiting: VecDeque<Chore>,
    /// The turn of the last slice.
    last_turn: u64,
    /// `Sys.Stats` requests that wait for the floors below, by the ticket that each was given.
    outside: Vec<(u64, RequestKey)>,
    last_ticket: u64,
}

impl Chores {
    /// Whether none works in slices.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How often a request is among them; for audits.
    pub(crate) fn count(&self, key: RequestKey) -> usize {
        self.waiting.iter().filter(|chore| chore.key == key).count()
            + self.outside.iter().filter(|(_, there)| *there == key).count()
    }

    /// A request waits for the floors below; returns its ticket. Those for which `is_over` holds
    /// have no one waiting any more.
    pub(super) fn wait_outside(&mut self, key: RequestKey, is_over: impl Fn(RequestKey) -> bool) -> u64 {
        self.outside.retain(|(_, key)| !is_over(*key));
        self.last_ticket += 1;
        self.outside.push((self.last_ticket, key));
        self.last_ticket
    }

    /// The request that waits under this ticket has its numbers.
    pub(super) fn take_outside(&mut self, ticket: u64) -> Option<RequestKey> {
        let at = self.outside.iter().position(|(asked, _)| *asked == ticket)?;
        Some(self.outside.swap_remove(at).1)
    }
}

impl Kernel {
    /// Begins a built-in; one that is done within its first slice is answered at once.
    pub(super) fn begin_chore(&mut self, key: RequestKey, queue: Option<QueueId>, task: Task) {
        self.requests.enter_service(key);
        if let Some(queue) = queue {
            self.lanes.hold(queue, Hold::Chore);
        }
        let is_first = self.chores.waiting.is_empty();
        self.chores.waiting.push_back(Chore { key, queue, task });
        if is_first {
            self.work_for_a_slice();
        }
    }

    /// Goes on with the built-ins: at once if nobody else wants anything, else now and then.
    pub(crate) fn work_on_chores(&mut self) {
        if self.is_slice_due(self.out.counters.turns) {
            self.work_for_a_slice();
        }
    }

    /// Whether the next turn goes on with a built-in.
    #[inline]
    pub(crate) fn is_slice_next(&self) -> bool {
        !self.chores.is_empty() && self.is_slice_due(self.out.counters.turns + 1)
    }

    fn is_slice_due(&self, turn: u64) -> bool {
        let since = turn - self.chores.last_turn;
        let is_idle = !self.lanes.is_ready() && self.out.system.is_empty();
        since >= work::TURNS_BETWEEN_SLICES || (since > 0 && is_idle)
    }

    fn work_for_a_slice(&mut self) {
        self.chores.last_turn = self.out.counters.turns;
        let mut slice = Slice { left: work::SLICE_MAX };
        while !slice.is_over()
            && let Some(mut chore) = self.chores.waiting.pop_front()
        {
            slice.spend(work::TURN);
            // One that timed out in the meantime has no one waiting any more.
            if let Some(request) = self.requests.message(chore.key).cloned() {
                match chore.task.step(self, &mut slice) {
                    None => {
                        self.chores.waiting.push_front(chore);
                        continue;
                    }
                    Some(answer) => self.end_builtin(chore.key, &request, answer),
                }
            }
            if let Some(queue) = chore.queue {
                self.lanes.release(queue, Hold::Chore);
            }
        }
        self.out.work += work::SLICE_MAX - slice.left;
    }
}
