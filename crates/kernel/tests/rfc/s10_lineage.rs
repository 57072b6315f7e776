//! Section 10: causation, correlation, terminality.

use super::support::*;
use mainspring_kernel::{ActorRef, Config, Effect};
use mainspring_message::{Draft, Envelope, Json, Kind};
use serde_json::json;

fn asked() -> (World, mainspring_kernel::ConnectionId, ActorRef, Envelope) {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    world.ask(client, &line_with("command", "Echo.Say", "c-1", json!(1), json!({ "correlation": "flow" })));
    let (actor, request) = world.only_delivered();
    (world, client, actor, request)
}

fn is_faulted(world: &World) -> bool {
    world.count(|effect| matches!(effect, Effect::Terminate { .. })) == 1
}

#[test]
fn s10_1_id_and_timestamp_are_required_and_the_refusal_names_them() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    for (metadata, field) in
        [(json!({ "timestamp": 1 }), "metadata.id"), (json!({ "id": "a" }), "metadata.timestamp")]
    {
        let bad = json!({ "kind": "command", "type": "A.B", "data": 1, "metadata": metadata }).to_string();
        let answers = world.ask(client, &bad);
        assert_eq!(code(&answers[0]), 422);
        assert!(data(&answers[0])["message"].as_str().unwrap().starts_with(field));
    }
}

#[test]
fn s10_2_an_outcome_is_matched_by_causation_and_without_it_the_actor_is_at_fault() {
    let (mut world, client, actor, _) = asked();
    world.says(actor, &line("reply", "Echo.Say", "r-1", json!(1)));
    assert!(is_faulted(&world));
    assert_eq!(code(&world.only_written(client)), 502);
}

#[test]
fn s10_2_an_event_must_name_a_message_that_its_actor_was_given() {
    let (mut world, _, actor, _) = asked();
    world.says(actor, &line_with("event", "Echo.Said", "e-1", json!(1), json!({ "causation": "invented" })));
    assert!(is_faulted(&world));

    let (mut world, _, actor, _) = asked();
    world.says(actor, &line("event", "Echo.Said", "e-1", json!(1)));
    assert!(is_faulted(&world));

    let (mut world, _, actor, _) = asked();
    world.says(actor, &line_with("event", "Echo.Said", "e-1", json!(1), json!({ "causation": "c-1" })));
    assert!(!is_faulted(&world));
}

#[test]
fn s10_2_an_event_that_nothing_caused_needs_the_flag_of_the_manifest() {
    let mut clock = manifest("clock", &["command:Clock.Set"]);
    clock.uncaused = true;
    let mut world = World::booted(vec![clock]);
    let client = world.connect(1);
    world.call(client, "command", "Sys.Subscribe", json!({ "types": ["Clock.Ticked"] }));
    let actor = ActorRef::new(0, 1);
    world.says(actor, &line("event", "Clock.Ticked", "t-1", json!(1)));
    assert_eq!(world.only_written(client).id(), "t-1");
}

