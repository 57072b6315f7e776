//! Messages that wait for their handler, between the thread that reads and the one that handles.

use crate::runner::Backlog;
use mainspring_message::Envelope;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    backlog: Backlog,
    is_over: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, message: Envelope) {
        let drops = self.state().backlog.put(message);
        self.changed.notify_one();
        if drops {
            eprintln!("events come faster than they are handled: the oldest are dropped from now on");
        }
    }

    /// The next message, when there is one; `None` when there will be no more.
    pub(crate) fn next(&self) -> Option<Envelope> {
        let mut state = self.state();
        loop {
            if let Some(message) = state.backlog.take() {
                return Some(message);
            }
            if state.is_over {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().backlog.is_empty()
    }

    pub(crate) fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }
}
