//! How a loop ends, and what that means for whoever still waits for it or wakes it.

mod support;

use mainspring_reactor::{Async, Error, Handle};
use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::io::Read;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use support::descriptors::sockets;
use support::processes::{Watchdog, open_descriptors};
use support::{Log, NOW, NoteOnDrop, on_each_backend, reactor, virtual_reactor, yield_now};

const HOUR: Duration = Duration::from_secs(3600);

/// A task that leaves its waker for others and never ends by itself. It counts how often it is
/// dropped.
struct Sleeper {
    wakers: Arc<Mutex<Vec<Waker>>>,
    left: bool,
    dropped: Arc<AtomicUsize>,
}

impl Future for Sleeper {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !std::mem::replace(&mut self.left, true) {
            self.wakers.lock().unwrap().push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Drops a loop with eight tasks while two threads wake them all the time.
fn drop_while_tasks_are_woken(backend: mainspring_reactor::Backend, dropped: &Arc<AtomicUsize>) {
    const TASKS: usize = 8;
    let mut reactor = reactor(backend);
    let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
    for _ in 0..TASKS {
        let sleeper = Sleeper { wakers: wakers.clone(), left: false, dropped: dropped.clone() };
        drop(reactor.spawn(sleeper).unwrap());
    }
    reactor.poll(NOW).unwrap();
    let wakers = std::mem::take(&mut *wakers.lock().unwrap());
    assert_eq!(wakers.len(), TASKS);
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (stop, wakers) = (stop.clone(), wakers.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    wakers.iter().for_each(Waker::wake_by_ref);
                }
            })
        })
        .collect();
    for _ in 0..20 {
        reactor.poll(NOW).unwrap();
    }
    drop(reactor);
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(wakers);
}

/// Tests that count this process's descriptors, and those that hold some open, come one after the
/// other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

