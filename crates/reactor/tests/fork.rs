//! A loop on both sides of a fork.
//!
//! The child of a fork shares every kernel object with its parent. Whatever it does to its copy of the loop must not be
//! felt by the parent's, and the other way round.
//!
//! Everything that forks is in this file, in `signals.rs` or in `steady.rs`: a child holds every descriptor of its parent
//! open for a moment, which tests about closing would notice. Whoever uses signals does so in a process of its own.

mod support;

use mainspring_reactor::{Error, Interest, Reactor, Shared, Signal, SignalWatcher};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::descriptors::{drain, readable_socket, sockets, write_byte};
use support::processes::fork;
use support::{Log, NOW, PATIENCE, on_each_backend, reactor, settle};

/// Notes each report of a socket, and drains it.
fn watch(reactor: &Reactor, source: &Shared<std::os::unix::net::UnixStream>, log: &Log<usize>) {
    let calls = log.clone();
    reactor.watch_shared(source).on_read(move |stream, _| calls.note(drain(&**stream))).start().unwrap();
}

/// Two ends of a gate: whoever waits at one goes on when the other is opened.
struct Gate(UnixStream, UnixStream);

impl Gate {
    fn new() -> Gate {
        let (left, right) = UnixStream::pair().unwrap();
        Gate(left, right)
    }

    fn open(&self) {
        write_byte(&self.0);
    }

    fn wait(&self) {
        (&self.1).read_exact(&mut [0]).unwrap();
    }
}

fn raise(signal: Signal) {
    // SAFETY: no precondition.
    assert_eq!(unsafe { libc::raise(signal.as_raw()) }, 0);
}

