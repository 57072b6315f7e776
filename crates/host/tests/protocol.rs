//! The requirements of `sys/loop@v1`, one by one, as a guest meets them.

mod support;

use mainspring_host::{Exit, GuestConfig, GuestPhase, Stdout};
use mainspring_reactor::{Backend, Handle};
use mainspring_zcl::Header;
use mainspring_zcl::sys_loop::{Event, Poll, Readiness, TIMEOUT_FOREVER, Watch};
use std::io::Write;
use std::time::Duration;
use support::*;

#[test]
fn l1_1_responses_repeat_op_and_rid_and_have_status_1_with_an_empty_payload() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        let answer = puppet.watch(target, 0, READABLE, 7).await;
        assert_eq!(answer, Answer::Ok { op: 1, rid: 11, payload: vec![] });
        let answer = puppet.unwatch(target, 7).await;
        assert_eq!(answer, Answer::Ok { op: 2, rid: 12, payload: vec![] });
        let answer = puppet.arm(target, 7, Duration::from_secs(9), Duration::ZERO).await;
        assert_eq!(answer, Answer::Ok { op: 3, rid: 13, payload: vec![] });
        let answer = puppet.cancel(target, 7).await;
        assert_eq!(answer, Answer::Ok { op: 4, rid: 14, payload: vec![] });
    });
}

#[test]
fn l1_2_errors_are_error_frames_with_the_trace_of_the_loop() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        let answer = puppet.request(target, &Header::request(99, 5, 0).encode()).await;
        let (trace, message) = ("sys.loop".into(), "unknown op".into());
        assert_eq!(answer, Answer::Error { op: 99, rid: 5, trace, message });
    });
}

#[test]
fn l1_3_opening_takes_no_parameters() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        assert_eq!(puppet.open("sys", "loop", &[0]).await, INVALID);
    });
}

#[test]
fn l1_4_several_requests_in_one_write_are_answered_in_order() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        let watch = |id| Watch { handle: 0, events: READABLE, watch_id: id }.to_frame(id as u32);
        let frames = [watch(1), watch(2), watch(3)].concat();
        assert_eq!(puppet.write(target, &frames).await, frames.len() as i64);
        let answers = puppet.read(target, 1000).await.unwrap();
        let rids: Vec<u32> =
            answers.chunks(24).map(|frame| Header::decode(frame.try_into().unwrap()).unwrap().rid).collect();
        assert_eq!(rids, [1, 2, 3]);
    });
}

#[test]
fn l1_5_a_request_may_be_written_byte_by_byte_and_its_answer_read_likewise() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        for byte in (Watch { handle: 0, events: READABLE, watch_id: 1 }).to_frame(77) {
            assert_eq!(puppet.read(target, 100).await, Err(AGAIN), "no answer before the whole request");
            assert_eq!(puppet.write(target, &[byte]).await, 1);
        }
        let mut answer = Vec::new();
        for _ in 0..24 {
            answer.extend(puppet.read(target, 1).await.unwrap());
        }
        assert_eq!(Answer::decode(&answer), Answer::Ok { op: 1, rid: 77, payload: vec![] });
        assert_eq!(puppet.read(target, 1).await, Err(AGAIN));
    });
}

#[test]
fn l1_6_zi_write_takes_the_bytes_up_to_and_including_the_poll_and_no_more() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        let watch = Watch { handle: 2, events: WRITABLE, watch_id: 1 }.to_frame(1);
        let poll = Poll { max_events: 1, timeout_ms: 0 }.to_frame(2);
        let frames = [&watch[..], &poll[..], &poll[..]].concat();
        assert_eq!(puppet.write(target, &frames).await, (watch.len() + poll.len()) as i64);
    });
}

