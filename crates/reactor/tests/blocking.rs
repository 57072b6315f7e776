//! Calls that block, on a bounded pool of threads.

mod support;

use mainspring_reactor::{BLOCKING_THREADS_DEFAULT, BlockingLane, BlockingOwner, Builder, Reactor};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;
use support::{NOW, on_each_backend, panic_of, reactor, virtual_reactor};

on_each_backend! {
    fn r14_a_blocking_call_runs_on_another_thread_and_completes_through_the_waker(backend: Backend) {
        let mut reactor = reactor(backend);
        let own = std::thread::current().id();
        let other = reactor.blocking(|| std::thread::current().id()).unwrap();
        assert_ne!(reactor.block_on(other).unwrap(), own);
    }

    fn r14_the_loop_turns_while_the_call_blocks(backend: Backend) {
        let mut reactor = reactor(backend);
        let (sender, receiver) = channel();
        let call = reactor.blocking(move || receiver.recv().unwrap()).unwrap();
        reactor.defer(move |_| sender.send(5).unwrap()).unwrap();
        assert_eq!(reactor.block_on(call).unwrap(), 5);
    }

    fn r14_no_more_threads_run_than_were_allowed_and_every_call_is_made(backend: Backend) {
        const THREADS: usize = 2;
        let mut reactor = Builder::new().backend(backend).blocking_threads(THREADS).build().unwrap();
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let calls: Vec<_> = (0..50)
            .map(|number| {
                let (running, most) = (running.clone(), most.clone());
                reactor
                    .blocking(move || {
                        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        running.fetch_sub(1, Ordering::SeqCst);
                        number
                    })
                    .unwrap()
            })
            .collect();
        let sum = reactor.block_on(async move {
            let mut sum = 0;
            for call in calls {
                sum += call.await;
            }
            sum
        });
        assert_eq!(sum.unwrap(), 49 * 50 / 2);
        assert!(most.load(Ordering::SeqCst) <= THREADS);
    }

    fn r14_as_many_calls_as_there_are_threads_block_at_the_same_time(backend: Backend) {
        let mut reactor = reactor(backend);
        let together = Arc::new(Barrier::new(BLOCKING_THREADS_DEFAULT));
        let calls: Vec<_> = (0..BLOCKING_THREADS_DEFAULT)
            .map(|_| {
                let together = together.clone();
                reactor
                    .blocking(move || {
                        together.wait();
                    })
                    .unwrap()
            })
            .collect();
        for call in calls {
            reactor.block_on(call).unwrap();
        }
    }

    fn r14_a_panic_in_the_call_comes_out_where_it_is_awaited(backend: Backend) {
        let mut reactor = reactor(backend);
        let call = reactor.blocking(|| std::panic::panic_any("in the pool")).unwrap();
        assert_eq!(panic_of(|| reactor.block_on(call).unwrap()), "in the pool");
        let next = reactor.blocking(|| 1).unwrap();
        assert_eq!(reactor.block_on(next).unwrap(), 1, "and the thread goes on");
    }

    fn r14_run_until_idle_waits_for_calls_that_nobody_awaits(backend: Backend) {
        let mut reactor = reactor(backend);
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let done = done.clone();
            drop(reactor.blocking(move || done.fetch_add(1, Ordering::SeqCst)).unwrap());
        }
        reactor.run_until_idle().unwrap();
        assert_eq!(done.load(Ordering::SeqCst), 20);
    }

    fn r14_dropping_the_reactor_drops_what_is_queued_and_waits_for_nobody(backend: Backend) {
        let reactor = Builder::new().backend(backend).blocking_threads(1).build().unwrap();
        let (begun, first) = channel();
        let (go, wait) = channel::<()>();
        let running = reactor
            .blocking(move || {
                begun.send(()).unwrap();
                let _ = wait.recv();
            })
            .unwrap();
        first.recv().unwrap();
        let made = Arc::new(AtomicUsize::new(0));
        let count = made.clone();
        let queued = reactor.blocking(move || count.fetch_add(1, Ordering::SeqCst)).unwrap();
        drop(reactor);
        drop((running, queued));
        drop(go);
        assert_eq!(made.load(Ordering::SeqCst), 0);
    }

    fn r14_virtual_time_stands_still_while_a_call_blocks(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let (sender, receiver) = channel::<()>();
        let receiver = Mutex::new(receiver);
        let call = reactor.blocking(move || receiver.lock().unwrap().recv().unwrap()).unwrap();
        reactor.after(Duration::from_secs(1), |_| ()).unwrap();
        let opener = std::thread::spawn(move || {
            std::thread::park_timeout(Duration::from_millis(20)); // how long the call blocks
            sender.send(()).unwrap();
        });
        reactor.block_on(call).unwrap();
        assert_eq!(clock.elapsed(), Duration::ZERO, "the call came first, however long it took");
        opener.join().unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(clock.elapsed(), Duration::from_secs(1));
    }

    fn r14_no_thread_of_the_pool_takes_a_signal_of_the_process(backend: Backend) {
        let mut reactor = reactor(backend);
        let blocked = || {
            // SAFETY: an all-zero set is a valid one, and the call only fills it in.
            let mut mask = unsafe { std::mem::zeroed::<libc::sigset_t>() };
            // SAFETY: with no new mask, the call only writes the current one to `mask`.
            assert_eq!(unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask) }, 0);
            let asynchronous = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGCHLD, libc::SIGUSR1];
            // SAFETY: the set is initialised.
            asynchronous.into_iter().all(|signal| unsafe { libc::sigismember(&mask, signal) } == 1)
        };
        let call = reactor.blocking(blocked).unwrap();
        assert!(reactor.block_on(call).unwrap());
        assert!(!blocked(), "and whoever asked takes them as before");
    }

    fn r14_two_calls_in_a_row_do_not_share_the_one_thread_that_rests(backend: Backend) {
        let mut reactor = reactor(backend);
        let first = reactor.blocking(|| ()).unwrap();
        reactor.block_on(first).unwrap();
        // Each round is one chance to ask again before the thread that rests has heard of the first
        // call.
        for round in 0..100 {
            let (sender, receiver) = channel();
            let waits = reactor.blocking(move || receiver.recv().unwrap()).unwrap();
            let sends = reactor.blocking(move || sender.send(round).unwrap()).unwrap();
            reactor.block_on(sends).unwrap();
            assert_eq!(reactor.block_on(waits).unwrap(), round);
        }
    }

    fn r14_a_result_that_panics_when_nobody_wants_it_costs_no_thread(backend: Backend) {
        struct Loud;
        impl Drop for Loud {
            fn drop(&mut self) {
                std::panic::panic_any("dropped");
            }
        }
        let mut reactor = Builder::new().backend(backend).blocking_threads(1).build().unwrap();
        let (go, wait) = channel::<()>();
        drop(reactor.blocking(move || {
            let _ = wait.recv();
            Loud
        }).unwrap());
        drop(go);
        let next = reactor.blocking(|| 1).unwrap();
        assert_eq!(reactor.block_on(next).unwrap(), 1);
    }

    fn r15_stuck_calls_of_one_owner_leave_threads_to_the_others(backend: Backend) {
        let mut reactor = reactor(backend);
        let (stuck, free) = (BlockingOwner::new(), BlockingOwner::new());
        let (go, wait) = channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let calls: Vec<_> = (0..100)
            .map(|_| {
                let wait = wait.clone();
                reactor.blocking_on(&LANE, stuck, move || _ = wait.lock().unwrap().recv()).unwrap()
            })
            .collect();
        let other = reactor.blocking_on(&LANE, free, || 1).unwrap();
        assert_eq!(reactor.block_on(other).unwrap(), 1);
        drop(go);
        for call in calls {
            reactor.block_on(call).unwrap();
        }
    }

    fn r15_stuck_calls_of_one_lane_leave_the_other_lanes_alone(backend: Backend) {
        let mut reactor = reactor(backend);
        let (go, wait) = channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let calls: Vec<_> = (0..100)
            .map(|_| {
                let wait = wait.clone();
                let call = move || _ = wait.lock().unwrap().recv();
                reactor.blocking_on(&LANE, BlockingOwner::new(), call).unwrap()
            })
            .collect();
        let other = BlockingLane::new("other", 1);
        let second = reactor.blocking_on(&other, BlockingOwner::new(), || 2).unwrap();
        assert_eq!(reactor.block_on(second).unwrap(), 2);
        let plain = reactor.blocking(|| 3).unwrap();
        assert_eq!(reactor.block_on(plain).unwrap(), 3);
        drop(go);
        for call in calls {
            reactor.block_on(call).unwrap();
        }
    }

    fn r15_an_owner_never_has_more_threads_than_its_share(backend: Backend) {
        let mut reactor = reactor(backend);
        let owner = BlockingOwner::new();
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..50 {
            let (running, most) = (running.clone(), most.clone());
            let call = move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(200)); // long enough to overlap
                running.fetch_sub(1, Ordering::SeqCst);
            };
            drop(reactor.blocking_on(&LANE, owner, call).unwrap());
        }
        reactor.run_until_idle().unwrap();
        assert!(most.load(Ordering::SeqCst) <= 2, "{most:?}");
    }

    fn r15_owners_take_turns_however_many_calls_one_of_them_has(backend: Backend) {
        let mut reactor = reactor(backend);
        let lane = BlockingLane::new("turns", 1);
        let order = Arc::new(Mutex::new(Vec::new()));
        let (go, wait) = channel::<()>();
        let first = reactor.blocking_on(&lane, BlockingOwner::new(), move || _ = wait.recv()).unwrap();
        let (many, one) = (BlockingOwner::new(), BlockingOwner::new());
        for (owner, name) in [(many, "many"); 10].into_iter().chain([(one, "one")]) {
            let order = order.clone();
            drop(reactor.blocking_on(&lane, owner, move || order.lock().unwrap().push(name)).unwrap());
        }
        drop(go);
        reactor.block_on(first).unwrap();
        reactor.run_until_idle().unwrap();
        let order = order.lock().unwrap();
        assert_eq!(order.len(), 11);
        assert_eq!(order[..3], ["many", "one", "many"]);
    }

    fn r15_owners_at_work_in_each_thread_but_one_still_leave_that_one(backend: Backend) {
        let mut reactor = reactor(backend);
        let lane = BlockingLane::new("last", 4).share(3);
        let (go, wait) = channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let (begun, begins) = channel();
        let mut calls = Vec::new();
        for owner in [BlockingOwner::new(), BlockingOwner::new()] {
            for _ in 0..10 {
                let (wait, begun) = (wait.clone(), begun.clone());
                let call = move || {
                    begun.send(()).unwrap();
                    _ = wait.lock().unwrap().recv();
                };
                calls.push(reactor.blocking_on(&lane, owner, call).unwrap());
            }
        }
        (0..3).for_each(|_| begins.recv().unwrap());
        let other = reactor.blocking_on(&lane, BlockingOwner::new(), || 1).unwrap();
        assert_eq!(reactor.block_on(other).unwrap(), 1);
        drop(go);
        for call in calls {
            reactor.block_on(call).unwrap();
        }
    }
}

/// Four threads, of which one owner may have two.
const LANE: BlockingLane = BlockingLane::new("tests", 4).share(2);

#[test]
fn r14_a_pool_of_no_threads_is_a_pool_of_one() {
    let mut reactor = Builder::new().blocking_threads(0).build().unwrap();
    let call = reactor.blocking(|| 1).unwrap();
    assert_eq!(reactor.block_on(call).unwrap(), 1);
}

#[test]
fn r14_a_result_that_is_there_already_needs_no_wait() {
    let mut reactor = Reactor::new().unwrap();
    let call = reactor.blocking(|| 1).unwrap();
    reactor.run_until_idle().unwrap();
    assert_eq!(reactor.block_on(call).unwrap(), 1);
    reactor.poll(NOW).unwrap();
}
