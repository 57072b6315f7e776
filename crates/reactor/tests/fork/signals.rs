//! Signals are those of the process they were sent to.

use crate::raise;
use crate::support::processes::fork;
use crate::support::{Log, NOW, TEST_TIMEOUT, on_each_backend, reactor};
use mainspring_reactor::{Reactor, Signal, SignalWatcher};

on_each_backend! {
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
                reactor.poll(TEST_TIMEOUT).unwrap();
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
                    reactor.poll(TEST_TIMEOUT).unwrap();
                    assert_eq!(log.take(), [1]);
                });
                grandchild.join();
            });
            child.join();
            reactor.poll(TEST_TIMEOUT).unwrap();
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
                assert_eq!(ended, crate::support::processes::Ended::Killed(libc::SIGTERM));
                let child = fork(|| {
                    let mut reactor = reactor(backend);
                    let log = Log::new();
                    let calls = log.clone();
                    reactor.on_signal(Signal::TERM, move |_| calls.note(())).unwrap();
                    raise(Signal::TERM);
                    reactor.poll(TEST_TIMEOUT).unwrap();
                    assert_eq!(log.len(), 1);
                });
                child.join();
            });
            forking.join().unwrap();
        });
        own.join();
    }
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
                reactor.poll(TEST_TIMEOUT).unwrap();
                assert_eq!(log.take(), [Signal::USR1]);
                raise(Signal::USR1); // and one that the child never looks at
            });
            child.join();
            assert_eq!(reactor.poll(NOW).unwrap(), 0, "{backend}: the child's signals are not the parent's");
            assert!(log.is_empty());
            raise(Signal::USR1);
            reactor.poll(TEST_TIMEOUT).unwrap();
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
        // SAFETY: no precondition. `raise` would ask the C library who it is, which says the
        // parent.
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
            // SAFETY: the child has a stack of its own, makes one system call and ends before this
            // thread goes on.
            let pid = unsafe {
                let top = stack.as_mut_ptr().add(stack.len());
                libc::clone(signal_itself, top.cast(), flags, std::ptr::null_mut())
            };
            crate::support::processes::Forked { pid }.join();
            assert_eq!(reactor.poll(NOW).unwrap(), 0);
            assert!(log.is_empty());
        });
        own.join();
    }
}
