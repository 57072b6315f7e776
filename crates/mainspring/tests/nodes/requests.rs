//! Requests from one node to another.

use crate::bus::{NatsServer, Node, Plan, started};
use crate::support::{code, eventually, fresh_id, line_with};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SHARED: &str = "share = true\nlimits = { concurrency = 16 }";

fn pair(nats: &NatsServer) -> (Node, Node) {
    let b = Plan::new("b", nats).serves(SHARED).start();
    let a = Plan::new("a", nats).uplink("import = [\"Test.*\"]").start();
    a.sees(&["b"]);
    (a, b)
}

#[test]
fn n3_1_a_request_is_answered_by_another_node_with_reply_error_and_its_metadata() {
    let nats = NatsServer::start();
    let (a, b) = pair(&nats);
    let mut client = a.connect();
    let id = fresh_id();
    client.send(line_with(
        "query",
        "Test.Where",
        &id,
        &json!({}),
        &json!({ "correlation": "flow-1", "mine": [1] }),
    ));
    let reply = client.receive();
    assert_eq!(reply["data"]["node"], json!("b"), "{reply}");
    assert_eq!(
        (&reply["metadata"]["causation"], &reply["metadata"]["correlation"]),
        (&json!(id), &json!("flow-1"))
    );
    let seen = &reply["data"]["metadata"];
    assert_eq!((&seen["id"], &seen["mine"]), (&json!(id), &json!([1])), "{seen}");
    assert!(seen["timeout"].as_u64().is_some_and(|ms| ms <= 30_000), "the deadline goes along: {seen}");
    let failed = client.ask("command", "Test.Fail", json!({}));
    assert_eq!((code(&failed), &failed["data"]["message"]), (418, &json!("no tea")));
    // What the other node's kernel itself says comes as its own error.
    let invalid = client.ask("query", "Test.Nothing", json!({}));
    assert_eq!(code(&invalid), 404);
    // The requester is a peer of that node there.
    client.send(line_with("command", "Test.Do", "same-id", &json!(1), &json!({})));
    assert_eq!(client.receive()["kind"], json!("reply"));
    client.send(line_with("command", "Test.Do", "same-id", &json!(1), &json!({})));
    assert_eq!(client.receive()["kind"], json!("reply"));
    assert_eq!(b.lines("done").iter().filter(|id| *id == "same-id").count(), 1, "once by id");
    let told = a.connect().query("Syscall.Describe", json!({ "type": "Test.Where" }));
    assert_eq!(told["handlers"][0]["capability"], json!("uplink:test"), "{told}");
}

#[test]
fn n3_7_progress_of_another_node_comes_to_those_who_asked_for_it() {
    let nats = NatsServer::start();
    let (a, _b) = pair(&nats);
    let mut client = a.connect();
    let mut bystander = a.connect();
    client.send(line_with("command", "Test.Steps", "steps", &json!(3), &json!({ "progress": true })));
    for step in 0..3 {
        let event = client.receive();
        assert_eq!((&event["type"], &event["data"]["step"]), (&json!("Test.Progress"), &json!(step)));
        assert_eq!(
            (&event["metadata"]["causation"], &event["metadata"]["node"]),
            (&json!("steps"), &json!("b"))
        );
    }
    assert_eq!(client.receive()["data"], json!(3));
    // Who did not ask for it gets the reply alone.
    assert_eq!(bystander.ask("command", "Test.Steps", json!(3))["data"], json!(3));
}

#[test]
fn n3_8_a_cancelled_request_ends_here_at_once_and_soon_at_the_node_that_has_it() {
    let nats = NatsServer::start();
    let (a, b) = pair(&nats);
    // Once before, and once after the other node has said that it took it.
    for (id, wait_ms) in [("at-once", 0), ("later", 300)] {
        let mut client = a.connect();
        client.send(line_with("command", "Test.Slow", id, &json!(20), &json!({})));
        std::thread::sleep(Duration::from_millis(wait_ms));
        client.send(line_with("command", "Syscall.Cancel", &fresh_id(), &json!({ "id": id }), &json!({})));
        let mut ended = client.receive();
        if ended["metadata"]["causation"] != json!(id) {
            ended = client.receive();
        }
        assert_eq!((code(&ended), &ended["type"]), (499, &json!("Sys.Cancelled")), "{ended}");
        eventually("the other node ends it", || {
            let told = b.connect().query("Sys.Trace", json!({ "id": id }));
            told["nodes"].as_array().is_some_and(|messages| {
                messages.iter().any(|message| message["id"] == id && message["outcome"]["code"] == 499)
            })
        });
    }
}

