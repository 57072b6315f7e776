//! The result of a spawned task.

use crate::runtime::executor::{self, TaskKey};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The task was aborted before it finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the task was aborted")]
pub struct Aborted;

#[derive(Debug)]
enum State<T> {
    Running(Option<Waker>),
    Finished(T),
    Gone,
}

/// What task and handle share.
#[derive(Debug)]
pub(crate) struct Join<T>(Rc<RefCell<State<T>>>);

/// The task's end of it; dropping it unused means that the task was aborted.
pub(crate) struct Completion<T>(Rc<RefCell<State<T>>>);

impl<T> Join<T> {
    pub(crate) fn new() -> (Join<T>, Completion<T>) {
        let state = Rc::new(RefCell::new(State::Running(None)));
        (Join(Rc::clone(&state)), Completion(state))
    }
}

impl<T> Completion<T> {
    pub(crate) fn complete(self, result: T) {
        self.end(State::Finished(result));
    }

    fn end(&self, state: State<T>) {
        let before = self.0.replace(state);
        if let State::Running(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> Drop for Completion<T> {
    fn drop(&mut self) {
        let running = matches!(*self.0.borrow(), State::Running(_));
        if running {
            self.end(State::Gone);
        }
    }
}

/// A running task: await it for its result, or drop it to leave the task alone.
#[derive(Debug)]
pub struct JoinHandle<T> {
    join: Join<T>,
    key: TaskKey,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(join: Join<T>, key: TaskKey) -> JoinHandle<T> {
        JoinHandle { join, key }
    }

    /// Drops the task where it stands, at once unless it is the task that calls this.
    pub fn abort(&self) {
        executor::abort(self.key);
    }

    /// Whether it has finished or was aborted.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        !matches!(*self.join.0.borrow(), State::Running(_))
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, Aborted>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.join.0.borrow_mut();
        match std::mem::replace(&mut *state, State::Gone) {
            State::Running(_) => {
                *state = State::Running(Some(context.waker().clone()));
                Poll::Pending
            }
            State::Finished(result) => Poll::Ready(Ok(result)),
            State::Gone => Poll::Ready(Err(Aborted)),
        }
    }
}
