//! Bare numbers, the descriptor for embedding, and processes that have no descriptor or thread
//! left.

use crate::Gate;
use crate::support::descriptors::{drain, readable_socket, sockets, write_byte};
use crate::support::processes::{fork, limit_descriptors, open_descriptors};
use crate::support::{Log, NOW, TEST_TIMEOUT, on_each_backend, reactor};
use mainspring_reactor::{Error, Interest, Reactor, Signal};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

on_each_backend! {
    fn h14_a_bare_number_that_the_parent_unwatches_stays_watched_in_the_child(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let log = Log::new();
        let calls = log.clone();
        let watcher = reactor
            .watch_raw(left.as_raw_fd(), ())
            .on_read(move |(), event| calls.note(event.watcher()))
            .start()
            .unwrap();
        reactor.poll(NOW).unwrap();
        let gate = Gate::new();
        let child = fork(|| {
            gate.wait();
            write_byte(&right);
            assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
            assert_eq!(log.take(), [watcher]);
        });
        assert!(reactor.unwatch(watcher));
        gate.open();
        child.join();
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
    }

    fn h14_children_do_not_disturb_a_parent_that_watches_bare_numbers(backend: Backend) {
        const NUMBERS: usize = 16;
        let mut reactor = reactor(backend);
        let pairs: Vec<_> = (0..NUMBERS).map(|_| sockets()).collect();
        let watch = |reactor: &Reactor, socket: &UnixStream| {
            reactor.watch_raw(socket.as_raw_fd(), ()).on_read(|(), _| ()).start().unwrap()
        };
        let mut watchers: Vec<_> = pairs.iter().map(|(left, _)| watch(&reactor, left)).collect();
        for _ in 0..200 {
            let child = fork(|| assert_eq!(reactor.poll(NOW).unwrap(), 0));
            while child.is_running() {
                for (watcher, (left, _)) in watchers.iter_mut().zip(&pairs) {
                    assert!(reactor.unwatch(*watcher));
                    *watcher = watch(&reactor, left);
                }
            }
            child.join();
        }
        pairs.iter().for_each(|(_, right)| write_byte(right));
        assert_eq!(reactor.poll(NOW).unwrap(), NUMBERS);
    }

    fn h14_a_child_out_of_descriptors_says_so_and_leaves_the_parent_alone(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let (other, other_right) = sockets();
        let log = Log::new();
        let mut watchers = Vec::new();
        for (number, socket) in [&left, &other].into_iter().enumerate() {
            let calls = log.clone();
            let call = move |(): &mut (), event: &mainspring_reactor::Event<'_>| {
                let _ = event;
                calls.note(number)
            };
            watchers.push(reactor.watch_raw(socket.as_raw_fd(), ()).on_read(call).start().unwrap());
        }
        let far = reactor.after(Duration::from_secs(3600), |_| ()).unwrap();
        assert_eq!(reactor.poll(Some(Duration::from_micros(100))).unwrap(), 0);
        let child = fork(|| {
            let before = limit_descriptors(0);
            for _ in 0..3 {
                assert!(matches!(reactor.poll(NOW), Err(Error::Io { .. })));
                assert!(matches!(reactor.run(), Err(Error::Io { .. })));
                assert!(matches!(reactor.modify(watchers[1], Interest::ERROR), Err(Error::Io { .. })));
                let refused = reactor.watch_raw(right.as_raw_fd(), ()).on_read(|(), _| ()).start();
                assert!(matches!(refused, Err(Error::Io { .. })));
            }
            assert!(reactor.unwatch(watchers[0]));
            reactor.reschedule_after(far, Duration::ZERO).unwrap();
            reactor.remote().wake();
            assert!(reactor.poll(NOW).is_err());
            limit_descriptors(before);
            // From here on everything is as it should be.
            assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1, "the timer");
            write_byte(&right);
            write_byte(&other_right);
            assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
            assert_eq!(log.take(), [1]);
            drain(&left);
            drain(&other);
        });
        child.join();
        let before = reactor.stats();
        assert_eq!(reactor.poll(Some(Duration::from_millis(1))).unwrap(), 0);
        assert_eq!(reactor.stats().wakeups, before.wakeups);
        assert!(reactor.has_timer(far));
        write_byte(&right);
        write_byte(&other_right);
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 2);
        assert_eq!(log.len(), 2);
    }

    fn r14_a_call_whose_thread_cannot_start_is_refused_and_leaves_the_loop_idle(backend: Backend) {
        let mut reactor = reactor(backend);
        let child = fork(|| {
            allow_no_more_threads();
            let refused = reactor.blocking(|| ()).unwrap_err();
            assert!(matches!(refused, Error::Io { .. }), "{refused}");
            reactor.run_until_idle().unwrap();
        });
        child.join();
    }
}

