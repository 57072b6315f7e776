//! Section 8: timers.

use super::support::*;
use mainspring_kernel::Config;
use serde_json::{Value, json};

fn tick() -> Value {
    json!({ "kind": "command", "type": "Memory.Cleanup", "data": { "olderThan": 1 },
            "metadata": { "id": "scheduled-001", "timestamp": 0 } })
}

fn memory() -> World {
    World::booted(vec![manifest("memory", &["command:Memory.Cleanup"])])
}

#[test]
fn s8_3_1_a_scheduled_command_is_sent_after_its_delay_with_a_fresh_id_and_its_cause() {
    let mut world = memory();
    let client = world.connect(1);
    let reply = world.ask(
        client,
        &line("command", "Timer.Schedule", "timer-cmd-001", json!({ "delay": 5000, "message": tick() })),
    );
    let timer_id = data(&reply[0])["timerId"].as_str().unwrap().to_owned();
    world.pass_ms(4999);
    assert!(world.delivered.is_empty());
    world.pass_ms(1);
    let (actor, command) = world.only_delivered();
    assert_eq!(command.causation(), Some("timer-cmd-001"));
    assert_ne!(command.id(), "scheduled-001");
    assert_eq!(command.timestamp_ms(), START_UNIX_MS + 5000);
    world.replies(actor, &command, json!("clean"));
    let outcome = world.only_written(client);
    assert_eq!(outcome.causation(), Some(command.id()));
    assert!(outcome.metadata().contains(&format!("\"timerId\":\"{timer_id}\"")));
}

#[test]
fn what_is_wrong_with_a_schedule_is_said_by_its_place_in_the_data() {
    let mut world = memory();
    let client = world.connect(1);
    let event = |metadata: Value| json!({ "kind": "event", "type": "A.B", "data": 1, "metadata": metadata });
    for (data_of_command, place) in [
        (json!({ "delay": "5s", "message": event(json!({})) }), "data/delay: "),
        (json!({ "delay": 1, "mesage": {} }), "data"),
        (json!({ "delay": 1, "message": { "kind": "event" } }), "data/message: "),
        (
            json!({ "delay": 1, "message": event(json!({ "timeout": -1 })) }),
            "data/message/metadata/timeout: ",
        ),
        (json!({ "delay": 1, "message": event(json!({ "correlation": 7 })) }), "data/message/metadata/corr"),
    ] {
        let answer = world.call(client, "command", "Timer.Schedule", data_of_command);
        let text = data(&answer)["message"].as_str().unwrap().to_owned();
        assert_eq!(code(&answer), 422, "{text}");
        assert!(text.starts_with(place) && !text.contains("column"), "{place}: {text}");
    }
    let answer = world.call(client, "command", "Timer.Cancel", json!({ "timerId": 7 }));
    assert!(data(&answer)["message"].as_str().unwrap().starts_with("data/timerId: "), "{answer:?}");
}

#[test]
fn s8_3_1_two_schedules_of_the_same_message_do_not_collide() {
    let mut world = memory();
    let client = world.connect(1);
    for _ in 0..2 {
        world.call(client, "command", "Timer.Schedule", json!({ "delay": 1, "message": tick() }));
    }
    world.pass_ms(1);
    let (actor, first) = world.only_delivered();
    world.replies(actor, &first, json!(1));
    let (_, second) = world.only_delivered();
    assert_ne!(first.id(), second.id());
}

#[test]
fn s8_3_1_an_absolute_time_and_a_repetition_are_kept() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    world.call(client, "command", "Sys.Subscribe", json!({ "types": ["Test.Tick"] }));
    let event = json!({ "kind": "event", "type": "Test.Tick", "data": 1 });
    let at = START_UNIX_MS + 100;
    world.call(
        client,
        "command",
        "Timer.Schedule",
        json!({ "at": at, "repeat": 50, "count": 3, "message": event, "timerId": "t" }),
    );
    let listed = world.call(client, "query", "Timer.List", json!({}));
    assert_eq!(data(&listed)["timers"][0]["dueInMs"], 100);
    for (ms, expected) in [(99, 0), (1, 1), (49, 0), (1, 1), (50, 1), (500, 0)] {
        world.pass_ms(ms);
        assert_eq!(world.take_written(client).len(), expected, "after {ms} more");
    }
    let listed = world.call(client, "query", "Timer.List", json!({}));
    assert_eq!(data(&listed)["timers"], json!([]));
}

