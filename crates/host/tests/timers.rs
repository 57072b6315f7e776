//! The timers of `sys/loop@v1`, in virtual time.

mod support;

use mainspring_reactor::{Handle, VirtualClock};
use mainspring_zcl::sys_loop::{Event, TIMEOUT_FOREVER, TimerArm};
use std::time::Duration;
use support::*;

const MS: Duration = Duration::from_millis(1);

/// Runs a test with a guest and a loop handle, on a clock that stands still unless the guest waits.
fn with_loop(test: impl AsyncFnOnce(Puppet, i64, Handle, VirtualClock)) {
    run_virtually(async |handle, clock| {
        clock.advance(Duration::from_secs(1000));
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        test(puppet, target, handle, clock).await;
    });
}

fn timer(timer_id: u64, clock: &VirtualClock) -> Event {
    Event::Timer { timer_id, now_mono_ns: clock.elapsed().as_nanos() as u64 }
}

fn absolute(timer_id: u64, due: Duration, interval: Duration) -> [u8; TimerArm::FRAME_BYTES] {
    let (due_mono_ns, interval_ns) = (due.as_nanos() as u64, interval.as_nanos() as u64);
    TimerArm { timer_id, due_mono_ns, interval_ns, relative: false }.to_frame(1)
}

#[test]
fn l3_1_timer_id_must_not_be_zero_or_armed_and_unknown_flags_are_errors() {
    with_loop(async |puppet, target, _handle, _clock| {
        assert_eq!(puppet.arm(target, 0, MS, Duration::ZERO).await.message(), "timer_id must not be 0");
        assert!(puppet.arm(target, 1, MS, Duration::ZERO).await.is_ok());
        assert_eq!(puppet.arm(target, 1, MS, Duration::ZERO).await.message(), "timer_id in use");
        let mut frame = absolute(2, MS, Duration::ZERO);
        frame[48] = 2;
        assert_eq!(puppet.request(target, &frame).await.message(), "unknown timer flags");
    });
}

#[test]
fn l3_2_a_relative_timer_fires_once_after_its_delay_and_its_id_is_free_again() {
    with_loop(async |puppet, target, _handle, clock| {
        let start = clock.elapsed();
        assert!(puppet.arm(target, 7, 30 * MS, Duration::ZERO).await.is_ok());
        let polled = puppet.poll(target, 8, TIMEOUT_FOREVER).await;
        assert_eq!(clock.elapsed() - start, 30 * MS);
        assert_eq!(polled, Polled { more: false, events: vec![timer(7, &clock)] });
        assert_eq!(puppet.cancel(target, 7).await.message(), "unknown timer_id");
        assert_eq!(puppet.guest.stats().timers, 0);
        assert!(puppet.arm(target, 7, MS, Duration::ZERO).await.is_ok());
    });
}

#[test]
fn l3_3_an_absolute_timer_fires_at_its_time_on_the_monotonic_clock() {
    with_loop(async |puppet, target, _handle, clock| {
        let due = clock.elapsed() + 40 * MS;
        assert!(puppet.request(target, &absolute(7, due, Duration::ZERO)).await.is_ok());
        assert_eq!(puppet.poll(target, 8, TIMEOUT_FOREVER).await.events, [timer(7, &clock)]);
        assert_eq!(clock.elapsed(), due);
    });
}

#[test]
fn l3_4_a_past_deadline_even_zero_fires_at_once() {
    with_loop(async |puppet, target, _handle, clock| {
        let start = clock.elapsed();
        for (id, due) in [(1, Duration::ZERO), (2, Duration::from_nanos(1)), (3, start - MS)] {
            assert!(puppet.request(target, &absolute(id, due, Duration::ZERO)).await.is_ok());
        }
        assert!(puppet.arm(target, 4, Duration::ZERO, Duration::ZERO).await.is_ok());
        let polled = puppet.poll(target, 8, TIMEOUT_FOREVER).await;
        assert_eq!(polled.ids(), [1, 2, 3, 4], "in the order of their deadlines");
        assert_eq!(clock.elapsed(), start);
    });
}

#[test]
fn l3_5_a_deadline_beyond_the_clock_is_an_error_and_never_a_wrap() {
    with_loop(async |puppet, target, _handle, _clock| {
        for (due_mono_ns, interval_ns, relative) in
            [(u64::MAX, 0, false), (u64::MAX, 0, true), (i64::MAX as u64, 0, true), (1, u64::MAX, true)]
        {
            let arm = TimerArm { timer_id: 1, due_mono_ns, interval_ns, relative };
            assert_eq!(puppet.request(target, &arm.to_frame(1)).await.message(), "deadline out of range");
        }
        let last = TimerArm { timer_id: 1, due_mono_ns: i64::MAX as u64, interval_ns: 0, relative: false };
        assert!(puppet.request(target, &last.to_frame(1)).await.is_ok());
        assert_eq!(puppet.poll(target, 8, 5).await.events, []);
    });
}