#[test]
fn l2_1_watch_id_must_not_be_zero_or_in_use() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        assert_eq!(puppet.watch(target, 0, READABLE, 0).await.message(), "watch_id must not be 0");
        assert!(puppet.watch(target, 0, READABLE, 5).await.is_ok());
        assert_eq!(puppet.watch(target, 1, WRITABLE, 5).await.message(), "watch_id in use");
        assert!(puppet.unwatch(target, 5).await.is_ok());
        assert!(puppet.watch(target, 1, WRITABLE, 5).await.is_ok(), "the id is free again");
    });
}

#[test]
fn l2_2_watch_ids_are_unique_per_loop_handle_only() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let (one, other) = (puppet.open_loop().await, puppet.open_loop().await);
        assert!(puppet.watch(one, 2, WRITABLE, 5).await.is_ok());
        assert!(puppet.watch(other, 2, WRITABLE, 5).await.is_ok());
        assert_eq!(puppet.poll(one, 8, TIMEOUT_FOREVER).await.ids(), [5]);
        assert_eq!(puppet.poll(other, 8, TIMEOUT_FOREVER).await.ids(), [5]);
    });
}

#[test]
fn l2_3_watch_flags_must_be_zero_and_unknown_event_bits_are_errors() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        let good = Watch { handle: 0, events: READABLE, watch_id: 1 }.to_frame(1);
        let with = |at: usize, value: u8| {
            let mut frame = good;
            frame[at] = value;
            frame
        };
        assert_eq!(puppet.request(target, &with(40, 1)).await.message(), "flags must be 0");
        assert_eq!(puppet.request(target, &with(28, 0x10)).await.message(), "unknown event bits");
        assert_eq!(puppet.request(target, &with(28, 0)).await.message(), "events must not be 0");
    });
}

#[test]
fn l2_4_a_handle_that_is_not_watchable_or_not_open_must_be_refused() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        let arguments = puppet.open("proc", "argv", &[]).await;
        assert_eq!(puppet.watch(target, target, READABLE, 1).await.message(), "handle is not watchable");
        assert_eq!(puppet.watch(target, arguments, READABLE, 1).await.message(), "handle is not watchable");
        assert_eq!(puppet.watch(target, 999, READABLE, 1).await.message(), "unknown handle");
        assert_eq!(puppet.watch(target, u32::MAX.into(), READABLE, 1).await.message(), "unknown handle");
        assert_eq!(puppet.guest.stats().watches, 1, "only the guest's own");
    });
}

#[test]
fn l2_5_a_watch_stays_until_unwatch_and_is_level_triggered() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, mut peer) = puppet.connect(&handle).await;
        assert!(puppet.watch(target, connection, READABLE, 1).await.is_ok());
        peer.write_all(b"abc").unwrap();
        for _ in 0..20 {
            let polled = puppet.poll(target, 8, TIMEOUT_FOREVER).await;
            assert_eq!(
                polled.events,
                [Event::Ready { watch_id: 1, handle: connection as u32, events: READABLE }]
            );
        }
        assert_eq!(puppet.read(connection, 2).await.unwrap(), b"ab");
        assert_eq!(puppet.poll(target, 8, TIMEOUT_FOREVER).await.ids(), [1], "there is more to read");
        assert_eq!(puppet.read(connection, 10).await.unwrap(), b"c");
        assert_eq!(puppet.read(connection, 10).await, Err(AGAIN));
        assert_eq!(puppet.poll(target, 8, 0).await.ids(), [], "there is no more to read");
        peer.write_all(b"d").unwrap();
        assert_eq!(puppet.poll(target, 8, TIMEOUT_FOREVER).await.ids(), [1], "and again");
        assert!(puppet.unwatch(target, 1).await.is_ok());
        assert_eq!(puppet.poll(target, 8, 0).await.ids(), []);
    });
}

#[test]
fn l2_6_unwatching_an_unknown_id_must_be_an_error() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        assert_eq!(puppet.unwatch(target, 1).await.message(), "unknown watch_id");
        assert!(puppet.watch(target, 0, READABLE, 1).await.is_ok());
        assert!(puppet.unwatch(target, 1).await.is_ok());
        assert_eq!(puppet.unwatch(target, 1).await.message(), "unknown watch_id");
    });
}

