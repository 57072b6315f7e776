//! Section 15: supervision.

use super::support::*;
use mainspring_kernel::{ActorExit, ActorRef, ConnectionId, Effect, Manifest, RestartWhen, Rights};
use mainspring_message::{Draft, Envelope, Json, Kind};
use serde_json::json;

fn actor_in(incarnation: u32) -> ActorRef {
    ActorRef::new(0, incarnation)
}

fn frail() -> Manifest {
    manifest("frail", &["command:Frail.Do", "event:Frail.Heard"])
}

/// A world with one client that also watches everything the loop says.
fn watched(capability: Manifest) -> (World, ConnectionId, ConnectionId) {
    let mut world = World::booted(vec![capability]);
    let (client, watcher) = (world.connect(1), world.connect(2));
    world.call(watcher, "command", "Sys.Subscribe", json!({ "types": ["Sys.*"] }));
    (world, client, watcher)
}

fn heard(world: &mut World, watcher: ConnectionId) -> Vec<String> {
    world.take_written(watcher).iter().map(|event| event.type_name().to_owned()).collect()
}

#[test]
fn s15_1_an_actor_fault_restarts_the_actor_and_is_told() {
    let (mut world, _, watcher) = watched(frail());
    world.says(actor_in(1), "nonsense");
    assert_eq!(heard(&mut world, watcher), ["Sys.ActorFault"]);
    world.pass_ms(1000);
    assert_eq!(heard(&mut world, watcher), ["Sys.ActorRestarted"]);
    assert_eq!(world.count(|effect| *effect == Effect::Spawn { actor: actor_in(2) }), 1);
}

#[test]
fn s15_1_an_actor_crash_restarts_the_actor_and_is_told() {
    let (mut world, client, watcher) = watched(frail());
    world.ask(client, &line("command", "Frail.Do", "c-1", json!(1)));
    world.crashes(actor_in(1));
    assert_eq!(heard(&mut world, watcher), ["Sys.ActorCrash"]);
    let error = world.only_written(client);
    assert_eq!(error.type_name(), "Sys.ActorCrash");
    assert!(data(&error)["message"].as_str().unwrap().contains("exit code 7"));
}

fn message_of(error: &Envelope) -> String {
    data(error)["message"].as_str().unwrap().to_owned()
}

/// The lines of the log about a capability.
fn logged(world: &World, id: &str) -> Vec<String> {
    let lines = world.effects.iter().filter_map(|effect| match effect {
        Effect::Log { capability: Some(about), text, .. } if about == id => Some(text.clone()),
        _ => None,
    });
    lines.collect()
}

#[test]
fn a_crash_is_told_with_the_name_of_the_capability_and_its_last_words_to_the_operator_alone() {
    let mut capability = frail();
    capability.limits.concurrency = 2;
    let (mut world, operator, watcher) = watched(capability);
    let stranger = world.connect_with(3, "peer-3", Rights::default());
    world.kernel.connection_has(watcher, Rights::default(), world.now);
    world.ask(operator, &line("command", "Frail.Do", "c-1", json!(1)));
    world.ask(stranger, &line("command", "Frail.Do", "c-2", json!(1)));
    for words in ["first", "second", "a \u{1b}[31mtraceback", "ValueError: secret"] {
        world.kernel.actor_complained(actor_in(1), words.as_bytes(), world.now);
    }
    // Nobody takes the words of another life for those of this one.
    world.kernel.actor_complained(actor_in(9), b"another life", world.now);
    world.crashes(actor_in(1));
    let told = message_of(&world.only_written(operator));
    assert_eq!(
        told,
        "frail failed over the request: exit code 7; its last words on standard error: \"second\" / \
         \"a \\u{1b}[31mtraceback\" / \"ValueError: secret\""
    );
    assert_eq!(
        message_of(&world.only_written(stranger)),
        "frail failed over the request: exit code 7",
        "it may be about the requests of others"
    );
    let events = format!("{:?}", world.take_written(watcher));
    let letters = format!("{:?}", world.dead_letters(operator));
    assert!(!events.contains("secret") && !letters.contains("secret"), "{events} {letters}");
    // The next life has said nothing yet.
    world.pass_ms(1000);
    world.ask(operator, &line("command", "Frail.Do", "c-3", json!(1)));
    world.crashes(actor_in(2));
    assert_eq!(message_of(&world.only_written(operator)), "frail failed over the request: exit code 7");
}

