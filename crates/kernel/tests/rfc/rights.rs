//! Who may do what: `docs/reference/observation.md`, "Rights".

use super::support::*;
use mainspring_kernel::{Config, ConnectionId, Manifest, Rights};
use serde_json::json;

fn shop() -> Manifest {
    manifest("shop", &["command:Order.Place", "query:Order.List", "command:Invoice.Print"])
}

fn limited() -> Rights {
    Rights::default().limited_to(["Order.*"])
}

/// A world with an operator and a client that may send orders alone.
fn world() -> (World, ConnectionId, ConnectionId) {
    let mut world = World::booted(vec![shop(), manifest("bank", &["command:Bank.Pay"])]);
    let operator = world.connect(1);
    let client = world.connect_with(2, "ci", limited());
    (world, operator, client)
}

fn words(answer: &mainspring_message::Envelope) -> String {
    data(answer)["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_type_that_is_not_allowed_is_refused_in_words_and_reaches_nobody() {
    let (mut world, _, client) = world();
    world.ask(client, &line("command", "Order.Place", "o", json!(1)));
    assert_eq!(world.take_delivered().len(), 1);
    for (kind, name) in [("command", "Invoice.Print"), ("command", "Bank.Pay"), ("event", "Bank.Robbed")] {
        let refused = world.ask(client, &line(kind, name, name, json!(1)));
        assert_eq!((refused.len(), code(&refused[0])), (1, 403), "{name}");
        assert!(
            words(&refused[0]).contains(name) && words(&refused[0]).contains("allow = [\"Order.*\"]"),
            "{refused:?}"
        );
    }
    assert!(world.take_delivered().is_empty());
    // What was refused is not remembered: the same id is free.
    world.ask(client, &line("command", "Order.Place", "Bank.Pay", json!(1)));
    world.kernel.audit().unwrap();
}

#[test]
fn what_changes_the_daemon_or_shows_others_traffic_is_for_operators() {
    let (mut world, operator, client) = world();
    for (kind, name, data) in [
        ("command", "Syscall.Shutdown", json!({})),
        ("command", "Sys.ResetActor", json!({ "capabilityId": "shop" })),
        ("command", "Sys.RestartActor", json!({ "capability": "shop" })),
        ("command", "Sys.Reload", json!({})),
        ("query", "Sys.DeadLetters", json!({})),
        ("query", "Sys.Logs", json!({})),
        ("command", "Sys.Tap", json!({})),
        ("query", "Timer.List", json!({ "all": true })),
        ("command", "Timer.Cancel", json!({ "timerId": "x", "peer": "peer-1" })),
    ] {
        let refused = world.call(client, kind, name, data);
        assert_eq!(code(&refused), 403, "{name}");
        assert!(
            words(&refused).contains("needs an operator; set operator = true for the token \"ci\""),
            "{refused:?}"
        );
    }
    for (kind, name) in
        [("query", "Syscall.Ping"), ("query", "Sys.Actors"), ("query", "Sys.Stats"), ("query", "Timer.List")]
    {
        assert_eq!(world.call(client, kind, name, json!({})).kind().as_str(), "reply", "{name}");
    }
    assert_eq!(world.call(operator, "query", "Sys.Logs", json!({})).kind().as_str(), "reply");
}

#[test]
fn a_message_inside_of_another_needs_the_same_right() {
    let (mut world, operator, client) = world();
    let schedule = |name: &str| json!({ "delay": 5, "timerId": name, "message": { "kind": "command", "type": name, "data": 1 } });
    let refused = world.call(client, "command", "Timer.Schedule", schedule("Bank.Pay"));
    assert_eq!(code(&refused), 403);
    assert!(words(&refused).starts_with("data.message.type: Bank.Pay is not among"), "{refused:?}");
    assert_eq!(
        world.call(client, "command", "Timer.Schedule", schedule("Order.Place")).kind().as_str(),
        "reply"
    );
    world.pass_ms(5);
    assert_eq!(world.only_delivered().1.type_name(), "Order.Place");
    // An operator sees and ends the schedules of all.
    world.call(client, "command", "Timer.Schedule", schedule("Order.Place"));
    let all = data(&world.call(operator, "query", "Timer.List", json!({ "all": true })));
    assert_eq!(
        (&all["timers"][0]["timerId"], &all["timers"][0]["peer"]),
        (&json!("Order.Place"), &json!("ci"))
    );
    let own = data(&world.call(operator, "query", "Timer.List", json!({})));
    assert_eq!(own["timers"], json!([]));
    let cancel = json!({ "timerId": "Order.Place", "peer": "ci" });
    assert_eq!(data(&world.call(operator, "command", "Timer.Cancel", cancel))["cancelled"], true);
}

#[test]
fn subscriptions_descriptions_and_searches_stay_within_the_types_that_are_allowed() {
    let (mut world, _, client) = world();
    for pattern in ["*", "Bank.*", "Invoice.Print"] {
        let refused = world.call(client, "command", "Sys.Subscribe", json!({ "types": [pattern] }));
        assert_eq!(code(&refused), 403, "{pattern}");
    }
    for pattern in ["Order.*", "Order.Shipped", "Sys.ActorFault"] {
        let taken = world.call(client, "command", "Sys.Subscribe", json!({ "types": [pattern] }));
        assert_eq!(taken.kind().as_str(), "reply", "{pattern}");
    }
    let all = data(&world.call(client, "query", "Syscall.Describe", json!({})));
    let capabilities = all["capabilities"].as_array().unwrap();
    assert_eq!(capabilities.len(), 1);
    assert_eq!(
        capabilities[0]["handles"],
        json!([{ "kind": "command", "type": "Order.Place" }, { "kind": "query", "type": "Order.List" }])
    );
    assert_eq!(capabilities[0]["inbound"], json!(null), "it names types that may not be seen");
    assert_eq!(code(&world.call(client, "query", "Syscall.Describe", json!({ "type": "Bank.Pay" }))), 404);
    assert_eq!(code(&world.call(client, "query", "Syscall.Describe", json!({ "capability": "bank" }))), 404);
    let found =
        data(&world.call(client, "query", "Syscall.Search", json!({ "text": "bank pay invoice order" })));
    let names: Vec<&str> =
        found["types"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"Order.Place") && !names.contains(&"Bank.Pay") && !names.contains(&"Invoice.Print"),
        "{names:?}"
    );
    let actors = data(&world.call(client, "query", "Sys.Actors", json!({})));
    assert_eq!(actors["actors"].as_array().unwrap().len(), 1);
}

