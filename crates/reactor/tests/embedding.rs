//! A loop inside a foreign loop, by one descriptor.

#![cfg(target_os = "linux")]

mod support;

use mainspring_reactor::{Backend, Builder, Error, Mode, Reactor, VirtualClock};
use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;
use support::callbacks::{draining, noting_call};
use support::descriptors::{Borrowed, drain, sockets, write_byte};
use support::stale::leave_registration;
use support::{Log, NOW, TEST_TIMEOUT, reactor, settle};

fn embedded() -> (Reactor, RawFd) {
    let reactor = reactor(Backend::Epoll);
    let fd = reactor.embedding_fd().unwrap();
    (reactor, fd)
}

/// Whether a foreign loop would be woken within the time.
fn wakes(fd: RawFd, within: Duration) -> bool {
    let source = Borrowed(fd);
    let mut fds = [rustix::event::PollFd::new(&source, rustix::event::PollFlags::IN)];
    let timeout =
        rustix::time::Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
    rustix::event::poll(&mut fds, Some(&timeout)).unwrap() == 1
}

fn is_ready(fd: RawFd) -> bool {
    wakes(fd, Duration::ZERO)
}

#[test]
fn r12_poll_has_no_descriptor_for_embedding_and_says_so() {
    let error = reactor(Backend::Poll).embedding_fd().unwrap_err();
    assert!(matches!(error, Error::Unsupported { backend: Backend::Poll, .. }), "{error}");
}

#[test]
fn r12_an_idle_loop_does_not_wake_its_host() {
    let (mut reactor, fd) = embedded();
    let (left, _right) = sockets();
    reactor.watch(left).on_read(|_, _| ()).start().unwrap();
    reactor.after(Duration::from_secs(3600), |_| ()).unwrap();
    assert!(!is_ready(fd));
    reactor.poll(NOW).unwrap();
    assert!(!is_ready(fd));
}

#[test]
fn r12_a_ready_source_wakes_the_host_until_it_is_served() {
    let (mut reactor, fd) = embedded();
    let (left, right) = sockets();
    reactor.watch(left).on_read(|stream, _| _ = drain(&*stream)).start().unwrap();
    write_byte(&right);
    assert!(is_ready(fd));
    assert_eq!(reactor.poll(NOW).unwrap(), 1);
    assert!(!is_ready(fd));
}

#[test]
fn r12_a_timer_wakes_the_host_when_it_is_due() {
    let (mut reactor, fd) = embedded();
    reactor.after(Duration::from_secs(3600), |_| ()).unwrap();
    reactor.after(Duration::from_millis(2), |_| ()).unwrap();
    assert!(wakes(fd, Duration::from_secs(20)));
    assert_eq!(reactor.poll(NOW).unwrap(), 1);
    assert!(!is_ready(fd));
    let late = reactor.after(Duration::from_secs(3600), |_| ()).unwrap();
    reactor.reschedule_after(late, Duration::from_millis(1)).unwrap();
    assert!(wakes(fd, Duration::from_secs(20)), "moved up from outside any callback");
    assert_eq!(reactor.poll(NOW).unwrap(), 1);
    reactor.after(Duration::ZERO, |_| ()).unwrap();
    assert!(wakes(fd, Duration::from_secs(20)), "due at once");
}

#[test]
fn r12_a_timer_from_before_the_embedding_wakes_the_host_too() {
    let mut reactor = reactor(Backend::Epoll);
    reactor.after(Duration::from_millis(1), |_| ()).unwrap();
    let fd = reactor.embedding_fd().unwrap();
    assert!(wakes(fd, Duration::from_secs(20)));
    assert_eq!(reactor.poll(NOW).unwrap(), 1);
}

#[test]
fn r12_deferred_calls_tasks_and_remote_calls_wake_the_host() {
    let (mut reactor, fd) = embedded();
    let quiet = |reactor: &mut Reactor| {
        settle(reactor, 5);
        reactor.poll(NOW).unwrap();
        assert!(!is_ready(fd));
    };
    quiet(&mut reactor);
    reactor.defer(|handle| handle.defer(|_| ()).unwrap()).unwrap();
    assert!(is_ready(fd));
    assert_eq!(reactor.poll(NOW).unwrap(), 1);
    assert!(is_ready(fd), "the second call is still to be made");
    quiet(&mut reactor);
    reactor.spawn(async {}).unwrap();
    assert!(is_ready(fd));
    quiet(&mut reactor);
    let remote = reactor.remote();
    std::thread::spawn(move || remote.call(|_| ()).unwrap()).join().unwrap();
    assert!(is_ready(fd));
    quiet(&mut reactor);
    let wakeup = reactor.wakeup(|_| ()).unwrap();
    wakeup.signal();
    assert!(is_ready(fd));
    quiet(&mut reactor);
}

