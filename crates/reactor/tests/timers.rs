//! Timers: clauses M1.4.1 to M1.4.8, order, repetition, bounds, and the edges of time.

mod support;

use mainspring_reactor::{Error, Handle, Instant, Reactor, TIMERS_PER_TURN_MAX, Tick, Timer, VirtualClock};
use proptest::prelude::*;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};
use support::callbacks::{draining, noting_call};
use support::descriptors::{drain, many_descriptors, readable_socket};
use support::{
    Log, NOW, NoteOnDrop, TEST_TIMEOUT, frozen_reactor, on_each_backend, reactor, settle, virtual_reactor,
};

const SECOND: Duration = Duration::from_secs(1);

/// The real monotonic clock.
fn monotonic_nanos() -> i64 {
    support::processes::monotonic_time().as_nanos() as i64
}

/// A repeating timer that notes, for each call, how many seconds after the start it was due, was
/// made, and how many ticks it had missed.
fn beat(reactor: &Reactor, clock: &VirtualClock, interval: Duration) -> (Timer, Log<(f64, f64, u64)>) {
    let log = Log::new();
    let (calls, clock) = (log.clone(), clock.clone());
    let call = move |tick: &Tick<'_>| {
        calls.note((tick.deadline().as_nanos() as f64 / 1e9, clock.elapsed().as_secs_f64(), tick.missed()));
    };
    (reactor.every(interval, call).unwrap(), log)
}

