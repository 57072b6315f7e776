//! Section 9: the routing laws.

use super::support::*;
use mainspring_message::{Draft, Envelope, Json, Kind};
use serde_json::json;

#[test]
fn s9_1_a_command_goes_to_exactly_one_actor() {
    let mut world = World::booted(vec![
        manifest("memory", &["command:Memory.Set"]),
        manifest("other", &["command:Other.Set"]),
    ]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Memory.Set", "c-1", json!(1)));
    assert_eq!(world.only_delivered().0.capability.0, 0);
}

#[test]
fn s9_2_a_command_without_handler_ends_in_a_routing_error() {
    let mut world = World::booted(vec![manifest("memory", &["query:Memory.Set"])]);
    let client = world.connect(1);
    let answers = world.ask(client, &line("command", "Memory.Set", "c-1", json!(1)));
    assert_eq!(answers[0].type_name(), "Sys.RoutingError");
    assert_eq!((code(&answers[0]), answers[0].causation()), (404, Some("c-1")));
    assert_eq!(data(&answers[0])["started"], "no");
}

#[test]
fn s9_3_a_query_is_routed_like_a_command_but_apart_from_it() {
    let mut world = World::booted(vec![
        manifest("writer", &["command:Memory.Item"]),
        manifest("reader", &["query:Memory.Item"]),
    ]);
    let client = world.connect(1);
    world.ask(client, &line("query", "Memory.Item", "q-1", json!(1)));
    assert_eq!(world.only_delivered().0.capability.0, 1);
}

#[test]
fn s9_4_an_event_goes_to_every_subscriber_and_needs_no_reply() {
    let mut audit = manifest("audit", &["command:Audit.Read"]);
    audit.subscribes = vec!["Memory.Changed".into()];
    let metrics = manifest("metrics", &["event:Memory.Changed"]);
    let mut world = World::booted(vec![audit, metrics]);
    let client = world.connect(1);
    let answers = world.ask(client, &line("event", "Memory.Changed", "e-1", json!(1)));
    assert!(answers.is_empty());
    let reached: Vec<u32> = world.take_delivered().iter().map(|(actor, _)| actor.capability.0).collect();
    assert_eq!(reached, [0, 1]);
    assert_eq!(world.kernel.census().requests, 0);
}

#[test]
fn s9_4_an_event_that_nobody_wants_is_fine_and_counted() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    assert!(world.ask(client, &line("event", "Memory.Changed", "e-1", json!(1))).is_empty());
    assert_eq!(world.kernel.counters().events_unheard, 1);
    assert_eq!(world.kernel.counters().dead_letters, 0);
}

#[test]
fn s9_4_an_event_of_a_native_actor_that_nobody_wants_is_held_to_the_rules_and_never_made() {
    let mut store = manifest("store", &["command:Store.Put"]);
    store.outbound = Some(json!({ "properties": {
        "kind": { "const": "event" }, "type": { "const": "Store.Changed" }, "data": { "type": "integer" },
    } }));
    let stranger = line("command", "Store.Put", "stranger", json!(1));
    let stranger = Envelope::parse(stranger.as_bytes()).unwrap();
    // What it tells, whether it was given the cause, and whether that is a fault.
    let said = [("Store.Changed", true, false), ("Store.Changed", false, true), ("Store.Other", true, true)];
    for (type_name, is_given, is_fault) in said {
        let mut world = World::booted(vec![store.clone()]);
        let client = world.connect(1);
        world.ask(client, &line("command", "Store.Put", "c-1", json!(1)));
        let (actor, request) = world.only_delivered();
        let cause = if is_given { &request } else { &stranger };
        world.kernel.actor_event(actor, cause, type_name, || unreachable!("nobody wants it"), world.now);
        assert_eq!(world.kernel.census().user_lane, 0, "{type_name}");
        world.run();
        let counters = world.kernel.counters();
        let taken = u64::from(!is_fault);
        assert_eq!((counters.events_accepted, counters.events_unheard), (taken, taken), "{type_name}");
        assert_eq!(counters.actor_faults, u64::from(is_fault), "{type_name}");
    }
}

