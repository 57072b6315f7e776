//! Futures on the loop: spawn, join, abort, wakers, sleep, timeout, readiness.

mod support;

use mainspring_reactor::{Async, Backend, Elapsed, Error, Handle, JoinError, Reactor, TASKS_PER_TURN_MAX};
use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn, ready};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use support::descriptors::{drain, fill, peer_is_closed, pipe, readable_socket, sockets, write_byte};
use support::{Log, NOW, NoteOnDrop, PATIENCE, on_each_backend, panic_of, reactor, virtual_reactor};

const SECOND: Duration = Duration::from_secs(1);

/// Lets everybody else run once.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

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
        assert_eq!(reactor.poll(PATIENCE).unwrap(), 0, "tasks are not callbacks");
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
            reactor.poll(PATIENCE).unwrap();
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

    fn async_read_waits_for_bytes_and_ends_with_the_stream(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let left = Async::new(&reactor, left).unwrap();
        let mut right = Some(right);
        let handle = reactor.handle();
        let received = reactor.block_on(async move {
            let mut received = Vec::new();
            let writer = async move {
                for word in ["one", "two"] {
                    right.as_mut().unwrap().write_all(word.as_bytes()).unwrap();
                    yield_now().await;
                }
                drop(right.take());
            };
            let writer = handle.spawn(writer).unwrap();
            loop {
                let mut buffer = [0; 16];
                let count = left.read_with(|mut stream| stream.read(&mut buffer)).await.unwrap();
                if count == 0 {
                    break;
                }
                received.extend_from_slice(&buffer[..count]);
            }
            writer.await.unwrap();
            received
        });
        assert_eq!(received.unwrap(), b"onetwo");
        assert_eq!(reactor.watcher_count(), 0);
    }

    fn async_write_waits_for_room(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        fill(&left);
        let left = Async::new(&reactor, left).unwrap();
        let done = Rc::new(Cell::new(false));
        let flag = done.clone();
        reactor
            .spawn(async move {
                left.write_with(|mut stream| stream.write(b"more")).await.unwrap();
                flag.set(true);
            })
            .unwrap();
        turns(&mut reactor, 5);
        assert!(!done.get());
        drain(&right);
        reactor.run_until_idle().unwrap();
        assert!(done.get());
    }

    fn async_moves_a_megabyte_both_ways_at_once(backend: Backend) {
        const BYTES: usize = 1 << 20;
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let ends = [left, right].map(|end| Rc::new(Async::new(&reactor, end).unwrap()));
        let mut readers = Vec::new();
        for end in &ends {
            let (reader, writer) = (end.clone(), end.clone());
            readers.push(reactor.spawn(async move { receive(&reader, BYTES).await }).unwrap());
            reactor.spawn(async move { send(&writer, BYTES).await }).unwrap();
        }
        for reader in readers {
            assert_eq!(reactor.block_on(reader).unwrap(), Ok(BYTES));
        }
    }

    fn async_wakes_everybody_who_waits_for_the_same(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let left = Rc::new(Async::new(&reactor, left).unwrap());
        let count = Rc::new(Cell::new(0));
        for _ in 0..10 {
            let (left, count) = (left.clone(), count.clone());
            reactor
                .spawn(async move {
                    left.read_with(|mut stream| stream.read(&mut [0; 1])).await.unwrap();
                    count.set(count.get() + 1);
                })
                .unwrap();
        }
        turns(&mut reactor, 5);
        for byte in 1..=10 {
            write_byte(&right);
            turns(&mut reactor, 5);
            assert_eq!(count.get(), byte, "one byte is for one of them, and the others go on waiting");
        }
        drop(left);
        reactor.run_until_idle().unwrap();
    }

    fn async_reading_and_writing_tasks_do_not_disturb_each_other(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        fill(&left);
        let left = Rc::new(Async::new(&reactor, left).unwrap());
        let log = Log::new();
        let (reader, calls) = (left.clone(), log.clone());
        reactor
            .spawn(async move {
                reader.readable().await.unwrap();
                calls.note("readable")
            })
            .unwrap();
        let (writer, calls) = (left.clone(), log.clone());
        reactor
            .spawn(async move {
                writer.writable().await.unwrap();
                calls.note("writable")
            })
            .unwrap();
        turns(&mut reactor, 5);
        assert!(log.is_empty());
        write_byte(&right);
        turns(&mut reactor, 5);
        assert_eq!(log.take(), ["readable"]);
        drain(&right);
        turns(&mut reactor, 5);
        assert_eq!(log.take(), ["writable"]);
    }

    fn async_readable_looks_afresh_each_time(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = readable_socket();
        let left = Async::new(&reactor, left).unwrap();
        let handle = reactor.handle();
        reactor
            .block_on(async {
                left.readable().await.unwrap();
                left.readable().await.unwrap();
                drain(left.get_ref());
                let nothing = handle.timeout(Duration::from_millis(2), left.readable()).await;
                assert_eq!(nothing.map(|result| result.is_ok()), Err(Elapsed));
                write_byte(&right);
                left.readable().await.unwrap();
            })
            .unwrap();
    }

    fn async_a_hang_up_ends_every_wait(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        fill(&left);
        let left = Rc::new(Async::new(&reactor, left).unwrap());
        let (reader, writer) = (left.clone(), left);
        let read = reactor
            .spawn(async move { reader.read_with(|mut stream| stream.read(&mut [0; 1])).await })
            .unwrap();
        let write =
            reactor.spawn(async move { writer.write_with(|mut stream| stream.write(b"x")).await }).unwrap();
        turns(&mut reactor, 5);
        drop(right);
        let end = reactor.block_on(read).unwrap().unwrap();
        assert!(
            matches!(&end, Ok(0))
                || end.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
        );
        let failed = reactor.block_on(write).unwrap().unwrap().unwrap_err();
        assert!(
            matches!(failed.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset),
            "{failed}"
        );
    }

    fn async_a_pipe_whose_other_end_goes_ends_every_wait(backend: Backend) {
        // A pipe reports its end by a hang-up, or an error, and nothing else.
        let mut reactor = reactor(backend);
        let (reader, writer) = pipe();
        let reader = Async::new(&reactor, reader).unwrap();
        let read = reactor
            .spawn(async move { reader.read_with(|mut reader| reader.read(&mut [0; 1])).await })
            .unwrap();
        turns(&mut reactor, 5);
        drop(writer);
        assert_eq!(reactor.block_on(read).unwrap().unwrap().unwrap(), 0);

        let (reader, writer) = pipe();
        fill(&writer);
        let writer = Async::new(&reactor, writer).unwrap();
        let write =
            reactor.spawn(async move { writer.write_with(|mut writer| writer.write(b"x")).await }).unwrap();
        turns(&mut reactor, 5);
        drop(reader);
        let failed = reactor.block_on(write).unwrap().unwrap().unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::BrokenPipe);
    }

    fn async_dropped_while_a_task_waits_ends_the_watch_and_closes_the_source(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let left = Async::new(&reactor, left).unwrap();
        let task = reactor.spawn(async move { left.readable().await }).unwrap();
        turns(&mut reactor, 5);
        assert_eq!(reactor.watcher_count(), 1);
        task.abort();
        reactor.run_until_idle().unwrap();
        assert_eq!(reactor.watcher_count(), 0);
        assert!(peer_is_closed(&right));
    }

    fn async_a_wait_given_up_leaves_the_next_one_intact(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let left = Async::new(&reactor, left).unwrap();
        let handle = reactor.handle();
        reactor
            .block_on(async {
                for _ in 0..3 {
                    let wait = left.read_with(|mut stream| stream.read(&mut [0; 1]));
                    assert!(handle.timeout(Duration::from_micros(200), wait).await.is_err());
                }
                write_byte(&right);
                assert_eq!(left.read_with(|mut stream| stream.read(&mut [0; 4])).await.unwrap(), 1);
            })
            .unwrap();
    }

    fn async_on_a_loop_that_has_gone_is_an_error_and_not_a_hang(backend: Backend) {
        let first = reactor(backend);
        let (left, _right) = sockets();
        let left = Async::new(&first, left).unwrap();
        drop(first);
        let mut second = reactor(backend);
        let error =
            second.block_on(left.read_with(|mut stream| stream.read(&mut [0; 1]))).unwrap().unwrap_err();
        assert!(error.to_string().contains("dropped"), "{error}");
    }

    fn async_unwatched_behind_its_back_is_an_error_and_not_a_hang(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = sockets();
        let fd = left.as_raw_fd();
        let left = Async::new(&reactor, left).unwrap();
        reactor.unwatch(reactor.watcher_of(fd).unwrap());
        let waited = reactor.block_on(left.read_with(|mut stream| stream.read(&mut [0; 1]))).unwrap();
        assert!(waited.is_err());
    }

    fn async_asks_the_kernel_nothing_while_reads_succeed(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let left = Async::new(&reactor, left).unwrap();
        reactor.block_on(left.read_with(|mut stream| stream.read(&mut [0; 1]))).unwrap().unwrap();
        assert_eq!(reactor.stats().turns, 0, "no turn was needed");
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

/// Receives until `count` bytes have come.
async fn receive(stream: &Async<UnixStream>, count: usize) -> usize {
    let (mut buffer, mut total) = (vec![0; 8192], 0);
    while total < count {
        total += stream.read_with(|mut stream| stream.read(&mut buffer)).await.unwrap();
    }
    total
}

/// Sends `count` bytes.
async fn send(stream: &Async<UnixStream>, count: usize) {
    let (buffer, mut left) = (vec![0; 8192], count);
    while left > 0 {
        let length = left.min(buffer.len());
        left -= stream.write_with(|mut stream| stream.write(&buffer[..length])).await.unwrap();
    }
}

/// A few turns that do not block.
fn turns(reactor: &mut Reactor, count: usize) {
    for _ in 0..count {
        reactor.poll(NOW).unwrap();
    }
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