/// Answers are remembered for whoever sends the same id again. What concerns one connection is done
/// for each that asks.
#[test]
fn another_connection_of_a_peer_that_repeats_an_id_taps_and_gives_up_rights_as_well() {
    let (mut world, first, _) = world();
    let second = world.connect_with(3, "peer-1", Rights::of_operator());
    for connection in [first, second] {
        world.ask(connection, &line("command", "Sys.Tap", "tap", json!({})));
    }
    let other = world.connect(9);
    world.ask(other, &line("command", "Order.Place", "x", json!(1)));
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!(1));
    world.pass_ms(2_000);
    for connection in [first, second] {
        let events = world.take_written(connection);
        assert!(events.iter().any(|event| event.type_name() == "Sys.Tapped"), "{events:?}");
        let restrict = line("command", "Sys.Restrict", "restrict", json!({ "allow": ["Order.*"] }));
        world.ask(connection, &restrict);
        assert_eq!(code(&world.call(connection, "command", "Bank.Pay", json!(1))), 403);
    }
}

#[test]
fn rights_are_given_up_for_good() {
    let (mut world, operator, _) = world();
    let told = data(&world.call(operator, "command", "Sys.Restrict", json!({})));
    assert_eq!(told, json!({ "peer": "peer-1", "allow": ["*"], "operator": true }));
    world.call(operator, "command", "Sys.Subscribe", json!({ "types": ["Order.*", "Bank.*", "Sys.*"] }));
    world.call(operator, "command", "Sys.Tap", json!({}));
    let told = data(&world.call(
        operator,
        "command",
        "Sys.Restrict",
        json!({ "allow": ["Order.*"], "operator": false }),
    ));
    assert_eq!(told, json!({ "peer": "peer-1", "allow": ["Order.*"], "operator": false }));
    let left = data(&world.call(operator, "command", "Sys.Unsubscribe", json!({ "types": [] })));
    assert_eq!(left["types"], json!(["Order.*", "Sys.*"]));
    for beyond in [json!({ "operator": true }), json!({ "allow": ["*"] }), json!({ "allow": ["Bank.Pay"] })] {
        assert_eq!(code(&world.call(operator, "command", "Sys.Restrict", beyond)), 403);
    }
    let refused = world.call(operator, "command", "Sys.Tap", json!({}));
    assert_eq!(code(&refused), 403);
    // The tap has ended as well.
    let other = world.connect(9);
    world.ask(other, &line("command", "Order.Place", "x", json!(1)));
    assert!(world.take_written(operator).iter().all(|event| event.type_name() != "Sys.Tapped"));
}

