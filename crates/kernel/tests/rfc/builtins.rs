//! What the loop serves itself.

use super::support::*;
use mainspring_kernel::{ActorRef, CloseReason, Config, Effect};
use mainspring_message::{Json, Kind};
use serde_json::json;

#[test]
fn describe_tells_all_one_capability_and_one_type_with_schemas() {
    let mut world = World::booted(vec![manifest("memory", &["command:Memory.Set"])]);
    let client = world.connect(1);
    let all = data(&world.call(client, "query", "Syscall.Describe", json!({})));
    assert_eq!(all["capabilities"][0]["id"], "memory");
    assert!(all["builtins"].as_array().unwrap().iter().any(|entry| entry["type"] == "Timer.Schedule"));
    let one = data(&world.call(client, "query", "Syscall.Describe", json!({ "type": "Memory.Set" })));
    assert_eq!(one["handlers"][0]["kind"], "command");
    assert!(one["handlers"][0]["input"].is_object());
    let builtin = data(&world.call(client, "query", "Syscall.Describe", json!({ "type": "Sys.Subscribe" })));
    assert_eq!(builtin["handlers"][0]["input"]["required"], json!(["types"]));
    for (ask, wanted) in [
        (json!({ "type": "No.One" }), 404),
        (json!({ "capability": "none" }), 404),
        (json!({ "capability": "a", "type": "A.B" }), 422),
        (json!({ "typo": 1 }), 422),
    ] {
        assert_eq!(code(&world.call(client, "query", "Syscall.Describe", ask)), wanted);
    }
}

#[test]
fn ping_echoes_its_data_verbatim() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    let sent = r#"{"kind":"query","type":"Syscall.Ping","data":{ "payload" : 1e3 },"metadata":{"id":"p","timestamp":1}}"#;
    assert_eq!(world.ask(client, sent)[0].data(), r#"{ "payload" : 1e3 }"#);
}

#[test]
fn a_client_subscribes_and_unsubscribes() {
    let mut world = World::booted(vec![]);
    let (client, other) = (world.connect(1), world.connect(2));
    let answer = world.call(client, "command", "Sys.Subscribe", json!({ "types": ["A.B", "C.*", "A.B"] }));
    assert_eq!(data(&answer)["types"], json!(["A.B", "C.*"]));
    for (name, expected) in [("A.B", 1), ("A.C", 0), ("C.X", 1), ("C.X.Y", 1)] {
        world.ask(other, &line("event", name, "e", json!(1)));
        assert_eq!(world.take_written(client).len(), expected, "{name}");
    }
    world.call(client, "command", "Sys.Unsubscribe", json!({ "types": ["A.B"] }));
    world.ask(other, &line("event", "A.B", "e", json!(1)));
    assert!(world.take_written(client).is_empty());
    world.call(client, "command", "Sys.Unsubscribe", json!({}));
    world.ask(other, &line("event", "C.X", "e", json!(1)));
    assert!(world.take_written(client).is_empty());
    assert_eq!(code(&world.call(client, "command", "Sys.Subscribe", json!({ "types": ["nope"] }))), 422);
}

fn slow_world(policy: &str) -> (World, mainspring_kernel::ConnectionId, mainspring_kernel::ConnectionId) {
    let mut config = Config::default();
    config.limits.egress_bytes_max = 500;
    config.limits.subscriber_events_max = 3;
    let mut world = World::booted_with(config, vec![]);
    let (slow, other) = (world.connect(1), world.connect(2));
    world.call(slow, "command", "Sys.Subscribe", json!({ "types": ["A.B"], "slow": policy }));
    world.clients_read = false;
    for number in 0..12 {
        world.ask(other, &line("event", "A.B", &format!("e-{number}"), json!("x".repeat(50))));
    }
    (world, slow, other)
}