on_each_backend! {
    fn m1_4_1_the_clock_is_the_monotonic_one(backend: Backend) {
        let reactor = reactor(backend);
        let before = monotonic_nanos();
        let now = reactor.now().as_nanos();
        assert!((before..=monotonic_nanos()).contains(&now));
    }

    fn m1_4_2_the_last_representable_deadline_is_taken_and_the_next_is_refused(backend: Backend) {
        let (mut reactor, clock) = frozen_reactor(backend);
        let last = Duration::from_nanos(i64::MAX as u64);
        let beyond = last + Duration::from_nanos(1);
        assert!(reactor.after(last, |_| ()).is_ok());
        for refused in [beyond, Duration::MAX] {
            assert!(matches!(reactor.after(refused, |_| ()), Err(Error::DeadlineOutOfRange)));
            assert!(matches!(reactor.every(refused, |_| ()), Err(Error::DeadlineOutOfRange)));
        }
        clock.advance(Duration::from_nanos(1));
        assert!(matches!(reactor.after(last, |_| ()), Err(Error::DeadlineOutOfRange)), "the sum counts");
        assert_eq!(reactor.timer_count(), 1, "what was refused is not there");
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
    }

    fn m1_4_2_a_move_beyond_the_range_is_refused_and_moves_nothing(backend: Backend) {
        let (reactor, _clock) = frozen_reactor(backend);
        let timer = reactor.after(SECOND, |_| ()).unwrap();
        assert!(matches!(reactor.reschedule_after(timer, Duration::MAX), Err(Error::DeadlineOutOfRange)));
        assert_eq!(reactor.next_deadline(), Some(Instant::from_nanos(1_000_000_000)));
    }

    fn h8_the_earliest_instant_is_due_at_once_and_the_latest_never(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        reactor.at(Instant::MAX, noting_call(&log, "latest")).unwrap();
        reactor.at(Instant::MIN, noting_call(&log, "earliest")).unwrap();
        reactor.at(Instant::from_nanos(0), noting_call(&log, "origin")).unwrap();
        reactor.at(Instant::from_nanos(-1), noting_call(&log, "before the origin")).unwrap();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 3);
        assert_eq!(log.take(), ["earliest", "before the origin", "origin"]);
        assert_eq!(reactor.poll(Some(Duration::from_millis(2))).unwrap(), 0);
        assert_eq!(reactor.timer_count(), 1);
    }

    fn h8_the_last_instant_of_the_clock_is_reached_without_a_wrap(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        reactor.at(Instant::MAX, noting_call(&log, "last")).unwrap();
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Instant::MAX);
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), ["last"]);
        assert!(reactor.after(Duration::ZERO, |_| ()).is_ok());
        assert!(matches!(reactor.after(Duration::from_nanos(1), |_| ()), Err(Error::DeadlineOutOfRange)));
    }

    fn h8_a_repeating_timer_ends_with_its_last_representable_tick(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        let first = Instant::from_nanos(i64::MAX - 1_500_000_000);
        let timer = reactor.every_from(first, SECOND, move |tick| calls.note(tick.deadline())).unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), [first, first.checked_add(SECOND).unwrap()]);
        assert!(!reactor.has_timer(timer));
        assert_eq!(reactor.timer_count(), 0);
    }

    fn h8_a_wait_longer_than_the_clock_lasts_is_a_wait_for_ever(backend: Backend) {
        let mut reactor = reactor(backend);
        let remote = reactor.remote();
        let waker = std::thread::spawn(move || remote.wake());
        assert_eq!(reactor.poll(Some(Duration::MAX)).unwrap(), 0);
        waker.join().unwrap();
        reactor.after(Duration::from_millis(1), |_| ()).unwrap();
        assert_eq!(reactor.poll(Some(Duration::from_secs(u64::MAX / 2_000_000_000))).unwrap(), 1);
    }

    fn m1_4_3_a_duration_becomes_an_absolute_deadline_at_once(backend: Backend) {
        let (mut reactor, clock) = frozen_reactor(backend);
        let log = Log::new();
        reactor.after(10 * SECOND, noting_call(&log, "ten")).unwrap();
        clock.advance(4 * SECOND);
        assert_eq!(reactor.next_deadline(), Some(Instant::from_nanos(10_000_000_000)));
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        clock.advance(6 * SECOND - Duration::from_nanos(1));
        assert_eq!(reactor.poll(NOW).unwrap(), 0, "a nanosecond early is early");
        clock.advance(Duration::from_nanos(1));
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["ten"]);
    }

    fn m1_4_3_timers_are_never_early_on_the_real_clock(backend: Backend) {
        let mut reactor = reactor(backend);
        let checked = Rc::new(Cell::new(0));
        for micros in (50..=3000).step_by(59) {
            let deadline = reactor.now().checked_add(Duration::from_micros(micros)).unwrap();
            let count = checked.clone();
            let check = move |handle: &Handle| {
                assert!(
                    handle.now() >= deadline,
                    "early by {:?}",
                    deadline.saturating_duration_since(handle.now())
                );
                count.set(count.get() + 1);
            };
            reactor.at(deadline, check).unwrap();
        }
        reactor.run_until_idle().unwrap();
        assert_eq!(checked.get(), 51);
    }

    fn m1_4_4_a_one_shot_fires_once_and_is_gone(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        let data = NoteOnDrop(log.clone(), "data dropped");
        let name: Rc<Cell<Option<Timer>>> = Rc::default();
        let own = name.clone();
        let timer = reactor
            .after(SECOND, move |handle| {
                let _data = data;
                assert_eq!(handle.timer_count(), 0, "it no longer counts while it runs");
                assert!(!handle.has_timer(own.get().unwrap()));
                assert!(!handle.cancel(own.get().unwrap()));
                calls.note("fired");
            })
            .unwrap();
        name.set(Some(timer));
        assert!(reactor.has_timer(timer));
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert_eq!(log.take(), ["fired", "data dropped"]);
        clock.advance(10 * SECOND);
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        assert!(!reactor.has_timer(timer));
        assert_eq!(reactor.timer_count(), 0);
    }

    fn m1_4_5_a_late_loop_shifts_no_other_deadline(backend: Backend) {
        let (mut reactor, clock) = frozen_reactor(backend);
        let log = Log::new();
        let late = clock.clone();
        reactor.after(SECOND, move |_| late.advance(5 * SECOND)).unwrap();
        reactor.after(2 * SECOND, noting_call(&log, "two")).unwrap();
        reactor.after(9 * SECOND, noting_call(&log, "nine")).unwrap();
        clock.advance(SECOND);
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(reactor.poll(NOW).unwrap(), 1, "overdue, so at once");
        assert_eq!(log.take(), ["two"]);
        assert_eq!(reactor.next_deadline(), Some(Instant::from_nanos(9_000_000_000)));
    }

    fn m1_4_6_several_expirations_are_one_call_that_is_told_how_many(backend: Backend) {
        let (mut reactor, clock) = frozen_reactor(backend);
        let (_, log) = beat(&reactor, &clock, SECOND);
        clock.advance(Duration::from_millis(4500));
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        assert_eq!(log.take(), [(1.0, 4.5, 3)]);
    }

    fn m1_4_7_cancelling_is_idempotent_and_frees_the_callback(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        let log = Log::new();
        let data = NoteOnDrop(log.clone(), "data dropped");
        let timer = reactor.after(SECOND, move |_| drop(data)).unwrap();
        assert!(reactor.cancel(timer));
        assert_eq!(log.take(), ["data dropped"]);
        assert!(!reactor.cancel(timer));
        assert_eq!(reactor.timer_count(), 0);
        reactor.run_until_idle().unwrap();
    }

    fn m1_4_7_cancelling_after_the_call_does_nothing(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        let timer = reactor.after(SECOND, |_| ()).unwrap();
        reactor.run_until_idle().unwrap();
        assert!(!reactor.cancel(timer));
        let next = reactor.after(SECOND, |_| ()).unwrap();
        assert_ne!(timer, next);
        assert!(!reactor.cancel(timer), "the old name must not cancel the timer that took its place");
        assert!(reactor.has_timer(next));
    }

    fn m1_4_7_a_due_timer_cancelled_by_another_of_its_turn_does_not_fire(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        let log = Log::new();
        let victim: Rc<Cell<Option<Timer>>> = Rc::default();
        let (target, calls) = (victim.clone(), log.clone());
        let strike = move |handle: &Handle| {
            calls.note("first");
            assert!(handle.cancel(target.get().unwrap()));
        };
        reactor.after(SECOND, strike).unwrap();
        victim.set(Some(reactor.after(SECOND, noting_call(&log, "victim")).unwrap()));
        reactor.after(SECOND, noting_call(&log, "third")).unwrap();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 2);
        assert_eq!(log.take(), ["first", "third"]);
    }

    fn m1_4_7_a_repeating_timer_may_cancel_itself(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        let log = Log::new();
        let (calls, data) = (log.clone(), NoteOnDrop(log.clone(), "data dropped"));
        let tick = move |tick: &Tick<'_>| {
            let _data = &data;
            calls.note("tick");
            assert!(tick.reactor().cancel(tick.timer()));
            assert!(!tick.reactor().cancel(tick.timer()));
            assert_eq!(tick.reactor().timer_count(), 0);
        };
        reactor.every(SECOND, tick).unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), ["tick", "data dropped"], "dropped after the call, not under it");
    }

    fn m1_4_8_a_wall_clock_time_is_met_by_converting_it_to_a_deadline(backend: Backend) {
        let mut reactor = reactor(backend);
        let target = SystemTime::now() + Duration::from_millis(3);
        let delay = target.duration_since(SystemTime::now()).unwrap();
        let asked = reactor.now();
        reactor.after(delay, |handle| handle.stop()).unwrap();
        reactor.run().unwrap();
        assert!(reactor.now() >= asked.checked_add(delay).unwrap());
    }

    fn order_timers_fire_by_deadline_and_first_come_first_served(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        let log = Log::new();
        for (number, seconds) in [(0, 3), (1, 1), (2, 2), (3, 1), (4, 3), (5, 1), (6, 2)] {
            reactor.after(seconds * SECOND, noting_call(&log, number)).unwrap();
        }
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), [1, 3, 5, 2, 6, 0, 4]);
    }

    fn order_many_equal_deadlines_keep_the_order_in_which_they_were_set(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        let log = Log::new();
        let mut cancelled = Vec::new();
        for number in 0..3000 {
            let timer = reactor.after(SECOND, noting_call(&log, number)).unwrap();
            if number % 3 == 0 {
                cancelled.push(timer);
            }
        }
        assert!(cancelled.into_iter().all(|timer| reactor.cancel(timer)));
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), (0..3000).filter(|number| number % 3 != 0).collect::<Vec<_>>());
    }

    fn reschedule_moves_a_timer_in_place_behind_those_that_have_the_deadline(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        let moved_back = reactor.after(SECOND, noting_call(&log, "moved back")).unwrap();
        let moved_up = reactor.after(9 * SECOND, noting_call(&log, "moved up")).unwrap();
        reactor.after(2 * SECOND, noting_call(&log, "stays")).unwrap();
        assert!(reactor.reschedule_after(moved_back, 2 * SECOND).unwrap());
        assert!(reactor.reschedule_at(moved_up, Instant::from_nanos(1_500_000_000)));
        assert_eq!(reactor.timer_count(), 3);
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), ["moved up", "stays", "moved back"]);
        assert_eq!(clock.elapsed(), 2 * SECOND);
        assert!(!reactor.reschedule_at(moved_up, Instant::MAX), "it has fired");
    }

    fn reschedule_moves_even_a_timer_that_is_due_in_this_turn(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        let victim: Rc<Cell<Option<Timer>>> = Rc::default();
        let target = victim.clone();
        let push = move |handle: &Handle| {
            assert!(handle.reschedule_after(target.get().unwrap(), 5 * SECOND).unwrap());
        };
        reactor.after(SECOND, push).unwrap();
        victim.set(Some(reactor.after(SECOND, noting_call(&log, "moved")).unwrap()));
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert_eq!(log.len(), 0);
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert_eq!(clock.elapsed(), 6 * SECOND);
    }

    fn reschedule_of_a_repeating_timer_moves_its_phase_and_keeps_its_interval(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let (timer, log) = beat(&reactor, &clock, SECOND);
        assert!(reactor.reschedule_after(timer, Duration::from_millis(2500)).unwrap());
        for _ in 0..3 {
            assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        }
        assert_eq!(log.take(), [(2.5, 2.5, 0), (3.5, 3.5, 0), (4.5, 4.5, 0)]);
    }

    fn reschedule_from_inside_a_repeating_timer_wins_over_its_interval(backend: Backend) {
        let (mut reactor, clock) = virtual_reactor(backend);
        let log = Log::new();
        let (calls, time) = (log.clone(), clock.clone());
        let tick = move |tick: &Tick<'_>| {
            calls.note(time.elapsed().as_secs());
            if calls.len() == 1 {
                tick.reactor().reschedule_after(tick.timer(), 10 * SECOND).unwrap();
            }
        };
        reactor.every(SECOND, tick).unwrap();
        for _ in 0..3 {
            assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        }
        assert_eq!(log.take(), [1, 11, 12]);
    }

    fn r5_a_timer_made_in_a_timer_callback_waits_for_the_next_turn(backend: Backend) {
        let (mut reactor, _clock) = frozen_reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        let again = move |handle: &Handle| {
            calls.note("first");
            handle.after(Duration::ZERO, noting_call(&calls, "zero")).unwrap();
            handle.at(Instant::MIN, noting_call(&calls, "past")).unwrap();
        };
        reactor.after(Duration::ZERO, again).unwrap();
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), ["first"]);
        assert_eq!(reactor.poll(NOW).unwrap(), 2);
        assert_eq!(log.take(), ["past", "zero"]);
    }

    fn r5_a_timer_made_in_a_descriptor_callback_waits_for_the_next_turn(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        let (left, _right) = readable_socket();
        reactor
            .watch(left)
            .on_read(move |stream, event| {
                drain(&*stream);
                event.reactor().after(Duration::ZERO, noting_call(&calls, "zero")).unwrap();
                event.reactor().at(Instant::MIN, noting_call(&calls, "past")).unwrap();
            })
            .start()
            .unwrap();
        reactor.at(Instant::MIN, noting_call(&log, "due before")).unwrap();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 2);
        assert_eq!(log.take(), ["due before"]);
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 2);
        assert_eq!(log.take(), ["past", "zero"]);
    }

    fn r5_a_timer_moved_up_in_a_descriptor_callback_waits_for_the_next_turn(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let timer = reactor.after(Duration::from_secs(3600), noting_call(&log, "moved up")).unwrap();
        let (left, _right) = readable_socket();
        reactor
            .watch(left)
            .on_read(move |stream, event| {
                drain(&*stream);
                event.reactor().reschedule_at(timer, Instant::MIN);
            })
            .start()
            .unwrap();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert_eq!(log.len(), 0);
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
    }

    fn r5_descriptors_come_before_timers_and_timers_before_deferred_calls(backend: Backend) {
        let (mut reactor, _clock) = frozen_reactor(backend);
        let log = Log::new();
        let handle = reactor.handle();
        let calls = log.clone();
        let task = async move { calls.note("task") };
        reactor.spawn(task).unwrap();
        reactor.defer(noting_call(&log, "deferred")).unwrap();
        reactor.after(Duration::ZERO, noting_call(&log, "timer")).unwrap();
        let calls = log.clone();
        let wakeup = reactor.wakeup(move |_| calls.note("wake-up")).unwrap();
        wakeup.signal();
        let (left, _right) = readable_socket();
        reactor.watch(left).on_read(draining(&log, "descriptor")).start().unwrap();
        reactor.poll(NOW).unwrap();
        assert_eq!(log.take(), ["descriptor", "wake-up", "timer", "deferred", "task"]);
        drop(handle);
    }

    fn r5_at_most_1024_timers_fire_per_turn_and_the_rest_on_the_next(backend: Backend) {
        let (mut reactor, _clock) = frozen_reactor(backend);
        let log = Log::new();
        for number in 0..TIMERS_PER_TURN_MAX + 26 {
            reactor.after(Duration::ZERO, noting_call(&log, number)).unwrap();
        }
        assert_eq!(TIMERS_PER_TURN_MAX, 1024);
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1024);
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 26, "without waiting for anything else");
        assert_eq!(log.take(), (0..1050).collect::<Vec<_>>());
    }

    fn h6_a_zero_delay_timer_that_arms_itself_again_shares_with_a_busy_descriptor(backend: Backend) {
        let mut reactor = reactor(backend);
        let (ticks, reads) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let (left, _right) = readable_socket();
        let count = reads.clone();
        reactor.watch(left).on_read(move |_, _| count.set(count.get() + 1)).start().unwrap();
        again(&reactor, &ticks);
        for turn in 1..=100 {
            assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 2, "each turn serves both, once");
            assert_eq!((ticks.get(), reads.get()), (turn, turn));
        }
        assert_eq!(reactor.timer_count(), 1);
    }

    fn h7_a_repeating_timer_catches_up_with_one_call_after_a_long_stall(backend: Backend) {
        let (mut reactor, clock) = frozen_reactor(backend);
        let (_, log) = beat(&reactor, &clock, SECOND);
        clock.advance(Duration::from_secs(3600));
        assert_eq!(settle(&mut reactor, 3), 1);
        assert_eq!(log.take(), [(1.0, 3600.0, 3599)]);
        clock.advance(Duration::from_millis(400));
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        clock.advance(Duration::from_millis(600));
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), [(3601.0, 3601.0, 0)], "back in step, with the phase of the first deadline");
    }

    fn r6_a_repeating_timer_does_not_drift_when_the_loop_is_late(backend: Backend) {
        let (mut reactor, clock) = frozen_reactor(backend);
        let (_, log) = beat(&reactor, &clock, SECOND);
        clock.advance(Duration::from_millis(300));
        for _ in 0..4 {
            clock.advance(SECOND);
            assert_eq!(reactor.poll(NOW).unwrap(), 1);
        }
        assert_eq!(log.take(), [(1.0, 1.3, 0), (2.0, 2.3, 0), (3.0, 3.3, 0), (4.0, 4.3, 0)]);
    }

    fn r6_a_tick_that_is_late_by_whole_intervals_counts_them(backend: Backend) {
        let (mut reactor, clock) = frozen_reactor(backend);
        let (_, log) = beat(&reactor, &clock, SECOND);
        clock.advance(2 * SECOND);
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), [(1.0, 2.0, 1)], "the tick of this very instant is among those folded in");
        clock.advance(SECOND - Duration::from_nanos(1));
        assert_eq!(reactor.poll(NOW).unwrap(), 0);
        clock.advance(Duration::from_nanos(1));
        assert_eq!(reactor.poll(NOW).unwrap(), 1);
        assert_eq!(log.take(), [(3.0, 3.0, 0)]);
    }

    fn r6_an_interval_of_zero_is_refused(backend: Backend) {
        let reactor = reactor(backend);
        assert!(matches!(reactor.every(Duration::ZERO, |_| ()), Err(Error::ZeroInterval)));
        assert_eq!(reactor.timer_count(), 0);
    }

    fn r6_an_interval_of_a_nanosecond_leaves_room_for_everything_else(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let (ticks, reads) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let (tick, read) = (ticks.clone(), reads.clone());
        reactor.every(Duration::from_nanos(1), move |_| tick.set(tick.get() + 1)).unwrap();
        reactor.watch(left).on_read(move |_, _| read.set(read.get() + 1)).start().unwrap();
        for _ in 0..50 {
            reactor.poll(TEST_TIMEOUT).unwrap();
        }
        assert_eq!(reads.get(), 50);
        assert!((49..=50).contains(&ticks.get()), "once per turn: {}", ticks.get());
    }

    fn o8_a_zero_delay_fires_and_does_not_disarm_the_next(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        reactor.after(Duration::ZERO, noting_call(&log, 1)).unwrap();
        reactor.after(Duration::from_millis(1), noting_call(&log, 3)).unwrap();
        reactor.after(Duration::ZERO, noting_call(&log, 2)).unwrap();
        reactor.run_until_idle().unwrap();
        assert_eq!(log.take(), [1, 2, 3]);
    }

    fn o17_one_turn_calls_a_late_repeating_timer_once(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        let calls = log.clone();
        let first = reactor.now();
        reactor.every_from(first, Duration::from_micros(1), move |_| calls.note(())).unwrap();
        while reactor.now() < first.checked_add(Duration::from_micros(500)).unwrap() {}
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert_eq!(log.len(), 1);
    }

    fn alarm_the_cancelled_head_delays_nobody_and_wakes_nobody_early(backend: Backend) {
        let mut reactor = reactor(backend);
        // Until one is still to come when the alarm has been set for it.
        let head = loop {
            let head = reactor.after(Duration::from_millis(20), |_| ()).unwrap();
            reactor.poll(Some(Duration::from_micros(100))).unwrap();
            if reactor.has_timer(head) {
                break head;
            }
        };
        assert!(reactor.cancel(head));
        let deadline = reactor.now().checked_add(Duration::from_millis(30)).unwrap();
        reactor.at(deadline, |_| ()).unwrap();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert!(reactor.now() >= deadline);
    }

    fn alarm_an_earlier_timer_added_later_comes_first(backend: Backend) {
        let mut reactor = reactor(backend);
        let log = Log::new();
        reactor.after(Duration::from_secs(3600), noting_call(&log, "hour")).unwrap();
        assert_eq!(reactor.poll(Some(Duration::from_micros(100))).unwrap(), 0);
        reactor.after(Duration::from_millis(1), noting_call(&log, "soon")).unwrap();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1);
        assert_eq!(log.take(), ["soon"]);
        reactor.after(Duration::from_millis(1), noting_call(&log, "again")).unwrap();
        assert_eq!(reactor.poll(TEST_TIMEOUT).unwrap(), 1, "an alarm that has rung is set again");
    }

    fn g4_an_idle_wait_ends_when_the_next_timer_is_due(backend: Backend) {
        let mut reactor = reactor(backend);
        reactor.after(Duration::from_millis(20), |handle| handle.stop()).unwrap();
        reactor.run().unwrap();
        assert!(reactor.stats().turns <= 3, "one wait, as long as it must be: {:?}", reactor.stats());
    }

    fn g6_the_place_of_a_timer_is_free_again_when_it_is_done(backend: Backend) {
        let (mut reactor, _clock) = virtual_reactor(backend);
        for _ in 0..5000 {
            let timer = reactor.after(SECOND, |_| ()).unwrap();
            reactor.after(SECOND, |_| ()).unwrap();
            reactor.cancel(timer);
            reactor.poll(TEST_TIMEOUT).unwrap();
        }
        assert_eq!(reactor.timer_count(), 0);
    }

    fn g8_no_timer_looks_at_the_wall_clock(backend: Backend) {
        // The instant that timers compare with is the monotonic clock's, hours or years away from
        // the wall clock's.
        let reactor = reactor(backend);
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let gap = wall.as_nanos().abs_diff(reactor.now().as_nanos() as u128);
        let monotonic_gap = (monotonic_nanos() as u128).abs_diff(reactor.now().as_nanos() as u128);
        assert!(monotonic_gap < gap, "{monotonic_gap} {gap}");
    }

    fn dropping_the_reactor_drops_what_its_timers_hold(backend: Backend) {
        let reactor = reactor(backend);
        let log = Log::new();
        let (once, repeat) = (NoteOnDrop(log.clone(), "once"), NoteOnDrop(log.clone(), "repeat"));
        reactor.after(SECOND, move |_| drop(once)).unwrap();
        reactor
            .every(SECOND, move |_| {
                let _ = &repeat;
            })
            .unwrap();
        let handle = reactor.handle();
        drop(reactor);
        let mut dropped = log.take();
        dropped.sort_unstable();
        assert_eq!(dropped, ["once", "repeat"]);
        assert_eq!(handle.timer_count(), 0);
        assert!(matches!(handle.after(SECOND, |_| ()), Err(Error::Closed)));
    }
}