#[test]
fn n3_9_a_trace_shows_what_a_request_caused_on_the_node_that_had_it() {
    let nats = NatsServer::start();
    let (a, _b) = pair(&nats);
    let mut client = a.connect();
    client.send(line_with("command", "Test.Steps", "steps", &json!(2), &json!({ "correlation": "flow" })));
    assert_eq!(client.receive()["data"], json!(2));
    let told = client.query("Sys.NodeTrace", json!({ "id": "steps" }));
    assert_eq!(told["node"], "b", "{told}");
    let types = |told: &Value| -> Vec<String> {
        let nodes = told["nodes"].as_array().expect("nodes").iter();
        nodes.map(|node| node["type"].as_str().expect("a type").to_owned()).collect()
    };
    assert_eq!(types(&told["trace"]).first().map(String::as_str), Some("Test.Steps"), "{told}");
    // The command line puts the two together.
    let mut trace = crate::support::mainspring();
    trace.args(["trace", "flow", "--socket"]).arg(a.path("socket"));
    let shown = String::from_utf8(trace.output().expect("the program").stdout).expect("text");
    assert!(shown.contains("command Test.Steps  client -> uplink:test on b  reply"), "{shown}");
    // What was never passed on, or by somebody else, is not to be had.
    let unknown = client.ask("query", "Sys.NodeTrace", json!({ "id": "nothing" }));
    assert_eq!((code(&unknown), started(&unknown)), (404, false), "{unknown}");
}

#[test]
fn n1_1_nothing_is_shared_or_imported_unless_both_sides_say_so() {
    let nats = NatsServer::start();
    let silent = Plan::new("silent", &nats).serves("").start();
    let sharing = Plan::new("sharing", &nats).serves(SHARED).start();
    let alone = Plan::new("alone", &nats).start();
    let other = Plan::new("other", &nats).uplink("import = [\"Other.*\"]").start();
    let wants = Plan::new("wants", &nats).uplink("import = [\"Test.Where\"]").start();
    wants.sees(&["sharing"]);
    for node in [&alone, &other] {
        let mut client = node.connect();
        assert_eq!(code(&client.ask("query", "Test.Where", json!({}))), 404, "{}", node.name);
    }
    let mut client = wants.connect();
    for _ in 0..10 {
        assert_eq!(client.query("Test.Where", json!({}))["node"], json!("sharing"));
    }
    let nodes = wants.bus()["nodes"].as_array().expect("nodes").clone();
    let sent = |name: &str| nodes.iter().find(|node| node["node"] == name).map(|node| node["sent"].clone());
    assert_eq!((sent("sharing"), sent("silent")), (Some(json!(10)), Some(json!(0))), "{nodes:?}");
    assert_eq!(code(&client.ask("command", "Test.Do", json!({}))), 404, "a type that is not imported");
    assert!(silent.lines("done").is_empty());
    drop(sharing);
}

#[test]
fn n2_1_a_type_that_is_served_here_is_served_here_also_after_a_reload() {
    let nats = NatsServer::start();
    let b = Plan::new("b", &nats).serves(SHARED).start();
    let own = crate::support::process("own", &["query:Test.Where"], &["python3", "work.py"], "");
    let a = Plan::new("a", &nats).uplink("import = [\"Test.*\"]").config(&own).start();
    a.sees(&["b"]);
    let mut client = a.connect();
    assert_eq!(client.query("Test.Where", json!({}))["node"], json!("a"));
    assert_eq!(client.command("Test.Do", json!({}))["node"], json!("b"));
    // Now it serves the other one as well: the import gives way.
    let text = std::fs::read_to_string(a.path("mainspring.toml")).expect("the configuration");
    let more = crate::support::process("more", &["command:Test.Do"], &["python3", "work.py"], "");
    std::fs::write(a.path("mainspring.toml"), format!("{text}\n{more}")).expect("the configuration");
    a.signal("HUP");
    eventually("it is served here", || {
        let reply = client.ask("command", "Test.Do", json!({}));
        reply["data"]["node"] == json!("a")
    });
    assert_eq!(client.command("Test.Slow", json!(0))["node"], json!("b"), "the rest is still imported");
    drop(b);
}

#[test]
fn n10_1_several_nodes_share_the_load_and_one_can_be_addressed() {
    let nats = NatsServer::start();
    let nodes: Vec<Node> =
        ["b", "c", "d"].iter().map(|name| Plan::new(name, &nats).serves(SHARED).start()).collect();
    let a = Plan::new("a", &nats).uplink("import = [\"Test.*\"]").start();
    a.sees(&["b", "c", "d"]);
    let mut client = a.connect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..60 {
        let node = client.query("Test.Where", json!({}))["node"].as_str().expect("a node").to_owned();
        *counts.entry(node).or_default() += 1;
    }
    assert_eq!(counts.len(), 3, "{counts:?}");
    for node in &nodes {
        client.send(line_with(
            "query",
            "Test.Where",
            &fresh_id(),
            &json!({}),
            &json!({ "to_node": node.name }),
        ));
        assert_eq!(client.receive()["data"]["node"], json!(node.name));
    }
    client.send(line_with("query", "Test.Where", &fresh_id(), &json!({}), &json!({ "to_node": "nobody" })));
    let refused = client.receive();
    assert_eq!((code(&refused), started(&refused)), (503, false), "{refused}");
}

