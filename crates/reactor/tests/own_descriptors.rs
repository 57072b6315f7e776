//! The loop's own descriptors: nobody watches them, they keep their numbers, and the limit on
//! descriptors does not end a loop. In forked children, which have their descriptors and limits to
//! themselves.
#![cfg(target_os = "linux")]

mod support;

use mainspring_reactor::{Backend, Error, Interest, Reactor};
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use support::callbacks::draining;
use support::descriptors::{readable_socket, sockets, write_byte};
use support::processes::{fork, limit_descriptors, open_descriptors};
use support::stale::leave_registration;
use support::{Log, NOW, on_each_backend, reactor, settle};

/// The descriptors that came with a new loop.
fn with_own_descriptors(backend: Backend) -> (Reactor, Vec<RawFd>) {
    let before = open_descriptors();
    let reactor = reactor(backend);
    let own = open_descriptors().into_iter().filter(|fd| !before.contains(fd)).collect();
    (reactor, own)
}

/// What each number refers to, by the system's name for its kind.
fn kinds(fds: &[RawFd]) -> Vec<String> {
    let kind = |fd: &RawFd| std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
    fds.iter().map(|fd| kind(fd).to_string_lossy().into_owned()).collect()
}

/// Leaves a registration behind that reports for ever and cannot be removed. Nobody else in this
/// process opens or closes descriptors.
fn leave_stale(reactor: &Reactor) -> (UnixStream, UnixStream) {
    let (socket, peer) = readable_socket();
    let copy = socket.try_clone().unwrap();
    let watcher = reactor.watch_raw(copy.as_raw_fd(), ()).on_read(|(), _| ()).start().unwrap();
    drop(copy);
    reactor.unwatch(watcher);
    (socket, peer)
}

/// Opens files until there is no descriptor left.
fn use_up_descriptors() -> Vec<File> {
    limit_descriptors(256);
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// Runs the loop until a timer has ticked a number of times, a millisecond apart.
fn run_for_ticks(reactor: &mut Reactor, ticks: u32) {
    let mut left = ticks;
    let beat = move |tick: &mainspring_reactor::Tick<'_>| {
        left -= 1;
        if left == 0 {
            tick.reactor().stop();
        }
    };
    let timer = reactor.every(Duration::from_millis(1), beat).unwrap();
    reactor.run().expect("the loop goes on");
    reactor.cancel(timer);
}

#[test]
fn r1_a_duplicate_at_the_limit_of_descriptors_neither_ends_the_loop_nor_spins_it() {
    let child = fork(|| {
        let mut reactor = Reactor::new().unwrap();
        let stale: Vec<_> = (0..3).map(|_| leave_stale(&reactor)).collect();
        let _all = use_up_descriptors();
        run_for_ticks(&mut reactor, 20);
        let stats = reactor.stats();
        assert_eq!(stats.rebuilds, 1, "{stats:?}");
        assert!(stats.stale_events <= 6 && stats.turns <= 60, "{stats:?}");
        drop(stale);
    });
    child.join();
}

#[test]
fn r1_a_set_can_be_rebuilt_again_and_again_at_the_limit_of_descriptors() {
    let child = fork(|| {
        let mut reactor = Reactor::new().unwrap();
        let mut all = use_up_descriptors();
        for rebuilds in 1..=5 {
            // Room for the stale registration: its two ends and the number it is watched by.
            all.truncate(all.len() - 3);
            let stale = leave_stale(&reactor);
            all.extend(use_up_descriptors());
            for _ in 0..4 {
                reactor.poll(NOW).unwrap();
            }
            assert_eq!(reactor.stats().rebuilds, rebuilds);
            drop(stale);
            all.extend(use_up_descriptors());
        }
    });
    child.join();
}

