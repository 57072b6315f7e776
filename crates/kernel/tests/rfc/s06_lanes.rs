//! Section 6: the lanes.

use super::support::*;
use mainspring_kernel::{Config, Effect, Turn};
use mainspring_message::{Draft, Json};
use serde_json::json;

#[test]
fn s6_3_1_the_system_lane_is_drained_before_any_user_message() {
    let mut world = World::booted(vec![
        manifest("frail", &["command:Frail.Do"]),
        manifest("other", &["command:Other.Do"]),
    ]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Frail.Do", "c-1", json!(1)));
    let (actor, _) = world.only_delivered();
    world.send(client, &line("command", "Other.Do", "c-2", json!(1)));
    world.kernel.actor_line(actor, b"not a message", world.now);
    world.effects.clear();
    world.kernel.turn(world.now);
    world.settle();
    let fault = world.effects.iter().position(|effect| matches!(effect, Effect::Write { .. })).unwrap();
    let user = world.effects.iter().position(|effect| matches!(effect, Effect::Deliver { .. })).unwrap();
    assert!(fault < user, "{:?}", world.effects);
}

#[test]
fn s6_3_1_the_system_lane_is_closed_to_outside_traffic() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    let answers = world.ask(client, &line("event", "Sys.ActorFault", "e-1", json!({})));
    assert_eq!(code(&answers[0]), 403);
    assert_eq!(world.kernel.census().system_lane, 0);
}

#[test]
fn s6_3_1_the_drain_of_the_system_lane_is_bounded_per_turn() {
    let mut config = Config::default();
    config.limits.system_per_turn = 2;
    let all: Vec<_> = (0..5).map(|n| manifest(&format!("a{n}"), &[&format!("command:A{n}.Do")])).collect();
    let mut world = World::booted_with(config, all);
    let client = world.connect(1);
    for n in 0..5 {
        world.send(client, &line("command", &format!("A{n}.Do"), &format!("c-{n}"), json!(1)));
    }
    world.run();
    for (actor, _) in world.take_delivered() {
        world.kernel.actor_line(actor, b"nonsense", world.now);
    }
    world.send(client, &line("query", "Syscall.Ping", "p-1", json!(1)));
    assert_eq!(world.kernel.turn(world.now), Turn::More);
    world.settle();
    let answered: Vec<String> =
        world.take_written(client).iter().map(|answer| answer.causation().unwrap().to_owned()).collect();
    assert_eq!(answered, ["c-0", "c-1", "p-1"]);
}

#[test]
fn s6_3_2_one_user_message_is_processed_per_turn() {
    let mut echo = manifest("echo", &["command:Echo.Say"]);
    echo.limits.concurrency = 10;
    let mut world = World::booted(vec![echo]);
    let client = world.connect(1);
    for id in ["c-1", "c-2", "c-3"] {
        world.send(client, &line("command", "Echo.Say", id, json!(1)));
    }
    for expected in 1..=3 {
        world.kernel.turn(world.now);
        world.settle();
        assert_eq!(world.delivered.len(), expected);
    }
}

#[test]
fn s6_3_3_completions_come_after_system_and_before_user() {
    let mut echo = manifest("echo", &["command:Echo.Say"]);
    echo.limits.concurrency = 10;
    let mut world = World::booted(vec![echo]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
    let (actor, request) = world.only_delivered();
    world.send(client, &line("command", "Echo.Say", "c-2", json!(1)));
    world.kernel.actor_message(actor, Draft::reply(&request, Json::null()), world.now);
    world.effects.clear();
    world.kernel.turn(world.now);
    world.settle();
    let kinds: Vec<bool> = world
        .effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Write { .. } | Effect::Deliver { .. }))
        .map(|effect| matches!(effect, Effect::Write { .. }))
        .collect();
    assert_eq!(kinds, [true, false], "the reply leaves before the next command is delivered");
}

#[test]
fn s6_3_3_senders_take_turns_in_the_user_lane() {
    let mut echo = manifest("echo", &["command:Echo.Say"]);
    echo.limits.concurrency = 100;
    let mut world = World::booted(vec![echo]);
    let (flood, quiet) = (world.connect(1), world.connect(2));
    for number in 0..50 {
        world.send(flood, &line("command", "Echo.Say", &format!("f-{number}"), json!(1)));
    }
    world.send(quiet, &line("command", "Echo.Say", "q", json!(1)));
    world.run();
    let place = world.take_delivered().iter().position(|(_, message)| message.id() == "q").unwrap();
    assert_eq!(place, 1);
}