#[test]
fn n10_1_a_command_line_names_the_node_that_does_it() {
    let nats = NatsServer::start();
    let nodes: Vec<Node> =
        ["b", "c"].iter().map(|name| Plan::new(name, &nats).serves(SHARED).start()).collect();
    let own = crate::support::process("own", &["query:Test.Where"], &["python3", "work.py"], "");
    let a = Plan::new("a", &nats).uplink("import = [\"Test.*\"]").config(&own).start();
    a.sees(&["b", "c"]);
    let run = |words: &[&str]| {
        let mut command = crate::support::mainspring();
        let output = command.args(words).arg("--socket").arg(a.path("socket")).output().expect("the program");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    for node in &nodes {
        let (code, told) = run(&["send", "Test.Do", "--to-node", &node.name]);
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains(&format!("\"node\": \"{}\"", node.name)), "{told}");
    }
    let (code, told) = run(&["send", "Test.Do", "--to-node", "nobody"]);
    assert!(code == Some(1) && told.contains("node \"nobody\" does not share Test.Do now"), "{told}");
    // What is served here would be done here.
    let (code, told) = run(&["query", "Test.Where", "--to-node", "b"]);
    assert!(code == Some(1) && told.contains("is served here, so it goes to no other node"), "{told}");
    let (code, told) = run(&["query", "Test.Where", "--to-node", "a"]);
    assert!(code == Some(0), "{told}");
}

#[test]
fn n10_2_equal_keys_go_to_the_same_node_while_it_lives() {
    let nats = NatsServer::start();
    let more = format!("{SHARED}\npartition_by = \"/data/key\"");
    let mut nodes: Vec<Node> =
        ["b", "c", "d"].iter().map(|name| Plan::new(name, &nats).serves(&more).start()).collect();
    let a = Plan::new("a", &nats).uplink("import = [\"Test.*\"]").start();
    let other = Plan::new("e", &nats).uplink("import = [\"Test.*\"]").start();
    a.sees(&["b", "c", "d"]);
    other.sees(&["b", "c", "d"]);
    let place = |from: &Node| -> Vec<String> {
        let mut client = from.connect();
        let node = |key: usize| client_node(&mut client, key);
        (0..40).map(node).collect()
    };
    let before = place(&a);
    assert_eq!(before, place(&a));
    assert_eq!(before, place(&other), "every node says the same");
    assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 3);
    let missing = a.connect().ask("query", "Test.Where", json!({}));
    assert_eq!((code(&missing), started(&missing)), (422, false), "{missing}");
    // Only the keys of the lost node move.
    nodes.pop().expect("d").kill();
    a.sees(&["b", "c"]);
    let after = place(&a);
    for (then, now) in before.iter().zip(&after) {
        assert!(then == "d" || then == now, "{then} {now}");
        assert_ne!(now, "d");
    }
}

fn client_node(client: &mut crate::support::Client, key: usize) -> String {
    let told: Value = client.query("Test.Where", json!({ "key": key }));
    told["node"].as_str().expect("a node").to_owned()
}

#[test]
fn n3_5_what_nats_does_not_carry_is_refused_in_words() {
    let nats = NatsServer::with_config("max_payload: 65536\n");
    let (a, _b) = pair(&nats);
    let mut client = a.connect();
    let refused = client.ask("command", "Test.Do", json!("x".repeat(70_000)));
    assert_eq!((code(&refused), started(&refused)), (413, false));
    assert!(refused["data"]["message"].as_str().expect("words").contains("max_payload"), "{refused}");
    let too_long = client.ask("query", "Test.Large", json!(70_000));
    assert_eq!((code(&too_long), started(&too_long)), (413, true), "its outcome does not fit: {too_long}");
    assert_eq!(client.query("Test.Large", json!(60_000)).as_str().map(str::len), Some(60_000));
}

#[test]
fn n1_3_nodes_that_mean_something_else_are_not_mixed_and_that_is_told() {
    let nats = NatsServer::start();
    let b = Plan::new("b", &nats).serves(SHARED).start();
    let a = Plan::new("a", &nats).uplink("import = [\"Test.*\"]").start();
    a.sees(&["b"]);
    let more = format!("{SHARED}\npartition_by = \"/data/key\"");
    let c = Plan::new("c", &nats).serves(&more).start();
    eventually("it is told", || a.log().contains("node c: test: schema or partition_by"));
    let mut client = a.connect();
    for _ in 0..20 {
        assert_eq!(client.query("Test.Where", json!({}))["node"], json!("b"));
    }
    let problems =
        a.bus()["nodes"].as_array().expect("nodes").iter().find(|node| node["node"] == json!("c")).cloned();
    assert!(!problems.expect("c")["problems"].as_array().expect("problems").is_empty());
    drop((b, c));
}
