//! Tasks, the queue of those that can run, and the loop that runs them.
//!
//! While any task can run, it runs; when none can, the guest makes one POLL. Nothing is ever tried
//! again on the chance that it might work. A task that keeps waking itself does not keep the others
//! from their sockets and timers: after [`RUNS_PER_POLL_MAX`] runs there is a POLL that does not
//! wait.

use crate::runtime::driver::{Driver, Wait};
use crate::runtime::join::{Join, JoinHandle};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// How often tasks run before the host is asked, without waiting, for what has happened.
pub const RUNS_PER_POLL_MAX: u32 = 128;

/// A task that never is in the slab: the future given to [`block_on`].
const ROOT: TaskKey = TaskKey { slot: usize::MAX, generation: 0 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskKey {
    slot: usize,
    generation: u64,
}

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    generation: u64,
    /// Empty while it runs.
    future: Option<LocalFuture>,
    wakeup: Arc<Wakeup>,
}

/// The runtime of one thread; a guest has one thread.
struct Runtime {
    driver: RefCell<Driver>,
    tasks: RefCell<Slab<Task>>,
    generation: Cell<u64>,
    queue: Arc<Queue>,
    running: Cell<bool>,
    /// How often the host was asked for what has happened.
    polls: Cell<u64>,
}

/// The tasks that can run. A waker may be called from anywhere, hence the lock; on WebAssembly it
/// costs nothing.
#[derive(Default)]
struct Queue {
    keys: Mutex<VecDeque<TaskKey>>,
}

impl Queue {
    fn push(&self, key: TaskKey) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).push_back(key);
    }

    fn pop(&self) -> Option<TaskKey> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn is_empty(&self) -> bool {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// What a waker points to.
struct Wakeup {
    key: TaskKey,
    queued: AtomicBool,
    queue: Arc<Queue>,
}

impl Wakeup {
    fn new(key: TaskKey, queue: Arc<Queue>) -> Arc<Wakeup> {
        Arc::new(Wakeup { key, queued: AtomicBool::new(false), queue })
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.queue.push(self.key);
        }
    }
}

thread_local! {
    static RUNTIME: Rc<Runtime> = Rc::new(Runtime {
        driver: RefCell::default(),
        tasks: RefCell::default(),
        generation: Cell::new(1),
        queue: Arc::default(),
        running: Cell::new(false),
        polls: Cell::new(0),
    });
}

/// Does something with the driver of this thread. The driver never calls back, so this cannot be
/// entered twice.
pub(crate) fn with_driver<T>(work: impl FnOnce(&mut Driver) -> T) -> T {
    RUNTIME.with(|runtime| work(&mut runtime.driver.borrow_mut()))
}

/// The same from a destructor, which may run when the thread's data is gone already.
pub(crate) fn try_with_driver(work: impl FnOnce(&mut Driver)) {
    let _ = RUNTIME.try_with(|runtime| {
        if let Ok(mut driver) = runtime.driver.try_borrow_mut() {
            work(&mut driver);
        }
    });
}

/// Runs a future to its end, and with it every task that was spawned.
///
/// Tasks that are not finished then stay, and go on in the next `block_on`.
///
/// # Examples
///
/// ```
/// let sum = mainspring_guest::block_on(async {
///     let three = mainspring_guest::spawn(async { 3 });
///     four().await + three.await.unwrap()
/// });
/// assert_eq!(sum, 7);
///
/// async fn four() -> u32 {
///     4
/// }
/// ```
///
/// # Panics
///
/// Inside another `block_on`, or if the host has no `sys/loop@v1` when nothing can run.
pub fn block_on<F: Future>(future: F) -> F::Output {
    crate::runtime::panic_hook::install();
    let runtime = RUNTIME.with(Rc::clone);
    assert!(!runtime.running.replace(true), "block_on was called inside block_on: await the future instead");
    let _running = Running(&runtime);
    runtime.run(future)
}

/// Resets the mark even if the future panics.
struct Running<'a>(&'a Runtime);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.set(false);
    }
}

