//! K-14: the history, and `Sys.Trace`.

use super::support::*;
use mainspring_kernel::{Config, ConnectionId};
use mainspring_message::{Draft, Envelope, Json, Kind};
use serde_json::{Value, json};

fn trace(world: &mut World, client: ConnectionId, what: Value) -> Vec<Value> {
    let answer = world.call(client, "query", "Sys.Trace", what);
    assert_eq!(answer.kind(), Kind::Reply, "{answer:?}");
    data(&answer)["nodes"].as_array().unwrap().clone()
}

fn ids(nodes: &[Value]) -> Vec<&str> {
    nodes.iter().map(|node| node["id"].as_str().unwrap()).collect()
}

/// A shop that asks the bank, emits an event that the clerk hears, and replies; all of it took 3
/// ms.
fn purchase(more: Value) -> (World, ConnectionId) {
    let shop = manifest("shop", &["command:Shop.Buy"]);
    let bank = manifest("bank", &["command:Bank.Pay"]);
    let mut clerk = manifest("clerk", &["command:Clerk.Note"]);
    clerk.subscribes = vec!["Shop.Sold".into()];
    let mut world = World::booted(vec![shop, bank, clerk]);
    let client = world.connect(1);
    world.ask(client, &line_with("command", "Shop.Buy", "buy", json!(1), more));
    let (shop, buy) = world.only_delivered();
    world.pass_ms(1);
    let said = |cause: &Envelope, kind, name: &str, id: &str| Draft {
        id: Some(id.into()),
        ..Draft::caused_by(cause, kind, name, Json::null())
    };
    world.says_draft(shop, said(&buy, Kind::Command, "Bank.Pay", "pay"));
    let (bank, pay) = world.only_delivered();
    world.pass_ms(2);
    world.replies(bank, &pay, json!("paid"));
    let (_, paid) = world.only_delivered();
    // Caused by the outcome, not by the request.
    world.says_draft(shop, said(&paid, Kind::Event, "Shop.Sold", "sold"));
    world.replies(shop, &buy, json!("yours"));
    world.take_delivered();
    (world, client)
}

#[test]
fn k14_1_a_workflow_is_told_with_where_from_and_to_when_and_how_it_ended() {
    let (mut world, client) = purchase(json!({ "correlation": "flow-1" }));
    world.ask(client, &line("command", "Shop.Buy", "other", json!(1)));
    let nodes = trace(&mut world, client, json!({ "correlation": "flow-1" }));
    assert_eq!(ids(&nodes), ["buy", "pay", "sold"]);
    let (buy, pay, sold) = (&nodes[0], &nodes[1], &nodes[2]);
    assert_eq!(
        (&buy["from"], &buy["to"]),
        (&json!({ "connection": 1, "peer": "peer-1" }), &json!({ "capability": "shop" }))
    );
    assert_eq!(
        (&pay["from"], &pay["to"]),
        (&json!({ "capability": "shop" }), &json!({ "capability": "bank" }))
    );
    assert_eq!(pay["causation"], "buy");
    assert_eq!((&buy["atUs"], &buy["tookUs"], &buy["waitedUs"]), (&json!(0), &json!(3000), &json!(0)));
    assert_eq!((&pay["atUs"], &pay["tookUs"]), (&json!(1000), &json!(2000)));
    assert_eq!((&pay["outcome"]["kind"], &sold["causation"]), (&json!("reply"), &pay["outcome"]["id"]));
    assert_eq!(sold["to"], json!({ "capabilities": 1, "clients": 0 }));
}

#[test]
fn k14_1_without_a_workflow_the_tree_of_causes_is_told_from_any_of_its_messages() {
    for id in ["buy", "pay", "sold"] {
        let (mut world, client) = purchase(json!({}));
        world.ask(client, &line("command", "Shop.Buy", "other", json!(1)));
        assert_eq!(ids(&trace(&mut world, client, json!({ "id": id }))), ["buy", "pay", "sold"], "{id}");
    }
}

#[test]
fn k14_1_a_chain_of_any_length_is_found_from_its_end() {
    let mut relay = manifest("relay", &["event:Chain.Link"]);
    relay.outbound = None;
    let mut world = World::booted(vec![relay]);
    let client = world.connect(1);
    world.ask(client, &line("event", "Chain.Link", "e-0", json!(1)));
    for number in 1..200 {
        let (actor, event) = world.only_delivered();
        let next = Draft::caused_by(&event, Kind::Event, "Chain.Link", Json::null());
        world.says_draft(actor, Draft { id: Some(format!("e-{number}").as_str().into()), ..next });
    }
    assert_eq!(trace(&mut world, client, json!({ "id": "e-0" })).len(), 200);
    assert_eq!(trace(&mut world, client, json!({ "id": "e-199" })).len(), 200);
}

