//! Signals as callbacks.
//!
//! Signals belong to the process: one test at a time uses them, and those by which a process may
//! end run in one of their own.

mod support;

use mainspring_reactor::{Error, Reactor, Signal, SignalWatcher};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use support::processes::{Ended, fork};
use support::{
    Log, NOW, NoteOnDrop, TEST_TIMEOUT, frozen_reactor, on_each_backend, panic_of, reactor, settle,
};

/// Signals belong to the process: one test at a time uses them.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn raise(signal: Signal) {
    // SAFETY: no precondition.
    assert_eq!(unsafe { libc::raise(signal.as_raw()) }, 0);
}

/// Whether this thread blocks the signal.
fn is_blocked(signal: Signal) -> bool {
    // SAFETY: the set is filled in by the first call and read by the second.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut set);
        libc::sigismember(&set, signal.as_raw()) == 1
    }
}

on_each_backend! {
    fn a_signal_calls_everyone_who_watches_it(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        for number in 0..2 {
            let calls = log.clone();
            let call = move |event: &mainspring_reactor::SignalEvent<'_>| {
                calls.note((number, event.signal(), event.count()))
            };
            reactor.on_signal(Signal::USR1, call).unwrap();
        }
        raise(Signal::USR1);
        reactor.poll(TEST_TIMEOUT).unwrap();
        assert_eq!(log.take(), [(0, Signal::USR1, 1), (1, Signal::USR1, 1)]);
        assert_eq!(reactor.watcher_count(), 0, "the loop's own descriptors do not count");
    }

    fn different_signals_of_one_loop_are_told_apart(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        for signal in [Signal::USR1, Signal::USR2, Signal::WINCH, Signal::HUP] {
            let calls = log.clone();
            reactor.on_signal(signal, move |event| calls.note(event.signal())).unwrap();
        }
        raise(Signal::WINCH);
        raise(Signal::USR1);
        settle(&mut reactor, 5);
        assert_eq!(log.take(), [Signal::USR1, Signal::WINCH]);
        raise(Signal::HUP);
        settle(&mut reactor, 5);
        assert_eq!(log.take(), [Signal::HUP]);
    }

    fn a_callback_may_end_itself_and_others_of_its_signal(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        let names: Rc<RefCell<Vec<SignalWatcher>>> = Rc::default();
        for number in 0..3 {
            let (calls, others) = (log.clone(), names.clone());
            let watcher = reactor
                .on_signal(Signal::USR1, move |event| {
                    calls.note(number);
                    for other in others.borrow_mut().drain(..) {
                        assert!(event.reactor().unwatch_signal(other));
                    }
                })
                .unwrap();
            names.borrow_mut().push(watcher);
        }
        raise(Signal::USR1);
        reactor.poll(TEST_TIMEOUT).unwrap();
        assert_eq!(log.take(), [0], "the first ended all of them, itself included");
    }

    fn a_signal_watched_from_inside_a_signal_callback_is_heard(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        let mut begun = false;
        reactor
            .on_signal(Signal::USR1, move |event| {
                calls.note("first");
                if !std::mem::replace(&mut begun, true) {
                    let calls = calls.clone();
                    event.reactor().on_signal(Signal::USR2, move |_| calls.note("second")).unwrap();
                }
            })
            .unwrap();
        raise(Signal::USR1);
        reactor.poll(TEST_TIMEOUT).unwrap();
        raise(Signal::USR2);
        reactor.poll(TEST_TIMEOUT).unwrap();
        assert_eq!(log.take(), ["first", "second"]);
    }

    fn a_signal_watched_anew_is_not_called_for_the_one_in_hand(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        let second: Rc<Cell<Option<SignalWatcher>>> = Rc::default();
        let (other, calls) = (second.clone(), log.clone());
        reactor
            .on_signal(Signal::USR1, move |event| {
                calls.note("first");
                if let Some(other) = other.take() {
                    // The new watcher may get the place of the old one, for which a call is still
                    // to be made.
                    assert!(event.reactor().unwatch_signal(other));
                    let calls = calls.clone();
                    event.reactor().on_signal(Signal::USR1, move |_| calls.note("new")).unwrap();
                }
            })
            .unwrap();
        second.set(Some(reactor.on_signal(Signal::USR1, |_| panic!("ended")).unwrap()));
        raise(Signal::USR1);
        settle(&mut reactor, 5);
        assert_eq!(log.take(), ["first"]);
        raise(Signal::USR1);
        settle(&mut reactor, 5);
        assert_eq!(log.take(), ["first", "new"]);
    }

    fn the_end_of_the_last_watch_gives_the_signal_back(backend: Backend) {
        let child = fork(|| {
            let mut reactor = reactor(backend);
            let log = Log::new();
            let watchers: Vec<_> = (0..2)
                .map(|number| {
                    let calls = log.clone();
                    reactor.on_signal(Signal::TERM, move |_| calls.note(number)).unwrap()
                })
                .collect();
            assert!(reactor.unwatch_signal(watchers[0]));
            assert!(!reactor.unwatch_signal(watchers[0]), "idempotent");
            raise(Signal::TERM);
            reactor.poll(TEST_TIMEOUT).unwrap();
            assert_eq!(log.take(), [1], "one of them still watches");
            assert!(reactor.unwatch_signal(watchers[1]));
            raise(Signal::TERM);
            unreachable!("nobody watches it any more, so it ends the process");
        });
        assert_eq!(child.wait(), Ended::Killed(libc::SIGTERM));
    }

    fn the_end_of_the_loop_gives_the_signal_back(backend: Backend) {
        let child = fork(|| {
            let reactor = reactor(backend);
            reactor.on_signal(Signal::TERM, |_| ()).unwrap();
            drop(reactor);
            raise(Signal::TERM);
        });
        assert_eq!(child.wait(), Ended::Killed(libc::SIGTERM));
    }

    fn the_end_of_the_last_watch_restores_the_very_action_that_was_there(backend: Backend) {
        let _alone = alone();
        let reactor = reactor(backend);
        let ours = handler_with(libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART, &[libc::SIGHUP]);
        for action in [plain(libc::SIG_DFL), plain(libc::SIG_IGN), ours] {
            let original = set_action(Signal::USR2, &action);
            let before = action_of(Signal::USR2);
            let watcher = reactor.on_signal(Signal::USR2, |_| ()).unwrap();
            assert_ne!(action_of(Signal::USR2), before);
            assert!(reactor.unwatch_signal(watcher));
            assert_eq!(action_of(Signal::USR2), before);
            set_action(Signal::USR2, &original);
        }
    }

    fn a_handler_from_before_does_not_run_while_its_signal_is_watched(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let original = set_action(Signal::USR2, &handler_with(0, &[]));
        let before = HANDLED.load(Ordering::Relaxed);
        let log = Log::new();
        let calls = log.clone();
        let watcher = reactor.on_signal(Signal::USR2, move |_| calls.note(())).unwrap();
        raise(Signal::USR2);
        reactor.poll(TEST_TIMEOUT).unwrap();
        assert_eq!((log.len(), HANDLED.load(Ordering::Relaxed)), (1, before));
        reactor.unwatch_signal(watcher);
        raise(Signal::USR2);
        assert_eq!((log.len(), HANDLED.load(Ordering::Relaxed)), (1, before + 1));
        set_action(Signal::USR2, &original);
    }

    fn a_handler_that_somebody_installs_meanwhile_stays(backend: Backend) {
        let _alone = alone();
        let reactor = reactor(backend);
        let watcher = reactor.on_signal(Signal::USR2, |_| ()).unwrap();
        set_action(Signal::USR2, &handler_with(0, &[]));
        let theirs = action_of(Signal::USR2);
        reactor.unwatch_signal(watcher);
        assert_eq!(action_of(Signal::USR2), theirs);
        set_action(Signal::USR2, &plain(libc::SIG_DFL));
    }

    fn a_signal_that_is_pending_when_its_watch_ends_kills_nobody(backend: Backend) {
        let end: [fn(Reactor, SignalWatcher); 2] =
            [|reactor, watcher| assert!(reactor.unwatch_signal(watcher)), |reactor, _| drop(reactor)];
        for end in end {
            for blocked in [false, true] {
                let child = fork(|| {
                    block(Signal::TERM, blocked);
                    let reactor = reactor(backend);
                    let watcher = reactor.on_signal(Signal::TERM, |_| panic!("ended")).unwrap();
                    raise(Signal::TERM);
                    end(reactor, watcher);
                    block(Signal::TERM, false);
                });
                child.join();
            }
        }
    }

    fn a_signal_that_was_blocked_before_stays_blocked_and_is_heard_when_it_is_let_through(backend: Backend) {
        let _alone = alone();
        block(Signal::WINCH, true);
        let mut reactor = reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        reactor.on_signal(Signal::WINCH, move |_| calls.note(())).unwrap();
        assert!(is_blocked(Signal::WINCH));
        raise(Signal::WINCH);
        block(Signal::WINCH, false);
        reactor.poll(TEST_TIMEOUT).unwrap();
        assert_eq!(log.len(), 1);
        block(Signal::WINCH, true);
        drop(reactor);
        assert!(is_blocked(Signal::WINCH));
        block(Signal::WINCH, false);
    }

    fn a_watched_signal_is_blocked_nowhere(backend: Backend) {
        let _alone = alone();
        let reactor = reactor(backend);
        reactor.on_signal(Signal::USR1, |_| ()).unwrap();
        assert!(!is_blocked(Signal::USR1));
        assert!(!std::thread::spawn(|| is_blocked(Signal::USR1)).join().unwrap());
    }

    fn a_program_that_is_started_meanwhile_ends_by_the_signal(backend: Backend) {
        let _alone = alone();
        let reactor = reactor(backend);
        reactor.on_signal(Signal::TERM, |_| ()).unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        // SAFETY: the child has not been waited for, so the number is its own.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGTERM) }, 0);
        let ended = (0..2000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            child.try_wait().unwrap()
        });
        let _ = child.kill();
        let status = ended.expect("it must end");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGTERM));
    }

    fn a_signal_that_reaches_another_thread_is_heard(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        reactor.on_signal(Signal::USR1, move |event| calls.note(event.count())).unwrap();
        std::thread::spawn(|| raise(Signal::USR1)).join().unwrap();
        reactor.poll(TEST_TIMEOUT).unwrap();
        assert_eq!(log.take(), [1]);
    }

    fn a_signal_that_interrupts_a_wait_on_a_clock_that_stands_still_is_heard(backend: Backend) {
        let _alone = alone();
        let (mut reactor, _clock) = frozen_reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        reactor.on_signal(Signal::USR1, move |_| calls.note(())).unwrap();
        // SAFETY: no precondition.
        let waiting = unsafe { libc::pthread_self() };
        let sender = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            // SAFETY: the thread waits for this one to end.
            assert_eq!(unsafe { libc::pthread_kill(waiting, libc::SIGUSR1) }, 0);
        });
        reactor.poll(None).unwrap();
        assert_eq!(log.len(), 1);
        sender.join().unwrap();
    }

    fn a_signal_does_not_find_the_librarys_own_threads(backend: Backend) {
        let child = fork(|| {
            let mut reactor = reactor(backend);
            let call = reactor.blocking(|| ()).unwrap();
            reactor.block_on(call).unwrap();
            let _stalls = reactor.watch_stalls(Duration::from_secs(60), |_| ()).unwrap();
            let log = Log::new();
            let calls = log.clone();
            reactor.on_signal(Signal::TERM, move |_| calls.note(())).unwrap();
            for number in 1..=100 {
                // SAFETY: no precondition.
                assert_eq!(unsafe { libc::kill(libc::getpid(), libc::SIGTERM) }, 0);
                reactor.poll(TEST_TIMEOUT).unwrap();
                assert_eq!(log.len(), number);
            }
        });
        child.join();
    }

    fn watches_and_loops_that_come_and_go_under_fire_do_no_harm(backend: Backend) {
        let child = fork(|| {
            set_action(Signal::USR1, &plain(libc::SIG_IGN));
            let done = Arc::new(AtomicBool::new(false));
            let threads = [(); 2].map(|()| {
                let done = done.clone();
                std::thread::spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        raise(Signal::USR1);
                    }
                })
            });
            for _ in 0..300 {
                let mut reactor = reactor(backend);
                let watcher = reactor.on_signal(Signal::USR1, |_| ()).unwrap();
                reactor.poll(NOW).unwrap();
                reactor.unwatch_signal(watcher);
                reactor.on_signal(Signal::USR1, |_| ()).unwrap();
            }
            done.store(true, Ordering::Relaxed);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(action_of(Signal::USR1).0, libc::SIG_IGN);
        });
        child.join();
    }

    fn a_storm_of_one_signal_costs_no_other(backend: Backend) {
        let child = fork(|| {
            let mut reactor = reactor(backend);
            let (storm, log) = (Rc::new(Cell::new(0)), Log::new());
            let (total, calls) = (storm.clone(), log.clone());
            reactor.on_signal(Signal::USR1, move |event| total.set(total.get() + event.count())).unwrap();
            reactor.on_signal(Signal::TERM, move |event| calls.note(event.signal())).unwrap();
            for _ in 0..70_000 {
                raise(Signal::USR1);
            }
            raise(Signal::TERM);
            settle(&mut reactor, 10_000);
            assert_eq!(log.take(), [Signal::TERM]);
            assert!((1..=70_000).contains(&storm.get()), "{}", storm.get());
        });
        child.join();
    }

    fn dropping_the_reactor_lets_every_signal_go(backend: Backend) {
        let _alone = alone();
        let log = Log::new();
        let first = reactor(backend);
        let data = NoteOnDrop(log.clone(), "callback dropped");
        first
            .on_signal(Signal::USR1, move |_| {
                let _ = &data;
            })
            .unwrap();
        drop(first);
        assert_eq!(log.take(), ["callback dropped"]);
        assert!(!is_blocked(Signal::USR1));
        let mut second = reactor(backend);
        let heard = Rc::new(Cell::new(false));
        let hear = heard.clone();
        second.on_signal(Signal::USR1, move |_| hear.set(true)).unwrap();
        raise(Signal::USR1);
        second.poll(TEST_TIMEOUT).unwrap();
        assert!(heard.get());
    }

    fn a_signal_belongs_to_one_loop_at_a_time(backend: Backend) {
        let _alone = alone();
        let (first, second) = (reactor(backend), reactor(backend));
        let watcher = first.on_signal(Signal::USR1, |_| ()).unwrap();
        let taken = second.on_signal(Signal::USR1, |_| ());
        assert!(matches!(taken, Err(Error::SignalTaken { signal }) if signal == libc::SIGUSR1));
        second.on_signal(Signal::USR2, |_| ()).unwrap();
        first.unwatch_signal(watcher);
        second.on_signal(Signal::USR1, |_| ()).unwrap();
    }

    fn what_cannot_be_caught_is_refused(backend: Backend) {
        let reactor = reactor(backend);
        for number in [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, 0, -1, 65, i32::MAX] {
            let refused = reactor.on_signal(Signal::from_raw(number), |_| ());
            assert!(
                matches!(refused, Err(Error::BadSignal { signal }) if signal == number),
                "{number}: {refused:?}"
            );
        }
    }

    fn signals_keep_no_idle_loop_running(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        reactor.on_signal(Signal::TERM, |_| ()).unwrap();
        reactor.run_until_idle().unwrap();
        reactor.after(Duration::from_millis(1), |_| ()).unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(reactor.timer_count(), 0);
    }

    fn h10_a_panic_in_a_signal_callback_loses_no_other_signal_and_no_other_callback(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let log = Log::new();
        reactor.on_signal(Signal::USR1, |_| panic!("fails")).unwrap();
        for signal in [Signal::USR1, Signal::USR2] {
            let calls = log.clone();
            reactor.on_signal(signal, move |event| calls.note(event.signal())).unwrap();
        }
        raise(Signal::USR1);
        raise(Signal::USR2);
        panic_of(|| drop(reactor.poll(TEST_TIMEOUT)));
        settle(&mut reactor, 5);
        assert_eq!(log.take(), [Signal::USR1, Signal::USR2]);
        raise(Signal::USR2);
        settle(&mut reactor, 5);
        assert_eq!(log.take(), [Signal::USR2]);
    }

    fn a_burst_of_one_signal_is_one_call_or_more_but_never_none(backend: Backend) {
        let _alone = alone();
        let mut reactor = reactor(backend);
        let count = Rc::new(Cell::new(0));
        let total = count.clone();
        reactor.on_signal(Signal::USR1, move |event| total.set(total.get() + event.count())).unwrap();
        for _ in 0..1000 {
            raise(Signal::USR1);
        }
        settle(&mut reactor, 100);
        assert!((1..=1000).contains(&count.get()), "{}", count.get());
        raise(Signal::USR1);
        let before = count.get();
        settle(&mut reactor, 100);
        assert_eq!(count.get(), before + 1);
    }
}