#[test]
fn a_slow_subscriber_loses_its_oldest_events_and_is_told_how_many() {
    let (mut world, slow, _) = slow_world("drop_oldest");
    let early = world.take_written(slow);
    let bytes: usize = early.iter().map(|event| event.line().len() + 1).sum();
    world.clients_read = true;
    world.kernel.written(slow, bytes, world.now);
    world.run();
    let rest = world.take_written(slow);
    assert_eq!(rest[0].type_name(), "Sys.EventsDropped");
    let lost = data(&rest[0])["count"].as_u64().unwrap();
    let ids: Vec<&str> = rest[1..].iter().map(|event| event.id()).collect();
    assert_eq!(ids, ["e-9", "e-10", "e-11"]);
    assert_eq!(early.len() as u64 + lost + 3, 12);
    assert_eq!(world.kernel.counters().events_dropped, lost);
}

#[test]
fn a_slow_subscriber_is_closed_if_it_chose_that() {
    let (world, slow, _) = slow_world("disconnect");
    let closed = Effect::Close { connection: slow, reason: CloseReason::SlowSubscriber };
    assert_eq!(world.count(|effect| *effect == closed), 1);
}

#[test]
fn only_clients_subscribe_by_message() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
    let (actor, request) = world.only_delivered();
    let ask = mainspring_message::Draft::caused_by(
        &request,
        Kind::Command,
        "Sys.Subscribe",
        Json::from(json!({ "types": ["A.B"] })),
    );
    world.says_draft(actor, ask);
    assert_eq!(code(&world.only_delivered().1), 403);
}