#[test]
fn l2_7_several_watches_may_name_one_handle_and_each_gets_what_it_asked_for() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, mut peer) = puppet.connect(&handle).await;
        peer.write_all(b"x").unwrap();
        assert!(puppet.watch(target, connection, READABLE, 1).await.is_ok());
        assert!(puppet.watch(target, connection, WRITABLE, 2).await.is_ok());
        assert!(puppet.watch(target, connection, READABLE | WRITABLE, 3).await.is_ok());
        assert!(puppet.watch(target, connection, HANGUP, 4).await.is_ok());
        let mut polled = puppet.poll(target, 8, TIMEOUT_FOREVER).await;
        while polled.events.len() < 3 || polled.ready(3) != READABLE | WRITABLE {
            polled = puppet.poll(target, 8, TIMEOUT_FOREVER).await;
        }
        assert_eq!(polled.ready(1), READABLE);
        assert_eq!(polled.ready(2), WRITABLE);
        assert_eq!(polled.events.len(), 3, "nothing hung up");
        assert!(puppet.unwatch(target, 1).await.is_ok());
        let polled = puppet.poll(target, 8, TIMEOUT_FOREVER).await;
        assert_eq!(polled.ready(3), READABLE | WRITABLE, "the others are unaffected");
    });
}

#[test]
fn l2_8_closing_a_watched_handle_ends_its_watches_and_frees_their_ids() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, mut peer) = puppet.connect(&handle).await;
        peer.write_all(b"x").unwrap();
        assert!(puppet.watch(target, connection, READABLE, 1).await.is_ok());
        assert!(puppet.watch(target, connection, WRITABLE, 2).await.is_ok());
        assert_eq!(puppet.guest.stats().watches, 3);
        assert!(!puppet.poll(target, 8, TIMEOUT_FOREVER).await.events.is_empty());
        assert_eq!(puppet.end(connection).await, OK);
        assert_eq!(puppet.guest.stats().watches, 1);
        assert_eq!(puppet.poll(target, 8, 0).await.events, []);
        assert_eq!(puppet.unwatch(target, 1).await.message(), "unknown watch_id");
        assert!(puppet.watch(target, 2, WRITABLE, 1).await.is_ok());
    });
}

#[test]
fn l2_9_a_number_that_is_reused_has_none_of_the_old_watches() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (old, _old_peer) = puppet.connect(&handle).await;
        assert!(puppet.watch(target, old, READABLE, 1).await.is_ok());
        assert_eq!(puppet.end(old).await, OK);
        let (new, mut peer) = puppet.connect(&handle).await;
        assert_eq!(new, old, "the number is used again");
        peer.write_all(b"x").unwrap();
        assert_eq!(puppet.poll(target, 8, 0).await.events, []);
    });
}

#[test]
fn l2_10_closing_the_loop_ends_its_watches_and_timers() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        assert!(puppet.watch(target, 2, WRITABLE, 1).await.is_ok());
        assert!(puppet.arm(target, 1, Duration::from_secs(9), Duration::ZERO).await.is_ok());
        assert_eq!((puppet.guest.stats().watches, puppet.guest.stats().timers), (2, 1));
        assert_eq!(puppet.end(target).await, OK);
        assert_eq!((puppet.guest.stats().watches, puppet.guest.stats().timers), (1, 0));
        assert_eq!(puppet.write(target, b"x").await, NOSYS);
    });
}

#[test]
fn l4_1_poll_must_return_at_most_max_events_and_max_events_must_be_positive() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        for id in 1..=10 {
            assert!(puppet.watch(target, 2, WRITABLE, id).await.is_ok());
        }
        for max_events in 1..=10 {
            let polled = puppet.poll(target, max_events, TIMEOUT_FOREVER).await;
            assert_eq!(polled.events.len(), max_events as usize);
            assert_eq!(polled.more, max_events < 10, "more is set exactly when more is pending");
        }
        let zero = Poll { max_events: 0, timeout_ms: 0 }.to_frame(9);
        assert_eq!(puppet.request(target, &zero).await.message(), "max_events must be >= 1");
    });
}