fn block(signal: Signal, on: bool) {
    // SAFETY: the set is initialised before it is used.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal.as_raw());
        let how = if on { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
        assert_eq!(libc::pthread_sigmask(how, &set, std::ptr::null_mut()), 0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_thread_that_watches_for_stalls_blocks_every_signal() {
    let reactor = Reactor::new().unwrap();
    let before = is_blocked(Signal::TERM);
    let _stalls = reactor.watch_stalls(Duration::from_secs(60), |_| ()).unwrap();
    assert_eq!(is_blocked(Signal::TERM), before, "whoever starts it is as before");
    let blocked = support::processes::blocked_in_thread("mainspring-stalls").expect("its thread");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1, Signal::CHLD, Signal::WINCH] {
        assert!(blocked & 1 << (signal.as_raw() - 1) != 0, "{signal:?} in {blocked:#x}");
    }
    assert_eq!(blocked & 1 << (libc::SIGSEGV - 1), 0, "its own faults are told");
}

/// How often [`count_it`] has run.
static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_it() {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

fn plain(disposition: libc::sighandler_t) -> libc::sigaction {
    // SAFETY: all zeroes is a valid action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = disposition;
    action
}

fn handler_with(flags: libc::c_int, masked: &[libc::c_int]) -> libc::sigaction {
    let mut action = plain(count_it as extern "C" fn() as libc::sighandler_t);
    action.sa_flags = flags;
    for number in masked {
        // SAFETY: the mask is a valid, empty set.
        unsafe { libc::sigaddset(&mut action.sa_mask, *number) };
    }
    action
}

/// Sets what a signal does. Says what it did before.
fn set_action(signal: Signal, action: &libc::sigaction) -> libc::sigaction {
    let mut before = plain(libc::SIG_DFL);
    // SAFETY: both actions are live, and the handler only adds to an atomic.
    assert_eq!(unsafe { libc::sigaction(signal.as_raw(), action, &mut before) }, 0);
    before
}

/// What a signal does: the handler, the flags that a program can set, and what is blocked
/// meanwhile.
fn action_of(signal: Signal) -> (libc::sighandler_t, libc::c_int, Vec<i32>) {
    let mut action = plain(libc::SIG_DFL);
    // SAFETY: the action is live.
    assert_eq!(unsafe { libc::sigaction(signal.as_raw(), std::ptr::null(), &mut action) }, 0);
    // SAFETY: the system has filled in the mask.
    let masked = (1..65).filter(|number| unsafe { libc::sigismember(&action.sa_mask, *number) } == 1);
    (action.sa_sigaction, action.sa_flags, masked.collect())
}