/// Leaves this process without room for the stack of another thread.
fn allow_no_more_threads() {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let bytes = pages * 4096 + (4 << 20);
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the limit is a valid one, and only read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    // The C library keeps the stacks of threads that have ended; these use them up.
    while std::thread::Builder::new().spawn(|| std::thread::sleep(Duration::from_secs(600))).is_ok() {}
}

#[cfg(target_os = "linux")]
#[test]
fn h14_the_embedding_descriptor_of_the_parent_does_not_hear_the_child() {
    let mut reactor = reactor(mainspring_reactor::Backend::Epoll);
    let (left, _right) = sockets();
    reactor.watch(left).on_read(|_, _| ()).start().unwrap();
    let fd = reactor.embedding_fd().unwrap();
    reactor.poll(NOW).unwrap();
    assert!(!is_readable(fd));
    let (mut ready, gate) = sockets();
    let (mut done, end) = sockets();
    gate.set_nonblocking(false).unwrap();
    end.set_nonblocking(false).unwrap();
    let child = fork(|| {
        // Something is ready in the child's loop for as long as it lives.
        let (own, _peer) = readable_socket();
        reactor.watch(own).on_read(|_, _| ()).start().unwrap();
        reactor.poll(NOW).unwrap();
        assert!(is_readable(reactor.embedding_fd().unwrap()));
        ready.write_all(b"x").unwrap();
        std::io::Read::read(&mut &end, &mut [0]).unwrap();
    });
    std::io::Read::read(&mut &gate, &mut [0]).unwrap();
    assert!(!is_readable(fd));
    done.write_all(b"x").unwrap();
    child.join();
    reactor.remote().wake();
    assert!(is_readable(fd));
}

#[cfg(target_os = "linux")]
#[test]
fn h14_a_set_that_the_child_keeps_open_does_not_wake_the_parents_host() {
    let mut reactor = reactor(mainspring_reactor::Backend::Epoll);
    let fd = reactor.embedding_fd().unwrap();
    reactor.poll(NOW).unwrap();
    let (mut done, end) = sockets();
    end.set_nonblocking(false).unwrap();
    // The child never uses its copy of the loop, but has the set open.
    let child = fork(|| _ = std::io::Read::read(&mut &end, &mut [0]).unwrap());
    let _stale = crate::support::stale::leave_registration(&mut reactor);
    assert!(!is_readable(fd), "the old set lives on in the child, with a source that is ready");
    done.write_all(b"x").unwrap();
    child.join();
}

/// Whether a foreign loop would wake up.
fn is_readable(fd: std::os::fd::RawFd) -> bool {
    let source = crate::support::descriptors::Borrowed(fd);
    let mut fds = [rustix::event::PollFd::new(&source, rustix::event::PollFlags::IN)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut fds, Some(&now)).unwrap() == 1
}

#[cfg(target_os = "linux")]
#[test]
fn g1_a_dropped_reactor_gives_back_every_descriptor() {
    // In a process of its own, where nobody else opens and closes descriptors.
    let child = fork(|| {
        let before = open_descriptors();
        for backend in [mainspring_reactor::Backend::Epoll, mainspring_reactor::Backend::Poll] {
            let mut reactor = reactor(backend);
            let (left, right) = readable_socket();
            reactor.watch(left).on_read(|_, _| ()).start().unwrap();
            reactor.on_signal(Signal::USR1, |_| ()).unwrap();
            reactor.after(Duration::from_secs(1), |_| ()).unwrap();
            let _ = reactor.embedding_fd();
            reactor.poll(NOW).unwrap();
            drop((reactor, right));
        }
        assert_eq!(open_descriptors(), before);
    });
    child.join();
}
