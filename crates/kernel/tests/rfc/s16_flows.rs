//! Section 16: the flows from end to end.

use super::support::*;
use mainspring_message::{Draft, Json, Kind};
use serde_json::json;

#[test]
fn s16_1_a_command_is_answered_and_its_events_fan_out() {
    let mut audit = manifest("audit", &["query:Audit.Read"]);
    audit.subscribes = vec!["Memory.Changed".into()];
    let mut world = World::booted(vec![manifest("memory", &["command:Memory.Set"]), audit]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Memory.Set", "c-1", json!({ "key": "a" })));
    let (memory, command) = world.only_delivered();
    world.says_draft(
        memory,
        Draft::caused_by(&command, Kind::Event, "Memory.Changed", Json::from(json!("a"))),
    );
    world.replies(memory, &command, json!({ "ok": true }));
    let (audit, event) = world.only_delivered();
    assert_eq!((audit.capability.0, event.causation()), (1, Some("c-1")));
    assert_eq!(world.only_written(client).data(), r#"{"ok":true}"#);
}

#[test]
fn s16_2_a_query_is_routed_to_its_actor_and_its_reply_comes_back() {
    let mut world = World::booted(vec![manifest("memory", &["query:Memory.Get"])]);
    let client = world.connect(1);
    assert!(world.ask(client, &line("query", "Memory.Get", "q-1", json!({ "key": "a" }))).is_empty());
    let (actor, query) = world.only_delivered();
    assert_eq!(query.data(), r#"{"key":"a"}"#);
    world.replies(actor, &query, json!({ "value": 1 }));
    let reply = world.only_written(client);
    assert_eq!((reply.kind().as_str(), reply.type_name()), ("reply", "Memory.Get"));
    assert_eq!(reply.causation(), Some("q-1"));
    assert_eq!(reply.data(), r#"{"value":1}"#);
}

#[test]
fn s16_3_a_scheduled_command_is_acknowledged_now_and_routed_later() {
    let mut world = World::booted(vec![manifest("memory", &["command:Memory.Cleanup"])]);
    let client = world.connect(1);
    let inner = json!({ "kind": "command", "type": "Memory.Cleanup", "data": 1 });
    let reply = world.call(client, "command", "Timer.Schedule", json!({ "delay": 5000, "message": inner }));
    assert!(data(&reply)["timerId"].is_string());
    world.pass_ms(5000);
    assert_eq!(world.only_delivered().1.type_name(), "Memory.Cleanup");
}

#[test]
fn s16_4_a_request_times_out_after_thirty_seconds_and_its_late_reply_is_never_written() {
    let mut world = World::booted(vec![manifest("slow", &["command:Slow.Do"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Slow.Do", "c-1", json!(1)));
    let (actor, request) = world.only_delivered();
    world.pass_ms(29_999);
    assert!(world.take_written(client).is_empty());
    world.pass_ms(1);
    assert_eq!(world.only_written(client).type_name(), "Sys.Timeout");
    world.replies(actor, &request, json!(1));
    assert!(world.take_written(client).is_empty());
    assert_eq!(world.kernel.counters().late_outcomes, 1);
}
