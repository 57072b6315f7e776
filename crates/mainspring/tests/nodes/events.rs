//! Events across nodes.

use crate::bus::{NatsServer, Plan};
use crate::support::{eventually, line, process};
use serde_json::json;

#[test]
fn n9_1_shared_events_reach_those_who_want_them_once_and_never_go_on() {
    let nats = NatsServer::start();
    let teller = "share_events = [\"Order.*\"]\nlimits = { concurrency = 4 }";
    let a = Plan::new("a", &nats).serves(teller).start();
    // It takes them, and would share what it takes.
    let b = Plan::new("b", &nats).uplink("events = [\"Order.*\"]").serves(teller).start();
    let c = Plan::new("c", &nats).uplink("events = [\"Order.*\"]").start();
    let d = Plan::new("d", &nats).uplink("events = [\"Other.*\"]").start();
    let mut listeners: Vec<_> = [&b, &c, &d].iter().map(|node| node.connect()).collect();
    for listener in &mut listeners {
        listener.subscribe(&["Order.*", "Other.*", "Test.Mark"]);
    }
    // All are on the bus when a first event has come through.
    let mut teller = a.connect();
    let mut number = 0;
    eventually("the bus is up", || {
        number += 1;
        teller.send(line("event", "Order.Probe", &format!("probe-{number}"), &json!(number)));
        [&b, &c].iter().all(|node| node.bus()["eventsHeard"].as_u64().is_some_and(|count| count > 0))
    });
    for number in 0..50 {
        teller.send(line("event", "Order.Placed", &format!("e-{number}"), &json!(number)));
    }
    for listener in &mut listeners[..2] {
        for number in 0..50 {
            let event = listener.event("Order.Placed");
            assert_eq!(
                (&event["data"], &event["metadata"]["node"]),
                (&json!(number), &json!("a")),
                "{event}"
            );
        }
    }
    // Whatever else would come was there before the answer to this.
    for (listener, node) in listeners.iter_mut().zip([&b, &c, &d]) {
        node.connect().send(line("event", "Test.Mark", "mark", &json!(1)));
        loop {
            let event = listener.receive();
            if event["type"] == json!("Test.Mark") {
                break;
            }
            assert_eq!(event["type"], json!("Order.Probe"), "{}: {event}", node.name);
        }
    }
    assert_eq!(b.bus()["eventsTold"], json!(0), "what was taken does not go on");
}

/// Tells an event for each command, and lets the journal keep it.
const TELLER: &str = r#"
from lib import *
for message in messages():
    if message["kind"] == "command":
        say("event", "Order.Kept", message["data"], message)
        reply(message, 1)
"#;

/// Notes each event that it gets.
const NOTER: &str = r#"
from lib import *
for message in messages():
    if message["kind"] == "event":
        with open("noted", "a") as log:
            log.write("%s\n" % message["data"])
"#;

#[test]
fn n9_2_durable_events_come_by_the_origins_journal_also_those_told_while_a_node_was_down() {
    let nats = NatsServer::start();
    let journal = "[journal]\nfolder = \"journal\"";
    let more = "share_events = [\"Order.*\"]\ndurable_events = true";
    let teller = process("teller", &["command:Order.Keep"], &["python3", "teller.py"], more);
    let a = Plan::new("a", &nats).config(&teller).config(journal).file("teller.py", TELLER).start();
    let noter = process("noter", &["event:Order.Kept"], &["python3", "noter.py"], "");
    let b = Plan::new("b", &nats).uplink("events = [\"Order.*\"]").config(&noter).config(journal);
    let mut b = b.file("noter.py", NOTER).start();
    let mut client = a.connect();
    let mut number = 0;
    // The cursor is there once a first event has come by it.
    eventually("it follows", || {
        client.command("Order.Keep", json!(format!("probe-{number}")));
        number += 1;
        b.bus()["durableEventsHeard"].as_u64().is_some_and(|count| count > 0)
    });
    for number in 0..20 {
        client.command("Order.Keep", json!(format!("up-{number}")));
    }
    let noted = |node: &crate::bus::Node, start: &str| -> Vec<String> {
        node.lines("noted").into_iter().filter(|line| line.starts_with(start)).collect()
    };
    eventually("all have come", || noted(&b, "up-").len() >= 20);
    b.kill();
    for number in 0..20 {
        client.command("Order.Keep", json!(format!("down-{number}")));
    }
    b.restart();
    eventually("those told meanwhile have come", || noted(&b, "down-").len() >= 20);
    for start in ["up-", "down-"] {
        let wanted: Vec<String> = (0..20).map(|number| format!("{start}{number}")).collect();
        assert_eq!(noted(&b, start), wanted, "in order, each once");
    }
}