#[test]
fn a_stray_print_is_quoted_to_the_operator_with_what_to_do_about_it() {
    let (mut world, operator, watcher) = watched(frail());
    world.ask(operator, &line("command", "Frail.Do", "c-1", json!(1)));
    let stray = format!("got here \x07 {}", "x".repeat(500));
    world.says(actor_in(1), &stray);
    let told = message_of(&world.only_written(operator));
    assert!(told.contains("standard output is for messages: print to standard error"), "{told}");
    assert!(told.contains("the line was \"got here \\u{7} xxx") && told.ends_with("xxx\"..."), "{told}");
    assert!(told.len() < 300, "{told}");
    assert!(logged(&world, "frail").iter().any(|text| text.contains("got here")), "{:?}", world.effects);
    let events = format!("{:?}", world.take_written(watcher));
    assert!(events.contains("print to standard error") && !events.contains("got here"), "{events}");
}

#[test]
fn a_message_that_breaks_a_rule_is_quoted_in_the_log() {
    let (mut world, _, _) = watched(frail());
    world.says(actor_in(1), &line("event", "Frail.Told", "e-1", json!("look here")));
    let lines = logged(&world, "frail");
    assert!(lines[0].contains("without metadata.causation") && lines[0].contains("look here"), "{lines:?}");
    assert!(!lines[0].contains("standard error"), "{lines:?}");
}

#[test]
fn every_line_of_the_log_about_a_capability_names_it() {
    let (mut world, _, _) = watched(frail());
    for number in 1..=4 {
        world.crashes(actor_in(number));
        world.pass_ms(5000);
    }
    let lines = logged(&world, "frail");
    for words in ["frail: Sys.ActorCrash: exit code 7", "frail runs again", "frail is unhealthy; "] {
        assert!(lines.iter().any(|text| text.starts_with(words)), "{words}: {lines:?}");
    }
    let about_nobody = world.count(
        |effect| matches!(effect, Effect::Log { capability: None, text, .. } if text.contains("frail")),
    );
    assert_eq!(about_nobody, 0);
}

#[test]
fn s15_1_a_timeout_ends_the_request_and_leaves_the_actor_alone() {
    let (mut world, client, watcher) = watched(frail());
    world.ask(client, &line_with("command", "Frail.Do", "c-1", json!(1), json!({ "timeout": 10 })));
    world.pass_ms(10);
    assert_eq!(world.only_written(client).type_name(), "Sys.Timeout");
    assert!(heard(&mut world, watcher).is_empty());
    assert_eq!(world.count(|effect| matches!(effect, Effect::Terminate { .. })), 0);
}

#[test]
fn s15_1_a_routing_error_is_not_retried() {
    let (mut world, client, _) = watched(frail());
    assert_eq!(
        world.ask(client, &line("command", "No.One", "c-1", json!(1)))[0].type_name(),
        "Sys.RoutingError"
    );
    world.pass_ms(100_000);
    assert!(world.take_written(client).is_empty());
}

#[test]
fn s15_1_a_schema_error_is_not_dispatched() {
    let mut picky = frail();
    picky.inbound = json!({ "properties": {
        "kind": { "const": "command" }, "type": { "const": "Frail.Do" }, "data": { "type": "integer" },
    } });
    let mut world = World::booted(vec![picky]);
    let client = world.connect(1);
    let error = world.ask(client, &line("command", "Frail.Do", "c-1", json!("no"))).remove(0);
    assert_eq!((error.type_name(), code(&error)), ("Sys.SchemaError", 422));
    assert!(data(&error)["message"].as_str().unwrap().starts_with("data"));
    assert!(world.delivered.is_empty());
}

#[test]
fn s15_2_the_pause_before_a_restart_doubles() {
    let (mut world, ..) = watched(frail());
    for (incarnation, pause_ms) in [(1, 1000), (2, 2000), (3, 4000)] {
        world.crashes(actor_in(incarnation));
        world.pass_ms(pause_ms - 1);
        assert_eq!(world.count(|effect| *effect == Effect::Spawn { actor: actor_in(incarnation + 1) }), 0);
        world.pass_ms(1);
        assert_eq!(world.count(|effect| *effect == Effect::Spawn { actor: actor_in(incarnation + 1) }), 1);
    }
}

#[test]
fn s15_2_no_pause_stays_none_however_often_it_is_doubled() {
    let mut frail = frail();
    frail.restart.backoff_ms = 0;
    frail.restart.max_restarts = 1000;
    let (mut world, ..) = watched(frail);
    for incarnation in 1..=200 {
        world.crashes(actor_in(incarnation));
        world.pass_ms(0);
        let next = Effect::Spawn { actor: actor_in(incarnation + 1) };
        assert_eq!(world.count(|effect| *effect == next), 1, "life {}", incarnation + 1);
    }
}

fn exhausted() -> (World, ConnectionId, ConnectionId) {
    let (mut world, client, watcher) = watched(frail());
    for incarnation in 1..=4 {
        world.crashes(actor_in(incarnation));
        world.pass_ms(5000);
    }
    (world, client, watcher)
}