/// Starts a task beside the one that calls this. It need not be `Send`: a guest has one thread.
///
/// The handle gives its result; dropping the handle leaves the task running.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let (join, completion) = Join::new();
    let work = async move { completion.complete(future.await) };
    let key = RUNTIME.with(|runtime| runtime.insert(Box::pin(work)));
    JoinHandle::new(join, key)
}

/// Drops a task's future, unless it has finished.
pub(crate) fn abort(key: TaskKey) {
    let removed = RUNTIME.try_with(|runtime| runtime.remove(key)).ok().flatten();
    drop(removed);
}

/// Waits, with the whole guest, for something to happen: for writes that cannot be asynchronous.
/// Tasks are woken as usual and run later.
pub(crate) fn park_all() {
    RUNTIME.with(|runtime| runtime.park(Wait::Forever));
}

/// How often this guest has polled: what was true of the world outside may have changed since.
#[cfg(feature = "capability")]
pub(crate) fn polls() -> u64 {
    RUNTIME.with(|runtime| runtime.polls.get())
}

/// Lets every other task that can run go first.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Runtime {
    fn insert(&self, future: LocalFuture) -> TaskKey {
        let generation = self.generation.get();
        self.generation.set(generation + 1);
        let mut tasks = self.tasks.borrow_mut();
        let entry = tasks.vacant_entry();
        let key = TaskKey { slot: entry.key(), generation };
        let wakeup = Wakeup::new(key, Arc::clone(&self.queue));
        wakeup.wake_by_ref();
        entry.insert(Task { generation, future: Some(future), wakeup });
        key
    }

    /// Takes a task out; its future is returned so that it is dropped where nothing is borrowed.
    fn remove(&self, key: TaskKey) -> Option<Task> {
        let mut tasks = self.tasks.borrow_mut();
        let live = tasks.get(key.slot).is_some_and(|task| task.generation == key.generation);
        live.then(|| tasks.remove(key.slot))
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let wakeup = Wakeup::new(ROOT, Arc::clone(&self.queue));
        let waker = Waker::from(Arc::clone(&wakeup));
        wakeup.wake_by_ref();
        let mut runs = 0;
        loop {
            while let Some(key) = self.queue.pop() {
                runs += 1;
                if key == ROOT {
                    wakeup.queued.store(false, Ordering::Release);
                    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                        return output;
                    }
                } else {
                    self.run_task(key);
                }
                if runs >= RUNS_PER_POLL_MAX {
                    runs = 0;
                    self.look();
                }
            }
            runs = 0;
            self.park(Wait::Forever);
        }
    }

    fn run_task(&self, key: TaskKey) {
        let Some((mut future, waker)) = self.take_future(key) else { return };
        let finished = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        if finished {
            drop(self.remove(key));
            return;
        }
        let mut tasks = self.tasks.borrow_mut();
        if let Some(task) = tasks.get_mut(key.slot).filter(|task| task.generation == key.generation) {
            task.future = Some(future);
            return;
        }
        // It was aborted while it ran.
        drop(tasks);
        drop(future);
    }

    fn take_future(&self, key: TaskKey) -> Option<(LocalFuture, Waker)> {
        let mut tasks = self.tasks.borrow_mut();
        let task = tasks.get_mut(key.slot).filter(|task| task.generation == key.generation)?;
        let future = task.future.take()?;
        task.wakeup.queued.store(false, Ordering::Release);
        Some((future, Waker::from(Arc::clone(&task.wakeup))))
    }

    /// A POLL that does not wait, if anything can have happened.
    fn look(&self) {
        if self.driver.borrow().has_sources() && !self.queue.is_empty() {
            self.park(Wait::Not);
        }
    }

    fn park(&self, wait: Wait) {
        self.polls.set(self.polls.get() + 1);
        let polled = self.driver.borrow_mut().poll(wait);
        let mut woken = self.driver.borrow_mut().take_woken();
        woken.drain(..).for_each(Waker::wake);
        self.driver.borrow_mut().keep_list(woken);
        // Nothing can run and nothing can be waited for: going on would be a busy loop.
        if let Err(error) = polled {
            panic!("{error}");
        }
    }
}
