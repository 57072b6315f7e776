//! Section 16: the flows from end to end.

mod support;

use serde_json::json;
use support::*;

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
