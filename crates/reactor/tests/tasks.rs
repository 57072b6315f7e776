//! Futures on the loop: spawn, join, abort, wakers, sleep, timeout, readiness.

mod support;

use mainspring_reactor::{Backend, Elapsed, Error, Handle, JoinError, Reactor, TASKS_PER_TURN_MAX};
use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn, ready};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use support::descriptors::{drain, readable_socket};
use support::{
    Log, NOW, NoteOnDrop, TEST_TIMEOUT, on_each_backend, panic_of, reactor, virtual_reactor, yield_now,
};

const SECOND: Duration = Duration::from_secs(1);

/// A one-time event that any thread can set off.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<(bool, Option<Waker>)>>);

impl Gate {
    fn open(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        if let Some(waker) = state.1.take() {
            drop(state);
            waker.wake();
        }
    }

    async fn opened(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            state.1 = Some(context.waker().clone());
            if state.0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn waker(&self) -> Option<Waker> {
        self.0.lock().unwrap().1.clone()
    }
}

on_each_backend! {
    fn spawn_runs_a_future_and_join_gives_its_output(backend: Backend) {
        let mut reactor = reactor(backend);
        let not_send = Rc::new(41);
        let task = reactor.spawn(async move { *not_send + 1 }).unwrap();
        assert!(!task.is_finished());
        assert_eq!(reactor.task_count(), 1);
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 0, "tasks are not callbacks");
        assert!(task.is_finished());
        assert_eq!(reactor.task_count(), 0);
        assert_eq!(reactor.block_on(task).unwrap(), Ok(42));
    }

