//! Messages that wait for their handler.

use mainspring_message::{Envelope, Kind};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Events that wait, and their bytes. Beyond, the oldest is dropped, and told on standard error.
/// Requests are bounded by the daemon.
const EVENTS_MAX: usize = 16_384;
const EVENT_BYTES_MAX: usize = 32 << 20;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Envelope>,
    events: usize,
    event_bytes: usize,
    has_dropped: bool,
    is_over: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, message: Envelope) {
        let mut state = self.state();
        if message.kind() == Kind::Event {
            state.events += 1;
            state.event_bytes += message.line().len();
        }
        state.messages.push_back(message);
        while state.events > EVENTS_MAX || state.event_bytes > EVENT_BYTES_MAX {
            state.drop_event();
        }
        drop(state);
        self.changed.notify_one();
    }

    /// The next message, when there is one; `None` when there will be no more.
    pub(crate) fn next(&self) -> Option<Envelope> {
        let mut state = self.state();
        loop {
            if let Some(message) = state.messages.pop_front() {
                if message.kind() == Kind::Event {
                    state.events -= 1;
                    state.event_bytes -= message.line().len();
                }
                return Some(message);
            }
            if state.is_over {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().messages.is_empty()
    }

    pub(crate) fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }
}

impl State {
    fn drop_event(&mut self) {
        let at = self.messages.iter().position(|message| message.kind() == Kind::Event);
        if let Some(dropped) = at.and_then(|at| self.messages.remove(at)) {
            self.events -= 1;
            self.event_bytes -= dropped.line().len();
        }
        if !self.has_dropped {
            self.has_dropped = true;
            eprintln!("events come faster than they are handled: the oldest are dropped from now on");
        }
    }
}
