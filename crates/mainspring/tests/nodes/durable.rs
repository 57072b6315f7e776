//! Commands that survive on both nodes.

use crate::bus::{NatsServer, Node, Plan};
use crate::support::{eventually, line_with};
use serde_json::json;

const SHARED: &str = "share = true\nredeliver = \"if_not_started\"\nlimits = { concurrency = 64 }";
const JOURNAL: &str = "[journal]\nfolder = \"journal\"";

fn pair(nats: &NatsServer) -> (Node, Node) {
    let b = Plan::new("b", nats).serves(SHARED).config(JOURNAL).start();
    let a = Plan::new("a", nats).uplink("import = [\"Test.*\"]").config(JOURNAL).start();
    a.sees(&["b"]);
    (a, b)
}

#[test]
fn n7_1_a_durable_command_whose_origin_is_killed_is_done_once_and_its_outcome_is_there() {
    let nats = NatsServer::start();
    let (mut a, b) = pair(&nats);
    let mut client = a.connect();
    let more = json!({ "durable": true, "timeout": 120_000 });
    for number in 0..10 {
        client.send(line_with("command", "Test.Slow", &format!("d-{number}"), &json!(3), &more));
    }
    eventually("they are being done", || b.lines("began").len() == 10);
    a.kill();
    a.restart();
    let mut client = a.connect();
    for number in 0..10 {
        client.send(line_with("command", "Test.Slow", &format!("d-{number}"), &json!(3), &more));
    }
    for _ in 0..10 {
        let outcome = client.receive();
        assert_eq!(outcome["kind"], json!("reply"), "{outcome}");
    }
    let mut done = b.lines("done");
    done.sort();
    let wanted: Vec<String> = (0..10).map(|number| format!("d-{number}")).collect();
    assert_eq!(done, wanted, "each once");
}

#[test]
fn n7_2_a_durable_command_waits_for_a_node_that_is_killed_and_comes_back() {
    let nats = NatsServer::start();
    let (a, mut b) = pair(&nats);
    let mut client = a.connect();
    let more = json!({ "durable": true, "timeout": 120_000 });
    for number in 0..5 {
        client.send(line_with("command", "Test.Slow", &format!("s-{number}"), &json!(600), &more));
    }
    eventually("they are being done", || b.lines("began").len() == 5);
    b.kill();
    b.restart();
    // It had begun them, and may not begin again: it says so, and nobody guesses.
    for _ in 0..5 {
        let outcome = client.receive();
        assert_eq!(outcome["type"], json!("Sys.Interrupted"), "{outcome}");
        assert_eq!(outcome["data"]["started"], json!("yes"), "{outcome}");
    }
    assert_eq!(b.lines("began").len(), 5, "none was begun again");
    client.send(line_with("command", "Test.Do", "after", &json!(1), &more));
    assert_eq!(client.receive()["kind"], json!("reply"));
}

#[test]
fn n7_3_who_demands_durability_of_a_node_without_a_journal_is_refused() {
    let nats = NatsServer::start();
    let b = Plan::new("b", &nats).serves(SHARED).start();
    let a = Plan::new("a", &nats).uplink("import = [\"Test.*\"]").config(JOURNAL).start();
    a.sees(&["b"]);
    let mut client = a.connect();
    client.send(line_with("command", "Test.Do", "x", &json!(1), &json!({ "durable": true })));
    let refused = client.receive();
    assert_eq!(refused["type"], json!("Sys.NotDurable"), "{refused}");
    assert!(b.lines("done").is_empty());
}