    fn dropping_the_join_handle_lets_the_task_run_on(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        drop(
            reactor
                .spawn(async move {
                    yield_now().await;
                    calls.note("done")
                })
                .unwrap(),
        );
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), ["done"]);
    }

    fn abort_drops_the_future_without_polling_it_again(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let (calls, data) = (log.clone(), NoteOnDrop(log.clone(), "future dropped"));
        let task = reactor
            .spawn(async move {
                let _data = data;
                calls.note("begun");
                pending::<()>().await;
            })
            .unwrap();
        reactor.poll(NOW).unwrap();
        assert_eq!(log.take(), ["begun"]);
        task.abort();
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), ["future dropped"]);
        assert_eq!(reactor.task_count(), 0);
    }

    fn abort_of_a_task_that_has_ended_does_nothing(backend: Backend) {
        let mut reactor = reactor(backend);
        let task = reactor.spawn(ready(1)).unwrap();
        reactor.poll(NOW).unwrap();
        task.abort();
        reactor.run_until_idle().unwrap();
    }

    fn tasks_spawn_tasks_and_wait_for_them(backend: Backend) {
        let mut reactor = reactor(backend);
        let handle = reactor.handle();
        let sum = reactor.block_on(async move {
            let tasks: Vec<_> = (0..100)
                .map(|n| {
                    handle
                        .spawn(async move {
                            yield_now().await;
                            n
                        })
                        .unwrap()
                })
                .collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            sum
        });
        assert_eq!(sum.unwrap(), 4950);
    }

    fn r12_wakers_work_from_any_thread(backend: Backend) {
        let mut reactor = reactor(backend);
        let gate = Gate::default();
        let waiting = gate.clone();
        let task = reactor.spawn(async move { waiting.opened().await }).unwrap();
        reactor.poll(NOW).unwrap();
        let opener = std::thread::spawn(move || gate.open());
        assert_eq!(reactor.block_on(task).unwrap(), Ok(()));
        opener.join().unwrap();
    }

    fn r12_wakes_from_many_threads_are_never_lost(backend: Backend) {
        const TASKS: usize = 200;
        let mut reactor = reactor(backend);
        let gates: Vec<Gate> = (0..TASKS).map(|_| Gate::default()).collect();
        for gate in &gates {
            let gate = gate.clone();
            reactor.spawn(async move { gate.opened().await }).unwrap();
        }
        reactor.poll(NOW).unwrap();
        let threads: Vec<_> = gates
            .chunks(TASKS / 4)
            .map(|gates| {
                let gates = gates.to_vec();
                std::thread::spawn(move || gates.iter().for_each(Gate::open))
            })
            .collect();
        reactor.run_until_idle().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(reactor.task_count(), 0);
    }

    fn r12_a_bounded_number_of_tasks_runs_per_turn_and_nobody_starves(backend: Backend) {
        let mut reactor = reactor(backend);
        let polls = Rc::new(Cell::new(0));
        for _ in 0..3 {
            let polls = polls.clone();
            reactor
                .spawn(async move {
                    loop {
                        polls.set(polls.get() + 1);
                        yield_now().await
                    }
                })
                .unwrap();
        }
        let (left, _right) = readable_socket();
        let reads = Rc::new(Cell::new(0));
        let count = reads.clone();
        reactor.watch(left).on_read(move |_, _| count.set(count.get() + 1)).start().unwrap();
        for _ in 0..10 {
            reactor.poll(TEST_TIMEOUT).unwrap();
        }
        assert_eq!(reads.get(), 10, "busy tasks do not keep descriptors waiting");
        assert_eq!(polls.get(), 10 * TASKS_PER_TURN_MAX);
        assert_eq!(reactor.stats().task_polls, 10 * TASKS_PER_TURN_MAX as u64);
    }

    fn r12_tasks_take_turns_in_the_order_of_waking(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        for number in 0..3 {
            let calls = log.clone();
            reactor
                .spawn(async move {
                    for _ in 0..2 {
                        calls.note(number);
                        yield_now().await;
                    }
                })
                .unwrap();
        }
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), [0, 1, 2, 0, 1, 2]);
    }

    fn r7_a_panic_in_a_task_comes_out_of_the_turn_and_ends_that_task_alone(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let failing = reactor.spawn(async { panic!("in a task") }).unwrap();
        let calls = log.clone();
        let fine = reactor.spawn(async move { calls.note("fine") }).unwrap();
        assert_eq!(panic_of(|| drop(reactor.poll(NOW))), "in a task");
        reactor.poll(NOW).unwrap();
        assert_eq!(log.take(), ["fine"]);
        assert_eq!(reactor.block_on(fine).unwrap(), Ok(()));
        assert_eq!(reactor.block_on(failing).unwrap(), Err::<(), _>(JoinError));
        assert_eq!(reactor.task_count(), 0);
    }

    fn block_on_runs_a_future_that_borrows(backend: Backend) {
        let mut reactor = reactor(backend);
        let mut local = 1;
        let handle = reactor.handle();
        reactor
            .block_on(async {
                handle.sleep(Duration::from_micros(10)).await.unwrap();
                local += 1
            })
            .unwrap();
        assert_eq!(local, 2);
    }

    fn block_on_is_woken_by_other_threads(backend: Backend) {
        let mut reactor = reactor(backend);
        for _ in 0..50 {
            let gate = Gate::default();
            let opener = gate.clone();
            let thread = std::thread::spawn(move || opener.open());
            reactor.block_on(gate.opened()).unwrap();
            thread.join().unwrap();
        }
    }

    fn block_on_serves_everything_else_meanwhile(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        let (left, _right) = readable_socket();
        let calls = log.clone();
        reactor
            .watch(left)
            .on_read(move |stream, event| {
                drain(&*stream);
                calls.note("read");
                event.unwatch()
            })
            .start()
            .unwrap();
        let calls = log.clone();
        reactor.after(SECOND, move |_| calls.note("timer")).unwrap();
        let handle = reactor.handle();
        reactor.block_on(handle.sleep(2 * SECOND)).unwrap().unwrap();
        assert_eq!(log.take(), ["read", "timer"]);
        assert_eq!(clock.elapsed(), 2 * SECOND);
    }

    fn block_on_ignores_stop_which_then_ends_the_next_run(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        let handle = reactor.handle();
        let outcome = reactor.block_on(async move {
            assert!(handle.is_running());
            handle.stop();
            handle.sleep(SECOND).await.unwrap();
            "done"
        });
        assert_eq!(outcome.unwrap(), "done");
        assert!(!reactor.is_running());
        reactor.every(SECOND, |_| ()).unwrap();
        reactor.run().unwrap();
    }

    fn block_on_can_be_repeated_after_a_panic(backend: Backend) {
        let mut reactor = reactor(backend);
        assert_eq!(panic_of(|| drop(reactor.block_on(async { panic!("main") }))), "main");
        assert!(!reactor.is_running());
        assert_eq!(reactor.block_on(ready(5)).unwrap(), 5);
    }

    fn sleep_ends_at_its_deadline_and_never_before(backend: Backend) {
        let mut reactor = reactor(backend);
        let handle = reactor.handle();
        reactor
            .block_on(async move {
                for micros in [0, 100, 700, 2500] {
                    let deadline = handle.now().checked_add(Duration::from_micros(micros)).unwrap();
                    handle.sleep_until(deadline).await.unwrap();
                    assert!(handle.now() >= deadline);
                }
            })
            .unwrap();
    }

    fn sleep_that_is_dropped_leaves_no_timer(backend: Backend) {
        let mut reactor = reactor(backend);
        let handle = reactor.handle();
        reactor
            .block_on(async {
                let mut sleep = Box::pin(handle.sleep(SECOND));
                assert_eq!(handle.timer_count(), 0, "nothing before it is awaited");
                poll_fn(|context| {
                    assert!(sleep.as_mut().poll(context).is_pending());
                    Poll::Ready(())
                })
                .await;
                assert_eq!(handle.timer_count(), 1);
                drop(sleep);
                assert_eq!(handle.timer_count(), 0);
            })
            .unwrap();
    }

    fn sleep_wakes_the_task_that_polled_it_last(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        let handle = reactor.handle();
        let shared = Rc::new(RefCell::new(Box::pin(handle.sleep(SECOND))));
        let first = shared.clone();
        reactor
            .spawn(async move {
                poll_fn(|context| {
                    let _ = first.borrow_mut().as_mut().poll(context);
                    Poll::Ready(())
                })
                .await;
            })
            .unwrap();
        reactor.poll(NOW).unwrap();
        let second = reactor
            .spawn(async move {
                poll_fn(|context| shared.borrow_mut().as_mut().poll(context)).await.unwrap();
                "woken"
            })
            .unwrap();
        assert_eq!(reactor.block_on(second).unwrap(), Ok("woken"));
    }

    fn sleep_beyond_the_range_of_time_is_an_error(backend: Backend) {
        let mut reactor = reactor(backend);
        let sleep = reactor.sleep(Duration::MAX);
        assert!(matches!(reactor.block_on(sleep).unwrap(), Err(Error::DeadlineOutOfRange)));
    }

    fn timeout_gives_up_after_its_limit_and_drops_the_future(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        let data = NoteOnDrop(log.clone(), "future dropped");
        let future = async move {
            let _data = data;
            pending::<()>().await
        };
        let limited = reactor.timeout(5 * SECOND, future);
        assert_eq!(reactor.block_on(limited).unwrap(), Err(Elapsed));
        assert_eq!(log.take(), ["future dropped"]);
        assert_eq!(clock.elapsed(), 5 * SECOND);
        assert_eq!(reactor.timer_count(), 0);
    }

    fn timeout_of_a_future_that_is_done_in_time_gives_its_output(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let handle = reactor.handle();
        let limited = reactor.timeout(5 * SECOND, async move {
            handle.sleep(SECOND).await.unwrap();
            3
        });
        assert_eq!(reactor.block_on(limited).unwrap(), Ok(3));
        assert_eq!(clock.elapsed(), SECOND);
        let forever = reactor.timeout(Duration::MAX, ready(4));
        assert_eq!(reactor.block_on(forever).unwrap(), Ok(4));
        assert_eq!(reactor.timer_count(), 0, "the limit's timer is gone with it");
    }

    fn dropping_the_reactor_drops_every_task_on_its_own_thread(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let gate = Gate::default();
        for number in 0..3 {
            let data = NoteOnDrop(log.clone(), "dropped");
            let (gate, handle) = (gate.clone(), reactor.handle());
            let task = async move {
                let _data = data;
                let _sleep = handle.sleep(SECOND);
                if number == 0 { gate.opened().await } else { handle.sleep(SECOND).await.unwrap() }
            };
            reactor.spawn(task).unwrap();
        }
        reactor.poll(NOW).unwrap();
        let waker = gate.waker().unwrap();
        drop(reactor);
        assert_eq!(log.take(), ["dropped"; 3]);
        waker.wake_by_ref();
        std::thread::spawn(move || waker.wake()).join().unwrap();
    }

    fn a_task_that_ends_another_while_the_loop_ends_does_no_harm(backend: Backend) {
        let mut reactor = reactor(backend);
        /// Aborts a task when it is dropped.
        struct AbortOnDrop(Option<mainspring_reactor::JoinHandle<()>>);
        impl Drop for AbortOnDrop {
            fn drop(&mut self) {
                self.0.take().unwrap().abort();
            }
        }
        let victim = reactor.spawn(pending::<()>()).unwrap();
        let guard = AbortOnDrop(Some(victim));
        reactor
            .spawn(async move {
                let _guard = guard;
                pending::<()>().await
            })
            .unwrap();
        reactor.poll(NOW).unwrap();
        drop(reactor);
    }

    fn join_handle_of_a_dropped_loop_says_so(backend: Backend) {
        let mut first = reactor(backend);
        let task = first.spawn(pending::<()>()).unwrap();
        first.poll(NOW).unwrap();
        drop(first);
        assert!(task.is_finished());
        assert_eq!(reactor(backend).block_on(task).unwrap(), Err(JoinError));
    }

    fn a_waker_woken_twice_runs_its_task_once(backend: Backend) {
        let mut reactor = reactor(backend);
        let polls = Rc::new(Cell::new(0));
        let count = polls.clone();
        let slot: Rc<RefCell<Option<Waker>>> = Rc::default();
        let held = slot.clone();
        reactor
            .spawn(poll_fn(move |context| {
                count.set(count.get() + 1);
                *held.borrow_mut() = Some(context.waker().clone());
                Poll::<()>::Pending
            }))
            .unwrap();
        reactor.poll(NOW).unwrap();
        for _ in 0..5 {
            slot.borrow().as_ref().unwrap().wake_by_ref();
        }
        reactor.poll(NOW).unwrap();
        assert_eq!(polls.get(), 2);
    }
}