fn with_a_dead_letter() -> (World, mainspring_kernel::ConnectionId) {
    let mut world = World::booted(vec![manifest("frail", &["command:Frail.Do"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Frail.Do", "c-1", json!({ "n": 1 })));
    let (actor, _) = world.only_delivered();
    world.crashes(actor);
    world.take_written(client);
    world.pass_ms(1000);
    (world, client)
}

#[test]
fn a_dead_letter_is_listed_and_shown_whole() {
    let (mut world, client) = with_a_dead_letter();
    let listed = world.dead_letters(client);
    assert_eq!((&listed[0]["number"], &listed[0]["attempts"]), (&json!(1), &json!(1)));
    let ask = json!({ "action": "show", "number": 1 });
    let shown = data(&world.call(client, "query", "Sys.DeadLetters", ask));
    assert_eq!(shown["message"]["data"], json!({ "n": 1 }));
    assert!(shown["reason"].as_str().unwrap().contains("exit code 7"));
}

#[test]
fn a_dead_letter_is_found_by_its_number_however_that_is_written() {
    let (mut world, client) = with_a_dead_letter();
    let mut ask = |data| world.call(client, "query", "Sys.DeadLetters", data);
    assert_eq!(data(&ask(json!({ "action": "show", "number": 1.0 })))["number"], 1);
    assert_eq!(data(&ask(json!({ "after": 0.0, "limit": 1.0 })))["letters"].as_array().unwrap().len(), 1);
    assert_eq!(code(&ask(json!({ "action": "show", "number": 1.5 }))), 422);
}

#[test]
fn a_dead_letter_is_put_back_under_a_fresh_id_and_its_outcome_comes_to_who_asked() {
    let (mut world, client) = with_a_dead_letter();
    let ask = json!({ "action": "requeue", "number": 1 });
    let answer = world.call(client, "command", "Sys.DeadLetters", ask);
    let id = data(&answer)["id"].as_str().unwrap().to_owned();
    let (actor, request) = world.only_delivered();
    assert_eq!((request.id(), request.data()), (id.as_str(), r#"{"n":1}"#));
    world.replies(actor, &request, json!("at last"));
    assert_eq!(world.only_written(client).causation(), Some(id.as_str()));
    assert!(world.dead_letters(client).is_empty());
}

#[test]
fn a_dead_letter_is_dropped_and_a_query_changes_nothing() {
    let (mut world, client) = with_a_dead_letter();
    let drop_it = json!({ "action": "drop", "number": 1 });
    assert_eq!(code(&world.call(client, "query", "Sys.DeadLetters", drop_it.clone())), 422);
    assert_eq!(
        data(&world.call(client, "command", "Sys.DeadLetters", drop_it.clone())),
        json!({ "dropped": 1 })
    );
    assert_eq!(code(&world.call(client, "command", "Sys.DeadLetters", drop_it)), 404);
}

#[test]
fn actors_are_listed_with_their_state() {
    let mut world = World::booted(vec![manifest("a", &["command:A.Do"]), manifest("b", &["command:B.Do"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "A.Do", "c-1", json!(1)));
    world.ask(client, &line("command", "A.Do", "c-2", json!(1)));
    world.kernel.actor_line(ActorRef::new(1, 1), b"nonsense", world.now);
    let answer = world.call(client, "query", "Sys.Actors", json!({}));
    let actors = data(&answer)["actors"].clone();
    assert_eq!(
        (&actors[0]["state"], &actors[0]["inFlight"], &actors[0]["mailbox"]),
        (&json!("up"), &json!(1), &json!(1))
    );
    assert_eq!((&actors[1]["state"], &actors[1]["faults"]), (&json!("backoff"), &json!(1)));
}

#[test]
fn latencies_are_told_per_actor_and_over_all_from_acceptance_to_outcome() {
    let mut world = World::booted(vec![manifest("a", &["command:A.Do"]), manifest("b", &["command:B.Do"])]);
    let client = world.connect(1);
    let latencies = |world: &mut World| {
        let actors = data(&world.call(client, "query", "Sys.Actors", json!({})))["actors"].clone();
        let all = data(&world.call(client, "query", "Sys.Stats", json!({})))["latencyNs"].clone();
        (actors[0]["latencyNs"].clone(), actors[1]["latencyNs"].clone(), all)
    };
    assert_eq!(
        latencies(&mut world),
        (json!(null), json!(null), json!(null)),
        "what the loop answers itself is not told"
    );
    // The second waits in the mailbox for the first: that counts.
    world.ask(client, &line("command", "A.Do", "c-1", json!(1)));
    world.ask(client, &line("command", "A.Do", "c-2", json!(1)));
    for _ in 0..2 {
        let (actor, request) = world.only_delivered();
        world.pass_ms(3);
        world.replies(actor, &request, json!(1));
    }
    // An error is an outcome, too, but not one that no actor had anything to do with.
    world.ask(client, &line("command", "B.Do", "c-3", json!(1)));
    world.pass_ms(1);
    world.crashes(ActorRef::new(1, 1));
    world.ask(client, &line_with("command", "B.Do", "c-4", json!(1), json!({ "timeout": 2 })));
    world.pass_ms(2);
    let (a, b, all) = latencies(&mut world);
    assert_eq!((&a["requests"], &a["mean"], &a["max"]), (&json!(2), &json!(4_500_000), &json!(6_000_000)));
    assert_eq!((&b["requests"], &b["max"]), (&json!(1), &json!(1_000_000)));
    assert_eq!((&all["requests"], &all["max"]), (&json!(3), &json!(6_000_000)));
    let p50 = all["p50"].as_u64().unwrap();
    assert!(p50.abs_diff(3_000_000) < 200_000, "{p50}");
    world.pass_ms(25_000);
    assert_eq!(latencies(&mut world), (json!(null), json!(null), json!(null)), "that was long ago");
}

#[test]
fn stats_come_from_the_loop_and_from_the_floors_below() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    let answer = data(&world.call(client, "query", "Sys.Stats", json!({})));
    assert_eq!(answer["gauges"]["connections"], 1);
    assert!(answer["counters"]["linesIn"].as_u64().unwrap() >= 1);

    let mut world = World::booted_with(Config { collect_stats: true, ..Config::default() }, vec![]);
    let client = world.connect(1);
    assert!(world.ask(client, &line("query", "Sys.Stats", "s-1", json!({}))).is_empty());
    let ticket = world.effects.iter().find_map(|effect| match effect {
        Effect::CollectStats { ticket } => Some(*ticket),
        _ => None,
    });
    world.kernel.stats_collected(
        ticket.unwrap(),
        Json::from(json!({ "reactor": { "turns": 7 } })),
        world.now,
    );
    world.run();
    assert_eq!(data(&world.only_written(client))["floors"]["reactor"]["turns"], 7);
}

#[test]
fn describe_gives_one_type_the_schemas_of_that_type_alone() {
    let memory: mainspring_kernel::Manifest = serde_json::from_value(json!({
        "id": "memory",
        "description": "Remembers.",
        "inbound": {
            "oneOf": [
                { "properties": {
                    "kind": { "const": "command" }, "type": { "const": "Memory.Set" },
                    "data": { "type": "object", "required": ["key"], "properties": {
                        "key": { "$ref": "#/$defs/key" }, "children": { "$ref": "#/$defs/tree" } } } } },
                { "properties": {
                    "kind": { "const": "query" }, "type": { "const": "Memory.Secret" },
                    "data": { "$ref": "#/$defs/unrelated" } } },
            ],
            "$defs": {
                "key": { "type": "string", "minLength": 1 },
                "tree": { "type": "array", "items": { "$ref": "#/$defs/tree" } },
                "unrelated": { "type": "integer" },
            },
        },
        "outbound": { "properties": {
            "kind": { "const": "reply" }, "type": { "enum": ["Memory.Set", "Memory.Secret"] },
            "data": { "type": "boolean" } } },
    }))
    .unwrap();
    let mut world = World::booted(vec![memory]);
    let client = world.connect(1);
    let answer = world.call(client, "query", "Syscall.Describe", json!({ "type": "Memory.Set" }));
    assert!(!answer.data().contains("Secret") && !answer.data().contains("unrelated"), "{answer:?}");
    let handler = data(&answer)["handlers"][0].clone();
    assert_eq!(handler["output"], json!({ "type": "boolean" }));
    let input = jsonschema::validator_for(&handler["input"]).unwrap();
    assert!(input.is_valid(&json!({ "key": "a", "children": [[], [[]]] })));
    assert!(
        !input.is_valid(&json!({ "key": "" })) && !input.is_valid(&json!({ "key": "a", "children": [1] }))
    );
    // The whole message, as it is to be sent.
    let message = jsonschema::validator_for(&handler["message"]).unwrap();
    let good = json!({ "kind": "command", "type": "Memory.Set", "data": { "key": "a" },
        "metadata": { "id": "c-1", "timestamp": 1 } });
    assert!(message.is_valid(&good));
    for (field, bad) in [("type", json!("Memory.Get")), ("data", json!({})), ("metadata", json!({}))] {
        let mut wrong = good.clone();
        wrong[field] = bad;
        assert!(!message.is_valid(&wrong), "{wrong}");
    }
}

#[test]
fn describe_shows_what_one_type_asks_of_data_and_of_metadata() {
    let mut strict = manifest("strict", &["command:Strict.Do"]);
    strict.inbound = json!({ "properties": {
        "kind": { "const": "command" }, "type": { "const": "Strict.Do" }, "data": { "type": "integer" },
        "metadata": { "required": ["correlation"] } } });
    let mut world = World::booted(vec![strict]);
    let client = world.connect(1);
    let answer = world.call(client, "query", "Syscall.Describe", json!({ "type": "Strict.Do" }));
    let handler = data(&answer)["handlers"][0].clone();
    assert_eq!(handler["input"], json!({ "type": "integer" }));
    let message = jsonschema::validator_for(&handler["message"]).unwrap();
    let mut sent = json!({ "kind": "command", "type": "Strict.Do", "data": 1,
        "metadata": { "id": "c-1", "timestamp": 1 } });
    assert!(!message.is_valid(&sent));
    sent["metadata"]["correlation"] = json!("w");
    assert!(message.is_valid(&sent));
}

#[test]
fn a_dead_letter_is_shown_exactly_as_it_was_sent() {
    let mut world = World::booted(vec![manifest("frail", &["command:Frail.Do"])]);
    let client = world.connect(1);
    let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
    for (number, payload) in ["12345678901234567890123", "1e999", "1.0", &deep].into_iter().enumerate() {
        let id = format!("c-{number}");
        let sent = format!(
            r#"{{"kind":"command","type":"Frail.Do","data":{payload},"metadata":{{"id":"{id}","timestamp":1}}}}"#
        );
        world.ask(client, &sent);
        let (actor, _) = world.only_delivered();
        world.crashes(actor);
        world.take_written(client);
        world.call(client, "command", "Sys.ResetActor", json!({ "capabilityId": "frail" }));
        let ask = json!({ "action": "show", "number": number + 1 });
        let shown = world.call(client, "query", "Sys.DeadLetters", ask);
        assert!(shown.data().contains(&format!("\"message\":{sent}")), "{shown:?}");
    }
}

#[test]
fn a_dead_letter_that_nests_too_deeply_for_a_reply_is_shown_as_text() {
    let mut world = World::booted(vec![manifest("frail", &["command:Frail.Do"])]);
    let client = world.connect(1);
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let sent = format!(
        r#"{{"kind":"command","type":"Frail.Do","data":{deep},"metadata":{{"id":"c","timestamp":1}}}}"#
    );
    world.ask(client, &sent);
    let (actor, _) = world.only_delivered();
    world.crashes(actor);
    world.take_written(client);
    let shown = world.call(client, "query", "Sys.DeadLetters", json!({ "action": "show", "number": 1 }));
    assert_eq!(data(&shown)["message"], sent);
    assert!(mainspring_message::Envelope::parse(shown.line().as_bytes()).is_ok());
}

#[test]
fn a_refused_built_in_changes_nothing() {
    let mut world = World::booted(vec![manifest("memory", &["command:Memory.Set"])]);
    let (client, other) = (world.connect(1), world.connect(2));
    // Something of each kind that a built-in could touch.
    world.call(client, "command", "Sys.Subscribe", json!({ "types": ["A.B"] }));
    let tick = json!({ "kind": "event", "type": "Test.Tick", "data": 1 });
    let kept = json!({ "delay": 1000, "timerId": "kept", "message": tick });
    world.call(client, "command", "Timer.Schedule", kept);
    world.send(client, &line_with("error", "A.B", "buried", json!(1), json!({ "causation": "x" })));
    world.run();
    let tell = |world: &mut World| {
        let letters = world.dead_letters(client);
        let timers = data(&world.call(client, "query", "Timer.List", json!({})));
        let actors = world.actor_state(client, "memory");
        let census = world.kernel.census();
        (letters, timers, actors, census.schedules, census.dead_letters, census.requests)
    };
    let before = tell(&mut world);
    for (kind, name, refused) in [
        ("command", "Syscall.Shutdown", json!(1)),
        ("command", "Syscall.Shutdown", json!([])),
        ("query", "Syscall.Shutdown", json!({})),
        ("command", "Sys.Subscribe", json!({ "types": ["C.D", "nope"], "slow": "disconnect" })),
        ("command", "Sys.Subscribe", json!({ "types": [], "slow": "disconnect" })),
        ("command", "Sys.Subscribe", json!({ "types": vec!["C.D"; 257] })),
        ("command", "Sys.Unsubscribe", json!({ "types": ["A.B"], "typo": 1 })),
        ("command", "Sys.Unsubscribe", json!({ "types": vec!["A.B"; 257] })),
        ("command", "Sys.ResetActor", json!({ "capabilityId": "none" })),
        ("command", "Sys.ResetActor", json!({ "capabilityId": "memory", "typo": 1 })),
        ("query", "Sys.DeadLetters", json!({ "action": "drop" })),
        ("query", "Sys.DeadLetters", json!({ "action": "requeue", "number": 1 })),
        ("command", "Sys.DeadLetters", json!({ "action": "requeue", "number": 1 })),
        ("command", "Sys.DeadLetters", json!({ "action": "drop", "typo": 1 })),
        ("command", "Timer.Schedule", json!({ "delay": 1, "timerId": "kept", "message": tick })),
        ("command", "Timer.Schedule", json!({ "delay": 1, "count": 2, "message": tick })),
        ("command", "Timer.Cancel", json!({ "timerId": "kept", "typo": 1 })),
    ] {
        let answer = world.call(client, kind, name, refused.clone());
        assert!(code(&answer) >= 400, "{name} {refused}");
        assert_eq!(data(&answer)["started"], "no");
        assert_eq!(tell(&mut world), before, "{name} {refused}");
    }
    assert_eq!(world.count(|effect| matches!(effect, Effect::StopAdapter { .. } | Effect::Stop { .. })), 0);
    world.ask(other, &line("event", "C.D", "e-1", json!(1)));
    world.ask(other, &line("event", "A.B", "e-2", json!(1)));
    assert_eq!(world.only_written(client).id(), "e-2");
}