on_each_backend! {
    fn waking_tasks_while_their_loop_is_dropped_leaks_no_future_and_no_descriptor(backend: Backend) {
        const LOOPS: usize = 200;
        let _alone = alone();
        let dropped = Arc::new(AtomicUsize::new(0));
        let before = open_descriptors().len();
        for _ in 0..LOOPS {
            drop_while_tasks_are_woken(backend, &dropped);
        }
        assert_eq!(dropped.load(Ordering::SeqCst), 8 * LOOPS);
        assert_eq!(open_descriptors().len(), before);
    }

    fn a_task_that_closes_its_loop_is_dropped_and_never_polled_again(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let (log, polls) = (Log::new(), Rc::new(Cell::new(0)));
        let (handle, note, count) = (reactor.handle(), NoteOnDrop(log.clone(), "closer"), polls.clone());
        let closer = poll_fn(move |context| {
            let _note = &note;
            count.set(count.get() + 1);
            context.waker().wake_by_ref();
            handle.close();
            Poll::<()>::Pending
        });
        drop(reactor.spawn(closer).unwrap());
        let other = NoteOnDrop(log.clone(), "other");
        drop(reactor.spawn(async move { drop((pending::<()>().await, other)) }).unwrap());
        reactor.run().unwrap();
        assert_eq!((polls.get(), reactor.task_count()), (1, 0));
        assert_eq!(log.take(), ["other", "closer"]);
    }

    fn a_task_that_closes_its_loop_while_it_runs_others_ends_with_them(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let (log, polls) = (Log::new(), Rc::new(Cell::new(0)));
        let (handle, note, count) = (reactor.handle(), NoteOnDrop(log.clone(), "outer"), polls.clone());
        let outer = poll_fn(move |context| {
            let _note = &note;
            count.set(count.get() + 1);
            context.waker().wake_by_ref();
            handle.run_woken_tasks();
            Poll::<()>::Pending
        });
        drop(reactor.spawn(outer).unwrap());
        let (handle, note) = (reactor.handle(), NoteOnDrop(log.clone(), "inner"));
        let inner = async move {
            let _note = note;
            handle.close();
            pending::<()>().await;
        };
        drop(reactor.spawn(inner).unwrap());
        reactor.run().unwrap();
        assert_eq!((polls.get(), reactor.task_count()), (1, 0));
        assert_eq!(log.take(), ["inner", "outer"]);
    }

    fn a_future_that_closes_its_loop_when_it_is_dropped_does_no_harm(backend: Backend) {
        struct Closer(Handle);
        impl Drop for Closer {
            fn drop(&mut self) {
                self.0.close();
            }
        }
        let _alone = alone();
        let _watchdog = Watchdog::new();
        let mut reactor = reactor(backend);
        for _ in 0..3 {
            let closer = Closer(reactor.handle());
            drop(reactor.spawn(async move { drop((pending::<()>().await, closer)) }).unwrap());
        }
        reactor.poll(NOW).unwrap();
        let handle = reactor.handle();
        drop(reactor);
        assert_eq!(handle.task_count(), 0);
    }

    fn a_close_ends_block_on_instead_of_hanging_it(backend: Backend) {
        let _alone = alone();
        let _watchdog = Watchdog::new();
        let (mut reactor, _clock) = virtual_reactor(backend);
        let handle = reactor.handle();
        reactor.after(Duration::from_secs(1), |reactor| reactor.close()).unwrap();
        let slept = reactor.block_on(handle.sleep(HOUR));
        assert!(matches!(slept, Ok(Err(Error::Closed))), "the future is told: {slept:?}");

        let (mut reactor, _clock) = virtual_reactor(backend);
        reactor.after(Duration::from_secs(1), |reactor| reactor.close()).unwrap();
        assert!(matches!(reactor.block_on(pending::<()>()), Err(Error::Closed)));
    }

    fn block_on_a_closed_loop_goes_on_for_as_long_as_it_need_not_wait(backend: Backend) {
        let _alone = alone();
        let _watchdog = Watchdog::new();
        let mut reactor = reactor(backend);
        reactor.close();
        let steps = async {
            yield_now().await;
            yield_now().await;
            7
        };
        assert_eq!(reactor.block_on(steps).unwrap(), 7);
        assert!(matches!(reactor.block_on(pending::<()>()), Err(Error::Closed)));
    }

    fn a_closed_loop_is_refused_by_whatever_would_drive_it(backend: Backend) {
        let _alone = alone();
        let _watchdog = Watchdog::new();
        let mut reactor = reactor(backend);
        reactor.defer(|reactor| reactor.close()).unwrap();
        reactor.run().unwrap();
        for _ in 0..2 {
            assert!(matches!(reactor.run(), Err(Error::Closed)));
            assert!(matches!(reactor.run_until_idle(), Err(Error::Closed)));
            assert!(matches!(reactor.poll(None), Err(Error::Closed)));
            assert!(matches!(reactor.poll(NOW), Err(Error::Closed)));
        }
        assert!(!reactor.is_running());
    }

    fn a_close_ends_a_run_even_if_the_stop_was_used_up(backend: Backend) {
        let _alone = alone();
        let _watchdog = Watchdog::new();
        let mut reactor = reactor(backend);
        let handle = reactor.handle();
        drop(reactor.spawn(async move { handle.close() }).unwrap());
        assert_eq!(reactor.poll(None).unwrap(), 0, "only a task ran");
        assert!(matches!(reactor.run(), Err(Error::Closed)));
    }

    fn a_wait_that_another_loop_drives_hears_that_its_own_has_closed(backend: Backend) {
        let _alone = alone();
        let _watchdog = Watchdog::new();
        let (mut driver, _clock) = virtual_reactor(backend);
        for source in ["timer", "descriptor"] {
            let closing = reactor(backend);
            let (left, _right) = sockets();
            let stream = Async::new(&closing, left).unwrap();
            let handle = closing.handle();
            driver.after(Duration::from_secs(1), move |_| drop(closing)).unwrap();
            match source {
                "timer" => {
                    let slept = driver.block_on(handle.sleep(HOUR)).unwrap();
                    assert!(matches!(slept, Err(Error::Closed)), "{slept:?}");
                }
                _ => {
                    let read = stream.read_with(|mut stream| stream.read(&mut [0; 8]));
                    assert!(driver.block_on(read).unwrap().is_err());
                }
            }
        }
    }
}