#[test]
fn l4_2_the_more_flag_is_exact() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (first, mut first_peer) = puppet.connect(&handle).await;
        let (second, mut second_peer) = puppet.connect(&handle).await;
        assert!(puppet.watch(target, first, READABLE, 1).await.is_ok());
        assert!(puppet.watch(target, second, READABLE, 2).await.is_ok());
        first_peer.write_all(b"x").unwrap();
        let polled = puppet.poll(target, 1, TIMEOUT_FOREVER).await;
        assert_eq!((polled.ids(), polled.more), (vec![1], false), "full but complete");
        second_peer.write_all(b"x").unwrap();
        let polled = loop {
            let polled = puppet.poll(target, 1, TIMEOUT_FOREVER).await;
            if polled.more {
                break polled;
            }
        };
        assert_eq!(polled.events.len(), 1);
        // Consuming one of the two leaves nothing pending behind the other.
        assert_eq!(puppet.read(second, 8).await.unwrap(), b"x");
        assert_eq!(puppet.read(second, 8).await, Err(AGAIN));
        let polled = puppet.poll(target, 1, TIMEOUT_FOREVER).await;
        assert_eq!((polled.ids(), polled.more), (vec![1], false));
    });
}

#[test]
fn l4_3_a_poll_without_events_returns_none_at_its_timeout_and_never_early() {
    run_virtually(async |handle, clock| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        let start = clock.elapsed();
        assert_eq!(puppet.poll(target, 8, 250).await, Polled { more: false, events: vec![] });
        assert_eq!(clock.elapsed() - start, Duration::from_millis(250));
    });
}

#[test]
fn l4_4_a_poll_with_timeout_zero_does_not_wait_but_passes_through_one_turn() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, mut peer) = puppet.connect(&handle).await;
        peer.write_all(b"x").unwrap();
        let turns = handle.stats().turns;
        assert_eq!(puppet.poll(target, 8, 0).await.events, []);
        assert!(handle.stats().turns > turns, "the loop has made a turn");
        assert!(puppet.watch(target, connection, READABLE, 1).await.is_ok());
        assert_eq!(puppet.poll(target, 8, 0).await.ids(), [1], "a turn is enough to see what is ready");
        assert_eq!(puppet.guest.stats().zero_timeout_polls, 2);
    });
}

#[test]
fn l4_4_each_of_many_polls_with_timeout_zero_passes_through_a_turn() {
    let open = Puppet::opening("sys", "loop", &[]);
    let program = program(&format!(
        r#"(module
            (import "env" "zi_read" (func $read (param i32 i64 i32) (result i32)))
            (import "env" "zi_write" (func $write (param i32 i64 i32) (result i32)))
            (import "env" "zi_cap_open" (func $open (param i64) (result i32)))
            (memory (export "memory") 3)
            (data (i32.const {AT}) "{}")
            (data (i32.const 0x100) "{}")
            (func (export "main") (param $left i32) (param $loop i32) (result i32)
                (local.set $loop (call $open (i64.const {AT})))
                (local.set $left (i32.const 100))
                (loop $again
                    (drop (call $write (local.get $loop) (i64.const 0x100) (i32.const 32)))
                    (drop (call $read (local.get $loop) (i64.const 0x200) (i32.const 64)))
                    (local.set $left (i32.sub (local.get $left) (i32.const 1)))
                    (br_if $again (local.get $left)))
                (i32.const 0)))"#,
        escaped(&open),
        escaped(&Poll { max_events: 1, timeout_ms: 0 }.to_frame(1)),
    ));
    run(async |handle| {
        let turns = handle.stats().turns;
        let guest = host().spawn(&handle, &program, GuestConfig::new()).unwrap();
        assert_eq!(guest.exit().await, Exit::Returned(0));
        assert_eq!(guest.stats().zero_timeout_polls, 100);
        assert!(handle.stats().turns - turns >= 100, "its neighbours had a hundred chances");
    });
}

