//! Section 12: discovery of what a capability handles. The forms themselves are tested beside
//! `schema`.

use super::support::*;
use mainspring_kernel::{Config, Effect};
use serde_json::{Value, json};

fn booted(inbound: Value) -> World {
    let mut memory = manifest("memory", &["command:Memory.Set"]);
    memory.inbound = inbound;
    let mut world = World::new(Config::default());
    world.boot(vec![memory]);
    world
}

fn failure(world: &World) -> String {
    let report = world.effects.iter().find_map(|effect| match effect {
        Effect::BootFailed { report } => Some(data(report)["message"].as_str().unwrap().to_owned()),
        _ => None,
    });
    report.expect("the boot to fail")
}

fn handles(world: &World) -> Value {
    let summary = world.effects.iter().find_map(|effect| match effect {
        Effect::Ready { summary } => Some(data(summary)["capabilities"][0]["handles"].clone()),
        _ => None,
    });
    summary.expect("the boot to succeed")
}

#[test]
fn s12_1_form_a_a_single_pair() {
    let world = booted(
        json!({ "properties": { "kind": { "const": "command" }, "type": { "const": "Memory.Set" } } }),
    );
    assert_eq!(handles(&world), json!(["command:Memory.Set"]));
}

#[test]
fn s12_1_form_b_one_kind_and_several_types() {
    let types = json!({ "enum": ["Memory.Get", "Memory.List"] });
    let world = booted(json!({ "properties": { "kind": { "const": "query" }, "type": types } }));
    assert_eq!(handles(&world), json!(["query:Memory.Get", "query:Memory.List"]));
}

#[test]
fn s12_1_form_c_a_union_of_messages() {
    let world = booted(json!({ "oneOf": [
        { "properties": { "kind": { "const": "command" }, "type": { "const": "Memory.Set" } } },
        { "properties": { "kind": { "const": "query" }, "type": { "const": "Memory.Get" } } },
    ] }));
    assert_eq!(handles(&world), json!(["command:Memory.Set", "query:Memory.Get"]));
}

#[test]
fn s12_1_an_infinite_type_fails_the_boot_with_the_path_of_the_node() {
    let world =
        booted(json!({ "properties": { "kind": { "const": "command" }, "type": { "type": "string" } } }));
    let text = failure(&world);
    assert!(text.starts_with("DISCOVER") && text.contains("#/properties/type"), "{text}");
}

#[test]
fn s12_1_a_pattern_fails_the_boot_with_the_path_of_the_node() {
    let pattern = json!({ "type": "string", "pattern": "^Memory\\." });
    let world =
        booted(json!({ "anyOf": [{ "properties": { "kind": { "const": "command" }, "type": pattern } }] }));
    let text = failure(&world);
    assert!(text.contains("#/anyOf/0/properties/type"), "{text}");
}

#[test]
fn s12_3_two_handlers_of_one_pair_fail_the_boot_and_name_both() {
    let mut world = World::new(Config::default());
    world.boot(vec![manifest("one", &["command:Memory.Set"]), manifest("two", &["command:Memory.Set"])]);
    let text = failure(&world);
    assert!(text.starts_with("BUILD") && text.contains("one") && text.contains("two"), "{text}");
}

#[test]
fn s12_3_several_capabilities_may_list_the_same_event() {
    let world = World::booted(vec![
        manifest("one", &["event:Memory.Changed"]),
        manifest("two", &["event:Memory.Changed", "command:Two.Do"]),
    ]);
    let summary = world.effects.iter().find_map(|effect| match effect {
        Effect::Ready { summary } => Some(data(summary)),
        _ => None,
    });
    assert_eq!(summary.unwrap()["subscriptions"], json!({ "Memory.Changed": ["one", "two"] }));
}

#[test]
fn s12_3_no_capability_takes_what_the_loop_keeps_for_itself() {
    for handle in ["command:Timer.Schedule", "query:Sys.Stats", "command:Syscall.Anything"] {
        let mut world = World::new(Config::default());
        world.boot(vec![manifest("greedy", &[handle])]);
        assert!(failure(&world).contains("greedy"));
    }
}
