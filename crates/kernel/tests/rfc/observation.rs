//! What the kernel tells and lets an operator change: `docs/reference/observation.md`.

use super::support::*;
use mainspring_kernel::{Config, ConnectionId, ConsoleRefused, Effect, Manifest, Rights, SettingsRefused};
use mainspring_message::{Draft, Envelope, Json, Kind};
use serde_json::{Value, json};

fn shop() -> Manifest {
    manifest("shop", &["command:Order.Place", "query:Order.List"])
}

fn reply(world: &mut World, client: ConnectionId, kind: &str, name: &str, what: Value) -> Value {
    let answer = world.call(client, kind, name, what);
    assert_eq!(answer.kind(), Kind::Reply, "{answer:?}");
    data(&answer)
}

/// The records that were written to somebody who taps.
fn tapped(world: &mut World, connection: ConnectionId) -> Vec<Value> {
    let events = world.take_written(connection);
    let tapped = events.iter().filter(|event| event.type_name() == "Sys.Tapped");
    tapped.flat_map(|event| data(event)["records"].as_array().unwrap().clone()).collect()
}

#[test]
fn a_tap_sees_requests_with_their_outcome_and_events_whoever_sends_them() {
    let mut world = World::booted(vec![shop()]);
    let (client, tapper) = (world.connect(1), world.connect(2));
    let answer = reply(&mut world, tapper, "command", "Sys.Tap", json!({ "data": true }));
    assert_eq!(answer, json!({ "tapping": true, "recordsPerSecond": 5000 }));
    world.ask(
        client,
        &line_with("command", "Order.Place", "o", json!({ "item": 7 }), json!({ "correlation": "w" })),
    );
    let (actor, request) = world.only_delivered();
    assert!(tapped(&mut world, tapper).is_empty(), "it is told when it ends");
    world.pass_ms(3);
    world.says_draft(actor, Draft::caused_by(&request, Kind::Event, "Order.Placed", Json::from(json!(1))));
    world.replies(actor, &request, json!("done"));
    let records = tapped(&mut world, tapper);
    assert_eq!(records.len(), 2, "{records:?}");
    let (placed, order) = (&records[0], &records[1]);
    assert_eq!(
        (&placed["kind"], &placed["type"], &placed["causation"]),
        (&json!("event"), &json!("Order.Placed"), &json!("o"))
    );
    assert_eq!(
        (&placed["from"], &placed["to"]),
        (&json!({ "capability": "shop" }), &json!({ "capabilities": 0, "clients": 0 }))
    );
    assert_eq!(
        (&order["id"], &order["correlation"], &order["at"]),
        (&json!("o"), &json!("w"), &json!(START_UNIX_MS))
    );
    assert_eq!(order["from"], json!({ "connection": 1, "peer": "peer-1" }));
    assert_eq!(
        (&order["to"], &order["tookUs"], &order["attempts"]),
        (&json!({ "capability": "shop" }), &json!(3000), &json!(1))
    );
    assert_eq!(
        (&order["data"], &order["outcome"]["kind"], &order["outcome"]["data"]),
        (&json!({ "item": 7 }), &json!("reply"), &json!("done"))
    );
    // What those who tap do, and what the kernel serves itself, is left out.
    world.ask(tapper, &line("command", "Order.Place", "own", json!(1)));
    world.call(client, "query", "Syscall.Ping", json!(1));
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!(1));
    assert!(tapped(&mut world, tapper).is_empty());
    reply(&mut world, tapper, "command", "Sys.Tap", json!({ "off": true }));
    world.call(client, "query", "Order.None", json!(1));
    world.kernel.audit().unwrap();
}

#[test]
fn a_tap_shows_what_its_filter_lets_through() {
    let mut world = World::booted(vec![shop(), manifest("bank", &["command:Bank.Pay"])]);
    let client = world.connect(1);
    let filters = [
        (json!({ "types": ["Bank.*"] }), vec!["pay"]),
        (json!({ "capabilities": ["shop"] }), vec!["order", "list"]),
        (json!({ "kinds": ["query", "event"] }), vec!["list", "rang"]),
        (json!({ "correlation": "w" }), vec!["order"]),
        (json!({ "failed": true }), vec!["pay"]),
        (json!({ "types": ["Syscall.*"] }), vec!["ping"]),
        (json!({}), vec!["order", "list", "pay", "rang"]),
    ];
    for (number, (filter, _)) in filters.iter().enumerate() {
        let tapper = world.connect(10 + number as u64);
        reply(&mut world, tapper, "command", "Sys.Tap", filter.clone());
    }
    for (kind, name, id, more) in [
        ("command", "Order.Place", "order", json!({ "correlation": "w" })),
        ("query", "Order.List", "list", json!({})),
        ("command", "Bank.Pay", "pay", json!({})),
    ] {
        world.ask(client, &line_with(kind, name, id, json!(1), more));
        let (actor, request) = world.only_delivered();
        let outcome = if id == "pay" {
            Draft::error(&request, 402, "no")
        } else {
            Draft::reply(&request, Json::null())
        };
        world.says_draft(actor, outcome);
    }
    world.ask(client, &line("event", "Door.Rang", "rang", json!(1)));
    world.ask(client, &line("query", "Syscall.Ping", "ping", json!(1)));
    for (number, (filter, expected)) in filters.iter().enumerate() {
        let records = tapped(&mut world, ConnectionId(10 + number as u64));
        let ids: Vec<&str> = records.iter().map(|record| record["id"].as_str().unwrap()).collect();
        assert_eq!(ids, *expected, "{filter}");
    }
    for wrong in [json!({ "types": ["lower.case"] }), json!({ "kinds": ["reply"] }), json!({ "what": 1 })] {
        assert_eq!(code(&world.call(client, "command", "Sys.Tap", wrong)), 422);
    }
}