#[test]
fn s8_3_1_whole_numbers_may_be_written_with_a_point_or_an_exponent() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    world.call(client, "command", "Sys.Subscribe", json!({ "types": ["Test.Tick"] }));
    let event = json!({ "kind": "event", "type": "Test.Tick", "data": 1, "metadata": { "timeout": 10.0 } });
    let schedule = json!({ "delay": 10.0, "repeat": 5.0, "count": 2.0, "message": event });
    let text = line("command", "Timer.Schedule", "c-1", schedule).replace("10.0", "1e1");
    assert!(data(&world.ask(client, &text)[0])["timerId"].is_string());
    for (ms, expected) in [(9, 0), (1, 1), (4, 0), (1, 1), (50, 0)] {
        world.pass_ms(ms);
        assert_eq!(world.take_written(client).len(), expected, "after {ms} more");
    }
    for (delay, words) in [
        (json!(0.5), "data/delay: 0.5 is not of type \"integer\""),
        (json!(-1), "data/delay: -1 is less than the minimum of 0"),
        (json!(-1.0), "data/delay: -1.0 is less than the minimum of 0"),
        (json!(1e300), "expected a whole number that is not negative"),
        (json!("1"), "data/delay: \"1\" is not of type \"integer\""),
    ] {
        let answer =
            world.call(client, "command", "Timer.Schedule", json!({ "delay": delay, "message": event }));
        assert_eq!(code(&answer), 422);
        let text = data(&answer)["message"].as_str().unwrap().to_owned();
        assert!(text.contains(words) && !text.contains("column"), "{text}");
    }
}

#[test]
fn s8_3_1_late_ticks_fold_into_one_at_a_fixed_rate() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    world.call(client, "command", "Sys.Subscribe", json!({ "types": ["Test.Tick"] }));
    let event = json!({ "kind": "event", "type": "Test.Tick", "data": 1 });
    world.call(client, "command", "Timer.Schedule", json!({ "repeat": 100, "message": event }));
    // The loop was busy for 350 ms.
    world.now.mono_ns += 350_000_000;
    world.run();
    assert_eq!(world.take_written(client).len(), 1);
    assert_eq!(world.kernel.counters().timer_ticks_missed, 2);
    assert_eq!(world.kernel.next_deadline(), Some(400_000_000));
}

#[test]
fn s8_3_1_the_outcome_of_a_schedule_whose_client_is_gone_is_an_event_and_an_error_is_a_dead_letter_too() {
    let mut world = memory();
    let (client, watcher) = (world.connect(1), world.connect(2));
    world.call(watcher, "command", "Sys.Subscribe", json!({ "types": ["Sys.TimerOutcome"] }));
    world.call(client, "command", "Timer.Schedule", json!({ "delay": 10, "message": tick() }));
    world.kernel.connection_closed(client, world.now);
    world.pass_ms(10);
    let (actor, command) = world.only_delivered();
    world.says_draft(actor, mainspring_message::Draft::error(&command, 500, "no"));
    let event = world.only_written(watcher);
    assert_eq!(data(&event)["data"]["code"], 500);
    assert_eq!(world.dead_letters(watcher)[0]["type"], "Memory.Cleanup");
}

#[test]
fn s8_3_1_a_schedule_that_could_never_be_routed_is_refused_at_once() {
    let mut world = memory();
    let client = world.connect(1);
    for (message, wanted) in [
        (json!({ "kind": "command", "type": "No.One", "data": 1 }), 404),
        (json!({ "kind": "reply", "type": "Memory.Cleanup", "data": 1 }), 422),
        (json!({ "kind": "command", "type": "Timer.Cancel", "data": 1 }), 403),
    ] {
        let answer =
            world.call(client, "command", "Timer.Schedule", json!({ "delay": 1, "message": message }));
        assert_eq!(code(&answer), wanted);
    }
    let answer = world.call(client, "command", "Timer.Schedule", json!({ "message": tick() }));
    assert_eq!(code(&answer), 422);
}

