//! tokio's current-thread runtime: a task per descriptor, edge-triggered; a hashed wheel of
//! milliseconds for timers.
//!
//! Dispatch without a write does not exist for it. Watching again while watched does not exist
//! either. A timer is a `Sleep` that was polled once, which is what registers it; it sits in a slot
//! made beforehand, so no box is paid for.

use std::cell::{Cell, RefCell};
use std::future::{Future as _, poll_fn};
use std::os::fd::{FromRawFd as _, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::time::{Duration, Instant};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, Interest};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::sync::Notify;
use tokio::task::coop::unconstrained;
use tokio::time::{Sleep, sleep_until};

use crate::workload::{Kind, Oneshot, TimerQueue, Watching, on_bytes, on_ready, on_timer};

pub(crate) struct Tokio {
    runtime: &'static Runtime,
    _context: EnterGuard<'static>,
    stop: Arc<Notify>,
    idle: Vec<(RawFd, Option<AsyncFd<RawFd>>)>,
    sleeps: Vec<Option<Sleep>>,
    now: Instant,
}

impl Tokio {
    pub(crate) fn new() -> Tokio {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let runtime: &'static Runtime = Box::leak(Box::new(runtime));
        Tokio {
            runtime,
            _context: runtime.enter(),
            stop: Arc::new(Notify::new()),
            idle: Vec::new(),
            sleeps: Vec::new(),
            now: Instant::now(),
        }
    }

    fn spawn_eventfd(&self, index: usize, fd: RawFd) {
        let stop = Arc::clone(&self.stop);
        self.runtime.spawn(async move {
            let watched = register(fd);
            loop {
                watched.readable().await.expect("ready").clear_ready();
                if on_ready(Kind::DispatchEdge, index, fd) {
                    stop.notify_one();
                }
            }
        });
    }

    /// A buffer larger than what comes lets tokio see that the socket is empty without asking
    /// again.
    fn spawn_pipe(&self, index: usize, fd: RawFd) {
        let stop = Arc::clone(&self.stop);
        self.runtime.spawn(async move {
            // SAFETY: the workload hands the descriptor over and never uses it again.
            let stream = unsafe { std::os::unix::net::UnixStream::from_raw_fd(fd) };
            let mut stream = UnixStream::from_std(stream).expect("watched");
            let mut bytes = [0; 64];
            loop {
                let count = stream.read(&mut bytes).await.expect("read");
                if on_bytes(index, count as i64) {
                    stop.notify_one();
                }
            }
        });
    }
}

fn register(fd: RawFd) -> AsyncFd<RawFd> {
    // SAFETY: the workload never closes its descriptors.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.expect("watched")
}

/// Where timer `timer` sleeps.
fn slot(sleeps: &mut [Option<Sleep>], timer: usize) -> Pin<&mut Option<Sleep>> {
    // SAFETY: the slots are never moved: the vector is filled once and a sleep is dropped in its
    // place.
    unsafe { Pin::new_unchecked(&mut sleeps[timer]) }
}

impl Watching for Tokio {
    fn watch(&mut self, fds: &[RawFd], kind: Kind) {
        for (index, &fd) in fds.iter().enumerate() {
            if kind == Kind::Pipe { self.spawn_pipe(index, fd) } else { self.spawn_eventfd(index, fd) }
        }
        // Each task registers its descriptor when it first runs.
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
    }

    /// Registrations alone, without tasks that wait on them.
    fn watch_idle(&mut self, fds: &[RawFd]) {
        self.idle = fds.iter().map(|&fd| (fd, Some(register(fd)))).collect();
    }

    fn rewatch(&mut self) {
        unreachable!("tokio does not replace a registration");
    }

    fn unwatch_watch(&mut self) {
        for (fd, watched) in &mut self.idle {
            *watched = None;
            *watched = Some(register(*fd));
        }
        self.runtime.block_on(tokio::task::yield_now()); // the driver frees what was dropped in its next turn
    }

    fn run(&mut self) {
        self.runtime.block_on(self.stop.notified());
    }
}

impl TimerQueue for Tokio {
    fn open(&mut self, count: usize) {
        self.sleeps.resize_with(count, || None);
    }

    /// With an earlier timer pending and the driver parked once, inserting a later one does not
    /// wake the driver, which would cost a system call each: tokio's good case.
    fn set_now(&mut self, now: Instant) {
        self.now = now;
        let earlier = tokio::time::sleep(Duration::from_secs(30));
        self.runtime.spawn(earlier);
        self.runtime.block_on(tokio::time::sleep(Duration::from_millis(1)));
    }

    fn start(&mut self, timer: usize, after_ns: u64) {
        let mut slot = slot(&mut self.sleeps, timer);
        slot.set(Some(sleep_until((self.now + Duration::from_nanos(after_ns)).into())));
        let sleep = slot.as_pin_mut().expect("just set");
        let ready = sleep.poll(&mut Context::from_waker(&numbered_waker(timer))).is_ready();
        assert!(!ready, "a timer was due before it was registered");
    }

    fn stop(&mut self, timer: usize) {
        slot(&mut self.sleeps, timer).set(None);
    }

    fn reschedule(&mut self, timer: usize, after_ns: u64) {
        let sleep = slot(&mut self.sleeps, timer).as_pin_mut().expect("started");
        sleep.reset((self.now + Duration::from_nanos(after_ns)).into());
    }

    /// The least that an executor does: a woken sleep is noted, polled again, and what waited for
    /// it runs.
    fn run(&mut self) {
        let sleeps = &mut self.sleeps;
        let resume = poll_fn(|context| {
            MAIN_TASK.set(Some(context.waker().clone()));
            let woken = WOKEN.take();
            for &timer in &woken {
                let sleep = slot(sleeps, timer).as_pin_mut().expect("started");
                if sleep.poll(&mut Context::from_waker(Waker::noop())).is_ready() && on_timer() {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        });
        self.runtime.block_on(unconstrained(resume));
    }
}

thread_local! {
    static WOKEN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    static MAIN_TASK: Cell<Option<Waker>> = const { Cell::new(None) };
}

/// A waker that is just a timer's number: no allocation, no reference count.
fn numbered_waker(timer: usize) -> Waker {
    const VTABLE: RawWakerVTable =
        RawWakerVTable::new(|number| RawWaker::new(number, &VTABLE), note_woken, note_woken, |_| ());
    // SAFETY: the data is a number that is never followed, so the functions cannot misuse it; the
    // thread-local lists they reach are used on this thread alone, as the runtime has no other.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::without_provenance(timer), &VTABLE)) }
}

fn note_woken(number: *const ()) {
    WOKEN.with_borrow_mut(|woken| woken.push(number.addr()));
    if let Some(main) = MAIN_TASK.take() {
        main.wake();
    }
}

impl Oneshot for Tokio {
    fn oneshot(&mut self, after: Duration) -> u64 {
        self.runtime.block_on(tokio::time::sleep(after));
        bench_support::monotonic_ns()
    }
}