#[test]
fn s15_3_beyond_its_budget_a_capability_is_unhealthy_and_answers_at_once() {
    let (mut world, client, watcher) = exhausted();
    assert!(heard(&mut world, watcher).contains(&"Sys.ActorUnhealthy".to_owned()));
    assert_eq!(world.actor_state(client, "frail"), "unhealthy");
    let error = world.ask(client, &line("command", "Frail.Do", "c-1", json!(1))).remove(0);
    assert_eq!((error.type_name(), code(&error)), ("Sys.Unhealthy", 503));
    assert_eq!(data(&error)["started"], "no");
}

#[test]
fn s15_3_what_waited_when_the_budget_ended_is_answered() {
    let (mut world, client, _) = watched(frail());
    for incarnation in 1..=3 {
        world.crashes(actor_in(incarnation));
        world.pass_ms(5000);
    }
    world.send(client, &line("command", "Frail.Do", "c-1", json!(1)));
    world.send(client, &line("command", "Frail.Do", "c-2", json!(1)));
    world.send(client, &line("event", "Frail.Heard", "e-1", json!(1)));
    world.run();
    world.crashes(actor_in(4));
    let fates: Vec<(String, u64)> =
        world.take_written(client).iter().map(|e| (e.causation().unwrap().to_owned(), code(e))).collect();
    assert_eq!(fates, [("c-1".to_owned(), 502), ("c-2".to_owned(), 503)]);
    let letters = world.dead_letters(client);
    assert!(letters.iter().any(|letter| letter["id"] == "e-1"), "{letters:?}");
}

#[test]
fn s15_3_an_unhealthy_capability_is_probed_and_comes_back() {
    let (mut world, client, _) = exhausted();
    world.pass_ms(30_000);
    assert_eq!(world.actor_state(client, "frail"), "up");
    world.ask(client, &line("command", "Frail.Do", "c-1", json!(1)));
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!(1));
    assert_eq!(world.only_written(client).kind(), Kind::Reply);
}

#[test]
fn s15_3_a_failed_probe_makes_the_next_rest_longer() {
    let (mut world, client, _) = exhausted();
    world.pass_ms(30_000);
    world.crashes(actor_in(5));
    assert_eq!(world.actor_state(client, "frail"), "unhealthy");
    world.pass_ms(59_999);
    assert_eq!(world.actor_state(client, "frail"), "unhealthy");
    world.pass_ms(1);
    assert_eq!(world.actor_state(client, "frail"), "up");
}

#[test]
fn s15_3_an_operator_resets_an_unhealthy_capability_at_once() {
    let (mut world, client, _) = exhausted();
    let answer = world.call(client, "command", "Sys.ResetActor", json!({ "capabilityId": "frail" }));
    assert_eq!(answer.kind(), Kind::Reply);
    assert_eq!(world.actor_state(client, "frail"), "up");
    let answer = world.call(client, "command", "Sys.ResetActor", json!({ "capabilityId": "nobody" }));
    assert_eq!(code(&answer), 404);
}

#[test]
fn s15_3_the_budget_is_per_capability_and_comes_back_with_the_window() {
    let mut world = World::booted(vec![frail(), manifest("solid", &["command:Solid.Do"])]);
    let client = world.connect(1);
    for incarnation in 1..=3 {
        world.crashes(actor_in(incarnation));
        world.pass_ms(5000);
    }
    world.crashes(ActorRef::new(1, 1));
    world.pass_ms(1000);
    assert_eq!(world.actor_state(client, "solid"), "up");
    world.pass_ms(60_000);
    world.crashes(actor_in(4));
    world.pass_ms(1000);
    assert_eq!(world.actor_state(client, "frail"), "up");
}

#[test]
fn s15_3_a_late_outcome_is_an_event_and_frees_the_actor() {
    let (mut world, client, watcher) = watched(frail());
    world.ask(client, &line_with("command", "Frail.Do", "c-1", json!(1), json!({ "timeout": 10 })));
    let (actor, request) = world.only_delivered();
    world.pass_ms(10);
    world.take_written(client);
    world.ask(client, &line("command", "Frail.Do", "c-2", json!(1)));
    assert!(world.delivered.is_empty(), "the first is still in its hands");
    world.replies(actor, &request, json!("late"));
    assert!(world.take_written(client).is_empty());
    assert_eq!(heard(&mut world, watcher), ["Sys.LateReply"]);
    assert_eq!(world.only_delivered().1.id(), "c-2");
}

#[test]
fn s15_3_an_actor_that_stays_silent_long_after_a_deadline_is_restarted_as_hung() {
    let (mut world, client, watcher) = watched(frail());
    world.ask(client, &line_with("command", "Frail.Do", "c-1", json!(1), json!({ "timeout": 10 })));
    world.take_delivered();
    world.pass_ms(10 + 30_000);
    assert_eq!(heard(&mut world, watcher), ["Sys.ActorFault"]);
    world.pass_ms(1000);
    world.ask(client, &line("command", "Frail.Do", "c-2", json!(1)));
    assert_eq!(world.only_delivered().0, actor_in(2));
}

