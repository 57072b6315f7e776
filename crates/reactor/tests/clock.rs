//! The virtual clock.

mod support;

use mainspring_reactor::{Builder, Handle, Instant, Tick, VirtualClock};
use std::time::Duration;
use support::descriptors::{drain, readable_socket, sockets, write_byte};
use support::{Log, NOW, frozen_reactor, on_each_backend, virtual_reactor};

const SECOND: Duration = Duration::from_secs(1);

on_each_backend! {
    fn virtual_a_day_of_timers_takes_no_time(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        let tick = move |tick: &Tick<'_>| {
            calls.note(tick.missed());
            if calls.len() == 24 * 60 {
                tick.reactor().stop();
            }
        };
        reactor.every(Duration::from_secs(60), tick).unwrap();
        reactor.run().unwrap();
        assert_eq!(clock.elapsed(), Duration::from_secs(24 * 3600));
        assert_eq!(log.take(), [0; 24 * 60], "time jumps from deadline to deadline and overruns none");
    }

    fn virtual_time_is_deterministic(backend: Backend) {
        let run = || {
            let (mut reactor, clock) = virtual_reactor(backend);
            let log = Log::new();
            for (name, millis) in [("a", 30), ("b", 20), ("c", 50)] {
                let (calls, time) = (log.clone(), clock.clone());
                let tick = move |_: &Tick<'_>| calls.note((name, time.elapsed()));
                reactor.every(Duration::from_millis(millis), tick).unwrap();
            }
            reactor.after(SECOND, |handle: &Handle| handle.stop()).unwrap();
            reactor.run().unwrap();
            log.take()
        };
        let first = run();
        assert_eq!(first.len(), 33 + 50 + 20, "those of the last instant included");
        assert_eq!(first, run());
    }

    fn virtual_time_jumps_only_when_nothing_real_is_ready(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        let (left, _right) = readable_socket();
        let (calls, time) = (log.clone(), clock.clone());
        reactor
            .watch(left)
            .on_read(move |stream, _| {
                drain(&*stream);
                calls.note(("read", time.elapsed()))
            })
            .start()
            .unwrap();
        let (calls, time) = (log.clone(), clock.clone());
        reactor
            .after(SECOND, move |handle| {
                calls.note(("timer", time.elapsed()));
                handle.stop()
            })
            .unwrap();
        reactor.run().unwrap();
        assert_eq!(log.take(), [("read", Duration::ZERO), ("timer", SECOND)]);
    }

    fn virtual_time_moves_by_hand_when_told_so(backend: Backend) {
        let (mut reactor, clock) = frozen_reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        reactor.after(SECOND, move |_| calls.note(())).unwrap();
        clock.advance(SECOND / 2);
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        clock.advance(SECOND / 2);
        assert!(log.is_empty(), "advancing runs nothing by itself");
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(reactor.now(), Instant::from_nanos(1_000_000_000));
    }

    fn virtual_a_poll_with_a_timeout_ends_when_time_stands_still(backend: Backend) {
        let (mut reactor, clock) = frozen_reactor(backend);
        reactor.after(2 * SECOND, |_| ()).unwrap();
        assert_eq!(reactor.poll(Some(SECOND)).unwrap(), 0, "that second would never pass");
        assert_eq!(clock.elapsed(), Duration::ZERO);
        assert!(reactor.stats().turns <= 2, "{:?}", reactor.stats());
        let (left, right) = sockets();
        reactor.watch(left).on_read(|_, _| ()).start().unwrap();
        write_byte(&right);
        assert_eq!(reactor.poll(Some(SECOND)).unwrap(), 1, "what is ready is served");
    }

    fn virtual_a_poll_with_a_timeout_takes_that_much_time(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        reactor.after(5 * SECOND, |_| ()).unwrap();
        assert_eq!(reactor.poll(Some(2 * SECOND)).unwrap(), 0);
        assert_eq!(clock.elapsed(), 2 * SECOND);
        assert_eq!(reactor.poll(Some(10 * SECOND)).unwrap(), 1);
        assert_eq!(clock.elapsed(), 5 * SECOND, "no longer than to the next timer");
    }

    fn virtual_the_smallest_steps_count(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        for nanos in [3, 1, 2] {
            let (calls, time) = (log.clone(), clock.clone());
            let note = move |_: &Handle| calls.note((nanos, time.elapsed().as_nanos()));
            reactor.after(Duration::from_nanos(nanos), note).unwrap();
        }
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), [(1, 1), (2, 2), (3, 3)]);
    }

    fn virtual_a_timer_set_while_time_jumps_counts_from_the_new_time(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let time = clock.clone();
        let chain = move |handle: &Handle| {
            handle.after(SECOND, move |_| assert_eq!(time.elapsed(), 11 * SECOND)).unwrap();
        };
        reactor.after(10 * SECOND, chain).unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(clock.elapsed(), 11 * SECOND);
    }

    fn virtual_two_loops_may_share_a_clock(backend: Backend) {
        let clock = VirtualClock::new();
        clock.set_auto_advance(false);
        let mut loops: Vec<_> =
            (0..2).map(|_| Builder::new().backend(backend).virtual_clock(&clock).build().unwrap()).collect();
        for reactor in &loops {
            reactor.after(SECOND, |_| ()).unwrap();
        }
        clock.advance(SECOND);
        for reactor in &mut loops {
            assert_eq!(reactor.poll(NOW).unwrap(), 1);
        }
    }

    fn virtual_other_threads_still_wake_the_loop(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let remote = reactor.remote();
        let stopper = std::thread::spawn(move || remote.stop());
        reactor.run().unwrap();
        stopper.join().unwrap();
        assert_eq!(clock.elapsed(), Duration::ZERO);
    }
}

#[test]
fn virtual_clock_stops_at_the_end_of_its_range() {
    let clock = VirtualClock::default();
    clock.advance(Duration::MAX);
    clock.advance(SECOND);
    assert_eq!(clock.now(), Instant::MAX);
    assert_eq!(clock.elapsed(), Duration::from_nanos(i64::MAX as u64));
}

#[test]
fn instants_do_not_wrap() {
    assert_eq!(Instant::MAX.checked_add(Duration::from_nanos(1)), None);
    assert_eq!(Instant::MIN.checked_add(Duration::MAX), None, "the duration itself is out of range");
    assert_eq!(Instant::from_nanos(-5).checked_add(Duration::from_nanos(5)), Some(Instant::from_nanos(0)));
    assert_eq!(Instant::MIN.saturating_duration_since(Instant::MAX), Duration::ZERO);
    assert_eq!(Instant::MAX.saturating_duration_since(Instant::MIN), Duration::from_nanos(u64::MAX));
}