#[test]
fn beyond_a_rate_records_are_counted_and_not_made() {
    let mut config = Config::default();
    config.limits.tap_records_per_second = 10;
    config.limits.tap_data_bytes_max = 4;
    let mut world = World::booted_with(config, vec![shop()]);
    let (client, tapper) = (world.connect(1), world.connect(2));
    reply(&mut world, tapper, "command", "Sys.Tap", json!({ "data": true }));
    for number in 0..25 {
        world.ask(client, &line("event", "Door.Rang", &format!("e{number}"), json!("long data")));
    }
    let records = tapped(&mut world, tapper);
    assert_eq!((records.len(), &records[0]["dataBytes"]), (10, &json!(11)));
    // Though nothing more passes, the reader is told when the second is over.
    world.pass_ms(1000);
    assert_eq!(data(&world.only_written(tapper)), json!({ "records": [], "skipped": 15 }));
    world.ask(client, &line("event", "Door.Rang", "later", json!(1)));
    let event = world.only_written(tapper);
    assert_eq!((&data(&event)["skipped"], &data(&event)["records"][0]["id"]), (&json!(0), &json!("later")));
    world.pass_ms(5000);
    assert!(world.take_written(tapper).is_empty());
}

#[test]
fn an_event_of_native_code_is_not_made_for_a_tap_that_has_had_enough() {
    let mut config = Config::default();
    config.limits.tap_records_per_second = 1;
    let mut world = World::booted_with(config, vec![shop()]);
    let (client, tapper) = (world.connect(1), world.connect(2));
    reply(&mut world, tapper, "command", "Sys.Tap", json!({ "kinds": ["event"] }));
    world.ask(client, &line("command", "Order.Place", "o", json!(1)));
    let (actor, request) = world.only_delivered();
    world.kernel.actor_event(actor, &request, "Order.Placed", || json!(7).into(), world.now);
    world.run();
    assert_eq!(tapped(&mut world, tapper).len(), 1);
    for _ in 0..3 {
        world.kernel.actor_event(
            actor,
            &request,
            "Order.Placed",
            || unreachable!("nobody would see it"),
            world.now,
        );
    }
    world.run();
    world.pass_ms(1000);
    assert_eq!(data(&world.only_written(tapper)), json!({ "records": [], "skipped": 3 }));
    world.replies(actor, &request, json!(1));
    world.kernel.audit().unwrap();
}

#[test]
fn a_reader_with_a_pace_of_its_own_gets_records_evenly_over_the_second() {
    let mut world = World::booted(vec![shop()]);
    let (client, tapper) = (world.connect(1), world.connect(2));
    let pace = json!({ "perSecond": 100 });
    let answer = reply(&mut world, tapper, "command", "Sys.Tap", pace);
    assert_eq!(answer["recordsPerSecond"], 100);
    let mut seconds = Vec::new();
    for second in 0..3 {
        for number in 0..1000 {
            world.ask(client, &line("event", "Door.Rang", &format!("e{second}-{number}"), json!(1)));
            world.pass_ms(1);
        }
        seconds.push(tapped(&mut world, tapper));
    }
    // A quarter of a second's records may come at once, at the beginning.
    assert_eq!(seconds.iter().map(Vec::len).collect::<Vec<_>>(), [125, 100, 100]);
    let times: Vec<u64> = seconds[1].iter().map(|record| record["at"].as_u64().unwrap()).collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| (9..=11).contains(gap)), "{gaps:?}");
    for wrong in [json!({ "perSecond": 0 }), json!({ "gatherMs": 10_001 }), json!({ "perSecond": -1 })] {
        assert_eq!(code(&world.call(client, "command", "Sys.Tap", wrong)), 422);
    }
}