#[test]
fn s9_4_an_event_of_a_native_actor_that_somebody_wants_is_made_and_checked_whole() {
    let mut store = manifest("store", &["command:Store.Put"]);
    store.outbound = Some(json!({ "properties": {
        "kind": { "const": "event" }, "type": { "const": "Store.Changed" }, "data": { "type": "integer" },
    } }));
    let mut audit = manifest("audit", &["command:Audit.Read"]);
    audit.subscribes = vec!["Store.Changed".into()];
    let mut world = World::booted(vec![store, audit]);
    let client = world.connect(1);
    let correlated = json!({ "correlation": "flow" });
    world.ask(client, &line_with("command", "Store.Put", "c-1", json!(1), correlated));
    let (actor, request) = world.only_delivered();
    world.kernel.actor_event(actor, &request, "Store.Changed", || json!(7).into(), world.now);
    world.run();
    let (to, event) = world.only_delivered();
    assert_eq!((to.capability.0, event.type_name(), event.data()), (1, "Store.Changed", "7"));
    assert_eq!((event.causation(), event.correlation()), (Some("c-1"), Some("flow")));
    world.kernel.actor_event(actor, &request, "Store.Changed", || json!("seven").into(), world.now);
    assert_eq!(world.kernel.counters().actor_faults, 1);
}

#[test]
fn s9_4_an_actor_may_answer_an_event_with_events_and_commands() {
    let mut audit = manifest("audit", &["event:Memory.Changed"]);
    audit.subscribes = vec!["Memory.Changed".into()];
    let mut world = World::booted(vec![audit, manifest("store", &["command:Store.Put", "event:Audit.Done"])]);
    let client = world.connect(1);
    world.ask(client, &line("event", "Memory.Changed", "e-1", json!(1)));
    let (actor, event) = world.only_delivered();
    world.says_draft(actor, Draft::caused_by(&event, Kind::Event, "Audit.Done", Json::null()));
    world.says_draft(actor, Draft::caused_by(&event, Kind::Command, "Store.Put", Json::null()));
    let kinds: Vec<String> = world.take_delivered().iter().map(|(_, m)| m.type_name().to_owned()).collect();
    assert_eq!(kinds, ["Audit.Done", "Store.Put"]);
}

#[test]
fn s9_5_a_reply_is_written_to_its_requester_alone_and_ends_the_request() {
    let mut echo = manifest("echo", &["command:Echo.Say"]);
    echo.limits.concurrency = 2;
    let mut world = World::booted(vec![echo]);
    let (one, two) = (world.connect(1), world.connect(2));
    world.send(one, &line("command", "Echo.Say", "c-1", json!(1)));
    world.send(two, &line("command", "Echo.Say", "c-2", json!(2)));
    world.run();
    let delivered = world.take_delivered();
    world.replies(delivered[1].0, &delivered[1].1, json!("two"));
    assert!(world.take_written(one).is_empty());
    assert_eq!(world.only_written(two).causation(), Some("c-2"));
    assert_eq!(world.kernel.census().requests, 1);
    assert_eq!(world.kernel.census().timers, 1);
}

#[test]
fn s9_5_the_same_id_from_two_peers_is_two_requests_with_an_answer_each() {
    let mut echo = manifest("echo", &["command:Echo.Say"]);
    echo.limits.concurrency = 8;
    let mut world = World::booted(vec![echo]);
    let (one, two) = (world.connect(1), world.connect(2));
    world.send(one, &line("command", "Echo.Say", "same", json!(1)));
    world.send(two, &line("command", "Echo.Say", "same", json!(2)));
    world.run();
    // The second waits: its outcome could not be told from the first's.
    let (actor, first) = world.only_delivered();
    world.replies(actor, &first, json!("first"));
    let (_, second) = world.only_delivered();
    world.replies(actor, &second, json!("second"));
    assert_eq!(world.only_written(one).data(), "\"first\"");
    assert_eq!(world.only_written(two).data(), "\"second\"");
}

#[test]
fn s9_5_an_error_whose_requester_is_gone_is_a_dead_letter_and_a_reply_is_remembered() {
    let mut echo = manifest("echo", &["command:Echo.Say"]);
    echo.limits.concurrency = 2;
    let mut world = World::booted(vec![echo]);
    let client = world.connect_as(1, "alice");
    world.send(client, &line("command", "Echo.Say", "c-1", json!(1)));
    world.send(client, &line("command", "Echo.Say", "c-2", json!(2)));
    world.run();
    let delivered = world.take_delivered();
    world.kernel.connection_closed(client, world.now);
    world.says_draft(delivered[0].0, Draft::error(&delivered[0].1, 500, "no"));
    world.replies(delivered[1].0, &delivered[1].1, json!("late but kept"));
    let again = world.connect_as(2, "alice");
    assert_eq!(world.dead_letters(again)[0]["kind"], "error");
    let answers = world.ask(again, &line("command", "Echo.Say", "c-2", json!(2)));
    assert_eq!(answers[0].data(), "\"late but kept\"");
    assert!(world.delivered.is_empty());
}
