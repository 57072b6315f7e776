//! What other threads can do to a loop: wake it, stop it, have it make calls.

mod support;

use mainspring_reactor::{Error, Handle, INBOX_CALLS_MAX, Remote, Wakeup};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{Log, NOW, NoteOnDrop, TEST_TIMEOUT, on_each_backend, reactor, settle, virtual_reactor};

fn assert_send_and_sync<T: Send + Sync>() {}

#[test]
fn remote_and_wakeup_may_be_shared_between_threads() {
    assert_send_and_sync::<Remote>();
    assert_send_and_sync::<Wakeup>();
}

on_each_backend! {
    fn wake_ends_a_wait_and_runs_no_callback(backend: Backend) {
        let mut reactor = reactor(backend);
        let remote = reactor.remote();
        let waker = std::thread::spawn(move || remote.wake());
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 0);
        waker.join().unwrap();
        assert_eq!(reactor.stats().wakeups, 1);
    }

    fn r12_any_number_of_wakes_before_the_loop_looks_are_one(backend: Backend) {
        let mut reactor = reactor(backend);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let remote = reactor.remote();
                std::thread::spawn(move || (0..1000).for_each(|_| remote.wake()))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        reactor.poll(NOW).unwrap();
        assert_eq!(reactor.stats().wakeups, 1);
        let start = Instant::now();
        reactor.poll(Some(Duration::from_millis(2))).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(2), "nothing is left of them");
        reactor.remote().wake();
        reactor.poll(TEST_TIMEOUT).unwrap();
        assert_eq!(reactor.stats().wakeups, 2, "and the next one is heard again");
    }

    fn wake_from_the_loops_own_thread_works_too(backend: Backend) {
        let mut reactor = reactor(backend);
        reactor.remote().wake();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 0);
    }

    fn call_runs_on_the_loops_thread_in_the_order_of_asking(backend: Backend) {
        let mut reactor = reactor(backend);
        let remote = reactor.remote();
        let own = std::thread::current().id();
        let (sender, receiver) = std::sync::mpsc::channel();
        let caller = std::thread::spawn(move || {
            for number in 0..100 {
                let sender = sender.clone();
                let call = move |_: &Handle| sender.send((number, std::thread::current().id())).unwrap();
                remote.call(call).unwrap();
            }
            remote.call(|handle| handle.stop()).unwrap();
        });
        reactor.run().unwrap();
        caller.join().unwrap();
        let calls: Vec<_> = receiver.try_iter().collect();
        assert_eq!(calls, (0..100).map(|number| (number, own)).collect::<Vec<_>>());
    }

    fn call_hands_over_a_handle_with_which_everything_can_be_done(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        let remote = reactor.remote();
        std::thread::spawn(move || {
            let call = |handle: &Handle| {
                handle.after(Duration::from_secs(1), |handle| handle.stop()).unwrap();
            };
            remote.call(call).unwrap();
        })
        .join()
        .unwrap();
        reactor.run().unwrap();
        assert_eq!(reactor.timer_count(), 0);
    }

    fn call_from_many_threads_loses_none(backend: Backend) {
        const THREADS: usize = 4;
        const CALLS: usize = 5000;
        let mut reactor = reactor(backend);
        let done = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (remote, done) = (reactor.remote(), done.clone());
                std::thread::spawn(move || {
                    for _ in 0..CALLS {
                        let done = done.clone();
                        let call = move |handle: &Handle| {
                            if done.fetch_add(1, Ordering::Relaxed) + 1 == THREADS * CALLS {
                                handle.stop();
                            }
                        };
                        remote.call(call).unwrap();
                    }
                })
            })
            .collect();
        reactor.run().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(done.load(Ordering::Relaxed), THREADS * CALLS);
    }

    fn call_is_refused_when_the_inbox_is_full_and_accepted_when_there_is_room(backend: Backend) {
        let mut reactor = reactor(backend);
        let remote = reactor.remote();
        for _ in 0..INBOX_CALLS_MAX {
            remote.call(|_| ()).unwrap();
        }
        let refused = remote.call(|_| ());
        assert!(matches!(refused, Err(Error::InboxFull { limit: INBOX_CALLS_MAX })));
        reactor.poll(NOW).unwrap();
        let mut accepted = 0;
        while remote.call(|_| ()).is_ok() {
            accepted += 1;
            assert!(accepted <= 1024, "one turn makes room for what one turn runs");
        }
        let ran = settle(&mut reactor, 100);
        assert!(ran >= INBOX_CALLS_MAX - 1024, "{ran}");
        assert!(remote.call(|_| ()).is_ok());
    }

    fn wakeup_runs_its_callback_once_for_any_number_of_signals(backend: Backend) {
        let mut reactor = reactor(backend);
        let count = Rc::new(Cell::new(0));
        let calls = count.clone();
        let wakeup = reactor.wakeup(move |_| calls.set(calls.get() + 1)).unwrap();
        let other = wakeup.clone();
        std::thread::spawn(move || (0..1000).for_each(|_| other.signal())).join().unwrap();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        wakeup.signal();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert_eq!(count.get(), 2);
    }

    fn wakeup_signalled_inside_its_own_callback_runs_again_on_a_later_turn(backend: Backend) {
        let mut reactor = reactor(backend);
        let own: Rc<Cell<Option<Wakeup>>> = Rc::default();
        let (held, log) = (own.clone(), Log::new());
        let calls = log.clone();
        let wakeup = reactor
            .wakeup(move |_| {
                calls.note(());
                if calls.len() < 3 {
                    let wakeup = held.take().unwrap();
                    wakeup.signal();
                    held.set(Some(wakeup));
                }
            })
            .unwrap();
        wakeup.signal();
        own.set(Some(wakeup));
        for _ in 0..3 {
            assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        }
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        assert_eq!(log.len(), 3);
    }

    fn wakeup_signals_from_many_threads_are_never_lost(backend: Backend) {
        // Each thread raises its count, then signals; whoever runs last must see everything.
        const THREADS: usize = 4;
        const ROUNDS: usize = 2000;
        let mut reactor = reactor(backend);
        let raised = Arc::new(AtomicUsize::new(0));
        let seen = raised.clone();
        let wakeup = reactor
            .wakeup(move |handle| {
                if seen.load(Ordering::Acquire) == THREADS * ROUNDS {
                    handle.stop();
                }
            })
            .unwrap();
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (wakeup, raised) = (wakeup.clone(), raised.clone());
                std::thread::spawn(move || {
                    for _ in 0..ROUNDS {
                        raised.fetch_add(1, Ordering::Release);
                        wakeup.signal();
                    }
                })
            })
            .collect();
        reactor.run().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    fn stop_races_with_the_loop_and_is_never_lost(backend: Backend) {
        let mut reactor = reactor(backend);
        for _ in 0..300 {
            let remote = reactor.remote();
            let stopper = std::thread::spawn(move || {
                remote.wake();
                remote.stop();
            });
            reactor.run().unwrap();
            stopper.join().unwrap();
            reactor.poll(NOW).unwrap();
        }
    }

    fn wakeup_whose_last_owner_goes_is_dropped_on_the_loops_thread(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let data = NoteOnDrop(log.clone(), "callback dropped");
        let wakeup = reactor
            .wakeup(move |_| {
                let _ = &data;
            })
            .unwrap();
        let clone = wakeup.clone();
        std::thread::spawn(move || drop(wakeup)).join().unwrap();
        reactor.poll(NOW).unwrap();
        assert!(log.is_empty(), "one owner is left");
        std::thread::spawn(move || drop(clone)).join().unwrap();
        assert!(log.is_empty(), "not on the other thread");
        reactor.poll(NOW).unwrap();
        assert_eq!(log.take(), ["callback dropped"]);
    }

    fn wakeup_signalled_and_dropped_is_called_before_it_goes(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let (calls, data) = (log.clone(), NoteOnDrop(log.clone(), "dropped"));
        let wakeup = reactor
            .wakeup(move |_| {
                let _ = &data;
                calls.note("called")
            })
            .unwrap();
        wakeup.signal();
        drop(wakeup);
        reactor.poll(NOW).unwrap();
        assert_eq!(log.take(), ["called", "dropped"]);
        let log = Log::new();
        let calls = log.clone();
        let next = reactor.wakeup(move |_| calls.note("next")).unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 0, "its place was not signalled");
        next.signal();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
    }

    fn remote_outlives_its_loop_without_harm(backend: Backend) {
        let reactor = reactor(backend);
        let remote = reactor.remote();
        let wakeup = reactor.wakeup(|_| ()).unwrap();
        drop(reactor);
        std::thread::spawn(move || {
            remote.wake();
            remote.stop();
            assert!(matches!(remote.call(|_| ()), Err(Error::Closed)));
            wakeup.signal();
        })
        .join()
        .unwrap();
    }
}
