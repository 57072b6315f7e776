//! Wake-ups, calls and blocking calls reach the side they are meant for.

use crate::Gate;
use crate::support::descriptors::{drain, sockets, write_byte};
use crate::support::processes::fork;
use crate::support::{Log, NOW, TEST_TIMEOUT, on_each_backend, reactor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

on_each_backend! {
    fn h14_wake_ups_reach_the_side_they_are_meant_for(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        let wakeup = reactor.wakeup(move |_| calls.note(())).unwrap();
        reactor.poll(NOW).unwrap();
        let child = fork(|| {
            wakeup.signal();
            assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
            wakeup.signal();
            assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        });
        child.join();
        assert_eq!(reactor.poll(NOW).unwrap(), 0, "the child's signal is not the parent's");
        wakeup.signal();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert_eq!(log.len(), 1);
    }

    fn h14_a_call_that_was_waiting_at_the_fork_is_made_on_both_sides(backend: Backend) {
        let mut reactor = reactor(backend);
        let remote = reactor.remote();
        remote.call(|handle| handle.stop()).unwrap();
        let child = fork(|| {
            reactor.run().unwrap();
            remote.call(|handle| handle.stop()).unwrap();
            reactor.run().unwrap();
        });
        child.join();
        reactor.run().unwrap();
        remote.call(|handle| handle.stop()).unwrap();
        reactor.run().unwrap();
    }

    fn h14_a_child_that_wakes_its_copy_does_not_wake_the_parent(backend: Backend) {
        let mut reactor = reactor(backend);
        let wakeup = reactor.wakeup(|_| ()).unwrap();
        let child = fork(|| {
            reactor.remote().wake();
            wakeup.signal();
            reactor.remote().call(|_| ()).unwrap();
        });
        child.join();
        reactor.poll(NOW).unwrap();
        assert_eq!(reactor.stats().wakeups, 0);
    }

    fn h14_a_child_within_a_turn_takes_no_wake_up_from_the_parent(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let gate = Arc::new(Gate::new());
        let (forked, children) = (Log::new(), Log::new());
        let (at_gate, others) = (gate.clone(), (forked.clone(), children.clone()));
        reactor
            .watch(left)
            .on_read(move |stream, _| {
                drain(&*stream);
                // SAFETY: the child runs this test's own code and ends.
                match unsafe { libc::fork() } {
                    0 => {
                        // SAFETY: no precondition. A child that hangs must not outlive the test for
                        // long.
                        unsafe { libc::alarm(20) };
                        others.0.note(());
                        at_gate.wait();
                    }
                    pid => others.1.note(pid),
                }
            })
            .start()
            .unwrap();
        write_byte(&right);
        reactor.remote().wake();
        reactor.poll(TEST_TIMEOUT).unwrap();
        if !forked.is_empty() {
            // The child has ended its turn.
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(0) };
        }
        while reactor.stats().wakeups == 0 {
            reactor.poll(TEST_TIMEOUT).unwrap();
        }
        reactor.remote().wake();
        gate.open();
        for pid in children.take() {
            crate::support::processes::Forked { pid }.join();
        }
        reactor.poll(NOW).unwrap();
        assert_eq!(reactor.stats().wakeups, 2, "the child has taken the parent's wake-up");
    }

    fn h14_blocking_calls_and_tasks_work_in_the_child(backend: Backend) {
        let mut reactor = reactor(backend);
        let first = reactor.blocking(|| 1).unwrap();
        assert_eq!(reactor.block_on(first).unwrap(), 1);
        let child = fork(|| {
            let second = reactor.blocking(|| 2).unwrap();
            assert_eq!(reactor.block_on(second).unwrap(), 2);
            let handle = reactor.handle();
            let task = reactor.spawn(async move { handle.sleep(Duration::from_millis(1)).await }).unwrap();
            assert!(matches!(reactor.block_on(task).unwrap(), Ok(Ok(()))));
        });
        child.join();
        let third = reactor.blocking(|| 3).unwrap();
        assert_eq!(reactor.block_on(third).unwrap(), 3);
    }

    fn h14_a_stall_watch_from_before_the_fork_ends_quietly_in_the_child(backend: Backend) {
        let reactor = reactor(backend);
        let mut watch = Some(reactor.watch_stalls(Duration::from_secs(60), |_| ()).unwrap());
        let child = fork(|| drop(watch.take()));
        child.join();
        drop(watch.take());
    }

    fn h14_a_fork_while_other_threads_use_the_loop_hangs_no_child(backend: Backend) {
        let own = fork(|| {
            let mut reactor = reactor(backend);
            let done = Arc::new(AtomicBool::new(false));
            let wakeup = reactor.wakeup(|_| ()).unwrap();
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let (remote, wakeup, done) = (reactor.remote(), wakeup.clone(), done.clone());
                    std::thread::spawn(move || {
                        while !done.load(Ordering::Relaxed) {
                            let _ = remote.call(|_| ());
                            wakeup.signal();
                        }
                    })
                })
                .collect();
            for _ in 0..100 {
                let child = fork(|| {
                    // The inbox may well be full.
                    let _ = reactor.remote().call(|_| ());
                    reactor.poll(NOW).unwrap();
                    reactor.close();
                });
                reactor.poll(NOW).unwrap();
                child.join();
            }
            done.store(true, Ordering::Relaxed);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        own.join();
    }
}
