//! What a loop watches, waits for and runs goes on on both sides, and neither side touches the
//! other's.

use crate::support::descriptors::{drain, readable_socket, sockets, write_byte};
use crate::support::processes::fork;
use crate::support::{Log, NOW, TEST_TIMEOUT, on_each_backend, reactor, settle};
use crate::watch;
use mainspring_reactor::{Interest, Reactor, Shared};
use std::os::fd::AsRawFd;
use std::time::Duration;

on_each_backend! {
    fn h14_child_and_parent_both_go_on(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let left = Shared::new(left);
        let log = Log::new();
        watch(&reactor, &left, &log);
        reactor.after(Duration::from_millis(1), |_| ()).unwrap();
        reactor.poll(NOW).unwrap();
        let child = fork(|| {
            let (own, peer) = readable_socket();
            let own = Shared::new(own);
            watch(&reactor, &own, &log);
            settle(&mut reactor, 10);
            assert_eq!(log.take(), [1]);
            drop(peer);
            drop(own);
            reactor.after(Duration::from_millis(1), |handle| handle.stop()).unwrap();
            reactor.run().unwrap();
        });
        child.join();
        write_byte(&right);
        settle(&mut reactor, 5);
        assert_eq!(log.take(), [1]);
        reactor.after(Duration::from_millis(1), |handle| handle.stop()).unwrap();
        reactor.run().unwrap();
    }

    fn h14_a_watcher_from_before_the_fork_works_in_the_child(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let left = Shared::new(left);
        let log = Log::new();
        watch(&reactor, &left, &log);
        let child = fork(|| {
            write_byte(&right);
            assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
            assert_eq!(log.take(), [1]);
        });
        child.join();
        assert_eq!(reactor.poll(NOW).unwrap(), 0, "the child has read it");
        write_byte(&right);
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
    }

    fn h14_what_the_child_unwatches_stays_watched_in_the_parent(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let left = Shared::new(left);
        let log = Log::new();
        watch(&reactor, &left, &log);
        reactor.poll(NOW).unwrap();
        let child = fork(|| {
            assert!(reactor.unwatch_source(&left));
            let (own, _peer) = sockets();
            let watcher = reactor.watch(own).start_with(Interest::READ, |_, _| ()).unwrap();
            reactor.modify(watcher, Interest::WRITE).unwrap();
        });
        child.join();
        write_byte(&right);
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), [1]);
        assert_eq!(reactor.stats().stale_events, 0, "nothing of the child's is in the parent's set");
    }

    fn h14_a_child_that_drops_the_loop_leaves_the_parents_alone(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let log = Log::new();
        let calls = log.clone();
        reactor.watch(left).on_read(move |stream, _| calls.note(drain(&*stream))).start().unwrap();
        reactor.poll(NOW).unwrap();
        let mut own = Some(reactor);
        let child = fork(|| drop(own.take()));
        child.join();
        let mut reactor = own.unwrap();
        write_byte(&right);
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), [1]);
        reactor.remote().wake();
        reactor.poll(TEST_TIMEOUT).unwrap();
        assert_eq!(reactor.stats().wakeups, 1);
    }

    fn h14_timers_from_before_the_fork_fire_on_both_sides(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        // Until one is still to come when the alarm has been set for it.
        loop {
            let calls = log.clone();
            let timer = reactor.after(Duration::from_millis(10), move |_| calls.note(())).unwrap();
            reactor.poll(Some(Duration::from_micros(100))).unwrap();
            log.take();
            if reactor.has_timer(timer) {
                break;
            }
        }
        let child = fork(|| {
            reactor.run_until_idle().unwrap();
            assert_eq!(log.len(), 1);
        });
        reactor.run_until_idle().unwrap();
        assert_eq!(log.len(), 1);
        child.join();
    }

    fn h14_the_childs_timers_do_not_ring_in_the_parent(backend: Backend) {
        let mut reactor = reactor(backend);
        let far = reactor.after(Duration::from_secs(3600), |_| ()).unwrap();
        assert_eq!(reactor.poll(Some(Duration::from_micros(100))).unwrap(), 0);
        let child = fork(|| {
            reactor.reschedule_after(far, Duration::ZERO).unwrap();
            assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        });
        child.join();
        let turns = reactor.stats().turns;
        assert_eq!(reactor.poll(Some(Duration::from_millis(3))).unwrap(), 0);
        assert!(reactor.stats().turns <= turns + 3, "{:?}", reactor.stats());
        assert!(reactor.has_timer(far));
    }

    fn h14_the_child_may_fork_again(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let left = Shared::new(left);
        let log = Log::new();
        watch(&reactor, &left, &log);
        let child = fork(|| {
            reactor.poll(NOW).unwrap();
            let grandchild = fork(|| {
                write_byte(&right);
                assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
            });
            grandchild.join();
            write_byte(&right);
            assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        });
        child.join();
        write_byte(&right);
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert_eq!(log.take(), [1]);
    }

    fn h14_the_first_wait_of_a_child_waits(backend: Backend) {
        let mut reactor = reactor(backend);
        let child = fork(|| {
            reactor.after(Duration::from_millis(1), |_| ()).unwrap();
            assert_eq!(reactor.poll(None).unwrap(), 1);
            assert_eq!(reactor.stats().wakeups, 0);
        });
        child.join();
        reactor.remote().wake();
        let child = fork(|| {
            assert_eq!(reactor.poll(None).unwrap(), 0, "the wake-up that was pending is here as well");
        });
        child.join();
    }
}

#[test]
fn h14_a_source_that_the_child_closes_stays_open_and_watched_in_the_parent() {
    let mut reactor = Reactor::new().unwrap();
    let (left, right) = sockets();
    let fd = left.as_raw_fd();
    let mut left = Some(Shared::new(left));
    let log = Log::new();
    watch(&reactor, left.as_ref().unwrap(), &log);
    reactor.poll(NOW).unwrap();
    let child = fork(|| {
        drop(left.take());
        assert_eq!(reactor.watcher_of(fd), None);
    });
    child.join();
    write_byte(&right);
    assert_eq!(reactor.poll(NOW).unwrap(), 1);
    assert_eq!(log.take(), [1]);
}