#[test]
fn r12_more_due_timers_than_one_turn_takes_keep_the_host_awake() {
    let (mut reactor, fd) = embedded();
    let now = reactor.now();
    for _ in 0..1500 {
        reactor.at(now, |_| ()).unwrap();
    }
    assert!(wakes(fd, Duration::from_secs(20)));
    assert_eq!(reactor.poll(NOW).unwrap(), 1024);
    assert!(is_ready(fd));
    assert_eq!(reactor.poll(NOW).unwrap(), 476);
    reactor.poll(NOW).unwrap();
    assert!(!is_ready(fd));
}

#[test]
fn r12_more_calls_and_tasks_than_one_turn_takes_keep_the_host_awake() {
    let (mut reactor, fd) = embedded();
    for _ in 0..1500 {
        reactor.defer(|_| ()).unwrap();
    }
    assert_eq!(reactor.poll(NOW).unwrap(), 1024);
    assert!(is_ready(fd));
    assert_eq!(reactor.poll(NOW).unwrap(), 476);
    for _ in 0..600 {
        reactor.spawn(async {}).unwrap();
    }
    while reactor.task_count() > 0 {
        assert!(is_ready(fd), "{} tasks are waiting", reactor.task_count());
        reactor.poll(NOW).unwrap();
    }
    reactor.poll(NOW).unwrap();
    assert!(!is_ready(fd));
}

#[test]
fn r12_a_regular_file_keeps_the_host_awake() {
    let (mut reactor, fd) = embedded();
    let file = std::fs::File::open("/dev/null").unwrap();
    let watcher = reactor.watch(file).on_read(|_, _| ()).start().unwrap();
    assert!(is_ready(fd), "a file is always ready");
    for _ in 0..3 {
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert!(is_ready(fd));
    }
    reactor.unwatch(watcher);
    reactor.poll(NOW).unwrap();
    assert!(!is_ready(fd));
}

#[test]
fn r12_a_virtual_clock_may_be_embedded() {
    let clock = VirtualClock::new();
    clock.set_auto_advance(false);
    let mut reactor = Builder::new().virtual_clock(&clock).build().unwrap();
    let fd = reactor.embedding_fd().unwrap();
    reactor.after(Duration::from_secs(1), |_| ()).unwrap();
    clock.advance(Duration::from_secs(1));
    assert!(is_ready(fd), "the host is asked to look, because time may have been moved");
    assert_eq!(reactor.poll(NOW).unwrap(), 1);
}

#[test]
fn r12_the_descriptor_stays_valid_when_the_set_is_rebuilt() {
    let (mut reactor, fd) = embedded();
    let (left, right) = sockets();
    reactor.watch(left).on_read(|stream, _| _ = drain(&*stream)).start().unwrap();
    let _stale = leave_registration(&mut reactor);
    assert_eq!(reactor.embedding_fd().unwrap(), fd);
    assert!(!is_ready(fd), "the stale registration is gone for the host as well");
    write_byte(&right);
    assert!(is_ready(fd));
    assert_eq!(reactor.poll(NOW).unwrap(), 1);
}

#[test]
fn o22_a_loop_runs_inside_another_loop_of_its_own_kind() {
    let (inner, fd) = embedded();
    let mut outer = Reactor::new().unwrap();
    let log = Log::new();
    let (left, right) = sockets();
    inner.watch(left).on_read(draining(&log, "inner read")).start().unwrap();
    inner.after(Duration::from_millis(1), noting_call(&log, "inner timer")).unwrap();
    let inner = RefCell::new(inner);
    let turns = Rc::new(Cell::new(0));
    let count = turns.clone();
    outer
        .watch_raw(fd, inner)
        .on_read(move |inner, event| {
            count.set(count.get() + inner.borrow_mut().poll(NOW).unwrap());
            if count.get() == 2 {
                event.reactor().stop();
            }
        })
        .start()
        .unwrap();
    let writer = right.try_clone().unwrap();
    outer.after(Duration::from_micros(10), move |_| write_byte(&writer)).unwrap();
    outer.run().unwrap();
    let mut all = log.take();
    all.sort_unstable();
    assert_eq!(all, ["inner read", "inner timer"]);
}

#[test]
fn r12_an_edge_triggered_host_is_told_again_of_what_comes_after_its_turn() {
    let (inner, fd) = embedded();
    let mut outer = Reactor::new().unwrap();
    let (left, right) = sockets();
    inner.watch(left).on_read(|stream, _| _ = drain(&*stream)).start().unwrap();
    let served = Rc::new(Cell::new(0));
    let count = served.clone();
    let watch = outer.watch_raw(fd, RefCell::new(inner)).mode(Mode::Edge);
    watch
        .on_read(move |inner, _| count.set(count.get() + inner.borrow_mut().poll(NOW).unwrap()))
        .start()
        .unwrap();
    for round in 1..=5 {
        write_byte(&right);
        while served.get() < round {
            outer.poll(TEST_TIMEOUT).unwrap();
        }
    }
    assert_eq!(served.get(), 5);
}