#[test]
fn s10_3_a_correlation_left_out_is_restored_and_nothing_else_is_touched() {
    let (mut world, client, actor, _) = asked();
    let said = r#"{"kind":"reply","x":[1],"type":"Echo.Say","data":{"a" : 1},"metadata":{"id":"r-1","timestamp":5,"causation":"c-1","traceparent":"00"}}"#;
    world.says(actor, said);
    let reply = world.only_written(client);
    assert_eq!(reply.correlation(), Some("flow"));
    assert_eq!(reply.line().replace(r#""correlation":"flow","#, ""), said);
}

#[test]
fn s10_3_another_correlation_is_a_fault() {
    let (mut world, client, actor, _) = asked();
    let wrong = json!({ "causation": "c-1", "correlation": "other" });
    world.says(actor, &line_with("reply", "Echo.Say", "r-1", json!(1), wrong));
    assert!(is_faulted(&world));
    assert_eq!(world.only_written(client).type_name(), "Sys.ActorFault");
}

#[test]
fn s10_3_the_loops_own_errors_keep_the_correlation() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    let ask = line_with("command", "No.One", "c-1", json!(1), json!({ "correlation": "flow" }));
    let answers = world.ask(client, &ask);
    assert_eq!(answers[0].correlation(), Some("flow"));
}

/// The span of another system.
const SPAN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn s10_6_a_traceparent_left_out_is_restored_in_all_that_a_request_causes() {
    let shop = manifest("shop", &["command:Shop.Buy"]);
    let mut world = World::booted(vec![shop, manifest("bank", &["command:Bank.Pay"])]);
    let client = world.connect(1);
    world.call(client, "command", "Sys.Subscribe", json!({ "types": ["Shop.Sold"] }));
    let more = json!({ "correlation": "flow", "traceparent": SPAN });
    world.ask(client, &line_with("command", "Shop.Buy", "buy", json!(1), more));
    let (shop, buy) = world.only_delivered();
    assert_eq!(buy.traceparent(), Some(SPAN), "capabilities are given it");
    let said = |kind, name, id, cause| line_with(kind, name, id, json!(1), json!({ "causation": cause }));
    world.says(shop, &said("command", "Bank.Pay", "pay", "buy"));
    let (bank, pay) = world.only_delivered();
    assert_eq!((pay.traceparent(), pay.correlation()), (Some(SPAN), Some("flow")));
    world.says(bank, &said("reply", "Bank.Pay", "paid", "pay"));
    let (_, paid) = world.only_delivered();
    assert_eq!(paid.traceparent(), Some(SPAN));
    // Caused by the outcome, and later by a request that has ended.
    world.says(shop, &said("event", "Shop.Sold", "sold", "paid"));
    assert_eq!(world.only_written(client).traceparent(), Some(SPAN));
    world.says(shop, &said("reply", "Shop.Buy", "bought", "buy"));
    let reply = world.only_written(client);
    let plain = said("reply", "Shop.Buy", "bought", "buy");
    assert_eq!((reply.traceparent(), reply.correlation()), (Some(SPAN), Some("flow")));
    let added = format!(r#""correlation":"flow","traceparent":"{SPAN}","#);
    assert_eq!(reply.line().replace(&added, ""), plain, "no other byte is touched");
    world.says(shop, &said("event", "Shop.Sold", "late", "buy"));
    assert_eq!(world.only_written(client).traceparent(), Some(SPAN));
}

#[test]
fn s10_6_a_span_of_a_capabilitys_own_stays_and_so_does_what_is_no_traceparent() {
    let own = SPAN.replace('b', "c");
    for (mine, told) in [(json!(own), Some(own.as_str())), (json!([1]), None), (json!("a\"b"), None)] {
        let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
        let client = world.connect(1);
        world.ask(client, &line_with("command", "Echo.Say", "c-1", json!(1), json!({ "traceparent": SPAN })));
        let (actor, _) = world.only_delivered();
        let said =
            line_with("reply", "Echo.Say", "r", json!(1), json!({ "causation": "c-1", "traceparent": mine }));
        world.says(actor, &said);
        let reply = world.only_written(client);
        assert_eq!((reply.line(), reply.traceparent()), (said.as_str(), told));
    }
}

#[test]
fn s10_6_what_is_no_traceparent_goes_no_further() {
    for strange in [json!({ "a": 1 }), json!(null), json!(""), json!("x".repeat(257)), json!("a\u{1}b")] {
        let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
        let client = world.connect(1);
        let ask = line_with("command", "Echo.Say", "c-1", json!(1), json!({ "traceparent": strange }));
        world.ask(client, &ask);
        let (actor, request) = world.only_delivered();
        assert_eq!(request.line(), ask);
        world.says(actor, &line_with("reply", "Echo.Say", "r", json!(1), json!({ "causation": "c-1" })));
        assert!(!world.only_written(client).has_traceparent());
    }
}

#[test]
fn s10_6_the_loops_own_answers_keep_the_traceparent() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    for (kind, name) in [("command", "No.One"), ("query", "Syscall.Ping")] {
        let ask = line_with(kind, name, name, json!(1), json!({ "traceparent": SPAN }));
        assert_eq!(world.ask(client, &ask)[0].traceparent(), Some(SPAN), "{name}");
    }
}

#[test]
fn s10_6_a_schedule_keeps_the_span_that_made_it() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    let data = json!({ "delay": 5, "message": { "kind": "command", "type": "Echo.Say", "data": 1 } });
    world.ask(client, &line_with("command", "Timer.Schedule", "s", data, json!({ "traceparent": SPAN })));
    world.pass_ms(10);
    assert_eq!(world.only_delivered().1.traceparent(), Some(SPAN));
}