#[test]
fn events_about_the_traffic_of_others_go_to_operators_alone() {
    let (mut world, operator, client) = world();
    for connection in [operator, client] {
        world.call(connection, "command", "Sys.Subscribe", json!({ "types": ["Sys.*"] }));
    }
    world.ask(operator, &line_with("command", "Order.Place", "late", json!(1), json!({ "timeout": 10 })));
    let (actor, request) = world.only_delivered();
    world.pass_ms(20);
    world.replies(actor, &request, json!("secret"));
    let told = |world: &mut World, connection| -> Vec<String> {
        world.take_written(connection).iter().map(|event| event.type_name().to_owned()).collect()
    };
    assert!(told(&mut world, operator).contains(&"Sys.LateReply".to_owned()));
    assert!(!told(&mut world, client).contains(&"Sys.LateReply".to_owned()));
    world.kernel.actor_complained(actor, b"a secret", world.now);
    world.run();
    assert_eq!(told(&mut world, operator), ["Sys.Log"]);
    assert!(told(&mut world, client).is_empty());
}

#[test]
fn a_capability_is_an_operator_if_its_manifest_says_so() {
    for (operator, kind) in [(false, "error"), (true, "reply")] {
        let mut keeper = manifest("keeper", &["command:Keeper.Look"]);
        keeper.operator = operator;
        let mut world = World::booted(vec![keeper]);
        let client = world.connect(1);
        world.ask(client, &line("command", "Keeper.Look", "l", json!(1)));
        let (actor, request) = world.only_delivered();
        let ask = line_with("query", "Sys.DeadLetters", "q", json!({}), json!({ "causation": request.id() }));
        world.says(actor, &ask);
        assert_eq!(world.only_delivered().1.kind().as_str(), kind);
    }
}

/// A world with an operator for orders alone, and one who may do everything.
fn with_limited_operator() -> (World, ConnectionId, ConnectionId) {
    let mut config = Config::default();
    config.limits.history_data_bytes_max = 1 << 20;
    let mut world = World::booted_with(config, vec![shop(), manifest("bank", &["command:Bank.Pay"])]);
    let operator = world.connect(1);
    let limited = world.connect_with(2, "ops", limited().as_operator(true));
    (world, operator, limited)
}

/// One order and one payment, of somebody else.
fn order_and_pay(world: &mut World) {
    let client = world.connect(7);
    for (name, id) in [("Order.Place", "order"), ("Bank.Pay", "pay")] {
        world.ask(client, &line("command", name, id, json!({ "secret": id })));
        let (actor, request) = world.only_delivered();
        world.replies(actor, &request, json!("done"));
    }
}

#[test]
fn an_operator_for_some_types_taps_and_traces_messages_of_those_alone() {
    let (mut world, _, limited) = with_limited_operator();
    let taps = json!({ "types": ["Order.*", "Bank.*", "Timer.*"], "data": true });
    assert_eq!(world.call(limited, "command", "Sys.Tap", taps).kind().as_str(), "reply");
    order_and_pay(&mut world);
    let other = world.connect(8);
    let inner = json!({ "delay": 60_000, "message": { "kind": "command", "type": "Bank.Pay", "data": "inner secret" } });
    world.call(other, "command", "Timer.Schedule", inner);
    let records: Vec<String> = world.take_written(limited).iter().map(|it| it.line().to_owned()).collect();
    let told = records.join("\n");
    assert!(told.contains("Order.Place") && told.contains("Timer.Schedule"), "{told}");
    assert!(!told.contains("Bank.Pay") && !told.contains("inner secret"), "{told}");
    for what in [json!({ "latest": 10 }), json!({ "id": "pay" }), json!({ "latest": 9, "type": "Timer.*" })] {
        let told = world.call(limited, "query", "Sys.Trace", what).line().to_owned();
        assert!(!told.contains("Bank.Pay") && !told.contains("secret\":\"pay"), "{told}");
        assert!(!told.contains("inner secret"), "{told}");
    }
    let own = data(&world.call(limited, "query", "Sys.Trace", json!({ "id": "order" })));
    assert_eq!(own["nodes"][0]["data"], json!({ "secret": "order" }));
}

#[test]
fn an_operator_who_gives_types_up_does_not_tap_them_any_more() {
    let (mut world, operator, _) = with_limited_operator();
    world.call(operator, "command", "Sys.Tap", json!({ "data": true }));
    world.call(operator, "command", "Sys.Restrict", json!({ "allow": ["Order.*"] }));
    order_and_pay(&mut world);
    let told: Vec<String> = world.take_written(operator).iter().map(|it| it.line().to_owned()).collect();
    let told = told.join("\n");
    assert!(told.contains("Order.Place") && !told.contains("Bank.Pay"), "{told}");
}