#[test]
fn l4_5_a_poll_for_ever_waits_for_as_long_as_it_takes_and_costs_nothing() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, mut peer) = puppet.connect(&handle).await;
        assert!(puppet.watch(target, connection, READABLE, 1).await.is_ok());
        puppet.start_poll(target, 8, TIMEOUT_FOREVER).await;
        handle.sleep(Duration::from_millis(5)).await.unwrap();
        let before = (puppet.guest.stats(), handle.stats().task_polls);
        handle.sleep(Duration::from_millis(50)).await.unwrap();
        assert_eq!(puppet.guest.stats(), before.0, "not even its CPU time has changed");
        peer.write_all(b"x").unwrap();
        assert_eq!(puppet.finish_poll(target).await.ids(), [1]);
    });
}

#[test]
fn l4_6_an_interrupted_poll_returns_ok_without_events() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        let polls = puppet.guest.stats().polls;
        puppet.start_poll(target, 8, TIMEOUT_FOREVER).await;
        let waits_in_it = || {
            let stats = puppet.guest.stats();
            stats.polls > polls && stats.phase == GuestPhase::Waiting
        };
        until(&handle, waits_in_it).await;
        puppet.guest.interrupt();
        assert_eq!(puppet.finish_poll(target).await, Polled { more: false, events: vec![] });
    });
}

#[test]
fn l4_7_max_events_above_the_hosts_bound_returns_fewer_and_more() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        let many = mainspring_host::EVENTS_PER_POLL_MAX as u64 + 100;
        for id in 1..=many {
            assert!(puppet.watch(target, 2, WRITABLE, id).await.is_ok());
        }
        let polled = puppet.poll(target, u32::MAX, TIMEOUT_FOREVER).await;
        assert_eq!(polled.events.len(), mainspring_host::EVENTS_PER_POLL_MAX);
        assert!(polled.more);
        let rest = puppet.poll(target, 100, TIMEOUT_FOREVER).await;
        assert_eq!(rest.ids(), (many - 99..=many).collect::<Vec<_>>(), "the others have their turn next");
    });
}

#[test]
fn l4_8_events_have_zero_reserved_fields_and_a_version() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        assert!(puppet.watch(target, 2, WRITABLE, 0x0102_0304_0506_0708).await.is_ok());
        let poll = Poll { max_events: 1, timeout_ms: TIMEOUT_FOREVER }.to_frame(0xAABB_CCDD);
        let Answer::Ok { op: 5, rid: 0xAABB_CCDD, payload } = puppet.request(target, &poll).await else {
            panic!("not ok");
        };
        let expected = [
            1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, // version, flags, count, reserved
            1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, // READY, writable, handle 2, reserved
            8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, // id, data
        ];
        assert_eq!(payload, expected);
    });
}

#[test]
fn l5_1_with_max_events_1_an_always_ready_handle_does_not_starve_a_due_timer() {
    run_virtually(async |handle, clock| {
        clock.set_auto_advance(false);
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        assert!(puppet.watch(target, 2, WRITABLE, 1).await.is_ok());
        for round in 0..50 {
            assert!(puppet.arm(target, 100, Duration::from_millis(1), Duration::ZERO).await.is_ok());
            clock.advance(Duration::from_millis(1));
            let first = puppet.poll(target, 1, TIMEOUT_FOREVER).await;
            let second = puppet.poll(target, 1, TIMEOUT_FOREVER).await;
            let ids = [first.ids(), second.ids()].concat();
            assert!(ids.contains(&100), "round {round}: the timer came within two polls: {ids:?}");
            assert!(ids.contains(&1), "round {round}: so did the handle: {ids:?}");
        }
    });
}

