//! A watch: what was subscribed to, and what came and was not read yet.

use crate::error::Error;
use mainspring_message::{Envelope, check_type_name};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Why events are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapReason {
    /// The connection was lost for a while.
    Reconnected,
    /// The daemon dropped them, because they were not read.
    Daemon,
    /// This client dropped them, at the bound of the watch.
    Buffer,
}

impl GapReason {
    /// The word for it that every SDK uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            GapReason::Reconnected => "reconnected",
            GapReason::Daemon => "daemon",
            GapReason::Buffer => "buffer",
        }
    }
}

/// Events are missing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Why.
    pub reason: GapReason,
    /// How many, if that is known.
    pub count: Option<u64>,
}

/// What a watch sees.
#[derive(Clone, Debug)]
pub enum Watched {
    /// An event.
    Event(Envelope),
    /// Events that are missing at this place.
    Gap(Gap),
}

/// One watch. Cloning gives another way to it.
#[derive(Clone, Debug)]
pub(crate) struct WatchState(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    types: Vec<String>,
    limit: usize,
    queue: VecDeque<Watched>,
    dropped: u64,
    is_live: bool,
    over: Option<Option<Error>>,
    waker: Option<Waker>,
}

impl WatchState {
    pub(crate) fn new(types: Vec<String>, limit: usize) -> Result<WatchState, Error> {
        if types.is_empty() {
            let words = "say which events to watch: a type, everything below a name (Order.*), or *";
            return Err(Error::Invalid(words.to_owned()));
        }
        types.iter().try_for_each(|pattern| check_pattern(pattern))?;
        let state = State {
            types,
            limit: limit.max(1),
            queue: VecDeque::new(),
            dropped: 0,
            is_live: false,
            over: None,
            waker: None,
        };
        Ok(WatchState(Arc::new(Mutex::new(state))))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is(&self, other: &WatchState) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn types(&self) -> Vec<String> {
        self.state().types.clone()
    }

    pub(crate) fn is_live(&self) -> bool {
        self.state().is_live
    }

    pub(crate) fn begin(&self) {
        self.state().is_live = true;
    }

    /// Whether events of this type belong here.
    pub(crate) fn wants(&self, type_name: &str) -> bool {
        let state = self.state();
        state.is_live && state.types.iter().any(|pattern| matches(pattern, type_name))
    }

    /// Adds an event, or tells that some are missing. At the bound the oldest goes.
    pub(crate) fn put(&self, item: Watched) {
        let waker = {
            let mut state = self.state();
            state.queue.push_back(item);
            if state.queue.len() > state.limit {
                state.dropped += match state.queue.pop_front() {
                    Some(Watched::Gap(gap)) => gap.count.unwrap_or(0),
                    _ => 1,
                };
            }
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// No more will come.
    pub(crate) fn end(&self, error: Option<Error>) {
        let waker = {
            let mut state = self.state();
            state.is_live = false;
            state.over.get_or_insert(error);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Watched>> {
        let mut state = self.state();
        if state.dropped > 0 {
            let count = Some(std::mem::take(&mut state.dropped));
            return Poll::Ready(Some(Watched::Gap(Gap { reason: GapReason::Buffer, count })));
        }
        if let Some(item) = state.queue.pop_front() {
            return Poll::Ready(Some(item));
        }
        if state.over.is_some() {
            return Poll::Ready(None);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Why it ended, if something failed.
    pub(crate) fn error(&self) -> Option<Error> {
        self.state().over.clone().flatten()
    }
}

/// Whether a type is meant by a pattern: a type, everything below a name (`Order.*`), or `*`.
fn matches(pattern: &str, type_name: &str) -> bool {
    match pattern.strip_suffix('*') {
        // `Order.` is the beginning of what `Order.*` means, and "" of all.
        Some(beginning) => type_name.starts_with(beginning),
        None => pattern == type_name,
    }
}

pub(crate) fn check_pattern(pattern: &str) -> Result<(), Error> {
    // Below a single name there are types, though it is none itself.
    let is_one = match pattern.strip_suffix(".*") {
        Some(name) => check_type_name(&format!("{name}.X")).is_ok(),
        None => pattern == "*" || check_type_name(pattern).is_ok(),
    };
    if is_one {
        return Ok(());
    }
    let words = format!("{pattern:?} is not a type, nor everything below a name (Order.*), nor *");
    Err(Error::Invalid(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_type_everything_below_a_name_or_everything() {
        for pattern in ["*", "Order.*", "Order.Line.*", "Order.Shipped"] {
            assert!(check_pattern(pattern).is_ok(), "{pattern}");
        }
        for pattern in ["", "Order", "order.*", "Order*", "*.Shipped", "Order.**", "Order. *"] {
            assert!(check_pattern(pattern).is_err(), "{pattern}");
        }
        assert!(matches("Order.*", "Order.Shipped") && !matches("Order.*", "Orders.Shipped"));
    }
}