#[test]
fn records_gather_for_as_long_as_the_reader_says_and_what_was_skipped_is_told_with_them() {
    let mut world = World::booted(vec![shop()]);
    let (client, tapper) = (world.connect(1), world.connect(2));
    reply(&mut world, tapper, "command", "Sys.Tap", json!({ "gatherMs": 200, "perSecond": 4 }));
    let quiet = world.kernel.next_deadline();
    for number in 0..10 {
        world.ask(client, &line("event", "Door.Rang", &format!("e{number}"), json!(1)));
        world.pass_ms(10);
    }
    assert!(world.take_written(tapper).is_empty(), "they gather");
    world.pass_ms(100);
    let event = world.only_written(tapper);
    assert_eq!(data(&event)["records"].as_array().unwrap().len(), 2);
    assert_eq!(data(&event)["skipped"], 8);
    world.pass_ms(10_000);
    assert!(world.take_written(tapper).is_empty());
    assert_eq!(world.kernel.next_deadline(), quiet, "nothing gathers, so nothing is waited for");
    // Whoever does not say so gets each at once.
    reply(&mut world, tapper, "command", "Sys.Tap", json!({}));
    world.ask(client, &line("event", "Door.Rang", "now", json!(1)));
    assert_eq!(tapped(&mut world, tapper).len(), 1);
    world.kernel.audit().unwrap();
}

#[test]
fn the_console_is_opened_by_the_daemon_for_whoever_has_every_right() {
    let mut world = World::booted(vec![shop()]);
    let client = world.connect(1);
    let answers = [
        (Ok(Json::from(json!({ "url": "http://127.0.0.1:1/#t=x" }))), "reply"),
        (Err(ConsoleRefused::Nowhere("there is no listener".into())), "error"),
        (Err(ConsoleRefused::Stranger("not for you".into())), "error"),
    ];
    for (number, (answer, kind)) in answers.into_iter().enumerate() {
        world.ask(client, &line("command", "Sys.Console", &format!("c{number}"), json!({})));
        let asked = world.effects.iter().rev().find_map(|effect| match effect {
            Effect::OpenConsole { ticket, peer } => Some((*ticket, peer.clone())),
            _ => None,
        });
        let (ticket, peer) = asked.unwrap();
        assert_eq!(peer, "peer-1");
        world.kernel.console_opened(ticket, answer, world.now);
        world.run();
        assert_eq!(world.only_written(client).kind().as_str(), kind);
        world.kernel.audit().unwrap();
    }
    for (number, rights) in
        [Rights::default().as_operator(false), Rights::of_operator().limited_to(["Order.*"])]
            .into_iter()
            .enumerate()
    {
        let other = world.connect(10 + number as u64);
        world.kernel.connection_has(other, rights, world.now);
        assert_eq!(code(&world.call(other, "command", "Sys.Console", json!({}))), 403);
    }
}

#[test]
fn the_latest_roots_are_listed_newest_first_with_the_size_of_their_workflow() {
    let mut world = World::booted(vec![shop(), manifest("bank", &["command:Bank.Pay"])]);
    let client = world.connect(1);
    for number in 0..3 {
        world.ask(client, &line("command", "Order.Place", &format!("o{number}"), json!(1)));
        let (actor, request) = world.only_delivered();
        world.pass_ms(1);
        if number == 1 {
            world.says_draft(actor, Draft::caused_by(&request, Kind::Event, "Order.Placed", Json::null()));
        }
        let is_bad = number == 2;
        let outcome =
            if is_bad { Draft::error(&request, 409, "no") } else { Draft::reply(&request, Json::null()) };
        world.says_draft(actor, outcome);
    }
    world.ask(client, &line("command", "Bank.Pay", "open", json!(1)));
    let list = |world: &mut World, what: Value| -> Vec<(String, u64)> {
        let told = reply(world, client, "query", "Sys.Trace", what);
        let nodes = told["nodes"].as_array().unwrap().clone();
        nodes
            .iter()
            .map(|node| (node["id"].as_str().unwrap().to_owned(), node["messages"].as_u64().unwrap()))
            .collect()
    };
    let own = |pairs: &[(&str, u64)]| -> Vec<(String, u64)> {
        pairs.iter().map(|(id, count)| ((*id).to_owned(), *count)).collect()
    };
    assert_eq!(
        list(&mut world, json!({ "latest": 10 })),
        own(&[("open", 1), ("o2", 1), ("o1", 2), ("o0", 1)])
    );
    assert_eq!(list(&mut world, json!({ "latest": 2 })), own(&[("open", 1), ("o2", 1)]));
    assert_eq!(list(&mut world, json!({ "latest": 10, "failed": true })), own(&[("o2", 1)]));
    assert_eq!(list(&mut world, json!({ "latest": 10, "type": "Bank.*" })), own(&[("open", 1)]));
    assert_eq!(list(&mut world, json!({ "latest": 1, "capability": "shop" })), own(&[("o2", 1)]));
    for wrong in [
        json!({}),
        json!({ "latest": 1, "id": "x" }),
        json!({ "id": "x", "failed": true }),
        json!({ "latest": 1, "type": "x" }),
    ] {
        assert_eq!(code(&world.call(client, "query", "Sys.Trace", wrong)), 422);
    }
}

