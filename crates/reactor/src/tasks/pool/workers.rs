//! The threads of one lane, and what waits for them.

use super::lane::{BlockingLane, BlockingOwner};
use crate::sys::threads;
use crate::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a thread waits for work before it ends.
const IDLE_THREAD_LIFETIME: Duration = Duration::from_secs(10);

pub(super) type Job = Box<dyn FnOnce() + Send>;

pub(super) struct Workers {
    lane: BlockingLane,
    /// Whether an owner is held to its share. The lane of those who say nothing has one owner, who
    /// may have all of it.
    shared: bool,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    owners: HashMap<BlockingOwner, Account>,
    /// The owners with queued calls, each once, in the order of their turns.
    turns: VecDeque<BlockingOwner>,
    threads: usize,
    /// Threads that make a call.
    busy: usize,
    /// Threads that wait and that no call was meant for yet.
    idle: usize,
    /// Threads that wait and were told of a call.
    called: usize,
    closed: bool,
}

/// What one owner has queued and under way. It is kept while there is any.
#[derive(Default)]
struct Account {
    jobs: VecDeque<Job>,
    running: usize,
}

impl Workers {
    pub(super) fn new(lane: BlockingLane, shared: bool) -> Arc<Workers> {
        Arc::new(Workers { lane, shared, state: Mutex::default(), work: Condvar::new() })
    }

    pub(super) fn is_of(&self, lane: &BlockingLane) -> bool {
        self.lane.name == lane.name
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a call and sees to it that a thread takes it.
    ///
    /// # Errors
    /// If there is no thread and none can be started: nothing was queued then.
    pub(super) fn submit(self: &Arc<Workers>, owner: BlockingOwner, job: Job) -> Result<()> {
        let mut state = self.lock();
        let running = state.owners.get(&owner).map_or(0, |account| account.running);
        if self.may_start(&state, running)
            && let Err(source) = self.call_thread(&mut state)
            // With one thread at least, the call will be made, only later.
            && state.threads == 0
        {
            return Err(Error::Io { action: "starting a thread for blocking calls", source });
        }
        let account = state.owners.entry(owner).or_default();
        account.jobs.push_back(job);
        if account.jobs.len() == 1 {
            state.turns.push_back(owner);
        }
        Ok(())
    }

    /// Whether an owner with so many calls under way may have another. The more it has, the more
    /// threads must be left for others, so that several owners do not use up together what each of
    /// them would leave.
    fn may_start(&self, state: &State, running: usize) -> bool {
        let free = self.lane.threads_max.saturating_sub(state.busy);
        free > 0 && (!self.shared || (running < self.lane.share_max && running < free))
    }

    /// Has another thread look for work: one that waits, or a new one if there may be more.
    fn call_thread(self: &Arc<Workers>, state: &mut State) -> io::Result<()> {
        if state.idle > 0 {
            state.idle -= 1;
            state.called += 1;
            self.work.notify_one();
        } else if state.threads < self.lane.threads_max {
            let workers = self.clone();
            threads::spawn(&format!("mainspring-{}", self.lane.name), move || workers.work())?;
            state.threads += 1;
        }
        Ok(())
    }

    fn work(self: Arc<Workers>) {
        while let Some((owner, job)) = self.next_job() {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                // A call's own panic goes to whoever awaits it. This one came from dropping what
                // nobody awaits, and may panic again.
                std::mem::forget(panic);
            }
            self.finished(owner);
        }
    }

    fn finished(&self, owner: BlockingOwner) {
        let mut state = self.lock();
        state.busy -= 1;
        if let Some(account) = state.owners.get_mut(&owner) {
            account.running -= 1;
            if account.running == 0 && account.jobs.is_empty() {
                state.owners.remove(&owner);
            }
        }
    }

    /// Waits for a call that may be made. `None`: the thread is to end, and is not counted any
    /// more.
    fn next_job(self: &Arc<Workers>) -> Option<(BlockingOwner, Job)> {
        let mut state = self.lock();
        loop {
            if let Some(found) = self.take(&mut state) {
                // One call that ends may make room for more than one: an owner's share depends on
                // what is free.
                if self.turn(&state).is_some() {
                    let _ = self.call_thread(&mut state);
                }
                return Some(found);
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let (guard, called) = self.rest(state);
            state = guard;
            if !called {
                state.idle -= 1;
                break;
            }
            state.called -= 1;
        }
        state.threads -= 1;
        None
    }

    /// Waits to be called. False: for too long, or the pool was closed.
    fn rest<'a>(&'a self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool) {
        loop {
            let waited = self.work.wait_timeout(state, IDLE_THREAD_LIFETIME);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            let called = state.called > 0;
            if called || state.closed || timeout.timed_out() {
                return (state, called);
            }
        }
    }

    /// Where in the order of turns the next owner stands that may have a call made.
    fn turn(&self, state: &State) -> Option<usize> {
        let running = |owner| state.owners.get(owner).map_or(0, |account: &Account| account.running);
        state.turns.iter().position(|owner| self.may_start(state, running(owner)))
    }

    fn take(&self, state: &mut State) -> Option<(BlockingOwner, Job)> {
        let owner = state.turns.remove(self.turn(state)?)?;
        let account = state.owners.get_mut(&owner)?;
        let job = account.jobs.pop_front()?;
        account.running += 1;
        if !account.jobs.is_empty() {
            state.turns.push_back(owner);
        }
        state.busy += 1;
        Some((owner, job))
    }

    /// Drops what is queued and ends the threads. What is under way ends on its own, heard by
    /// nobody.
    pub(super) fn close(&self) {
        let queued: Vec<Job> = {
            let mut state = self.lock();
            state.closed = true;
            state.turns.clear();
            state.owners.values_mut().flat_map(|account| std::mem::take(&mut account.jobs)).collect()
        };
        self.work.notify_all();
        drop(queued);
    }
}