#[test]
fn s8_3_2_a_request_without_outcome_times_out_and_an_outcome_cancels_the_timer() {
    let mut world = memory();
    let client = world.connect(1);
    world.ask(client, &line_with("command", "Memory.Cleanup", "c-1", json!(1), json!({ "timeout": 100 })));
    world.pass_ms(99);
    assert!(world.take_written(client).is_empty());
    world.pass_ms(1);
    let error = world.only_written(client);
    assert_eq!(error.type_name(), "Sys.Timeout");
    let text = "no outcome from memory before the deadline; it has said nothing since it began: does it flush what it writes?";
    assert_eq!(
        data(&error),
        json!({ "code": 504, "message": text, "originalId": "c-1", "originalType": "Memory.Cleanup", "started": "yes" })
    );
    let (actor, overdue) = world.only_delivered();
    world.replies(actor, &overdue, json!(1));
    world.ask(client, &line_with("command", "Memory.Cleanup", "c-2", json!(1), json!({ "timeout": 100 })));
    world.pass_ms(100);
    let error = world.only_written(client);
    assert_eq!(data(&error)["message"], json!("no outcome from memory before the deadline"), "it has spoken");

    let mut world = memory();
    let client = world.connect(1);
    world.ask(client, &line("command", "Memory.Cleanup", "c-1", json!(1)));
    assert_eq!(world.kernel.next_deadline(), Some(30_000_000_000));
    let (actor, command) = world.only_delivered();
    world.replies(actor, &command, json!(1));
    assert_eq!(world.kernel.next_deadline(), None);
}

#[test]
fn s8_3_2_a_request_that_never_reached_its_actor_times_out_as_not_started() {
    let mut world = memory();
    let client = world.connect(1);
    world.ask(client, &line("command", "Memory.Cleanup", "c-1", json!(1)));
    world.ask(client, &line_with("command", "Memory.Cleanup", "c-2", json!(1), json!({ "timeout": 10 })));
    world.pass_ms(10);
    let error = world.only_written(client);
    assert_eq!((error.causation(), &data(&error)["started"]), (Some("c-2"), &json!("no")));
}

#[test]
fn s8_3_2_a_timeout_is_not_late_when_the_user_lane_is_congested() {
    let mut config = Config::default();
    config.limits.lane_messages_max = 10_000;
    let mut world = World::booted_with(config, vec![manifest("memory", &["command:Memory.Cleanup"])]);
    let client = world.connect(1);
    world.ask(client, &line_with("command", "Memory.Cleanup", "c-0", json!(1), json!({ "timeout": 10 })));
    for number in 1..1000 {
        world.send(client, &line("command", "Memory.Cleanup", &format!("c-{number}"), json!(1)));
    }
    world.now.mono_ns += 10_000_000;
    world.kernel.turn(world.now);
    world.settle();
    assert_eq!(code(&world.only_written(client)), 504);
}

#[test]
fn s8_3_3_a_cancelled_timer_never_fires_and_only_its_owner_cancels_it() {
    let mut world = memory();
    let (client, stranger) = (world.connect(1), world.connect(2));
    let reply = world.call(client, "command", "Timer.Schedule", json!({ "delay": 10, "message": tick() }));
    let timer_id = data(&reply)["timerId"].clone();
    let answer = world.call(stranger, "command", "Timer.Cancel", json!({ "timerId": timer_id }));
    assert_eq!(data(&answer), json!({ "cancelled": false }));
    let answer = world.call(client, "command", "Timer.Cancel", json!({ "timerId": timer_id }));
    assert_eq!(data(&answer), json!({ "cancelled": true }));
    world.pass_ms(100);
    assert!(world.delivered.is_empty());
    assert_eq!(world.kernel.census().timers, 0);
}

#[test]
fn s8_4_a_timers_message_takes_the_same_way_as_any_other() {
    let mut world = memory();
    let client = world.connect(1);
    world.call(client, "command", "Timer.Schedule", json!({ "delay": 1, "message": tick() }));
    world.pass_ms(1);
    let (_, command) = world.only_delivered();
    assert_eq!(world.kernel.census().requests, 1);
    assert_eq!(command.data(), r#"{"olderThan":1}"#);
}

#[test]
fn s8_5_nothing_fires_early_and_equal_deadlines_fire_in_order() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    world.call(client, "command", "Sys.Subscribe", json!({ "types": ["Test.*"] }));
    for (delay, name) in [(20, "Test.C"), (10, "Test.A"), (10, "Test.B")] {
        let message = json!({ "kind": "event", "type": name, "data": 1 });
        world.call(client, "command", "Timer.Schedule", json!({ "delay": delay, "message": message }));
    }
    world.pass_ms(9);
    world.now.mono_ns += 999_999;
    world.run();
    assert!(world.take_written(client).is_empty());
    world.pass_ms(20);
    let order: Vec<String> =
        world.take_written(client).iter().map(|event| event.type_name().to_owned()).collect();
    assert_eq!(order, ["Test.A", "Test.B", "Test.C"]);
}

