//! Section 7: turns, life and quiescence.

use super::support::*;
use mainspring_kernel::{Config, Effect, Mode, Turn};
use mainspring_message::{Draft, Json, Kind};
use serde_json::json;

fn batch() -> Config {
    Config { mode: Mode::Batch, ..Config::default() }
}

#[test]
fn s7_1_a_turn_selects_routes_dispatches_and_yields() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    world.send(client, &line("command", "Echo.Say", "c-1", json!(1)));
    assert_eq!(world.kernel.turn(world.now), Turn::Idle);
    world.settle();
    world.only_delivered();
    assert_eq!(world.kernel.census().requests, 1);
}

#[test]
fn s7_2_due_timers_come_first_and_an_error_never_makes_an_error() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    let answers =
        world.ask(client, &line_with("error", "Any.Thing", "e-1", json!({}), json!({ "causation": "x" })));
    assert!(answers.is_empty(), "{answers:?}");
    let letters = world.dead_letters(client);
    assert_eq!(letters[0]["id"], "e-1");
    assert_eq!(world.kernel.counters().dead_letters, 1);
}

#[test]
fn s7_3_in_daemon_mode_the_loop_waits_for_the_next_input_or_deadline() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    assert_eq!(world.run(), Turn::Idle);
    assert_eq!(world.kernel.next_deadline(), None);
    let client = world.connect(1);
    world.ask(client, &line_with("command", "Echo.Say", "c-1", json!(1), json!({ "timeout": 250 })));
    assert_eq!(world.kernel.next_deadline(), Some(250_000_000));
}

#[test]
fn s7_3_shutdown_stops_adapters_then_actors_then_flushes() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Syscall.Shutdown", "s-1", json!({})));
    assert_eq!(world.run(), Turn::Ended);
    let order: Vec<&str> = world
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::StopAdapter { .. } => Some("adapter"),
            Effect::Stop { .. } => Some("actor"),
            Effect::Close { .. } => Some("close"),
            Effect::Exit { code: 0 } => Some("exit"),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["adapter", "actor", "close", "exit"]);
}

#[test]
fn s7_4_1_an_active_adapter_keeps_a_batch_alive() {
    let mut world = World::booted_with(batch(), vec![]);
    assert_eq!(world.run(), Turn::Idle);
    world.kernel.adapter_ended(0, world.now);
    assert_eq!(world.run(), Turn::Ended);
    assert_eq!(world.count(|effect| matches!(effect, Effect::Exit { code: 0 })), 1);
}

#[test]
fn s7_4_2_a_request_in_flight_keeps_a_batch_alive() {
    let mut world = World::booted_with(batch(), vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
    world.kernel.adapter_ended(0, world.now);
    assert_eq!(world.run(), Turn::Idle);
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!(1));
    assert_eq!(world.run(), Turn::Ended);
}

#[test]
fn s7_4_3_a_scheduled_timer_keeps_a_batch_alive() {
    let mut world = World::booted_with(batch(), vec![]);
    let client = world.connect(1);
    let message = json!({ "kind": "event", "type": "Test.Tick", "data": 1 });
    world.call(client, "command", "Timer.Schedule", json!({ "delay": 50, "message": message }));
    world.kernel.adapter_ended(0, world.now);
    assert_eq!(world.run(), Turn::Idle);
    world.pass_ms(50);
    assert_eq!(world.run(), Turn::Ended);
}

#[test]
fn s7_4_4_unwritten_bytes_keep_a_batch_alive() {
    let mut world = World::booted_with(batch(), vec![]);
    world.clients_read = false;
    let client = world.connect(1);
    let answers = world.ask(client, &line("query", "Syscall.Ping", "p-1", json!(1)));
    world.kernel.adapter_ended(0, world.now);
    assert_eq!(world.run(), Turn::Idle);
    world.kernel.written(client, answers[0].line().len() + 1, world.now);
    assert_eq!(world.run(), Turn::Ended);
}

