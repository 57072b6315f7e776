//! How a loop is driven: poll, run, run_until_idle, stop, counts, interruptions, and the end.

mod support;

use mainspring_reactor::{
    Backend, Builder, DEFERRED_PER_TURN_MAX, Error, Handle, Interest, Mode, Reactor, Shared, Signal,
};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::callbacks::{draining, noting, noting_call};
use support::descriptors::{readable_socket, sockets, write_byte};
use support::processes::thread_cpu_time;
use support::{
    Log, NOW, NoteOnDrop, TEST_TIMEOUT, on_each_backend, panic_of, reactor, settle, virtual_reactor,
};

on_each_backend! {
    fn s_creare_a_new_reactor_is_stopped_and_empty(backend: Backend) {
        let mut reactor = reactor(backend);
        assert_eq!(reactor.backend(), backend);
        assert!(!reactor.is_running());
        assert_eq!((reactor.watcher_count(), reactor.timer_count(), reactor.task_count()), (0, 0, 0));
        assert_eq!(reactor.next_deadline(), None);
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
    }

    fn s_poll_returns_how_many_callbacks_ran(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let (both, _peer) = readable_socket();
        reactor.watch(left).on_read(|_, _| ()).start().unwrap();
        reactor.watch(both).on_read(|_, _| ()).on_write(|_, _| ()).start().unwrap();
        reactor.after(Duration::ZERO, |_| ()).unwrap();
        reactor.defer(|_| ()).unwrap();
        reactor.wakeup(|_| ()).unwrap().signal();
        assert_eq!(reactor.poll(NOW).unwrap(), 6);
        assert_eq!(reactor.poll(NOW).unwrap(), 3, "the two watchers, three callbacks");
    }

    fn s_poll_with_a_timeout_waits_for_all_of_it_when_nothing_happens(backend: Backend) {
        let mut reactor = reactor(backend);
        for micros in [300, 1300, 5000] {
            let start = Instant::now();
            assert_eq!(reactor.poll(Some(Duration::from_micros(micros))).unwrap(), 0);
            assert!(start.elapsed() >= Duration::from_micros(micros));
        }
        assert!(reactor.stats().turns <= 6, "and sleeps meanwhile: {:?}", reactor.stats());
    }

    fn s_poll_with_a_zero_timeout_looks_and_returns(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        reactor.watch(left).on_read(|_, _| ()).start().unwrap();
        reactor.after(Duration::from_secs(3600), |_| ()).unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        write_byte(&right);
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
    }

    fn s_poll_without_a_timeout_waits_until_something_happens(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        reactor.watch(left).on_read(|_, _| ()).start().unwrap();
        let writer = std::thread::spawn(move || {
            write_byte(&right);
            right
        });
        assert_eq!(reactor.poll(None).unwrap(), 1);
        drop(writer.join().unwrap());
    }

    fn s_currere_runs_until_a_callback_stops_it(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let ticks = Rc::new(Cell::new(0));
        let count = ticks.clone();
        let tick = move |tick: &mainspring_reactor::Tick<'_>| {
            assert!(tick.reactor().is_running());
            count.set(count.get() + 1);
            if count.get() == 3 {
                tick.reactor().stop();
            }
        };
        reactor.every(Duration::from_secs(1), tick).unwrap();
        reactor.run().unwrap();
        assert_eq!(ticks.get(), 3);
        assert!(!reactor.is_running());
        assert_eq!(clock.elapsed(), Duration::from_secs(3), "and does not wait for the next timer first");
    }

    fn s_sistere_lets_the_turn_in_progress_end(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let (left, _right) = readable_socket();
        let calls = log.clone();
        reactor
            .watch(left)
            .on_read(move |_, event| {
                calls.note("read");
                event.reactor().stop()
            })
            .start()
            .unwrap();
        let now = reactor.now();
        reactor.at(now, noting_call(&log, "timer")).unwrap();
        reactor.defer(noting_call(&log, "deferred")).unwrap();
        reactor.run().unwrap();
        assert_eq!(log.take(), ["read", "timer", "deferred"]);
    }

    fn s_sistere_works_from_another_thread(backend: Backend) {
        let mut reactor = reactor(backend);
        let remote = reactor.remote();
        let stopper = std::thread::spawn(move || remote.stop());
        reactor.run().unwrap();
        stopper.join().unwrap();
        assert!(!reactor.is_running());
    }

    fn h11_a_stop_before_run_makes_it_one_turn_that_does_not_block(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let (left, _right) = readable_socket();
        reactor.watch(left).on_read(noting(&log, "read")).start().unwrap();
        let now = reactor.now();
        reactor.at(now, noting_call(&log, "timer")).unwrap();
        reactor.defer(noting_call(&log, "deferred")).unwrap();
        reactor.stop();
        reactor.run().unwrap();
        assert_eq!(log.take(), ["read", "timer", "deferred"]);
        reactor.stop();
        reactor.stop();
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), ["read"], "two requests are one");
        reactor.defer(|handle| handle.stop()).unwrap();
        reactor.run().unwrap();
        assert_eq!(log.take(), ["read"], "the request was used up: this run ends by its own stop");
    }

    fn h11_a_stop_from_another_thread_before_run_is_not_lost(backend: Backend) {
        let mut reactor = reactor(backend);
        let remote = reactor.remote();
        std::thread::spawn(move || remote.stop()).join().unwrap();
        reactor.run().unwrap();
        assert!(reactor.stats().turns <= 1);
    }

    fn h12_with_nothing_registered_run_waits_without_using_the_processor(backend: Backend) {
        const WINDOW: Duration = Duration::from_millis(100);
        let mut reactor = reactor(backend);
        let remote = reactor.remote();
        let stopper = std::thread::spawn(move || {
            std::thread::park_timeout(WINDOW); // the length of the measurement
            remote.stop();
        });
        let before = thread_cpu_time();
        reactor.run().unwrap();
        let used = thread_cpu_time() - before;
        stopper.join().unwrap();
        assert!(used < WINDOW / 5, "used {used:?} of the processor in {WINDOW:?}");
        assert!(reactor.stats().turns <= 2, "{:?}", reactor.stats());
    }

    fn h12_with_nothing_registered_run_until_idle_returns_at_once(backend: Backend) {
        let mut reactor = reactor(backend);
        reactor.run_until_idle().unwrap();
        assert_eq!(reactor.stats().turns, 0);
    }

    fn run_until_idle_waits_for_watchers_timers_deferred_calls_and_tasks(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        let (left, _right) = readable_socket();
        let calls = log.clone();
        reactor
            .watch(left)
            .on_read(move |_, event| {
                calls.note("read");
                event.unwatch()
            })
            .start()
            .unwrap();
        reactor.after(Duration::from_secs(5), noting_call(&log, "timer")).unwrap();
        let calls = log.clone();
        reactor.defer(move |handle| handle.defer(noting_call(&calls, "deferred twice")).unwrap()).unwrap();
        let (calls, handle) = (log.clone(), reactor.handle());
        reactor
            .spawn(async move {
                handle.sleep(Duration::from_secs(9)).await.unwrap();
                calls.note("task");
            })
            .unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), ["read", "deferred twice", "timer", "task"]);
        assert_eq!(clock.elapsed(), Duration::from_secs(9));
    }

    fn run_until_idle_does_not_wait_for_what_cannot_report(backend: Backend) {
        let mut reactor = reactor(backend);
        let (spent, _p1) = readable_socket();
        let (silent, _p2) = readable_socket();
        reactor.watch(spent).mode(Mode::Oneshot).on_read(|_, _| ()).start().unwrap();
        let silent = reactor.watch(silent).on_read(|_, _| ()).start().unwrap();
        reactor.modify(silent, Interest::empty()).unwrap();
        let wakeup = reactor.wakeup(|_| ()).unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(reactor.watcher_count(), 2);
        drop(wakeup);
    }

    fn run_until_idle_ends_by_stop_as_well(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        reactor.every(Duration::from_secs(1), |tick| tick.reactor().stop()).unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(reactor.timer_count(), 1);
    }

    fn s_numerus_counts_follow_every_change(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        let (left, right) = sockets();
        let (left, right) = (Shared::new(left), Shared::new(right));
        let first = reactor.watch_shared(&left).on_read(|_, _| ()).start().unwrap();
        reactor.watch_shared(&right).on_read(|_, _| ()).start().unwrap();
        reactor.watch_shared(&left).on_write(|_, _| ()).start().unwrap();
        assert_eq!(reactor.watcher_count(), 2, "watching again is no second watch");
        assert!(!reactor.unwatch(first), "replaced");
        drop(right);
        assert_eq!(reactor.watcher_count(), 1);
        let timer = reactor.after(Duration::from_secs(1), |_| ()).unwrap();
        reactor
            .every(Duration::from_secs(1), |tick| {
                tick.reactor().cancel(tick.timer());
            })
            .unwrap();
        assert_eq!(reactor.timer_count(), 2);
        reactor.reschedule_after(timer, Duration::from_secs(2)).unwrap();
        assert_eq!(reactor.timer_count(), 2);
        reactor.unwatch_source(&left);
        reactor.run_until_idle().unwrap();
        assert_eq!((reactor.watcher_count(), reactor.timer_count()), (0, 0));
    }

    fn s_limits_there_are_none_on_watchers_and_timers(backend: Backend) {
        // The original stops at 1000 descriptors in a lifetime and 128 timers.
        let (mut reactor, _clock) = virtual_reactor(backend);
        let (left, _right) = readable_socket();
        let left = Shared::new(left);
        for _ in 0..3000 {
            let watcher = reactor.watch_shared(&left).on_read(|_, _| ()).start().unwrap();
            reactor.unwatch(watcher);
            reactor.after(Duration::from_secs(1), |_| ()).unwrap();
        }
        let _alone = support::descriptors::many_descriptors();
        let mut peers = Vec::new();
        for _ in 0..1500 {
            let (left, right) = sockets();
            reactor.watch(left).on_read(|_, event| event.unwatch()).start().unwrap();
            peers.push(right);
        }
        assert_eq!((reactor.watcher_count(), reactor.timer_count()), (1500, 3000));
        drop(peers);
        assert_eq!(settle(&mut reactor, 10), 1500);
        reactor.run_until_idle().unwrap();
        assert_eq!((reactor.watcher_count(), reactor.timer_count()), (0, 0));
    }

    fn r5_deferred_calls_run_in_order_and_those_made_meanwhile_on_the_next_turn(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        for number in 0..3 {
            let calls = log.clone();
            let call = move |handle: &Handle| {
                calls.note(number);
                handle.defer(noting_call(&calls, number + 10)).unwrap();
            };
            reactor.defer(call).unwrap();
        }
        assert_eq!(log.len(), 0, "never from inside the call that asks");
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 3);
        assert_eq!(log.take(), [0, 1, 2]);
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 3, "and without blocking before them");
        assert_eq!(log.take(), [10, 11, 12]);
    }

    fn r5_at_most_1024_deferred_calls_run_per_turn(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        for number in 0..DEFERRED_PER_TURN_MAX + 10 {
            reactor.defer(noting_call(&log, number)).unwrap();
        }
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1024);
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 10);
        assert_eq!(log.take(), (0..1034).collect::<Vec<_>>());
    }

    fn r5_a_call_that_defers_itself_for_ever_starves_nobody(backend: Backend) {
        let mut reactor = reactor(backend);
        let count = Rc::new(Cell::new(0));
        defer_again(&reactor, &count);
        let (left, _right) = readable_socket();
        reactor.watch(left).on_read(|_, _| ()).start().unwrap();
        for turn in 1..=50 {
            assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 2);
            assert_eq!(count.get(), turn);
        }
    }

    fn r7_run_can_be_called_again_after_a_panic(backend: Backend) {
        let mut reactor = reactor(backend);
        reactor.defer(|_| panic!("fails")).unwrap();
        assert_eq!(panic_of(|| drop(reactor.run())), "fails");
        assert!(!reactor.is_running());
        reactor.defer(|handle| handle.stop()).unwrap();
        reactor.run().unwrap();
    }

    fn h9_a_signal_handler_that_interrupts_the_wait_neither_shortens_nor_lengthens_it(backend: Backend) {
        until_interrupted(backend, |reactor| {
            let (start, wait) = (Instant::now(), Duration::from_millis(20));
            assert_eq!(reactor.poll(Some(wait)).unwrap(), 0);
            assert!(start.elapsed() >= wait, "cut short after {:?}", start.elapsed());
        });
    }

    fn h9_a_signal_handler_that_interrupts_the_wait_moves_no_timer(backend: Backend) {
        until_interrupted(backend, |reactor| {
            let deadline = reactor.now().checked_add(Duration::from_millis(20)).unwrap();
            reactor.at(deadline, |handle| handle.stop()).unwrap();
            reactor.run().unwrap();
            assert!(reactor.now() >= deadline);
        });
    }

    fn s_destruere_after_the_end_everything_that_would_start_something_is_refused(backend: Backend) {
        let reactor = reactor(backend);
        let handle = reactor.handle();
        let remote = reactor.remote();
        let log = Log::new();
        let deferred = NoteOnDrop(log.clone(), "deferred call dropped");
        reactor.defer(move |_| drop(deferred)).unwrap();
        drop(reactor);
        assert_eq!(log.take(), ["deferred call dropped"]);
        let (left, right) = sockets();
        let left = Shared::new(left);
        let closed = |error: Error| matches!(error, Error::Closed);
        assert!(closed(handle.watch(right).on_read(|_, _| ()).start().unwrap_err()));
        assert!(closed(handle.watch_shared(&left).on_read(|_, _| ()).start().unwrap_err()));
        assert!(closed(handle.after(Duration::ZERO, |_| ()).unwrap_err()));
        assert!(closed(handle.every(Duration::from_secs(1), |_| ()).unwrap_err()));
        assert!(closed(handle.defer(|_| ()).unwrap_err()));
        assert!(closed(handle.wakeup(|_| ()).unwrap_err()));
        assert!(closed(handle.spawn(async {}).unwrap_err()));
        assert!(closed(handle.blocking(|| ()).unwrap_err()));
        assert!(closed(handle.on_signal(Signal::USR1, |_| ()).unwrap_err()));
        assert!(closed(handle.on_child_exit(1, |_, _| ()).unwrap_err()));
        assert!(closed(handle.embedding_fd().unwrap_err()));
        assert!(closed(remote.call(|_| ()).unwrap_err()));
        remote.wake();
        remote.stop();
        handle.stop();
        assert_eq!((handle.watcher_count(), handle.timer_count(), handle.task_count()), (0, 0, 0));
    }

    fn g2_a_long_callback_delays_others_but_loses_nothing(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        let (left, right) = sockets();
        reactor.watch(left).on_read(draining(&log, "read")).start().unwrap();
        let (calls, long) = (log.clone(), clock.clone());
        let slow = move |_: &Handle| {
            long.advance(Duration::from_secs(60));
            write_byte(&right);
            calls.note("slow");
        };
        reactor.after(Duration::from_secs(1), slow).unwrap();
        reactor.after(Duration::from_secs(2), noting_call(&log, "late")).unwrap();
        for _ in 0..2 {
            reactor.poll(TEST_TIMEOUT).unwrap();
        }
        assert_eq!(log.take(), ["slow", "read", "late"]);
    }

    fn g9_a_stop_ends_an_idle_wait_at_once(backend: Backend) {
        // The original sleeps for up to a second before it looks.
        let mut reactor = reactor(backend);
        let remote = reactor.remote();
        let stopper = std::thread::spawn(move || remote.stop());
        reactor.run().unwrap();
        stopper.join().unwrap();
        assert!(reactor.stats().turns <= 2, "one wait, ended by the stop: {:?}", reactor.stats());
    }
}