#[test]
fn s8_5_a_step_of_the_wall_clock_moves_no_timer() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    world.call(client, "command", "Sys.Subscribe", json!({ "types": ["Test.Tick"] }));
    let message = json!({ "kind": "event", "type": "Test.Tick", "data": 1 });
    world.call(client, "command", "Timer.Schedule", json!({ "delay": 100, "message": message }));
    world.now.unix_ms += 86_400_000;
    world.run();
    assert!(world.take_written(client).is_empty());
    assert_eq!(world.kernel.next_deadline(), Some(100_000_000));
}

#[test]
fn s8_3_1_a_correlation_that_grows_when_it_is_written_harms_nobody() {
    let mut world = memory();
    let client = world.connect(1);
    // Every character takes one byte here and six on the line.
    let correlation = "\u{1}".repeat(200);
    let mut message = tick();
    message["metadata"] = json!({ "correlation": correlation, "timeout": 5 });
    world.call(client, "command", "Timer.Schedule", json!({ "delay": 1, "message": message }));
    world.pass_ms(10);
    let outcome = world.only_written(client);
    assert_eq!((code(&outcome), outcome.correlation()), (504, Some(correlation.as_str())));
    let read = mainspring_message::Envelope::parse(outcome.line().as_bytes()).unwrap();
    assert_eq!(read.correlation(), Some(correlation.as_str()));
}