#[test]
fn s7_3_a_drain_answers_what_finishes_and_ends_the_rest_at_its_deadline() {
    let mut echo = manifest("echo", &["command:Echo.Say"]);
    echo.limits.concurrency = 2;
    let mut world = World::booted(vec![echo]);
    let client = world.connect(1);
    for id in ["c-1", "c-2", "c-3"] {
        world.send(client, &line("command", "Echo.Say", id, json!(1)));
    }
    world.run();
    let delivered = world.take_delivered();
    world.kernel.shutdown("test", world.now);
    world.run();
    let refused = world.ask(client, &line("command", "Echo.Say", "c-4", json!(1)));
    assert_eq!(code(&refused[0]), 503);
    world.replies(delivered[0].0, &delivered[0].1, json!(1));
    assert_eq!(world.only_written(client).causation(), Some("c-1"));
    world.pass_ms(10_000);
    let rest = world.take_written(client);
    let fates: Vec<(String, String)> = rest
        .iter()
        .map(|answer| {
            (answer.causation().unwrap().to_owned(), data(answer)["started"].as_str().unwrap().to_owned())
        })
        .collect();
    assert!(fates.contains(&("c-2".into(), "yes".into())), "{fates:?}");
    // c-3 was delivered when c-1 had left.
    assert!(fates.contains(&("c-3".into(), "yes".into())), "{fates:?}");
    assert_eq!(world.run(), Turn::Ended);
}

#[test]
fn s7_3_a_hastened_shutdown_answers_the_rest_and_ends_at_once() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    world.auto_stop = false;
    let client = world.connect(1);
    world.kernel.hasten(world.now);
    world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
    world.kernel.shutdown("test", world.now);
    world.run();
    assert!(world.take_written(client).is_empty(), "it may still finish");
    world.kernel.hasten(world.now);
    assert_eq!(world.run(), Turn::Idle, "the actor may still end by itself");
    assert_eq!(code(&world.only_written(client)), 503);
    world.kernel.hasten(world.now);
    assert_eq!(world.run(), Turn::Ended);
}

#[test]
fn one_request_that_is_not_finished_in_time_is_told_as_one() {
    for (count, words) in
        [(1, "1 request was not finished in time"), (2, "2 requests were not finished in time")]
    {
        let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
        let client = world.connect(1);
        for number in 0..count {
            world.ask(client, &line("command", "Echo.Say", &format!("c-{number}"), json!(1)));
        }
        world.kernel.shutdown("test", world.now);
        world.kernel.hasten(world.now);
        world.run();
        let told = world.count(|effect| matches!(effect, Effect::Log { text, .. } if text == words));
        assert_eq!(told, 1, "{words}");
    }
}

#[test]
fn s7_3_an_outcome_that_came_before_the_deadline_of_the_drain_is_delivered() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
    let (actor, request) = world.only_delivered();
    world.kernel.shutdown("test", world.now);
    world.run();
    world.now.mono_ns += 10_000_000_000;
    world.kernel.actor_message(actor, Draft::reply(&request, Json::null()), world.now);
    world.run();
    assert_eq!(world.only_written(client).kind(), Kind::Reply);
}

#[test]
fn s7_3_an_outcome_after_the_deadline_of_the_drain_is_late_and_no_fault() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    world.auto_stop = false;
    let client = world.connect(1);
    world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
    let (actor, request) = world.only_delivered();
    world.kernel.shutdown("test", world.now);
    world.pass_ms(10_000);
    assert_eq!(code(&world.only_written(client)), 503);
    world.replies(actor, &request, json!(1));
    let counters = world.kernel.counters();
    assert_eq!((counters.late_outcomes, counters.actor_faults), (1, 0));
    assert!(world.take_written(client).is_empty());
}

#[test]
fn s7_3_a_drain_waits_for_events_in_the_mailbox_of_an_actor_that_comes_back() {
    let mut world = World::booted_with(batch(), vec![manifest("heart", &["event:Heart.Beat"])]);
    let client = world.connect(1);
    world.crashes(mainspring_kernel::ActorRef::new(0, 1));
    world.ask(client, &line("event", "Heart.Beat", "e-1", json!(1)));
    world.kernel.adapter_ended(0, world.now);
    assert_eq!(world.run(), Turn::Idle);
    world.pass_ms(1000);
    assert_eq!(world.only_delivered().1.id(), "e-1");
    assert_eq!(world.run(), Turn::Ended);
}

#[test]
fn s7_3_a_repetition_during_a_drain_still_shares_the_one_answer() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    let (one, two) = (world.connect_as(1, "alice"), world.connect_as(2, "alice"));
    let same = line("command", "Echo.Say", "c-1", json!(1));
    world.ask(one, &same);
    let (actor, request) = world.only_delivered();
    world.kernel.shutdown("test", world.now);
    world.run();
    assert!(world.ask(two, &same).is_empty());
    world.replies(actor, &request, json!(1));
    assert_eq!(world.only_written(one), world.only_written(two));
}