/// A timer that arms itself again with no delay.
fn again(handle: &Handle, count: &Rc<Cell<u32>>) {
    let count = count.clone();
    let tick = move |handle: &Handle| {
        count.set(count.get() + 1);
        again(handle, &count);
    };
    handle.after(Duration::ZERO, tick).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn m1_4_1_every_timerfd_runs_on_the_monotonic_clock() {
    let mut reactor = reactor(mainspring_reactor::Backend::Epoll);
    reactor.after(SECOND, |_| ()).unwrap();
    reactor.poll(NOW).unwrap();
    let mut clocks = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten() {
        let info = std::fs::read_to_string(entry.path()).unwrap_or_default();
        clocks.extend(info.lines().filter(|line| line.starts_with("clockid:")).map(str::to_owned));
    }
    assert!(!clocks.is_empty());
    assert!(clocks.iter().all(|line| line.ends_with(" 1")), "CLOCK_MONOTONIC is 1: {clocks:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn r5_a_due_timer_fires_in_its_turn_beside_three_thousand_ready_descriptors() {
    // More events than one turn takes: the alarm itself may have to wait for a later batch.
    let _alone = many_descriptors();
    let mut reactor = reactor(mainspring_reactor::Backend::Epoll);
    for _ in 0..3000 {
        reactor.watch(support::descriptors::always_readable()).on_read(|_, _| ()).start().unwrap();
    }
    for _ in 0..5 {
        let log = Log::new();
        let deadline = reactor.now().checked_add(Duration::from_micros(300)).unwrap();
        reactor.at(deadline, noting_call(&log, "fired")).unwrap();
        // The loop has not seen the time: it has to find out by itself.
        while monotonic_nanos() < deadline.as_nanos() {}
        reactor.poll(None).unwrap();
        assert_eq!(log.len(), 1, "due before the turn began");
    }
}

proptest! {
    /// Random sets, moves and cancellations against a sorted list.
    #[test]
    fn order_random_timers_fire_as_a_sorted_list_says(steps in proptest::collection::vec((0u8..8, 0usize..40, 0u64..50), 1..200)) {
        let (mut reactor, clock) = virtual_reactor(mainspring_reactor::Backend::best());
        clock.set_auto_advance(false);
        let log = Log::new();
        let mut timers: Vec<(Timer, usize)> = Vec::new();
        let mut model: Vec<(u64, usize, usize)> = Vec::new();
        let mut now = 0;
        for (arrival, (step, which, millis)) in steps.into_iter().enumerate() {
            let delay = Duration::from_millis(millis);
            match step {
                0..4 => {
                    let timer = reactor.after(delay, noting_call(&log, arrival)).unwrap();
                    timers.push((timer, arrival));
                    model.push((now + millis, arrival, arrival));
                }
                4 if !timers.is_empty() => {
                    let (timer, id) = timers[which % timers.len()];
                    let there = model.iter().position(|entry| entry.2 == id);
                    prop_assert_eq!(reactor.cancel(timer), there.is_some());
                    there.map(|index| model.swap_remove(index));
                }
                5 if !timers.is_empty() => {
                    let (timer, id) = timers[which % timers.len()];
                    let there = model.iter().position(|entry| entry.2 == id);
                    prop_assert_eq!(reactor.reschedule_after(timer, delay).unwrap(), there.is_some());
                    if let Some(index) = there {
                        model[index] = (now + millis, arrival, id);
                    }
                }
                _ => {
                    clock.advance(delay);
                    now += millis;
                    reactor.poll(NOW).unwrap();
                    model.sort_unstable();
                    let due = model.iter().take_while(|entry| entry.0 <= now).count();
                    let expected: Vec<usize> = model.drain(..due).map(|entry| entry.2).collect();
                    prop_assert_eq!(log.take(), expected);
                }
            }
            prop_assert_eq!(reactor.timer_count(), model.len());
        }
    }
}
