//! Section 11: the contract of capability actors.

use super::support::*;
use mainspring_kernel::{ActorRef, Counters, Effect, Manifest};
use mainspring_message::{Draft, Envelope, Json, Kind};
use serde_json::json;

fn strict() -> Manifest {
    let mut echo = manifest("echo", &["command:Echo.Say"]);
    echo.outbound = Some(json!({ "anyOf": [
        { "properties": { "kind": { "const": "reply" }, "type": { "const": "Echo.Say" },
                          "data": { "type": "object", "required": ["text"], "properties": { "text": { "type": "string" } } } } },
        { "properties": { "kind": { "const": "event" }, "type": { "const": "Echo.Said" } } },
    ] }));
    echo
}

#[test]
fn s11_1_a_capability_says_what_it_is_and_what_it_takes() {
    let mut world = World::booted(vec![strict()]);
    let client = world.connect(1);
    let answer = world.call(client, "query", "Syscall.Describe", json!({ "capability": "echo" }));
    let described = data(&answer);
    assert_eq!(described["description"], "The test capability echo.");
    assert_eq!(described["handles"], json!([{ "kind": "command", "type": "Echo.Say" }]));
    assert_eq!(described["outbound"], strict().outbound.unwrap());
}

#[test]
fn s11_2_terminate_is_an_effect_and_the_dead_are_not_listened_to() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
    let (actor, request) = world.only_delivered();
    world.says(actor, "nonsense");
    assert_eq!(world.count(|effect| *effect == Effect::Terminate { actor }), 1);
    world.take_written(client);
    world.replies(actor, &request, json!(1));
    assert!(world.take_written(client).is_empty());
    assert_eq!(world.kernel.counters().stale_outputs, 1);
}

#[test]
fn s11_3_the_mailbox_belongs_to_the_loop_and_outlives_the_actor() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say", "event:Echo.Heard"])]);
    let client = world.connect(1);
    for (kind, name, id) in
        [("command", "Echo.Say", "c-1"), ("command", "Echo.Say", "c-2"), ("event", "Echo.Heard", "e-1")]
    {
        world.send(client, &line(kind, name, id, json!(1)));
    }
    world.run();
    let (first_life, _) = world.only_delivered();
    world.crashes(first_life);
    let error = world.only_written(client);
    assert_eq!((error.causation(), &data(&error)["started"]), (Some("c-1"), &json!("yes")));
    assert!(world.delivered.is_empty());
    world.pass_ms(1000);
    let kept = world.take_delivered();
    assert!(kept.iter().all(|(life, _)| life.incarnation == 2));
    assert_eq!(kept.iter().map(|(_, message)| message.id()).collect::<Vec<_>>(), ["c-2", "e-1"]);
    world.replies(kept[0].0, &kept[0].1, json!(1));
    assert_eq!(world.only_written(client).causation(), Some("c-2"));
}

#[test]
fn s11_3_replies_to_its_own_requests_pass_the_concurrency_of_an_actor() {
    let mut world = World::booted(vec![manifest("a", &["command:A.Do"]), manifest("b", &["command:B.Do"])]);
    let client = world.connect(1);
    world.send(client, &line("command", "A.Do", "c-a", json!(1)));
    world.send(client, &line("command", "A.Do", "c-waiting", json!(1)));
    world.run();
    let (a, request) = world.only_delivered();
    world.says_draft(a, Draft::caused_by(&request, Kind::Command, "B.Do", Json::null()));
    let (b, asked) = world.only_delivered();
    world.replies(b, &asked, json!("answer"));
    // Not c-waiting, which must wait, but the answer, which must not.
    assert_eq!(world.only_delivered().1.data(), "\"answer\"");
}

