//! Signals as callbacks.
//!
//! Every test raises its signals on its own thread, where a watched signal is blocked or handled. A signal number belongs to
//! one loop of the process, so each test has a number of its own.

mod support;

use mainspring_reactor::{Error, Signal, SignalWatcher};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use support::{Log, NOW, NoteOnDrop, PATIENCE, on_each_backend, panic_of, reactor, settle};

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
        reactor.poll(PATIENCE).unwrap();
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
        reactor.poll(PATIENCE).unwrap();
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
        reactor.poll(PATIENCE).unwrap();
        raise(Signal::USR2);
        reactor.poll(PATIENCE).unwrap();
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
                    // The new watcher may get the place of the old one, for which a call is still to be made.
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
        let _alone = alone();
        let reactor = reactor(backend);
        assert!(!is_blocked(Signal::WINCH));
        let first = reactor.on_signal(Signal::WINCH, |_| panic!("let go")).unwrap();
        let second = reactor.on_signal(Signal::WINCH, |_| panic!("let go")).unwrap();
        assert!(reactor.unwatch_signal(first));
        assert!(!reactor.unwatch_signal(first), "idempotent");
        assert_eq!(is_blocked(Signal::WINCH), backend == mainspring_reactor::Backend::Epoll);
        assert!(reactor.unwatch_signal(second));
        assert!(!is_blocked(Signal::WINCH));
        raise(Signal::WINCH); // ignored by default: nothing happens
        let mut reactor = reactor;
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
    }

    fn a_signal_that_was_blocked_before_stays_blocked(backend: Backend) {
        let _alone = alone();
        block(Signal::WINCH, true);
        let reactor = reactor(backend);
        reactor.on_signal(Signal::WINCH, |_| ()).unwrap();
        drop(reactor);
        assert!(is_blocked(Signal::WINCH));
        block(Signal::WINCH, false);
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
        second.poll(PATIENCE).unwrap();
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
        panic_of(|| drop(reactor.poll(PATIENCE)));
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