#[test]
fn l5_2_always_due_timers_do_not_starve_a_ready_handle() {
    run_virtually(async |handle, clock| {
        clock.set_auto_advance(false);
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        assert!(puppet.watch(target, 2, WRITABLE, 1).await.is_ok());
        for id in 100..110 {
            let tick = Duration::from_nanos(1);
            assert!(puppet.arm(target, id, tick, tick).await.is_ok());
        }
        let mut seen = Vec::new();
        for _ in 0..22 {
            clock.advance(Duration::from_millis(1));
            seen.extend(puppet.poll(target, 1, TIMEOUT_FOREVER).await.ids());
        }
        assert!(seen.windows(2).all(|pair| pair.contains(&1)), "the handle is every second: {seen:?}");
        assert!((100..110).all(|id| seen.contains(&id)), "every timer came: {seen:?}");
    });
}

#[test]
fn l5_3_ready_handles_take_turns() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        for id in 1..=3 {
            assert!(puppet.watch(target, 2, WRITABLE, id).await.is_ok());
        }
        let mut seen = Vec::new();
        for _ in 0..12 {
            seen.extend(puppet.poll(target, 1, TIMEOUT_FOREVER).await.ids());
        }
        assert_eq!(seen, [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3]);
    });
}

#[test]
fn l5_4_an_always_ready_handle_does_not_hide_one_that_becomes_ready_later() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, mut peer) = puppet.connect(&handle).await;
        assert!(puppet.watch(target, 2, WRITABLE, 1).await.is_ok());
        assert!(puppet.watch(target, connection, READABLE, 2).await.is_ok());
        assert_eq!(puppet.poll(target, 1, TIMEOUT_FOREVER).await.ids(), [1]);
        peer.write_all(b"x").unwrap();
        let mut polls = 0;
        while puppet.poll(target, 1, TIMEOUT_FOREVER).await.ids() != [2] {
            polls += 1;
            assert!(polls < 1000, "it never comes");
        }
    });
}

async fn readiness_of(puppet: &Puppet, target: i64, wanted: Readiness) -> Readiness {
    loop {
        let polled = puppet.poll(target, 8, TIMEOUT_FOREVER).await;
        if polled.ready(1).contains(wanted) {
            return polled.ready(1);
        }
    }
}

#[test]
fn l6_1_a_half_closed_peer_makes_readable_and_hup_true_and_says_nothing_about_writable() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, peer) = puppet.connect(&handle).await;
        fill(&puppet, &handle, connection).await;
        assert!(puppet.watch(target, connection, Readiness::ALL, 1).await.is_ok());
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        let ready = readiness_of(&puppet, target, READABLE | HANGUP).await;
        assert_eq!(ready, READABLE | HANGUP, "the send buffer is full, so it is not writable");
        assert_eq!(puppet.read(connection, 8).await.unwrap(), b"");
        for _ in 0..20 {
            assert_eq!(puppet.poll(target, 8, 0).await.ready(1), READABLE | HANGUP, "and stays so");
        }
    });
}

/// Writes to a connection until its buffers are full.
async fn fill(puppet: &Puppet, handle: &Handle, connection: i64) {
    let block = vec![7; 512 * 1024];
    let mut refused = 0;
    while refused < 3 {
        match puppet.write(connection, &block).await {
            AGAIN => {
                refused += 1;
                handle.sleep(Duration::from_millis(2)).await.unwrap();
            }
            count => assert!(count > 0, "{count}"),
        }
    }
}

#[test]
fn l6_2_a_dead_peer_makes_whatever_was_asked_for_true() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, peer) = puppet.connect(&handle).await;
        fill(&puppet, &handle, connection).await;
        assert!(puppet.watch(target, connection, WRITABLE, 1).await.is_ok());
        assert_eq!(puppet.poll(target, 8, 0).await.events, []);
        // Closing with unread data resets the connection.
        drop(peer);
        assert_eq!(readiness_of(&puppet, target, WRITABLE).await, WRITABLE);
        assert_eq!(puppet.write(connection, b"x").await, IO);
    });
}

