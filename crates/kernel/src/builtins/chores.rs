//! Built-ins whose work grows with what there is: they are cut by counted work and go on in the next turn.
//!
//! One of them works at a time, and each sender has one at most: its queue in the User lane is not served until that is
//! done. So what they hold is bounded, whoever asks waits behind itself, and everybody else's messages come between two
//! slices.

use super::Answer;
use super::dead_letters::ListLetters;
use super::describe::DescribeAll;
use super::list_actors::ListActors;
use super::trace::Trace;
use crate::api::ids::Now;
use crate::flow::lanes::Hold;
use crate::flow::work;
use crate::kernel::Kernel;
use crate::requests::{Phase, RequestKey};
use crate::time::schedules::ListTimers;
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
    fn step(&mut self, kernel: &Kernel, slice: &mut Slice, now: Now) -> Option<Answer> {
        match self {
            Task::Describe(task) => task.step(kernel, slice),
            Task::Actors(task) => task.step(kernel, slice, now),
            Task::DeadLetters(task) => task.step(kernel, slice),
            Task::Timers(task) => task.step(kernel, slice, now),
            Task::Trace(task) => task.step(kernel, slice, now),
        }
    }
}

#[derive(Debug)]
struct Chore {
    key: RequestKey,
    /// Where it came from: not served until it is done.
    queue: Option<u32>,
    task: Task,
}

/// The built-ins that have not been answered yet; the first of them is under way.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    waiting: VecDeque<Chore>,
    /// The turn of the last slice.
    last_turn: u64,
}

impl Chores {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Which requests they are.
    pub(crate) fn keys(&self) -> impl Iterator<Item = RequestKey> {
        self.waiting.iter().map(|chore| chore.key)
    }
}

impl Kernel {
    /// Begins a built-in; one that is done within its first slice is answered at once.
    pub(super) fn begin_chore(&mut self, key: RequestKey, queue: Option<u32>, task: Task, now: Now) {
        if let Some(live) = self.requests.get_mut(key) {
            live.phase = Phase::Served;
        }
        if let Some(queue) = queue {
            self.lanes.hold(queue, Hold::Chore);
        }
        let is_first = self.chores.waiting.is_empty();
        self.chores.waiting.push_back(Chore { key, queue, task });
        if is_first {
            self.work_for_a_slice(now);
        }
    }

    /// Goes on with the built-ins: at once if nobody else wants anything, else now and then.
    pub(crate) fn work_on_chores(&mut self, now: Now) {
        if self.is_slice_due(self.counters.turns) {
            self.work_for_a_slice(now);
        }
    }

    /// Whether the next turn goes on with a built-in.
    pub(crate) fn is_slice_next(&self) -> bool {
        !self.chores.is_empty() && self.is_slice_due(self.counters.turns + 1)
    }

    fn is_slice_due(&self, turn: u64) -> bool {
        let since = turn - self.chores.last_turn;
        since >= work::TURNS_BETWEEN_SLICES || (since > 0 && !self.lanes.is_ready())
    }

    fn work_for_a_slice(&mut self, now: Now) {
        self.chores.last_turn = self.counters.turns;
        let mut slice = Slice { left: work::SLICE_MAX };
        while !slice.is_over()
            && let Some(mut chore) = self.chores.waiting.pop_front()
        {
            slice.spend(work::TURN);
            let request = self.requests.get(chore.key).map(|live| live.message.clone());
            // One that timed out in the meantime has no one waiting any more.
            let answer = match &request {
                Some(_) => chore.task.step(self, &mut slice, now),
                None => None,
            };
            match (request, answer) {
                (Some(_), None) => {
                    self.chores.waiting.push_front(chore);
                    continue;
                }
                (Some(request), Some(answer)) => self.end_builtin(chore.key, &request, answer, now),
                (None, _) => {}
            }
            if let Some(queue) = chore.queue {
                self.lanes.release(queue, Hold::Chore);
            }
        }
        self.work += work::SLICE_MAX - slice.left;
    }
}