#[test]
fn s8_3_1_a_scheduled_request_that_is_refused_when_it_is_due_is_told_to_who_scheduled_it() {
    let mut config = mainspring_kernel::Config::default();
    config.limits.peer_requests_max = 1;
    let mut world = World::booted_with(config, vec![manifest("memory", &["command:Memory.Cleanup"])]);
    let client = world.connect(1);
    let schedule = json!({ "delay": 10, "timerId": "t", "message": tick() });
    world.call(client, "command", "Timer.Schedule", schedule);
    world.ask(client, &line("command", "Memory.Cleanup", "c-1", json!(1)));
    world.pass_ms(10);
    let outcome = world.only_written(client);
    assert_eq!(code(&outcome), 429);
    assert!(outcome.metadata().contains(r#""timerId":"t""#));
}

#[test]
fn s8_5_a_pause_beyond_the_range_never_ends_instead_of_at_once() {
    let mut frail = manifest("frail", &["command:Frail.Do"]);
    frail.restart.backoff_ms = u64::MAX;
    frail.restart.backoff_max_ms = u64::MAX;
    let mut world = World::booted(vec![frail]);
    let client = world.connect(1);
    world.crashes(mainspring_kernel::ActorRef::new(0, 1));
    world.pass_ms(3_600_000);
    assert_eq!(world.actor_state(client, "frail"), "backoff");
}

#[test]
fn s8_3_1_a_scheduled_request_that_its_actor_failed_over_is_one_dead_letter() {
    let mut world = memory();
    let client = world.connect(1);
    world.call(client, "command", "Timer.Schedule", json!({ "delay": 1, "message": tick() }));
    world.pass_ms(1);
    let (actor, _) = world.only_delivered();
    world.crashes(actor);
    let letters = world.dead_letters(client);
    assert_eq!((letters.len(), &letters[0]["attempts"]), (1, &json!(1)));
}

#[test]
fn s8_3_1_times_at_the_edges_of_the_range_are_at_once_or_never() {
    let mut world = memory();
    let client = world.connect(1);
    world.call(client, "command", "Sys.Subscribe", json!({ "types": ["Test.Tick"] }));
    let event = json!({ "kind": "event", "type": "Test.Tick", "data": 1 });
    for time in [
        json!({ "delay": u64::MAX }),
        json!({ "at": u64::MAX }),
        json!({ "repeat": u64::MAX, "count": u64::MAX }),
    ] {
        let mut ask = time;
        ask["message"] = event.clone();
        assert_eq!(world.call(client, "command", "Timer.Schedule", ask).kind().as_str(), "reply");
    }
    for time in [json!({ "delay": 0 }), json!({ "at": 0 }), json!({ "at": 0, "repeat": u64::MAX })] {
        let mut ask = time;
        ask["message"] = event.clone();
        world.call(client, "command", "Timer.Schedule", ask);
        world.run();
        assert_eq!(world.only_written(client).type_name(), "Test.Tick");
    }
    world.pass_ms(1_000_000_000);
    assert!(world.take_written(client).is_empty());
    // A request at the end of time still has a deadline.
    world.now.mono_ns = i64::MAX - 1;
    world.ask(client, &line("command", "Memory.Cleanup", "c-1", json!(1)));
    assert_eq!(world.kernel.next_deadline(), Some(i64::MAX));
}

#[test]
fn s8_3_1_a_count_without_a_period_is_told_to_need_one() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    let message = json!({ "kind": "event", "type": "Test.Tick", "data": 1 });
    let schedule = json!({ "delay": 5, "count": 3, "message": message });
    let error = world.call(client, "command", "Timer.Schedule", schedule);
    assert_eq!(code(&error), 422);
    assert!(data(&error)["message"].as_str().unwrap().contains("data.repeat"));
}

#[test]
fn s8_3_1_schedules_for_the_same_time_fire_in_the_order_in_which_they_were_made() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    world.call(client, "command", "Sys.Subscribe", json!({ "types": ["Test.Tick"] }));
    let at = START_UNIX_MS + 1000;
    let mut wanted = Vec::new();
    // The wall clock changes its millisecond at other moments than the monotonic clock does.
    world.now.mono_ns += 300_000;
    for number in 0..40 {
        let message = json!({ "kind": "event", "type": "Test.Tick", "data": number });
        world.call(client, "command", "Timer.Schedule", json!({ "at": at, "message": message }));
        wanted.push(number.to_string());
        world.now.mono_ns += 370_000;
        // A millisecond of the wall clock begins 0.7 ms after one of the monotonic clock.
        world.now.unix_ms = START_UNIX_MS + (world.now.mono_ns as u64 + 300_000) / 1_000_000;
    }
    world.now = mainspring_kernel::Now { mono_ns: 999_699_999, unix_ms: at - 1 };
    world.run();
    assert!(world.take_written(client).is_empty(), "not before its time");
    world.now = mainspring_kernel::Now { mono_ns: 1_001_000_000, unix_ms: at + 1 };
    world.run();
    let fired: Vec<String> = world.take_written(client).iter().map(|event| event.data().to_owned()).collect();
    assert_eq!(fired, wanted);
}

#[test]
fn s8_3_1_a_time_is_found_anew_when_the_wall_clock_was_set() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    let event = json!({ "kind": "event", "type": "Test.Tick", "data": 1 });
    for (step_ms, wanted) in [(0, 5_000), (3_600_000, 5_000), (-7_200_000, 5_000)] {
        world.now.unix_ms = world.now.unix_ms.saturating_add_signed(step_ms);
        let at = world.now.unix_ms + 5_000;
        let id = format!("t{step_ms}");
        let schedule = json!({ "at": at, "timerId": id, "message": event });
        world.call(client, "command", "Timer.Schedule", schedule);
        let listed = data(&world.call(client, "query", "Timer.List", json!({})));
        let timers = listed["timers"].as_array().unwrap();
        let found = timers.iter().find(|timer| timer["timerId"] == *id).unwrap();
        assert_eq!(found["dueInMs"], wanted, "after a step of {step_ms} ms");
    }
}

/// How many ticks a client gets in this many milliseconds, and what they say they missed.
fn ticks(world: &mut World, client: mainspring_kernel::ConnectionId, ms: u64) -> (u64, u64) {
    let (mut count, mut missed) = (0, 0);
    for _ in 0..ms {
        world.pass_ms(1);
        for tick in world.take_written(client) {
            count += 1;
            let metadata: serde_json::Value = serde_json::from_str(tick.metadata()).unwrap();
            missed += metadata["missedTicks"].as_u64().unwrap_or(0);
        }
    }
    (count, missed)
}