#[test]
fn l3_6_a_repeating_timer_keeps_its_rate_from_the_first_deadline() {
    with_loop(async |puppet, target, _handle, clock| {
        let start = clock.elapsed();
        assert!(puppet.arm(target, 7, 5 * MS, 10 * MS).await.is_ok());
        for tick in 0..10 {
            assert_eq!(puppet.poll(target, 8, TIMEOUT_FOREVER).await.ids(), [7]);
            assert_eq!(clock.elapsed() - start, (5 + 10 * tick) * MS, "tick {tick}");
        }
    });
}

#[test]
fn l3_7_a_late_repeating_timer_fires_once_and_then_on_its_old_rate() {
    with_loop(async |puppet, target, _handle, clock| {
        let start = clock.elapsed();
        assert!(puppet.arm(target, 7, 10 * MS, 10 * MS).await.is_ok());
        clock.advance(1003 * MS);
        let polled = puppet.poll(target, 1000, TIMEOUT_FOREVER).await;
        assert_eq!((polled.ids(), polled.more), (vec![7], false), "a hundred missed ticks are one event");
        assert_eq!(puppet.poll(target, 8, 0).await.events, []);
        assert_eq!(puppet.poll(target, 8, TIMEOUT_FOREVER).await.ids(), [7]);
        assert_eq!(clock.elapsed() - start, 1010 * MS);
    });
}

#[test]
fn l3_8_a_cancelled_timer_does_not_fire_even_if_it_was_due() {
    with_loop(async |puppet, target, _handle, clock| {
        assert!(puppet.arm(target, 1, MS, Duration::ZERO).await.is_ok());
        assert!(puppet.arm(target, 2, MS, MS).await.is_ok());
        clock.advance(5 * MS);
        assert!(puppet.cancel(target, 1).await.is_ok());
        assert!(puppet.cancel(target, 2).await.is_ok());
        assert_eq!(puppet.poll(target, 8, 20).await.events, []);
        assert_eq!(puppet.cancel(target, 1).await.message(), "unknown timer_id");
    });
}

#[test]
fn l3_9_timers_fire_in_order_of_deadline_and_first_come_first_served_among_equals() {
    with_loop(async |puppet, target, _handle, clock| {
        for (id, delay) in [(1, 3), (2, 1), (3, 2), (4, 1), (5, 3)] {
            assert!(puppet.arm(target, id, delay * MS, Duration::ZERO).await.is_ok());
        }
        clock.advance(10 * MS);
        assert_eq!(puppet.poll(target, 2, TIMEOUT_FOREVER).await.ids(), [2, 4]);
        let rest = puppet.poll(target, 2, TIMEOUT_FOREVER).await;
        assert_eq!((rest.ids(), rest.more), (vec![3, 1], true));
        let last = puppet.poll(target, 2, TIMEOUT_FOREVER).await;
        assert_eq!((last.ids(), last.more), (vec![5], false));
    });
}

#[test]
fn l3_10_a_timer_never_fires_early_and_the_shorter_of_timer_and_timeout_ends_a_poll() {
    with_loop(async |puppet, target, _handle, clock| {
        assert!(puppet.arm(target, 1, 30 * MS, Duration::ZERO).await.is_ok());
        let start = clock.elapsed();
        assert_eq!(puppet.poll(target, 8, 20).await.events, []);
        assert_eq!(clock.elapsed() - start, 20 * MS);
        assert_eq!(puppet.poll(target, 8, 20).await.ids(), [1]);
        assert_eq!(clock.elapsed() - start, 30 * MS);
    });
}

#[test]
fn l3_11_a_timer_may_come_back_with_a_tiny_interval_without_bursts() {
    with_loop(async |puppet, target, _handle, clock| {
        assert!(puppet.arm(target, 1, Duration::from_nanos(1), Duration::from_nanos(1)).await.is_ok());
        for _ in 0..100 {
            clock.advance(MS);
            let polled = puppet.poll(target, 1000, TIMEOUT_FOREVER).await;
            assert_eq!((polled.ids(), polled.more), (vec![1], false));
        }
    });
}

#[test]
fn l3_12_time_now_is_the_clock_of_the_timers() {
    with_loop(async |puppet, _target, _handle, clock| {
        let info = puppet.open("sys", "info", &[]).await;
        let Answer::Ok { payload, .. } =
            puppet.request(info, &mainspring_zcl::Header::request(3, 1, 0).encode()).await
        else {
            panic!("no time");
        };
        let time = mainspring_zcl::info::TimeNow::decode(&payload).unwrap();
        assert_eq!(u128::from(time.monotonic_ns), clock.elapsed().as_nanos());
        assert!(time.realtime_ns > 1_600_000_000_000_000_000);
    });
}