#[test]
fn s11_3_an_actor_that_would_wait_for_itself_is_told_at_once() {
    let mut world = World::booted(vec![manifest("a", &["command:A.Do"]), manifest("b", &["command:B.Do"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "A.Do", "c-1", json!(1)));
    let (a, for_a) = world.only_delivered();
    world.says_draft(a, Draft::caused_by(&for_a, Kind::Command, "B.Do", Json::null()));
    let (b, for_b) = world.only_delivered();
    world.says_draft(b, Draft::caused_by(&for_b, Kind::Command, "A.Do", Json::null()));
    let (to, error) = world.only_delivered();
    assert_eq!((to, error.type_name(), code(&error)), (b, "Sys.Deadlock", 508));
}

#[test]
fn s11_3_a_blocked_actor_is_given_nothing_until_it_is_ready() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say", "event:Echo.Heard"])]);
    let actor = ActorRef::new(0, 1);
    let client = world.connect(1);
    world.kernel.actor_blocked(actor, world.now);
    world.ask(client, &line("event", "Echo.Heard", "e-1", json!(1)));
    assert!(world.delivered.is_empty());
    world.kernel.actor_ready(actor, world.now);
    world.run();
    assert_eq!(world.only_delivered().1.id(), "e-1");
}

#[test]
fn s11_4_1_what_is_no_message_is_a_fault() {
    for said in ["", "{}", "[1]", "{\"kind\":\"reply\"}", "\u{1}"] {
        let mut world = World::booted(vec![strict()]);
        world.says(ActorRef::new(0, 1), said);
        assert_eq!(world.kernel.counters().actor_faults, 1, "{said}");
    }
}

#[test]
fn s11_4_2_what_breaks_the_outbound_schema_is_a_fault_and_the_requester_is_told() {
    let mut world = World::booted(vec![strict()]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!({ "text": 7 }));
    let error = world.only_written(client);
    assert_eq!(error.type_name(), "Sys.ActorFault");
    assert!(data(&error)["message"].as_str().unwrap().contains("data/text"), "{error:?}");
}

#[test]
fn s11_4_2_what_was_accepted_before_excuses_nothing_that_follows() {
    let mut world = World::booted(vec![strict()]);
    let client = world.connect(1);
    let replies = [("a", 0), ("a", 0), ("b", 0), ("a", 0), ("1", 1)];
    for (number, (text, faults)) in replies.into_iter().enumerate() {
        world.ask(client, &line("command", "Echo.Say", &format!("c-{number}"), json!(1)));
        let (actor, request) = world.only_delivered();
        let text = if text == "1" { json!(1) } else { json!(text) };
        world.replies(actor, &request, json!({ "text": text }));
        assert_eq!(world.kernel.counters().actor_faults, faults, "{number}");
    }
}

#[test]
fn s11_4_2_the_same_data_may_fit_with_one_workflow_and_not_with_another() {
    let mut echo = manifest("echo", &["command:Echo.Say"]);
    let metadata = json!({ "properties": { "correlation": { "const": "good" } } });
    echo.outbound = Some(json!({ "properties": {
        "kind": { "const": "reply" }, "type": { "const": "Echo.Say" }, "metadata": metadata,
    } }));
    let mut world = World::booted(vec![echo]);
    let client = world.connect(1);
    for (id, correlation, faults) in [("c-1", "good", 0), ("c-2", "good", 0), ("c-3", "bad", 1)] {
        let correlated = json!({ "correlation": correlation });
        world.ask(client, &line_with("command", "Echo.Say", id, json!(1), correlated));
        let (actor, request) = world.only_delivered();
        world.replies(actor, &request, json!({ "text": "a" }));
        assert_eq!(world.kernel.counters().actor_faults, faults, "{id}");
    }
}

/// Everything that came of a request to `strict()` and of what its actor said.
fn course(request: &str, says: impl Fn(&mut World, ActorRef, &Envelope)) -> (Vec<Effect>, Counters) {
    let mut world = World::booted(vec![strict()]);
    let client = world.connect(1);
    world.ask(client, request);
    let (actor, request) = world.only_delivered();
    says(&mut world, actor, &request);
    world.run();
    world.call(client, "query", "Sys.Trace", json!({ "id": request.id(), "data": true }));
    // What it says of something that it does not have any more.
    says(&mut world, actor, &request);
    world.run();
    world.call(client, "query", "Sys.Trace", json!({ "id": request.id(), "data": true }));
    (world.effects, *world.kernel.counters())
}

fn various_requests() -> Vec<String> {
    let more = [
        json!({}),
        json!({ "correlation": "flow" }),
        json!({ "traceparent": "00-ab-cd-01", "timeout": 500 }),
        json!({ "correlation": "a \"flow\"", "traceparent": "with \\ escape" }),
        json!({ "traceparent": 7, "causation": "earlier" }),
    ];
    let ids = ["c-1", "an \"id\"\n", "\u{e9}"].into_iter();
    ids.flat_map(|id| more.clone().map(|more| line_with("command", "Echo.Say", id, json!(1), more))).collect()
}

#[test]
fn s11_4_2_a_reply_by_its_request_is_the_one_that_a_draft_would_be() {
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let long = "x".repeat(2 << 20);
    let replies = [json!({ "text": "a" }), json!({ "text": 1 }), json!(null), deep, json!({ "text": long })];
    for (request, data) in
        various_requests().iter().flat_map(|line| replies.iter().map(move |data| (line, data)))
    {
        let drafted = course(request, |world, actor, request| {
            world.kernel.actor_message(actor, Draft::reply(request, Json::from(data.clone())), world.now);
        });
        let replied = course(request, |world, actor, request| {
            world.kernel.actor_reply(actor, request, &Json::from(data.clone()), world.now);
        });
        assert!(drafted == replied, "{request} and {:.100}", data.to_string());
        // The same message from somewhere else.
        let copied = course(request, |world, actor, request| {
            let copy = Envelope::parse(request.line().as_bytes()).unwrap();
            world.kernel.actor_reply(actor, &copy, &Json::from(data.clone()), world.now);
        });
        assert!(drafted == copied, "{request} and {:.100}", data.to_string());
    }
}

#[test]
fn s11_4_2_an_event_that_nobody_wants_is_the_same_by_any_copy_of_its_cause() {
    for request in various_requests() {
        for type_name in ["Echo.Said", "Echo.Other", "Sys.Said"] {
            let by_cause = course(&request, |world, actor, request| {
                world.kernel.actor_event(actor, request, type_name, Json::null, world.now);
                world.kernel.actor_reply(actor, request, &json!({ "text": "a" }).into(), world.now);
            });
            let by_copy = course(&request, |world, actor, request| {
                let copy = Envelope::parse(request.line().as_bytes()).unwrap();
                world.kernel.actor_event(actor, &copy, type_name, Json::null, world.now);
                world.kernel.actor_reply(actor, request, &json!({ "text": "a" }).into(), world.now);
            });
            assert!(by_cause == by_copy, "{type_name} by {request}");
        }
    }
}

#[test]
fn s11_4_2_a_type_that_the_outbound_schema_does_not_list_is_a_fault() {
    let mut world = World::booted(vec![strict()]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
    let (actor, request) = world.only_delivered();
    world.says_draft(actor, Draft::caused_by(&request, Kind::Event, "Echo.Other", Json::null()));
    assert_eq!(world.kernel.counters().actor_faults, 1);
}

#[test]
fn s11_4_2_any_request_may_end_in_an_error_with_code_and_message() {
    let mut world = World::booted(vec![strict()]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
    let (actor, request) = world.only_delivered();
    world.says_draft(actor, Draft::error(&request, 418, "short and stout"));
    assert_eq!(code(&world.only_written(client)), 418);
    assert_eq!(world.kernel.counters().actor_faults, 0);
    world.ask(client, &line("command", "Echo.Say", "c-2", json!(1)));
    let (_, request) = world.only_delivered();
    world.says_draft(
        actor,
        Draft::caused_by(
            &request,
            Kind::Error,
            "Echo.Say",
            Json::from(json!({ "code": 200, "message": "" })),
        ),
    );
    assert_eq!(world.only_written(client).type_name(), "Sys.ActorFault");
}

#[test]
fn s11_4_a_reserved_event_from_an_actor_is_a_fault() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
    let (actor, request) = world.only_delivered();
    world.says_draft(actor, Draft::caused_by(&request, Kind::Event, "Sys.BootComplete", Json::null()));
    assert_eq!(world.kernel.counters().actor_faults, 1);
}

#[test]
fn s11_4_1_data_that_nests_too_deeply_is_a_fault_from_native_code_too() {
    let mut world = World::booted(vec![manifest("deep", &["command:Deep.Do"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Deep.Do", "c-1", json!(1)));
    let (actor, request) = world.only_delivered();
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    world.replies(actor, &request, deep);
    let error = world.only_written(client);
    assert_eq!(code(&error), 502);
    assert!(data(&error)["message"].as_str().unwrap().contains("128 levels"), "{error:?}");
}

/// Asks `asker` for another round, for as long as somebody is asked.
fn asks_again(world: &mut World) -> (ActorRef, mainspring_message::Envelope) {
    let (actor, request) = world.only_delivered();
    world.says_draft(actor, Draft::caused_by(&request, Kind::Command, "Ring.Do", Json::null()));
    world.only_delivered()
}

#[test]
fn s11_3_a_request_whose_ancestors_hold_all_places_of_its_actor_is_told_at_once() {
    let mut ring = manifest("ring", &["command:Ring.Do"]);
    ring.limits.concurrency = 3;
    let mut world = World::booted(vec![ring]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Ring.Do", "c-1", json!(1)));
    // Two more have a place, the next would wait for its own ancestors.
    for _ in 0..2 {
        let next = asks_again(&mut world);
        assert!(!next.1.kind().is_outcome());
        world.delivered.push(next);
    }
    let (_, error) = asks_again(&mut world);
    assert_eq!((error.type_name(), code(&error)), ("Sys.Deadlock", 508));
    assert!(data(&error)["message"].as_str().unwrap().contains("3 requests at a time"), "{error:?}");
}

#[test]
fn s11_3_a_place_that_a_stranger_holds_is_waited_for() {
    let mut ring = manifest("ring", &["command:Ring.Do"]);
    ring.limits.concurrency = 2;
    let mut world = World::booted(vec![ring]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Ring.Do", "stranger", json!(1)));
    let (actor, stranger) = world.only_delivered();
    world.ask(client, &line("command", "Ring.Do", "c-1", json!(1)));
    let (_, request) = world.only_delivered();
    world.says_draft(actor, Draft::caused_by(&request, Kind::Command, "Ring.Do", Json::null()));
    assert!(world.delivered.is_empty(), "it waits");
    world.replies(actor, &stranger, json!(1));
    assert_eq!(world.only_delivered().1.type_name(), "Ring.Do");
}

#[test]
fn s11_4_an_outcome_of_another_type_than_its_request_is_a_fault() {
    for draft in [Draft::reply as fn(&_, _) -> Draft, |request, _| Draft::error(request, 400, "no")] {
        let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
        let client = world.connect(1);
        world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
        let (actor, request) = world.only_delivered();
        world.says_draft(actor, Draft { type_name: "Echo.Other".into(), ..draft(&request, Json::null()) });
        let error = world.only_written(client);
        assert_eq!(error.type_name(), "Sys.ActorFault");
        let text = data(&error)["message"].as_str().unwrap().to_owned();
        assert!(text.contains("Echo.Other to a request of type Echo.Say"), "{text}");
    }
}

#[test]
fn s11_4_an_event_with_the_id_of_one_of_the_last_is_a_fault() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    world.call(client, "command", "Sys.Subscribe", json!({ "types": ["Echo.Said"] }));
    world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
    let (actor, _) = world.only_delivered();
    let said = |id: &str| line_with("event", "Echo.Said", id, json!(1), json!({ "causation": "c-1" }));
    for number in 0..65 {
        world.says(actor, &said(&format!("e-{number}")));
    }
    // Longer ago than that is not remembered.
    world.says(actor, &said("e-0"));
    assert_eq!((world.take_written(client).len(), world.kernel.counters().actor_faults), (66, 0));
    world.says(actor, &said("e-64"));
    assert_eq!(world.kernel.counters().actor_faults, 1);
    let error = world.only_written(client);
    assert!(data(&error)["message"].as_str().unwrap().contains(r#"the id "e-64""#), "{error:?}");
    // Another life may begin to count anew.
    world.pass_ms(1000);
    world.ask(client, &line("command", "Echo.Say", "c-2", json!(1)));
    let (actor, _) = world.only_delivered();
    let said = line_with("event", "Echo.Said", "e-64", json!(1), json!({ "causation": "c-2" }));
    world.says(actor, &said);
    assert_eq!((actor.incarnation, world.only_written(client).id()), (2, "e-64"));
}