/// A deferred call that defers itself again.
fn defer_again(handle: &Handle, count: &Rc<Cell<u32>>) {
    let count = count.clone();
    let call = move |handle: &Handle| {
        count.set(count.get() + 1);
        defer_again(handle, &count);
    };
    handle.defer(call).unwrap();
}

/// Waits under a storm of signals, and does it again until one of them did interrupt a wait.
fn until_interrupted(backend: Backend, wait: impl Fn(&mut Reactor)) {
    let storm = SignalStorm::begin();
    for _ in 0..500 {
        let mut reactor = reactor(backend);
        wait(&mut reactor);
        // Without an interruption, the wait and the look at its end make two turns.
        if reactor.stats().turns > 2 {
            return storm.end();
        }
    }
    panic!("the wait was never interrupted");
}

/// Interrupts this thread with a harmless signal, again and again.
struct SignalStorm {
    over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl SignalStorm {
    fn begin() -> SignalStorm {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: the action is initialised; the handler does nothing at all. Without SA_RESTART,
        // waits are interrupted.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as libc::sighandler_t;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
        }
        // SAFETY: no precondition.
        let target = unsafe { libc::pthread_self() } as usize;
        let over = Arc::new(AtomicBool::new(false));
        let end = over.clone();
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Acquire) {
                // SAFETY: the target joins this thread in `end`, so it still exists.
                unsafe { libc::pthread_kill(target as libc::pthread_t, libc::SIGUSR2) };
                std::thread::park_timeout(Duration::from_micros(500)); // the storm's rate
            }
        });
        SignalStorm { over, thread }
    }

    fn end(self) {
        self.over.store(true, Ordering::Release);
        self.thread.join().unwrap();
    }
}

#[test]
fn the_best_backend_is_the_default_and_every_backend_has_a_name() {
    let reactor = Reactor::new().unwrap();
    assert_eq!(reactor.backend(), Backend::best());
    assert_eq!(Builder::default().build().unwrap().backend(), Backend::best());
    assert_eq!((Backend::Epoll.to_string(), Backend::Poll.to_string()), ("epoll".into(), "poll".into()));
}

#[test]
fn errors_say_what_was_asked_and_what_to_do() {
    let reactor = Reactor::new().unwrap();
    let error = reactor.watch_raw(-1, ()).on_read(|(), _| ()).start().unwrap_err();
    assert_eq!(error.to_string(), "descriptor -1 is not open: watch it before it is closed");
    assert_eq!(std::io::Error::from(error).raw_os_error(), Some(libc::EBADF));
    let error = reactor.after(Duration::MAX, |_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the deadline is out of range: it must lie within 292 years of the clock's origin"
    );
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::InvalidInput);
    let error = reactor.on_child_exit(u32::MAX, |_, _| ()).unwrap_err();
    assert_eq!(std::io::Error::from(error).raw_os_error(), Some(libc::ECHILD));
}