#[test]
fn s10_4_a_request_ends_in_one_reply_or_one_error() {
    let (mut world, client, actor, request) = asked();
    world.replies(actor, &request, json!(1));
    world.only_written(client);
    assert_eq!(world.kernel.census().requests, 0);
    let counters = world.kernel.counters();
    assert_eq!((counters.requests_accepted, counters.requests_replied, counters.requests_failed), (1, 1, 0));
}

#[test]
fn s10_4_a_second_outcome_is_a_fault_and_reaches_nobody() {
    let (mut world, client, actor, request) = asked();
    world.replies(actor, &request, json!(1));
    world.take_written(client);
    world.replies(actor, &request, json!(2));
    assert!(world.take_written(client).is_empty());
    assert!(is_faulted(&world));
}

#[test]
fn s10_4_an_outcome_for_a_request_of_another_actor_is_a_fault() {
    let mut world = World::booted(vec![
        manifest("echo", &["command:Echo.Say"]),
        manifest("thief", &["command:Thief.Do"]),
    ]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
    let (actor, request) = world.only_delivered();
    let thief = ActorRef::new(1, 1);
    world.replies(thief, &request, json!("stolen"));
    assert!(world.take_written(client).is_empty());
    assert!(is_faulted(&world));
    world.replies(actor, &request, json!("mine"));
    assert_eq!(world.only_written(client).data(), "\"mine\"");
}

#[test]
fn s10_2_what_an_actor_asks_carries_the_cause_and_the_workflow() {
    let mut world =
        World::booted(vec![manifest("front", &["command:Front.Do"]), manifest("back", &["query:Back.Get"])]);
    let client = world.connect(1);
    world.ask(client, &line_with("command", "Front.Do", "c-1", json!(1), json!({ "correlation": "flow" })));
    let (front, request) = world.only_delivered();
    let mut ask = Draft::caused_by(&request, Kind::Query, "Back.Get", Json::null());
    ask.correlation = None;
    ask.id = Some("ask-1".into());
    world.says_draft(front, ask);
    let (back, query) = world.only_delivered();
    assert_eq!((query.causation(), query.correlation()), (Some("c-1"), Some("flow")));
    world.replies(back, &query, json!(42));
    let (to, answer) = world.only_delivered();
    assert_eq!((to, answer.causation(), answer.data()), (front, Some("ask-1"), "42"));
    world.replies(front, &request, json!("done"));
    assert_eq!(world.only_written(client).causation(), Some("c-1"));
}

#[test]
fn s10_2_a_cause_is_found_among_requests_of_the_same_id_from_several_peers_though_the_latest_is_forgotten() {
    let mut config = Config::default();
    config.limits.window_peer_answers_max = 1;
    let mut world = World::booted_with(config, vec![manifest("echo", &["command:Echo.Say"])]);
    let (one, two) = (world.connect(1), world.connect(2));
    let say = |world: &mut World, client, id: &str| {
        world.ask(client, &line("command", "Echo.Say", id, json!(1)));
        let (actor, request) = world.only_delivered();
        world.replies(actor, &request, json!(2));
        (actor, request)
    };
    let (actor, first) = say(&mut world, one, "same");
    say(&mut world, two, "same");
    // The second peer's answer makes room for another of its own.
    say(&mut world, two, "more");
    world.says_draft(actor, Draft::caused_by(&first, Kind::Event, "Echo.Said", Json::null()));
    assert_eq!(world.kernel.counters().actor_faults, 0);
}