#[test]
fn k14_2_errors_show_their_code_and_what_is_unfinished_shows_as_such() {
    let (mut world, client) = purchase(json!({}));
    world.ask(
        client,
        &line_with("command", "Shop.Buy", "late", json!(1), json!({ "timeout": 5, "correlation": "f" })),
    );
    world.ask(client, &line_with("command", "Shop.Buy", "open", json!(1), json!({ "correlation": "f" })));
    world.pass_ms(7);
    let nodes = trace(&mut world, client, json!({ "correlation": "f" }));
    assert_eq!(ids(&nodes), ["late", "open"]);
    assert_eq!(nodes[0]["outcome"]["code"], 504);
    assert_eq!((&nodes[1]["outcome"], &nodes[1]["tookUs"]), (&json!(null), &json!(7000)));
    assert_eq!((&nodes[1]["attempts"], &nodes[1]["waitedUs"]), (&json!(0), &json!(7000)));
}

#[test]
fn k14_2_what_is_unknown_is_an_empty_answer_and_a_bad_question_is_told_so() {
    let (mut world, client) = purchase(json!({}));
    assert!(trace(&mut world, client, json!({ "id": "nobody" })).is_empty());
    for what in [json!({}), json!({ "id": "a", "correlation": "b" }), json!({ "ids": [] })] {
        assert_eq!(code(&world.call(client, "query", "Sys.Trace", what)), 422);
    }
}

#[test]
fn k14_3_the_history_is_bounded_and_can_be_switched_off() {
    let mut config = Config::default();
    config.limits.history_bytes_max = 4096;
    let mut world = World::booted_with(config.clone(), vec![]);
    let client = world.connect(1);
    for number in 0..1000 {
        let flow = json!({ "correlation": "flow" });
        world.ask(client, &line_with("query", "Syscall.Ping", &format!("q-{number}"), json!(1), flow));
        assert!(world.kernel.census().history_bytes <= 4096);
    }
    let nodes = trace(&mut world, client, json!({ "correlation": "flow" }));
    assert!((10..1000).contains(&nodes.len()), "{}", nodes.len());
    assert_eq!(nodes.last().unwrap()["id"], "q-999");
    config.limits.history_bytes_max = 0;
    let mut world = World::booted_with(config, vec![]);
    let client = world.connect(1);
    let error = world.call(client, "query", "Sys.Trace", json!({ "id": "a" }));
    assert_eq!(code(&error), 404);
    assert!(data(&error)["message"].as_str().unwrap().contains("history_bytes_max"));
}

#[test]
fn k14_3_an_answer_has_so_many_messages_and_says_how_many_it_leaves_out() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    for number in 0..1200 {
        let flow = json!({ "correlation": "flow" });
        world.ask(client, &line_with("query", "Syscall.Ping", &format!("q-{number}"), json!(1), flow));
    }
    let answer = data(&world.call(client, "query", "Sys.Trace", json!({ "correlation": "flow" })));
    assert_eq!((answer["nodes"].as_array().unwrap().len(), &answer["leftOut"]), (1000, &json!(200)));
    assert_eq!(answer["nodes"][999]["id"], "q-1199", "the latest are there");
}

#[test]
fn k14_1_an_event_that_nobody_wants_is_remembered_with_its_workflow() {
    let mut world = World::booted(vec![manifest("shop", &["command:Shop.Buy"])]);
    let client = world.connect(1);
    world.ask(client, &line_with("command", "Shop.Buy", "buy", json!(1), json!({ "correlation": "flow" })));
    let (shop, buy) = world.only_delivered();
    world.kernel.actor_event(shop, &buy, "Shop.Sold", Json::null, world.now);
    world.replies(shop, &buy, json!("yours"));
    let mut nodes = trace(&mut world, client, json!({ "correlation": "flow" }));
    nodes.sort_by_key(|node| node["type"].to_string());
    assert_eq!((&nodes[0]["type"], &nodes[1]["type"]), (&json!("Shop.Buy"), &json!("Shop.Sold")));
    assert_eq!((nodes.len(), &nodes[1]["causation"]), (2, &json!("buy")));
}

#[test]
fn k14_1_an_event_that_became_a_dead_letter_is_not_told_as_delivered() {
    let mut clerk = manifest("clerk", &["event:Shop.Sold"]);
    clerk.inbound["anyOf"][0]["properties"]["data"] = json!({ "type": "integer" });
    let mut world = World::booted(vec![clerk]);
    let client = world.connect(1);
    for (id, data) in [("good", json!(1)), ("bad", json!("one"))] {
        world.ask(client, &line_with("event", "Shop.Sold", id, data, json!({ "correlation": "flow" })));
    }
    let nodes = trace(&mut world, client, json!({ "correlation": "flow" }));
    let reached: Vec<(&Value, &Value)> =
        nodes.iter().map(|node| (&node["id"], &node["to"]["capabilities"])).collect();
    assert_eq!(reached, [(&json!("good"), &json!(1)), (&json!("bad"), &json!(0))]);
}