#[test]
fn l6_2_an_error_without_a_hang_up_makes_writable_true_as_well() {
    run(async |handle| {
        // The writing end of a full pipe without a reader has an error and nothing else.
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut config = GuestConfig::new();
        config.stderr = Stdout::Fd(writer.try_clone().unwrap().into());
        let puppet = Puppet::start_with(&handle, config);
        let target = puppet.open_loop().await;
        writer.write_all(&vec![7; 65_536]).unwrap();
        assert_eq!(puppet.write(2, b"x").await, AGAIN, "the pipe is full");
        assert!(puppet.watch(target, 2, WRITABLE, 1).await.is_ok());
        assert_eq!(puppet.poll(target, 8, 0).await.events, []);
        drop(reader);
        assert_eq!(puppet.poll(target, 8, TIMEOUT_FOREVER).await.ready(1), WRITABLE);
        assert_eq!(puppet.write(2, b"x").await, IO);
    });
}

#[test]
fn l6_3_hup_and_error_are_reported_if_requested_only() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, peer) = puppet.connect(&handle).await;
        assert!(puppet.watch(target, connection, READABLE, 1).await.is_ok());
        assert!(puppet.watch(target, connection, ERROR, 2).await.is_ok());
        drop(peer);
        let polled = puppet.poll(target, 8, TIMEOUT_FOREVER).await;
        assert_eq!(polled.ids(), [1]);
        assert_eq!(polled.ready(1), READABLE);
    });
}

#[test]
fn l6_4_a_watch_for_hup_alone_hears_of_a_half_close() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, mut peer) = puppet.connect(&handle).await;
        assert!(puppet.watch(target, connection, HANGUP, 1).await.is_ok());
        if handle.backend() == Backend::Epoll {
            // poll(2) hears of the half close only once the data before it has been read.
            peer.write_all(b"data alone is no hang-up").unwrap();
        }
        assert_eq!(puppet.poll(target, 8, 1).await.events, []);
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(puppet.poll(target, 8, TIMEOUT_FOREVER).await.ready(1), HANGUP);
    });
}

#[test]
fn l7_1_a_guest_that_stops_polling_while_its_sockets_are_ready_leaves_the_loop_idle() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let mut peers = Vec::new();
        for id in 1..=8 {
            let (connection, mut peer) = puppet.connect(&handle).await;
            assert!(puppet.watch(target, connection, READABLE | WRITABLE, id).await.is_ok());
            peer.write_all(b"unread").unwrap();
            peers.push(peer);
        }
        assert!(!puppet.poll(target, 8, TIMEOUT_FOREVER).await.events.is_empty());
        // The guest now waits for standard input only, on another loop handle.
        handle.sleep(Duration::from_millis(10)).await.unwrap();
        let before = handle.stats();
        handle.sleep(Duration::from_millis(100)).await.unwrap();
        let after = handle.stats();
        assert!(after.turns - before.turns <= 2, "{} turns", after.turns - before.turns);
    });
}

#[test]
fn l7_2_the_queue_of_events_is_bounded_by_watches_however_much_happens() {
    run(async |handle| {
        let puppet = Puppet::start_with(&handle, with_loopback());
        let target = puppet.open_loop().await;
        let (connection, mut peer) = puppet.connect(&handle).await;
        assert!(puppet.watch(target, connection, READABLE, 1).await.is_ok());
        for _ in 0..200 {
            peer.write_all(b"x").unwrap();
            handle.sleep(Duration::from_micros(50)).await.unwrap();
        }
        let polled = puppet.poll(target, 1000, TIMEOUT_FOREVER).await;
        assert_eq!((polled.ids(), polled.more), (vec![1], false));
    });
}