#[test]
fn an_operator_for_some_types_finds_dead_letters_and_schedules_of_those_alone() {
    let (mut world, operator, limited) = with_limited_operator();
    let other = world.connect(8);
    for name in ["Order.Place", "Bank.Pay"] {
        let what = json!({ "delay": 60_000, "timerId": name, "message": { "kind": "command", "type": name, "data": 1 } });
        world.call(other, "command", "Timer.Schedule", what);
        let dead = json!({ "delay": 0, "message": { "kind": "command", "type": name, "data": "secret" } });
        world.call(other, "command", "Timer.Schedule", dead);
        world.pass_ms(1);
        let (actor, request) = world.only_delivered();
        world.says_draft(actor, mainspring_message::Draft::error(&request, 500, "no"));
    }
    let all = world.dead_letters(operator);
    assert_eq!(all.len(), 2, "{all:?}");
    let seen = world.dead_letters(limited);
    assert_eq!((seen.len(), &seen[0]["type"]), (1, &json!("Order.Place")), "{seen:?}");
    let hidden = all.iter().find(|letter| letter["type"] == "Bank.Pay").unwrap()["number"].clone();
    for action in ["show", "requeue", "drop"] {
        let what = json!({ "action": action, "number": hidden });
        assert_eq!(code(&world.call(limited, "command", "Sys.DeadLetters", what)), 404, "{action}");
    }
    let edited = json!({ "action": "requeue", "number": seen[0]["number"], "data": "edited" });
    assert_eq!(world.call(limited, "command", "Sys.DeadLetters", edited).kind().as_str(), "reply");
    assert_eq!(world.only_delivered().1.data(), "\"edited\"");
    let dropped = data(&world.call(limited, "command", "Sys.DeadLetters", json!({ "action": "drop" })));
    assert_eq!((dropped, world.dead_letters(operator).len()), (json!({ "dropped": 0 }), 1));
    let timers = data(&world.call(limited, "query", "Timer.List", json!({ "all": true })));
    let names: Vec<&str> =
        timers["timers"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(names, ["Order.Place"]);
    for (name, cancelled) in [("Bank.Pay", false), ("Order.Place", true)] {
        let what = json!({ "timerId": name, "peer": "peer-8" });
        let told = data(&world.call(limited, "command", "Timer.Cancel", what));
        assert_eq!(told["cancelled"], cancelled, "{name}");
    }
    world.kernel.audit().unwrap();
}

#[test]
fn the_result_of_a_command_is_told_to_whoever_may_see_its_type() {
    let mut world = World::booted(vec![shop(), manifest("bank", &["command:Bank.Pay"])]);
    let whole = world.connect_with(1, "ci", Rights::default());
    world.ask(whole, &line("command", "Bank.Pay", "paid", json!(1)));
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!("a secret"));
    world.ask(whole, &line_with("command", "Bank.Pay", "late", json!(1), json!({ "timeout": 5 })));
    world.take_delivered();
    world.pass_ms(10);
    let narrow = world.connect_with(2, "ci", limited());
    for id in ["paid", "late"] {
        assert_eq!(
            world.call(whole, "query", "Sys.Result", json!({ "id": id })).kind().as_str(),
            "reply",
            "{id}"
        );
        let refused = world.call(narrow, "query", "Sys.Result", json!({ "id": id }));
        assert_eq!(code(&refused), 403, "{id}");
        assert!(!refused.line().contains("a secret"), "{refused:?}");
    }
}

#[test]
fn what_was_scheduled_is_sent_only_as_long_as_it_may_be() {
    let (mut world, operator, client) = world();
    let every = json!({ "repeat": 10, "timerId": "t", "message": { "kind": "command", "type": "Order.Place", "data": 1 } });
    assert_eq!(world.call(client, "command", "Timer.Schedule", every).kind().as_str(), "reply");
    world.pass_ms(10);
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!(1));
    let invoices = Rights::default().limited_to(["Invoice.*"]);
    world.kernel.peers_have(vec![("ci".into(), invoices)], world.now);
    world.take_written(client);
    world.pass_ms(10);
    assert!(world.take_delivered().is_empty(), "its token has lost the right");
    let refused = world.only_written(client);
    assert_eq!(code(&refused), 403);
    assert!(words(&refused).contains("Invoice.*"), "{refused:?}");
    assert_eq!(world.dead_letters(operator).len(), 1, "what could not be sent is kept");
}