#[test]
fn woken_tasks_may_be_run_between_two_turns_and_nothing_else_is() {
    let mut reactor = Reactor::new().unwrap();
    let (gate, log) = (Gate::default(), Rc::new(RefCell::new(Vec::new())));
    let (waiting, noted) = (gate.clone(), log.clone());
    reactor
        .spawn(async move {
            waiting.opened().await;
            noted.borrow_mut().push("task");
        })
        .unwrap();
    reactor.poll(NOW).unwrap();
    assert!(!reactor.run_woken_tasks(), "nobody was woken");
    let noted = log.clone();
    reactor.defer(move |_| noted.borrow_mut().push("deferred")).unwrap();
    gate.open();
    let turns = reactor.stats().turns;
    assert!(reactor.run_woken_tasks());
    assert_eq!((&*log.borrow(), reactor.stats().turns), (&vec!["task"], turns));
    reactor.poll(NOW).unwrap();
    assert_eq!(*log.borrow(), ["task", "deferred"]);
}

#[test]
fn block_on_polls_its_future_only_when_it_was_woken() {
    /// Counts its polls.
    struct Counted(usize);
    impl Future for Counted {
        type Output = usize;
        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<usize> {
            self.0 += 1;
            if self.0 == 3 {
                return Poll::Ready(self.0);
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }
    let (mut reactor, _clock) = virtual_reactor(Backend::best());
    let other = reactor.spawn(async { (0..20).for_each(|_| ()) }).unwrap();
    assert_eq!(reactor.block_on(pin!(Counted(0))).unwrap(), 3);
    drop(other);
}

#[test]
fn a_foreign_waker_may_be_woken_from_a_task() {
    struct Flag(AtomicBool, AtomicUsize);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Release);
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    let mut reactor = Reactor::new().unwrap();
    let flag = Arc::new(Flag(AtomicBool::new(false), AtomicUsize::new(0)));
    let waker = Waker::from(flag.clone());
    let handle: Handle = reactor.handle();
    reactor
        .spawn(async move {
            handle.sleep(Duration::from_micros(1)).await.unwrap();
            waker.wake()
        })
        .unwrap();
    reactor.run_until_idle().unwrap();
    assert!(flag.0.load(Ordering::Acquire));
    assert_eq!(flag.1.load(Ordering::Relaxed), 1);
}