/// The types of the latest roots.
fn latest_types(world: &mut World, client: ConnectionId, what: Value) -> Vec<String> {
    let told = reply(world, client, "query", "Sys.Trace", what);
    let nodes = told["nodes"].as_array().unwrap().iter();
    nodes.map(|node| node["type"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_scheduled_message_that_was_sent_is_among_the_latest_roots() {
    let mut world = World::booted(vec![shop(), manifest("bank", &["command:Bank.Pay"])]);
    let client = world.connect(1);
    let bystander = world.connect(2);
    world.call(bystander, "command", "Sys.Restrict", json!({ "operator": false }));
    let later = json!({ "delay": 5, "message": { "kind": "command", "type": "Bank.Pay", "data": 1 } });
    world.call(client, "command", "Timer.Schedule", later.clone());
    assert_eq!(latest_types(&mut world, client, json!({ "latest": 9 })), [""; 0], "it was not sent yet");
    world.pass_ms(5);
    let (bank, pay) = world.only_delivered();
    assert_eq!(latest_types(&mut world, client, json!({ "latest": 9 })), ["Bank.Pay"]);
    world.replies(bank, &pay, json!("paid"));
    for what in [json!({ "latest": 9 }), json!({ "latest": 9, "type": "Bank.*" })] {
        assert_eq!(latest_types(&mut world, client, what), ["Bank.Pay"]);
    }
    // Whoever asks for built-in messages as well finds it under the one that scheduled it.
    assert!(
        !latest_types(&mut world, client, json!({ "latest": 9, "type": "*" })).contains(&"Bank.Pay".into())
    );
    assert_eq!(latest_types(&mut world, bystander, json!({ "latest": 9 })), [""; 0], "it is another's");
    // What a capability schedules belongs to the request because of which it does.
    world.ask(client, &line("command", "Order.Place", "order", json!(1)));
    let (actor, order) = world.only_delivered();
    world.says_draft(actor, Draft::caused_by(&order, Kind::Command, "Timer.Schedule", Json::from(later)));
    world.says_draft(actor, Draft::reply(&order, Json::null()));
    world.take_delivered();
    world.pass_ms(5);
    assert_eq!(world.only_delivered().1.type_name(), "Bank.Pay");
    assert_eq!(latest_types(&mut world, client, json!({ "latest": 9 })), ["Order.Place", "Bank.Pay"]);
}

#[test]
fn whoever_takes_the_id_of_anothers_message_does_not_see_what_that_caused() {
    let mut world = World::booted(vec![shop(), manifest("bank", &["command:Bank.Pay"])]);
    let (victim, thief) = (world.connect(1), world.connect(2));
    for client in [victim, thief] {
        world.call(client, "command", "Sys.Restrict", json!({ "operator": false }));
    }
    world.ask(victim, &line("command", "Order.Place", "order-7", json!(1)));
    let (actor, order) = world.only_delivered();
    world.says_draft(actor, Draft::caused_by(&order, Kind::Event, "Order.Placed", Json::null()));
    world.says_draft(actor, Draft::reply(&order, Json::null()));
    let later = json!({ "delay": 5, "message": { "kind": "command", "type": "Bank.Pay", "data": 1 } });
    world.ask(victim, &line("command", "Timer.Schedule", "later-7", later.clone()));
    world.pass_ms(5);
    let (bank, pay) = world.only_delivered();
    world.replies(bank, &pay, json!("paid"));
    let types = |world: &mut World, client: ConnectionId, id: &str| {
        let told = reply(world, client, "query", "Sys.Trace", json!({ "id": id }));
        let nodes = told["nodes"].as_array().unwrap().iter();
        let mut types: Vec<String> = nodes.map(|node| node["type"].as_str().unwrap().to_owned()).collect();
        types.sort();
        types
    };
    assert_eq!(types(&mut world, victim, "order-7"), ["Order.Place", "Order.Placed"]);
    assert_eq!(latest_types(&mut world, victim, json!({ "latest": 9 })), ["Bank.Pay", "Order.Place"]);
    // The same ids, for messages of another peer.
    world.ask(thief, &line("command", "Order.Place", "order-7", json!(1)));
    let (actor, order) = world.only_delivered();
    world.says_draft(actor, Draft::reply(&order, Json::null()));
    let mut much_later = later;
    much_later["delay"] = json!(60_000);
    world.ask(thief, &line("command", "Timer.Schedule", "later-7", much_later));
    assert_eq!(types(&mut world, thief, "order-7"), ["Order.Place"]);
    assert_eq!(types(&mut world, thief, "later-7"), ["Timer.Schedule"]);
    assert_eq!(latest_types(&mut world, thief, json!({ "latest": 9 })), ["Order.Place"]);
}

#[test]
fn a_peer_that_is_no_operator_finds_what_it_scheduled_among_the_latest_roots() {
    let mut world = World::booted(vec![manifest("bank", &["command:Bank.Pay"])]);
    let client = world.connect(1);
    world.call(client, "command", "Sys.Restrict", json!({ "operator": false }));
    let later = json!({ "delay": 5, "message": { "kind": "command", "type": "Bank.Pay", "data": 1 } });
    world.call(client, "command", "Timer.Schedule", later);
    world.pass_ms(5);
    assert_eq!(world.only_delivered().1.type_name(), "Bank.Pay");
    assert_eq!(latest_types(&mut world, client, json!({ "latest": 9 })), ["Bank.Pay"]);
}

#[test]
fn a_trace_shows_data_if_that_is_kept_and_others_do_not_see_it() {
    let mut config = Config::default();
    config.limits.history_data_bytes_max = 1 << 20;
    let mut world = World::booted_with(config, vec![shop()]);
    let client = world.connect(1);
    let stranger = world.connect_with(2, "stranger", mainspring_kernel::Rights::default());
    world.ask(client, &line("command", "Order.Place", "o", json!({ "item": 7 })));
    let (actor, request) = world.only_delivered();
    let open = reply(&mut world, client, "query", "Sys.Trace", json!({ "id": "o" }));
    assert_eq!(open["nodes"][0]["data"], json!({ "item": 7 }));
    world.replies(actor, &request, json!("done"));
    let told = reply(&mut world, client, "query", "Sys.Trace", json!({ "id": "o" }));
    assert_eq!(
        (&told["nodes"][0]["data"], &told["nodes"][0]["outcome"]["data"]),
        (&json!({ "item": 7 }), &json!("done"))
    );
    for what in [json!({ "id": "o" }), json!({ "latest": 10 })] {
        assert_eq!(reply(&mut world, stranger, "query", "Sys.Trace", what)["nodes"], json!([]));
    }
    world.ask(stranger, &line("command", "Order.Place", "mine", json!(1)));
    let (actor, request) = world.only_delivered();
    world.pass_ms(1);
    world.says_draft(actor, Draft::caused_by(&request, Kind::Event, "Order.Placed", Json::null()));
    world.replies(actor, &request, json!(1));
    let own = reply(&mut world, stranger, "query", "Sys.Trace", json!({ "id": "mine" }));
    let types: Vec<&str> =
        own["nodes"].as_array().unwrap().iter().map(|node| node["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["Order.Place", "Order.Placed"]);
}

#[test]
fn deep_data_made_taps_and_traces_messages_that_nobody_could_read() {
    let mut config = Config::default();
    config.limits.history_data_bytes_max = 1 << 20;
    let mut world = World::booted_with(config, vec![shop()]);
    let (client, tapper) = (world.connect(1), world.connect(2));
    reply(&mut world, tapper, "command", "Sys.Tap", json!({ "data": true }));
    let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    // The deepest that is shown as it is, one more, and the deepest that there can be: of the
    // request, then of its outcome, which stands one level deeper.
    for (levels, is_text, is_outcome_text) in
        [(123, false, false), (124, false, true), (125, true, true), (127, true, true)]
    {
        let data = nested(levels);
        let id = format!("d-{levels}");
        world.ask(
            client,
            &format!(
                r#"{{"kind":"command","type":"Order.Place","data":{data},"metadata":{{"id":"{id}","timestamp":1}}}}"#
            ),
        );
        let (actor, request) = world.only_delivered();
        world.says_draft(actor, Draft::reply(&request, Json::parse(&data).unwrap()));
        let events = world.take_written(tapper);
        let trace = world.call(client, "query", "Sys.Trace", json!({ "id": id }));
        for told in events.iter().chain([&trace]) {
            assert!(Envelope::parse(told.line().as_bytes()).is_ok(), "{levels}: {told:?}");
        }
        let shown = |is_text| if is_text { json!(data).to_string() } else { data.clone() };
        let expected = (shown(is_text), shown(is_outcome_text));
        for told in [&events[0], &trace] {
            let value: Value = serde_json::from_str(told.data()).unwrap();
            let node = &value[if told.kind() == Kind::Event { "records" } else { "nodes" }][0];
            let found = (node["data"].to_string(), node["outcome"]["data"].to_string());
            assert_eq!(found, expected, "{levels}: {told:?}");
        }
        world.take_written(client);
    }
}

#[test]
fn the_last_lines_of_capabilities_are_told_and_new_ones_are_events() {
    let mut world = World::booted(vec![shop(), manifest("bank", &["command:Bank.Pay"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Order.Place", "o", json!(1)));
    let (actor, _) = world.only_delivered();
    assert!(!world.kernel.actor_complained(actor, b"one\n", world.now), "nobody wants to hear it");
    world.kernel.actor_complained(actor, b"two \xff", world.now);
    let told = reply(&mut world, client, "query", "Sys.Logs", json!({ "capability": "shop" }));
    assert_eq!(
        told["lines"],
        json!([
            { "number": 1, "at": START_UNIX_MS, "capabilityId": "shop", "incarnation": 1, "text": "one" },
            { "number": 2, "at": START_UNIX_MS, "capabilityId": "shop", "incarnation": 1, "text": "two \u{fffd}" },
        ])
    );
    assert_eq!(
        reply(&mut world, client, "query", "Sys.Logs", json!({ "capability": "bank" }))["lines"],
        json!([])
    );
    assert_eq!(
        reply(&mut world, client, "query", "Sys.Logs", json!({ "after": 1 }))["lines"][0]["text"],
        "two \u{fffd}"
    );
    assert_eq!(code(&world.call(client, "query", "Sys.Logs", json!({ "capability": "none" }))), 404);
    reply(&mut world, client, "command", "Sys.Subscribe", json!({ "types": ["Sys.Log"] }));
    assert!(world.kernel.actor_complained(actor, b"three", world.now));
    world.run();
    let event = world.only_written(client);
    assert_eq!((event.type_name(), &data(&event)["text"]), ("Sys.Log", &json!("three")));
}

#[test]
fn a_restart_drains_and_is_followed_by_the_next_incarnation() {
    let mut world = World::booted(vec![shop()]);
    world.auto_stop = false;
    let client = world.connect(1);
    world.ask(client, &line("command", "Order.Place", "first", json!(1)));
    let (actor, request) = world.only_delivered();
    let told = reply(&mut world, client, "command", "Sys.RestartActor", json!({ "capability": "shop" }));
    assert_eq!(told, json!({ "capabilityId": "shop", "incarnation": 1, "state": "retiring" }));
    assert_eq!(
        code(&world.call(client, "command", "Sys.RestartActor", json!({ "capability": "shop" }))),
        409
    );
    world.ask(client, &line("command", "Order.Place", "second", json!(1)));
    assert!(world.take_delivered().is_empty(), "it takes nothing new");
    world.replies(actor, &request, json!(1));
    assert_eq!(world.count(|effect| *effect == Effect::Stop { actor }), 1, "it is asked to end");
    world.kernel.actor_exited(actor, mainspring_kernel::ActorExit::Done, world.now);
    world.run();
    let (next, second) = world.only_delivered();
    assert_eq!((next.incarnation, second.id()), (2, "second"));
    assert_eq!(
        code(&world.call(client, "command", "Sys.RestartActor", json!({ "capability": "none" }))),
        404
    );
    world.kernel.audit().unwrap();
}

#[test]
fn a_failed_capability_tells_its_last_fault_and_when_it_is_tried_again() {
    let mut capability = shop();
    capability.restart.max_restarts = 0;
    let mut world = World::booted(vec![capability]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Order.Place", "o", json!(1)));
    let (actor, _) = world.only_delivered();
    world.kernel.actor_complained(actor, b"ValueError", world.now);
    world.crashes(actor);
    world.pass_ms(1000);
    let told = reply(&mut world, client, "query", "Sys.Actors", json!({}));
    let shop = &told["actors"][0];
    assert_eq!((&shop["state"], &shop["probeInMs"]), (&json!("unhealthy"), &json!(29_000)));
    assert_eq!(shop["lastFault"]["at"], START_UNIX_MS);
    assert_eq!(shop["lastFault"]["message"], "Sys.ActorCrash: exit code 7");
    assert_eq!(shop["lastFault"]["words"], json!(["\"ValueError\""]));
    // A restart of what does not run is a reset.
    let told = reply(&mut world, client, "command", "Sys.RestartActor", json!({ "capability": "shop" }));
    assert_eq!(told["state"], "starting");
    assert_eq!(world.actor_state(client, "shop"), "up");
}

#[test]
fn the_daemon_reads_its_settings_again_and_says_what_has_changed() {
    let mut world = World::booted(vec![shop()]);
    let client = world.connect(1);
    let answers = [
        (Ok(Json::from(json!({ "added": ["x"] }))), "reply"),
        (Err(SettingsRefused::Faulty("line 3 is wrong".into())), "error"),
        (Err(SettingsRefused::Busy), "error"),
        (Err(SettingsRefused::Nothing), "error"),
    ];
    for (number, (answer, kind)) in answers.into_iter().enumerate() {
        world.ask(client, &line("command", "Sys.Reload", &format!("r{number}"), json!({})));
        let ticket = world.effects.iter().rev().find_map(|effect| match effect {
            Effect::ReadSettings { ticket } => Some(*ticket),
            _ => None,
        });
        world.kernel.settings_read(ticket.unwrap(), answer, world.now);
        world.run();
        assert_eq!(world.only_written(client).kind().as_str(), kind);
        world.kernel.audit().unwrap();
    }
}

/// A world whose capability is told of what is cancelled.
fn cancelling() -> (World, ConnectionId) {
    let mut capability = shop();
    capability.cancel = true;
    let mut world = World::booted(vec![capability]);
    let client = world.connect(1);
    (world, client)
}

fn error_code(messages: &[Envelope], cause: &str) -> Option<(u64, String)> {
    let found = messages.iter().find(|message| message.causation() == Some(cause))?;
    (found.kind() == Kind::Error).then(|| (code(found), data(found)["started"].as_str().unwrap().to_owned()))
}

#[test]
fn a_cancelled_request_ends_at_once_and_its_actor_is_told_and_not_blamed() {
    let (mut world, client) = cancelling();
    world.ask(client, &line("command", "Order.Place", "first", json!(1)));
    world.ask(client, &line("command", "Order.Place", "second", json!(1)));
    let (actor, first) = world.only_delivered();
    // One that waits is taken out of the mailbox.
    let answers = world.ask(client, &line("command", "Syscall.Cancel", "c1", json!({ "id": "second" })));
    assert_eq!(error_code(&answers, "second"), Some((499, "no".into())));
    assert!(world.take_delivered().is_empty());
    let answers = world.ask(client, &line("command", "Syscall.Cancel", "c2", json!({ "id": "first" })));
    assert_eq!(error_code(&answers, "first"), Some((499, "yes".into())));
    let told = answers.iter().find(|answer| answer.causation() == Some("c2")).unwrap();
    assert_eq!(data(told), json!({ "cancelled": true, "started": "yes" }));
    let (_, notice) = world.only_delivered();
    assert_eq!((notice.type_name(), notice.causation()), ("Sys.RequestCancelled", Some("first")));
    // Its place is free when its outcome comes, late and no fault.
    world.ask(client, &line("command", "Order.Place", "third", json!(1)));
    assert!(world.take_delivered().is_empty());
    world.replies(actor, &first, json!("too late"));
    assert_eq!(world.only_delivered().1.id(), "third");
    assert_eq!(world.kernel.counters().requests_cancelled, 2);
    let again = reply(&mut world, client, "command", "Syscall.Cancel", json!({ "id": "first" }));
    assert_eq!(again, json!({ "cancelled": false }));
    world.kernel.audit().unwrap();
}

#[test]
fn an_actor_that_ignores_a_cancelled_request_is_restarted_as_hung() {
    let (mut world, client) = cancelling();
    world.ask(client, &line("command", "Order.Place", "first", json!(1)));
    let (actor, _) = world.only_delivered();
    world.ask(client, &line("command", "Syscall.Cancel", "c", json!({ "id": "first" })));
    world.pass_ms(30_000 + 1000);
    assert_eq!(world.count(|effect| *effect == Effect::Terminate { actor }), 1);
}

#[test]
fn of_several_who_wait_only_the_one_that_cancels_leaves() {
    let (mut world, client) = cancelling();
    let other = world.connect_as(2, "peer-1");
    let stranger = world.connect(3);
    for connection in [client, other] {
        world.ask(connection, &line("command", "Order.Place", "same", json!(1)));
    }
    let (actor, request) = world.take_delivered().remove(0);
    // Nobody cancels what belongs to another peer.
    assert_eq!(
        reply(&mut world, stranger, "command", "Syscall.Cancel", json!({ "id": "same" }))["cancelled"],
        false
    );
    let answers = world.ask(client, &line("command", "Syscall.Cancel", "c", json!({ "id": "same" })));
    assert_eq!(error_code(&answers, "same"), Some((499, "yes".into())));
    assert!(world.take_delivered().is_empty(), "the request goes on");
    world.replies(actor, &request, json!("done"));
    assert_eq!(data(&world.only_written(other)), "done");
    assert!(world.take_written(client).is_empty());
    world.kernel.audit().unwrap();
}

#[test]
fn progress_goes_to_whoever_asked_for_it_and_once() {
    let mut world = World::booted(vec![shop()]);
    let (client, watcher) = (world.connect(1), world.connect(2));
    reply(&mut world, watcher, "command", "Sys.Subscribe", json!({ "types": ["Order.*"] }));
    let wish = json!({ "progress": true });
    world.ask(client, &line_with("command", "Order.Place", "asked", json!(1), wish.clone()));
    let (actor, request) = world.only_delivered();
    let progress = |request: &Envelope| {
        Draft::caused_by(request, Kind::Event, "Order.Place.Progress", Json::from(json!({ "done": 1 })))
    };
    world.says_draft(actor, progress(&request));
    assert_eq!(world.only_written(client).type_name(), "Order.Place.Progress");
    assert_eq!(world.take_written(watcher).len(), 1);
    world.says_draft(actor, Draft::caused_by(&request, Kind::Event, "Order.Placed", Json::null()));
    assert!(world.take_written(client).is_empty(), "other events are for subscribers");
    world.replies(actor, &request, json!(1));
    world.take_written(client);
    world.take_written(watcher);
    // Who subscribes gets it once; who did not ask does not get it.
    world.ask(watcher, &line_with("command", "Order.Place", "own", json!(1), wish));
    let (actor, request) = world.only_delivered();
    world.says_draft(actor, progress(&request));
    assert_eq!(world.take_written(watcher).len(), 1);
    world.replies(actor, &request, json!(1));
    world.ask(client, &line("command", "Order.Place", "silent", json!(1)));
    let (actor, request) = world.only_delivered();
    world.take_written(client);
    world.says_draft(actor, progress(&request));
    assert!(world.take_written(client).is_empty());
}

#[test]
fn dead_letters_are_listed_dropped_and_put_back_by_filter_with_the_fate_of_each() {
    let mut world = World::booted(vec![shop(), manifest("bank", &["command:Bank.Pay"])]);
    let client = world.connect(1);
    for (name, id) in [("Order.Place", "a"), ("Bank.Pay", "b"), ("Order.Place", "c")] {
        world.ask(client, &line("command", name, id, json!({ "id": id })));
        let (actor, _) = world.take_delivered().remove(0);
        world.crashes(actor);
        world.pass_ms(2000);
        world.take_written(client);
    }
    let list = |world: &mut World, what: Value| -> Vec<u64> {
        let told = reply(world, client, "query", "Sys.DeadLetters", what);
        told["letters"].as_array().unwrap().iter().map(|letter| letter["number"].as_u64().unwrap()).collect()
    };
    assert_eq!(list(&mut world, json!({ "type": "Order.*" })), [1, 3]);
    assert_eq!(list(&mut world, json!({ "capability": "bank" })), [2]);
    assert_eq!(list(&mut world, json!({ "reason": "EXIT CODE 7" })), [1, 2, 3]);
    assert_eq!(list(&mut world, json!({ "olderThanMs": 5000 })), [1]);
    assert_eq!(list(&mut world, json!({ "youngerThanMs": 2500 })), [3]);
    assert_eq!(code(&world.call(client, "command", "Sys.DeadLetters", json!({ "action": "requeue" }))), 422);
    let told = reply(
        &mut world,
        client,
        "command",
        "Sys.DeadLetters",
        json!({ "action": "requeue", "type": "Order.*", "limit": 1 }),
    );
    assert_eq!(
        (&told["requeued"][0]["number"], &told["refused"], &told["left"]),
        (&json!(1), &json!([]), &json!(1))
    );
    let (actor, again) = world.only_delivered();
    assert_eq!(again.id(), told["requeued"][0]["id"].as_str().unwrap());
    world.replies(actor, &again, json!("done"));
    assert_eq!(
        world.only_written(client).causation(),
        Some(again.id()),
        "the outcome comes to whoever put it back"
    );
    // One may be put back with other data.
    reply(
        &mut world,
        client,
        "command",
        "Sys.DeadLetters",
        json!({ "action": "requeue", "number": 3, "data": { "id": "mended" } }),
    );
    assert_eq!(data(&world.only_delivered().1), json!({ "id": "mended" }));
    let told = reply(
        &mut world,
        client,
        "command",
        "Sys.DeadLetters",
        json!({ "action": "drop", "capability": "bank" }),
    );
    assert_eq!(told["dropped"], 1);
    assert!(list(&mut world, json!({})).is_empty());
}

#[test]
fn types_are_described_one_by_one_and_found_by_words() {
    let capability: Manifest = serde_json::from_value(json!({
        "id": "notes", "description": "Keeps notes.",
        "inbound": { "oneOf": [
            { "description": "Keeps a note for later.", "properties": { "kind": { "const": "command" }, "type": { "const": "Notes.Add" } } },
            { "description": "Throws a note away.", "properties": { "kind": { "const": "command" }, "type": { "const": "Notes.Drop" } } },
            { "properties": { "kind": { "const": "query" }, "type": { "const": "Notes.List" } } },
        ] },
        "outbound": { "properties": { "kind": { "enum": ["reply", "event"] }, "type": { "enum": ["Notes.Add", "Notes.Added"] } } },
        "types": { "Notes.Add": { "destructive": false } },
    }))
    .unwrap();
    let mut world = World::booted(vec![capability]);
    let client = world.connect(1);
    let told = reply(&mut world, client, "query", "Syscall.Describe", json!({ "type": "Notes.Drop" }));
    let handler = &told["handlers"][0];
    assert_eq!(
        (&handler["description"], &handler["hints"]["destructive"]),
        (&json!("Throws a note away."), &json!(true))
    );
    let told = reply(&mut world, client, "query", "Syscall.Describe", json!({ "capability": "notes" }));
    assert_eq!(told["types"].as_array().unwrap().len(), 3);
    assert_eq!(told["types"][0]["hints"]["destructive"], false);
    assert!(told["emits"].as_array().unwrap().iter().any(|event| event["type"] == "Notes.Added"), "{told}");
    let found = |world: &mut World, text: &str| -> Vec<String> {
        let told = reply(world, client, "query", "Syscall.Search", json!({ "text": text, "limit": 2 }));
        told["types"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found(&mut world, "throw a note away")[0], "Notes.Drop");
    assert_eq!(found(&mut world, "add note")[0], "Notes.Add");
    assert_eq!(found(&mut world, "list all notes")[0], "Notes.List");
    assert!(found(&mut world, "xylophone").is_empty());
}