/// How many descriptors this process may have from here on.
fn limit_descriptors(count: libc::rlim_t) -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls are handed a live rlimit.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        let before = std::mem::replace(&mut limit.rlim_cur, count);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        before
    }
}

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
            assert_eq!(reactor.poll(PATIENCE).unwrap(), 1);
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
        reactor.poll(PATIENCE).unwrap();
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
            assert_eq!(reactor.poll(PATIENCE).unwrap(), 1);
        });
        child.join();
        let turns = reactor.stats().turns;
        assert_eq!(reactor.poll(Some(Duration::from_millis(3))).unwrap(), 0);
        assert!(reactor.stats().turns <= turns + 3, "{:?}", reactor.stats());
        assert!(reactor.has_timer(far));
    }

    fn h14_wake_ups_reach_the_side_they_are_meant_for(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        let wakeup = reactor.wakeup(move |_| calls.note(())).unwrap();
        reactor.poll(NOW).unwrap();
        let child = fork(|| {
            wakeup.signal();
            assert_eq!(reactor.poll(PATIENCE).unwrap(), 1);
            wakeup.signal();
            assert_eq!(reactor.poll(PATIENCE).unwrap(), 1);
        });
        child.join();
        assert_eq!(reactor.poll(NOW).unwrap(), 0, "the child's signal is not the parent's");
        wakeup.signal();
        assert_eq!(reactor.poll(PATIENCE).unwrap(), 1);
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
                assert_eq!(reactor.poll(PATIENCE).unwrap(), 1);
            });
            grandchild.join();
            write_byte(&right);
            assert_eq!(reactor.poll(PATIENCE).unwrap(), 1);
        });
        child.join();
        write_byte(&right);
        assert_eq!(reactor.poll(PATIENCE).unwrap(), 1);
        assert_eq!(log.take(), [1]);
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

    fn h14_a_stall_watch_from_before_the_fork_ends_quietly_in_the_child(backend: Backend) {
        let reactor = reactor(backend);
        let mut watch = Some(reactor.watch_stalls(Duration::from_secs(60), |_| ()).unwrap());
        let child = fork(|| drop(watch.take()));
        child.join();
        drop(watch.take());
    }

    fn h14_whatever_a_child_does_the_parent_hears_its_signals(backend: Backend) {
        let deeds: [fn(&mut Option<Reactor>, SignalWatcher); 6] = [
            |_, _| (),
            |reactor, _| drop(reactor.take()),
            |reactor, watcher| assert!(reactor.as_ref().unwrap().unwatch_signal(watcher)),
            |reactor, _| reactor.as_ref().unwrap().close(),
            |reactor, _| _ = reactor.as_mut().unwrap().poll(NOW).unwrap(),
            |_, _| raise(Signal::TERM),
        ];
        for deed in deeds {
            let own = fork(|| {
                let mut reactor = Some(reactor(backend));
                let log = Log::new();
                let calls = log.clone();
                let call = move |event: &mainspring_reactor::SignalEvent<'_>| calls.note(event.count());
                let watcher = reactor.as_ref().unwrap().on_signal(Signal::TERM, call).unwrap();
                fork(|| deed(&mut reactor, watcher)).join();
                let mut reactor = reactor.unwrap();
                assert_eq!(reactor.poll(NOW).unwrap(), 0, "nothing has happened to the parent");
                raise(Signal::TERM);
                reactor.poll(PATIENCE).unwrap();
                assert_eq!(log.take(), [1]);
            });
            own.join();
        }
    }

    fn h14_a_signal_that_arrives_before_the_child_uses_its_loop_is_the_childs(backend: Backend) {
        let own = fork(|| {
            let mut reactor = reactor(backend);
            let log = Log::new();
            let calls = log.clone();
            reactor.on_signal(Signal::USR1, move |event| calls.note(event.count())).unwrap();
            raise(Signal::USR1);
            let child = fork(|| {
                assert_eq!(reactor.poll(NOW).unwrap(), 0, "what arrived before the fork was the parent's");
                let grandchild = fork(|| {
                    raise(Signal::USR1);
                    reactor.poll(PATIENCE).unwrap();
                    assert_eq!(log.take(), [1]);
                });
                grandchild.join();
            });
            child.join();
            reactor.poll(PATIENCE).unwrap();
            assert_eq!(log.take(), [1]);
            assert_eq!(reactor.poll(NOW).unwrap(), 0);
        });
        own.join();
    }

    fn h14_a_child_of_another_thread_has_signals_as_they_were(backend: Backend) {
        let own = fork(|| {
            let parents = reactor(backend);
            parents.on_signal(Signal::TERM, |_| ()).unwrap();
            let forking = std::thread::spawn(move || {
                let ended = fork(|| raise(Signal::TERM)).wait();
                assert_eq!(ended, support::processes::Ended::Killed(libc::SIGTERM));
                let child = fork(|| {
                    let mut reactor = reactor(backend);
                    let log = Log::new();
                    let calls = log.clone();
                    reactor.on_signal(Signal::TERM, move |_| calls.note(())).unwrap();
                    raise(Signal::TERM);
                    reactor.poll(PATIENCE).unwrap();
                    assert_eq!(log.len(), 1);
                });
                child.join();
            });
            forking.join().unwrap();
        });
        own.join();
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
                        // SAFETY: no precondition. A child that hangs must not outlive the test for long.
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
        reactor.poll(PATIENCE).unwrap();
        if !forked.is_empty() {
            // The child has ended its turn.
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(0) };
        }
        while reactor.stats().wakeups == 0 {
            reactor.poll(PATIENCE).unwrap();
        }
        reactor.remote().wake();
        gate.open();
        for pid in children.take() {
            support::processes::Forked { pid }.join();
        }
        reactor.poll(NOW).unwrap();
        assert_eq!(reactor.stats().wakeups, 2, "the child has taken the parent's wake-up");
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
            assert_eq!(reactor.poll(PATIENCE).unwrap(), 1);
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
            assert_eq!(reactor.poll(PATIENCE).unwrap(), 1, "the timer");
            write_byte(&right);
            write_byte(&other_right);
            assert_eq!(reactor.poll(PATIENCE).unwrap(), 1);
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
        assert_eq!(reactor.poll(PATIENCE).unwrap(), 2);
        assert_eq!(log.len(), 2);
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

