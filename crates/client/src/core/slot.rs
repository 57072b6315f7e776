//! Where the outcome of a request waits for whoever asked.

use crate::error::Error;
use crate::request::Reply;
use mainspring_message::Envelope;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Progress that waits to be read. Beyond: the oldest is dropped.
const PROGRESS_MAX: usize = 256;

/// The place of one outcome. Cloning gives another way to it.
#[derive(Debug)]
pub(crate) struct Slot<T = Result<Reply, Error>>(Arc<Mutex<SlotState<T>>>);

#[derive(Debug)]
struct SlotState<T> {
    outcome: Option<T>,
    progress: VecDeque<Envelope>,
    waker: Option<Waker>,
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Slot<T> {
        Slot(Arc::clone(&self.0))
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot(Arc::new(Mutex::new(SlotState { outcome: None, progress: VecDeque::new(), waker: None })))
    }
}

impl<T> Slot<T> {
    fn state(&self) -> MutexGuard<'_, SlotState<T>> {
        // Nothing in here panics half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the outcome there. The first one counts.
    pub(crate) fn settle(&self, outcome: T) {
        let waker = {
            let mut state = self.state();
            state.outcome.get_or_insert(outcome);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn put_progress(&self, event: &Envelope) {
        let waker = {
            let mut state = self.state();
            if state.progress.len() == PROGRESS_MAX {
                state.progress.pop_front();
            }
            state.progress.push_back(event.clone());
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The outcome, once.
    pub(crate) fn poll_outcome(&self, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.state();
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The next progress; `None` when the outcome is there and everything before it was read.
    pub(crate) fn poll_progress(&self, context: &mut Context<'_>) -> Poll<Option<Envelope>> {
        let mut state = self.state();
        if let Some(event) = state.progress.pop_front() {
            return Poll::Ready(Some(event));
        }
        if state.outcome.is_some() {
            return Poll::Ready(None);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