#[test]
fn r1_a_set_that_cannot_be_rebuilt_now_is_rebuilt_later_and_meanwhile_the_loop_works() {
    let child = fork(|| {
        let mut reactor = Reactor::new().unwrap();
        let _stale = leave_stale(&reactor);
        let (left, right) = sockets();
        let log = Log::new();
        reactor.watch(left).on_read(draining(&log, "read")).start().unwrap();
        // Not even a number that is open can be made to refer to something else.
        let before = limit_descriptors(0);
        let start = Instant::now();
        run_for_ticks(&mut reactor, 50);
        write_byte(&right);
        run_for_ticks(&mut reactor, 20);
        let (stats, millis) = (reactor.stats(), start.elapsed().as_millis() as u64);
        assert_eq!((stats.rebuilds, log.take()), (0, vec!["read"]), "{stats:?}");
        limit_descriptors(before);
        settle_rebuild(&mut reactor);
        let turns = stats.turns;
        assert!(turns <= 4 * (millis + 20), "the loop spins: {turns} turns in {millis} ms");
    });
    child.join();
}

/// Lets the loop try again.
fn settle_rebuild(reactor: &mut Reactor) {
    for _ in 0..4 {
        reactor.poll(NOW).unwrap();
    }
    assert_eq!(reactor.stats().rebuilds, 1);
    let stale = reactor.stats().stale_events;
    reactor.poll(NOW).unwrap();
    assert_eq!(reactor.stats().stale_events, stale, "the stale registration is gone");
}

#[test]
fn r1_a_rebuild_keeps_the_numbers_of_the_loops_own_descriptors() {
    let child = fork(|| {
        let (mut reactor, mut own) = with_own_descriptors(Backend::Epoll);
        own.push(reactor.embedding_fd().unwrap());
        let before = kinds(&own);
        let numbers = open_descriptors();
        for _ in 0..3 {
            let stale = leave_registration(&mut reactor);
            drop(stale);
            assert_eq!(kinds(&own), before);
            assert_eq!(open_descriptors(), numbers);
        }
        for fd in own {
            // SAFETY: only asks for the flags of a number.
            assert_eq!(unsafe { libc::fcntl(fd, libc::F_GETFD) }, libc::FD_CLOEXEC);
        }
    });
    child.join();
}

on_each_backend! {
    fn m1_1_1_the_loops_own_descriptors_are_refused(backend: Backend) {
        let child = fork(move || {
            let (mut reactor, mut own) = with_own_descriptors(backend);
            own.extend(reactor.embedding_fd());
            assert!(own.len() >= 2);
            for fd in own {
                for interest in [Interest::READ, Interest::empty()] {
                    let refused = reactor.watch_raw(fd, ()).start_with(interest, |(), _| ());
                    let error = refused.expect_err("refused");
                    assert!(matches!(error, Error::OwnFd { fd: own } if own == fd), "{error}");
                    assert!(error.to_string().contains("the loop's own"), "{error}");
                }
            }
            assert_eq!(reactor.watcher_count(), 0);
            run_for_ticks(&mut reactor, 3);
            let remote = reactor.remote();
            remote.wake();
            assert_eq!(reactor.poll(None).unwrap(), 0);
        });
        child.join();
    }
}

#[test]
fn m1_1_1_the_descriptor_by_which_a_child_is_watched_is_refused() {
    let child = fork(|| {
        let mut reactor = reactor(Backend::Epoll);
        let before = open_descriptors();
        let mut program = std::process::Command::new("sleep").arg("0.1").spawn().unwrap();
        let log = Log::new();
        let told = log.clone();
        reactor.on_child_exit(program.id(), move |_, status| told.note(status.is_some())).unwrap();
        for fd in open_descriptors().into_iter().filter(|fd| !before.contains(fd)) {
            let refused = reactor.watch_raw(fd, ()).on_read(|(), _| ()).start();
            assert!(matches!(refused, Err(Error::OwnFd { .. })), "{refused:?}");
            assert_eq!(reactor.watcher_of(fd), None, "nor is its watcher anybody's to end");
        }
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), [true]);
        drop(program.try_wait());
        settle(&mut reactor, 3);
    });
    child.join();
}
