//! Calls that block, on a bounded pool of threads.

mod support;

use mainspring_reactor::{BLOCKING_THREADS_DEFAULT, Builder, Reactor};
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
}

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
