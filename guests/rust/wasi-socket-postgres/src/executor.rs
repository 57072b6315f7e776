//! A current-thread executor: it runs whatever was woken, and what wakes itself at once runs again
//! at once.

use crate::mainspring::sockets::tcp::{SocketInterest, poll_socket};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The timeout of `poll-socket` that never comes.
const FOREVER: u32 = u32::MAX;

/// What a stream does when a call would block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Wakes its own task.
    WakeItself,
    /// Leaves its waker here; the executor waits when nothing can run.
    Park,
}

#[derive(Clone)]
pub(crate) struct Executor(Rc<Shared>);

struct Shared {
    waiting: Waiting,
    /// Spawned and not yet taken up.
    spawned: RefCell<Vec<Task>>,
    /// Who waits for a socket.
    parked: RefCell<Vec<Waker>>,
    /// The last socket that would have blocked.
    blocked: Cell<Option<(u64, SocketInterest)>>,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Executor {
    pub(crate) fn new(waiting: Waiting) -> Executor {
        Executor(Rc::new(Shared {
            waiting,
            spawned: RefCell::default(),
            parked: RefCell::default(),
            blocked: Cell::new(None),
        }))
    }

    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        self.0.spawned.borrow_mut().push(Task { future: Box::pin(future), woken });
    }

    /// Runs everything until `future` is done.
    pub(crate) fn block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let theirs = result.clone();
        self.spawn(async move { *theirs.borrow_mut() = Some(future.await) });
        let mut tasks = Vec::new();
        loop {
            tasks.append(&mut self.0.spawned.borrow_mut());
            let mut ran = false;
            tasks.retain_mut(|task: &mut Task| {
                if !task.woken.0.swap(false, Ordering::Relaxed) {
                    return true;
                }
                ran = true;
                let waker = Waker::from(task.woken.clone());
                task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
            });
            if let Some(value) = result.borrow_mut().take() {
                return value;
            }
            if !ran {
                self.park();
            }
        }
    }

    /// A call would block: what a stream returns.
    pub(crate) fn would_block<T>(
        &self,
        context: &Context<'_>,
        handle: u64,
        interest: SocketInterest,
    ) -> Poll<T> {
        match self.0.waiting {
            Waiting::WakeItself => context.waker().wake_by_ref(),
            Waiting::Park => {
                self.0.parked.borrow_mut().push(context.waker().clone());
                self.0.blocked.set(Some((handle, interest)));
            }
        }
        Poll::Pending
    }

    /// Waits until any socket is ready, and wakes whoever waits for one.
    fn park(&self) {
        if let Some((handle, interest)) = self.0.blocked.get() {
            // A socket that is gone is not waited for.
            let _ = poll_socket(handle, interest, FOREVER);
        }
        self.0.parked.take().into_iter().for_each(Waker::wake);
    }
}