#[test]
fn s8_3_1_a_thousand_schedules_of_a_millisecond_tick_a_thousand_times_a_second() {
    let mut world = World::booted(vec![]);
    let (client, neighbour) = (world.connect(1), world.connect(2));
    for who in [client, neighbour] {
        world.call(who, "command", "Sys.Subscribe", json!({ "types": [format!("Test.T{}", who.0)] }));
    }
    let message = json!({ "kind": "event", "type": "Test.T1", "data": 1 });
    for _ in 0..1024 {
        world.call(client, "command", "Timer.Schedule", json!({ "repeat": 1, "message": message }));
    }
    let message = json!({ "kind": "event", "type": "Test.T2", "data": 1 });
    world.call(neighbour, "command", "Timer.Schedule", json!({ "repeat": 10, "message": message }));
    // A second's worth may come at once.
    let turns = world.kernel.counters().turns;
    let (first, missed_first) = ticks(&mut world, client, 1000);
    assert!((1000..=2001).contains(&first), "{first}");
    let (second, missed_second) = ticks(&mut world, client, 3000);
    assert!((2990..=3001).contains(&second), "{second}");
    // Every tick is sent or told as missed, but for those that wait now.
    let due = 1024 * 4000;
    let told = first + second + missed_first + missed_second;
    assert!((due - 1024 * 1100..=due).contains(&told), "{told} of {due}");
    assert_eq!(world.kernel.counters().timer_ticks_missed, missed_first + missed_second);
    // The work is bounded with them, and the neighbour keeps its rate.
    let turns = world.kernel.counters().turns - turns;
    assert!(turns < 3 * (first + second + 4000), "{turns} turns");
    let neighbours = world.take_written(neighbour).len();
    assert!((399..=400).contains(&neighbours), "{neighbours}");
    // Each of the schedules has had its turn.
    let listed = data(&world.call(client, "query", "Timer.List", json!({})));
    assert!(listed["timers"].as_array().unwrap().iter().all(|timer| timer["fired"].as_u64() >= Some(3)));
}

#[test]
fn s8_3_1_a_late_tick_says_how_many_it_stands_for() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    world.call(client, "command", "Sys.Subscribe", json!({ "types": ["Test.Tick"] }));
    let event = json!({ "kind": "event", "type": "Test.Tick", "data": 1 });
    let schedule = json!({ "repeat": 100, "count": 2, "message": event });
    world.call(client, "command", "Timer.Schedule", schedule);
    world.now.mono_ns += 350_000_000;
    world.run();
    assert!(world.only_written(client).metadata().contains(r#""missedTicks":2"#));
    // What was missed is not counted as sent.
    world.pass_ms(50);
    assert!(!world.only_written(client).metadata().contains("missedTicks"));
    assert_eq!(world.kernel.census().schedules, 0);
}

#[test]
fn s8_3_3_a_schedule_belongs_to_its_peer_and_goes_on_when_its_connection_is_gone() {
    let mut world = memory();
    let (first, watcher) = (world.connect_as(1, "alice"), world.connect_as(2, "bob"));
    world.call(watcher, "command", "Sys.Subscribe", json!({ "types": ["Sys.TimerOutcome"] }));
    let schedule = json!({ "repeat": 100, "timerId": "t", "message": tick() });
    world.call(first, "command", "Timer.Schedule", schedule);
    world.kernel.connection_closed(first, world.now);
    for _ in 0..3 {
        world.pass_ms(100);
        let (actor, command) = world.only_delivered();
        world.replies(actor, &command, json!(1));
        assert_eq!(data(&world.only_written(watcher))["timerId"], "t");
    }
    // Another connection of the same peer finds it, and ends it.
    let second = world.connect_as(3, "alice");
    let listed = data(&world.call(second, "query", "Timer.List", json!({})));
    assert_eq!((&listed["timers"][0]["timerId"], &listed["timers"][0]["fired"]), (&json!("t"), &json!(3)));
    let answer = world.call(second, "command", "Timer.Cancel", json!({ "timerId": "t" }));
    assert_eq!(data(&answer)["cancelled"], true);
    world.pass_ms(1000);
    assert!(world.delivered.is_empty());
    assert_eq!(world.kernel.census().timers, 0);
}