#[test]
fn s15_3_events_taken_since_the_last_output_are_dead_letters_after_a_crash() {
    let mut frail = frail();
    frail.uncaused = true;
    let (mut world, client, _) = watched(frail);
    world.ask(client, &line("event", "Frail.Heard", "e-1", json!(1)));
    world.says_draft(actor_in(1), Draft::new(Kind::Event, "Frail.Alive", Json::null()));
    world.ask(client, &line("event", "Frail.Heard", "e-2", json!(1)));
    world.crashes(actor_in(1));
    let letters = world.dead_letters(client);
    let ids: Vec<&str> = letters.iter().map(|letter| letter["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["e-2"]);
}

#[test]
fn s15_3_a_request_is_retried_only_by_manifest_and_ends_in_the_dead_letters() {
    let mut frail = frail();
    frail.retry.attempts = 2;
    frail.retry.backoff_ms = 100;
    let (mut world, client, _) = watched(frail);
    world.ask(client, &line("command", "Frail.Do", "c-1", json!(1)));
    let (actor, first) = world.only_delivered();
    world.crashes(actor);
    assert!(world.take_written(client).is_empty());
    world.pass_ms(1000);
    let (actor, second) = world.only_delivered();
    assert_eq!((second.id(), actor), (first.id(), actor_in(2)));
    world.crashes(actor);
    assert_eq!(code(&world.only_written(client)), 502);
    let letters = world.dead_letters(client);
    assert_eq!((letters[0]["id"].clone(), letters[0]["attempts"].clone()), (json!("c-1"), json!(2)));
    assert_eq!(world.kernel.counters().retries, 1);
}

#[test]
fn s15_3_a_request_that_times_out_between_two_attempts_is_a_dead_letter() {
    let mut frail = frail();
    frail.retry.attempts = 5;
    frail.retry.backoff_ms = 1000;
    let (mut world, client, _) = watched(frail);
    world.ask(client, &line_with("command", "Frail.Do", "c-1", json!(1), json!({ "timeout": 500 })));
    let (actor, _) = world.only_delivered();
    world.crashes(actor);
    world.pass_ms(500);
    let error = world.only_written(client);
    assert_eq!((code(&error), &data(&error)["started"]), (504, &json!("yes")));
    let letters = world.dead_letters(client);
    assert_eq!((&letters[0]["id"], &letters[0]["attempts"]), (&json!("c-1"), &json!(1)));
    world.pass_ms(5000);
    assert!(world.delivered.is_empty());
}

#[test]
fn s15_3_a_poison_message_is_counted_by_its_own_deliveries_not_by_its_neighbours() {
    let mut frail = frail();
    frail.retry.attempts = 2;
    frail.retry.backoff_ms = 1;
    frail.restart.max_restarts = 10;
    let (mut world, client, _) = watched(frail);
    world.send(client, &line("command", "Frail.Do", "poison", json!(1)));
    world.send(client, &line("command", "Frail.Do", "good", json!(1)));
    world.run();
    for _ in 0..20 {
        for (actor, request) in world.take_delivered() {
            if request.id() == "poison" {
                world.crashes(actor);
            } else {
                world.replies(actor, &request, json!("fine"));
            }
        }
        world.pass_ms(5000);
    }
    let mut fates: Vec<(String, &str)> = world
        .take_written(client)
        .iter()
        .map(|answer| (answer.causation().unwrap().to_owned(), answer.kind().as_str()))
        .collect();
    fates.sort();
    assert_eq!(fates, [("good".to_owned(), "reply"), ("poison".to_owned(), "error")]);
}

#[test]
fn s15_3_a_spawn_that_fails_costs_budget_and_makes_no_zombie() {
    let (mut world, client, _) = watched(frail());
    world.auto_start = false;
    world.crashes(actor_in(1));
    for incarnation in 2..=4 {
        world.pass_ms(5000);
        world.kernel.actor_spawned(actor_in(incarnation), Err("no memory".into()), world.now);
        world.run();
    }
    assert_eq!(world.actor_state(client, "frail"), "unhealthy");
}

#[test]
fn s15_3_an_actor_may_end_for_good_when_its_manifest_says_so() {
    let mut once = frail();
    once.restart.when = RestartWhen::OnFailure;
    let (mut world, client, _) = watched(once);
    world.kernel.actor_exited(actor_in(1), ActorExit::Done, world.now);
    world.run();
    assert_eq!(world.actor_state(client, "frail"), "stopped");
    assert_eq!(world.kernel.census().timers, 0);
    assert_eq!(code(&world.ask(client, &line("command", "Frail.Do", "c-1", json!(1)))[0]), 503);
}