#[test]
fn h14_signals_reach_the_process_they_are_sent_to() {
    for backend in [mainspring_reactor::Backend::best(), mainspring_reactor::Backend::Poll] {
        let own = fork(|| {
            let mut reactor = reactor(backend);
            let log = Log::new();
            let calls = log.clone();
            reactor.on_signal(Signal::USR1, move |event| calls.note(event.signal())).unwrap();
            reactor.poll(NOW).unwrap();
            let child = fork(|| {
                assert_eq!(reactor.poll(NOW).unwrap(), 0);
                raise(Signal::USR1);
                reactor.poll(PATIENCE).unwrap();
                assert_eq!(log.take(), [Signal::USR1]);
                raise(Signal::USR1); // and one that the child never looks at
            });
            child.join();
            assert_eq!(reactor.poll(NOW).unwrap(), 0, "{backend}: the child's signals are not the parent's");
            assert!(log.is_empty());
            raise(Signal::USR1);
            reactor.poll(PATIENCE).unwrap();
            assert_eq!(log.take(), [Signal::USR1]);
        });
        own.join();
    }
}

/// A child of `vfork` has its parent's memory for a while.
#[cfg(target_os = "linux")]
#[test]
fn h14_a_signal_of_a_child_that_shares_the_parents_memory_is_not_the_parents() {
    extern "C" fn signal_itself(_: *mut libc::c_void) -> libc::c_int {
        // SAFETY: no precondition. `raise` would ask the C library who it is, which says the parent.
        unsafe { libc::kill(libc::syscall(libc::SYS_getpid) as libc::pid_t, libc::SIGUSR1) }
    }
    for backend in [mainspring_reactor::Backend::Epoll, mainspring_reactor::Backend::Poll] {
        let own = fork(|| {
            let mut reactor = reactor(backend);
            let log = Log::new();
            let calls = log.clone();
            reactor.on_signal(Signal::USR1, move |_| calls.note(())).unwrap();
            let mut stack = vec![0_u128; 8192];
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            // SAFETY: the child has a stack of its own, makes one system call and ends before this thread goes on.
            let pid = unsafe {
                let top = stack.as_mut_ptr().add(stack.len());
                libc::clone(signal_itself, top.cast(), flags, std::ptr::null_mut())
            };
            support::processes::Forked { pid }.join();
            assert_eq!(reactor.poll(NOW).unwrap(), 0);
            assert!(log.is_empty());
        });
        own.join();
    }
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
fn h14_a_set_that_the_child_keeps_open_does_not_haunt_the_parents_host() {
    let mut reactor = reactor(mainspring_reactor::Backend::Epoll);
    let fd = reactor.embedding_fd().unwrap();
    reactor.poll(NOW).unwrap();
    let (mut done, end) = sockets();
    end.set_nonblocking(false).unwrap();
    // The child never uses its copy of the loop, but has the set open.
    let child = fork(|| _ = std::io::Read::read(&mut &end, &mut [0]).unwrap());
    let _ghost = support::ghosts::haunt(&mut reactor);
    assert!(!is_readable(fd), "the old set lives on in the child, with a source that is ready");
    done.write_all(b"x").unwrap();
    child.join();
}

/// Whether a foreign loop would wake up.
fn is_readable(fd: std::os::fd::RawFd) -> bool {
    let source = support::descriptors::Borrowed(fd);
    let mut fds = [rustix::event::PollFd::new(&source, rustix::event::PollFlags::IN)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut fds, Some(&now)).unwrap() == 1
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

#[cfg(target_os = "linux")]
#[test]
fn g1_a_dropped_reactor_gives_back_every_descriptor() {
    /// How many descriptors this process has open.
    fn open_descriptors() -> usize {
        std::fs::read_dir("/proc/self/fd").unwrap().count()
    }
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
