//! The flows of the RFC's section 16, from end to end.

use crate::support::{Daemon, code, line_with, process, with_programs};
use serde_json::json;

#[test]
fn s16_1_a_command_leads_to_a_reply_and_events() {
    let daemon = Daemon::start();
    let (mut client, mut watcher) = (daemon.connect(), daemon.connect());
    watcher.subscribe(&["Memory.Changed"]);
    let more = json!({ "correlation": "flow-1" });
    client.send(line_with("command", "Memory.Set", "c-1", &json!({ "key": "a", "value": 1 }), &more));
    let reply = client.receive();
    assert_eq!((&reply["kind"], &reply["type"]), (&json!("reply"), &json!("Memory.Set")));
    assert_eq!(
        (&reply["metadata"]["causation"], &reply["metadata"]["correlation"]),
        (&json!("c-1"), &json!("flow-1"))
    );
    let event = watcher.event("Memory.Changed");
    assert_eq!(
        (&event["metadata"]["causation"], &event["metadata"]["correlation"]),
        (&json!("c-1"), &json!("flow-1"))
    );
    daemon.end();
}

#[test]
fn s16_2_a_query_leads_to_a_reply() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    client.command("Memory.Set", json!({ "key": "a", "value": { "deep": [true] } }));
    assert_eq!(client.query("Memory.Get", json!({ "key": "a" })), json!({ "value": { "deep": [true] } }));
    assert_eq!(code(&client.ask("query", "Memory.Get", json!({ "key": "b" }))), 404);
    assert_eq!(client.command("Memory.Delete", json!({ "key": "a" })), json!({ "deleted": true }));
    assert_eq!(client.command("Memory.Delete", json!({ "key": "a" })), json!({ "deleted": false }));
    for key in ["b", "a/2", "a/1", "a/3"] {
        client.command("Memory.Set", json!({ "key": key, "value": 1 }));
    }
    // For a JSON Schema, all of these are the same integer.
    for limit in ["2", "2.0", "0.2e1"] {
        let limit: serde_json::Number = limit.parse().unwrap();
        let listed = client.query("Memory.List", json!({ "prefix": "a/", "limit": limit }));
        assert_eq!(listed, json!({ "keys": ["a/1", "a/2"], "more": true }));
    }
    assert_eq!(code(&client.ask("query", "Memory.List", json!({ "limit": 1.5 }))), 422);
    let rest = client.query("Memory.List", json!({ "prefix": "a/", "after": "a/2" }));
    assert_eq!(rest, json!({ "keys": ["a/3"], "more": false }));
    daemon.end();
}

#[test]
fn s16_3_a_scheduled_command_is_sent_after_its_delay() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let message = json!({ "kind": "command", "type": "Memory.Set", "data": { "key": "late", "value": 1 } });
    let start = std::time::Instant::now();
    let scheduled = client.command("Timer.Schedule", json!({ "delay": 300, "message": message }));
    assert!(scheduled["timerId"].is_string());
    let outcome = client.receive();
    assert!(start.elapsed() >= std::time::Duration::from_millis(300), "never early");
    assert_eq!(
        (&outcome["type"], &outcome["metadata"]["timerId"]),
        (&json!("Memory.Set"), &scheduled["timerId"])
    );
    daemon.end();
}

#[test]
fn s16_4_a_request_without_outcome_times_out_and_a_late_one_is_an_event() {
    let program = "import lib, time\nlib.serve(lambda m: time.sleep(0.5) or 'late')\n";
    let config = process("slow", &["query:Slow.Ask"], &["python3", "slow.py"], "");
    let daemon = with_programs(&config, &[("slow.py", program)]);
    let mut client = daemon.connect();
    client.subscribe(&["Sys.LateReply"]);
    client.send(line_with("query", "Slow.Ask", "q-1", &json!(1), &json!({ "timeout": 100 })));
    let outcome = client.receive();
    assert_eq!((code(&outcome), &outcome["type"]), (504, &json!("Sys.Timeout")));
    assert_eq!(outcome["data"]["originalId"], json!("q-1"));
    let late = client.event("Sys.LateReply");
    assert_eq!(late["data"]["originalId"], json!("q-1"));
    daemon.end();
}
