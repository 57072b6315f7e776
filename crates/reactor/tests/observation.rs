//! What the loop says about itself: counters, timing, labels, stalls.

mod support;

use mainspring_reactor::{Handle, Reactor, Stall};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use support::descriptors::{drain, readable_socket, sockets, write_byte};
use support::{NOW, TEST_TIMEOUT, on_each_backend, panic_of, reactor, settle};

/// Keeps the processor busy.
fn spin(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {}
}

on_each_backend! {
    fn r13_counters_are_always_on_and_add_up(backend: Backend) {
        let mut reactor = reactor(backend);
        assert_eq!(reactor.stats(), Default::default());
        let (left, right) = sockets();
        reactor.watch(left).on_read(|stream, _| _ = drain(&*stream)).start().unwrap();
        reactor.poll(NOW).unwrap();
        assert_eq!(reactor.stats().turns, 1);
        for _ in 0..5 {
            write_byte(&right);
            reactor.poll(NOW).unwrap();
        }
        let stats = reactor.stats();
        assert_eq!((stats.turns, stats.events, stats.callbacks), (6, 5, 5));
        reactor.after(Duration::ZERO, |_| ()).unwrap();
        reactor.defer(|_| ()).unwrap();
        reactor.poll(NOW).unwrap();
        let stats = reactor.stats();
        assert_eq!((stats.callbacks, stats.timers), (7, 1));
        reactor.spawn(async {}).unwrap();
        reactor.remote().wake();
        reactor.poll(NOW).unwrap();
        let stats = reactor.stats();
        assert_eq!((stats.task_polls, stats.wakeups, stats.callbacks), (1, 1, 7));
        assert_eq!((stats.stale_events, stats.rebuilds), (0, 0));
    }

    fn r13_timing_is_off_until_it_is_asked_for_and_starts_from_zero(backend: Backend) {
        let mut reactor = reactor(backend);
        assert_eq!(reactor.timing(), None);
        reactor.set_timing(true);
        let timing = reactor.timing().unwrap();
        assert_eq!((timing.busy, timing.idle, timing.slowest), (Duration::ZERO, Duration::ZERO, None));
        reactor.poll(Some(Duration::from_millis(3))).unwrap();
        assert!(reactor.timing().unwrap().idle >= Duration::from_millis(2));
        reactor.set_timing(true);
        assert_eq!(reactor.timing().unwrap().idle, Duration::ZERO, "from zero again");
        reactor.set_timing(false);
        assert_eq!(reactor.timing(), None);
    }

    fn r13_busy_and_idle_time_are_told_apart(backend: Backend) {
        let mut reactor = reactor(backend);
        reactor.set_timing(true);
        reactor.after(Duration::from_millis(10), |_| spin(Duration::from_millis(5))).unwrap();
        reactor.run_until_idle().unwrap();
        reactor.poll(NOW).unwrap();
        let timing = reactor.timing().unwrap();
        assert!(timing.busy >= Duration::from_millis(5), "{timing:?}");
        assert!(timing.idle >= Duration::from_millis(5), "{timing:?}");
    }

    fn r13_the_slowest_callback_is_named_by_its_label(backend: Backend) {
        let mut reactor = reactor(backend);
        reactor.set_timing(true);
        let (left, _right) = readable_socket();
        let (other, _peer) = readable_socket();
        reactor.watch(other).label("quick").on_read(|_, event| event.unwatch()).start().unwrap();
        settle(&mut reactor, 5);
        assert_eq!(reactor.timing().unwrap().slowest.unwrap().label.as_deref(), Some("quick"));
        let watch = reactor.watch(left).label("slow reader");
        watch
            .on_read(|_, event| {
                outdo_the_slowest(event.reactor());
                event.unwatch()
            })
            .start()
            .unwrap();
        settle(&mut reactor, 5);
        let slow = reactor.timing().unwrap().slowest.unwrap();
        assert_eq!(slow.label.as_deref(), Some("slow reader"));
        let timer = reactor.after(Duration::ZERO, outdo_the_slowest).unwrap();
        assert!(reactor.label_timer(timer, "slower timer"));
        reactor.poll(TEST_TIMEOUT).unwrap();
        let slower = reactor.timing().unwrap().slowest.unwrap();
        assert_eq!(slower.label.as_deref(), Some("slower timer"));
        assert!(slower.duration > slow.duration);
        assert!(!reactor.label_timer(timer, "gone"));
    }

    fn r13_a_watcher_can_be_named_later(backend: Backend) {
        let mut reactor = reactor(backend);
        reactor.set_timing(true);
        let (left, _right) = readable_socket();
        let watcher = reactor.watch(left).on_read(|_, _| spin(Duration::from_millis(1))).start().unwrap();
        assert!(reactor.label_watcher(watcher, "named later"));
        reactor.poll(NOW).unwrap();
        assert_eq!(reactor.timing().unwrap().slowest.unwrap().label.as_deref(), Some("named later"));
        reactor.unwatch(watcher);
        assert!(!reactor.label_watcher(watcher, "gone"));
    }

    fn r13_the_lag_of_the_loop_is_how_late_its_timers_are(backend: Backend) {
        let mut reactor = reactor(backend);
        reactor.set_timing(true);
        let (left, _right) = readable_socket();
        let late = Duration::from_millis(6);
        reactor
            .watch(left)
            .on_read(move |stream, _| {
                drain(&*stream);
                spin(late)
            })
            .start()
            .unwrap();
        let now = reactor.now();
        reactor.at(now, |_| ()).unwrap();
        reactor.poll(TEST_TIMEOUT).unwrap();
        let timing = reactor.timing().unwrap();
        assert!(timing.lag_last >= late && timing.lag_max >= timing.lag_last, "{timing:?}");
    }

    fn r13_a_panic_does_not_disturb_the_timing(backend: Backend) {
        let mut reactor = reactor(backend);
        reactor.set_timing(true);
        reactor
            .defer(|_| {
                spin(Duration::from_millis(2));
                panic!("fails")
            })
            .unwrap();
        panic_of(|| drop(reactor.poll(NOW)));
        assert!(reactor.timing().unwrap().slowest.unwrap().duration >= Duration::from_millis(2));
        reactor.poll(NOW).unwrap();
    }

    fn r13_a_stall_is_reported_while_it_lasts_with_its_label(backend: Backend) {
        let mut reactor = reactor(backend);
        let (_watch, reports) = watch_stalls(&reactor, Duration::from_millis(2));
        let (left, _right) = readable_socket();
        let watch = reactor.watch(left).label("stuck");
        watch
            .on_read(move |_, event| {
                // The callback does not return before the report has come.
                let stall = reports.recv_timeout(Duration::from_secs(20)).expect("a report");
                assert_eq!(stall.label.as_deref(), Some("stuck"));
                assert!(stall.running_for >= Duration::from_millis(2));
                event.unwatch();
            })
            .start()
            .unwrap();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
    }

    fn r13_every_kind_of_callback_is_watched_for_stalls(backend: Backend) {
        let mut reactor = reactor(backend);
        let (_watch, reports) = watch_stalls(&reactor, Duration::from_millis(1));
        let reports = std::rc::Rc::new(reports);
        let wait = |reports: &Receiver<Stall>| {
            drop(reports.recv_timeout(Duration::from_secs(20)).expect("a report"))
        };
        let stuck = reports.clone();
        reactor.defer(move |_| wait(&stuck)).unwrap();
        let stuck = reports.clone();
        reactor.after(Duration::ZERO, move |_| wait(&stuck)).unwrap();
        let stuck = reports.clone();
        let wakeup = reactor.wakeup(move |_: &Handle| wait(&stuck)).unwrap();
        wakeup.signal();
        let stuck = reports.clone();
        reactor.spawn(async move { wait(&stuck) }).unwrap();
        settle(&mut reactor, 5);
    }

    fn r13_a_stall_is_reported_once(backend: Backend) {
        let mut reactor = reactor(backend);
        let (watch, reports) = watch_stalls(&reactor, Duration::from_millis(1));
        reactor
            .defer(move |_| {
                reports.recv_timeout(Duration::from_secs(20)).expect("a report");
                spin(Duration::from_millis(10));
                assert!(reports.try_recv().is_err(), "one report per callback");
            })
            .unwrap();
        reactor.poll(TEST_TIMEOUT).unwrap();
        drop(watch);
    }

    fn r13_a_loop_that_waits_is_not_stalled(backend: Backend) {
        let mut reactor = reactor(backend);
        let (watch, reports) = watch_stalls(&reactor, Duration::from_millis(1));
        reactor.poll(Some(Duration::from_millis(10))).unwrap();
        drop(watch);
        assert_eq!(reports.try_iter().count(), 0);
    }

    fn r13_a_new_stall_watch_replaces_the_old_and_dropping_it_ends_it(backend: Backend) {
        let mut reactor = reactor(backend);
        let (first, old) = watch_stalls(&reactor, Duration::from_millis(1));
        let (second, new) = watch_stalls(&reactor, Duration::from_millis(1));
        reactor.defer(move |_| drop(new.recv_timeout(Duration::from_secs(20)).expect("a report"))).unwrap();
        reactor.poll(TEST_TIMEOUT).unwrap();
        drop(first);
        assert_eq!(old.try_iter().count(), 0);
        drop(second);
        reactor.defer(|_| spin(Duration::from_millis(3))).unwrap();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
    }
}

/// Takes longer than any callback so far.
fn outdo_the_slowest(handle: &Handle) {
    let slowest =
        handle.timing().and_then(|timing| timing.slowest).map_or(Duration::ZERO, |slowest| slowest.duration);
    spin(slowest + Duration::from_millis(1));
}

/// A stall watch and where its reports arrive.
fn watch_stalls(reactor: &Reactor, threshold: Duration) -> (mainspring_reactor::StallWatch, Receiver<Stall>) {
    let (sender, receiver) = channel();
    let watch = reactor.watch_stalls(threshold, move |stall| drop(sender.send(stall))).unwrap();
    (watch, receiver)
}
