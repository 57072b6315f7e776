//! What leaves, and when.

use crate::bus::{Bus, orders};
use crate::support::{code, data, line, line_with, manifest};
use mainspring_kernel::{Config, Fact, Kernel, Manifest};
use serde_json::json;

#[test]
fn j1_1_a_command_reaches_its_actor_and_its_answer_the_client_only_when_that_is_on_disk() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.quick = false;
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    assert_eq!(bus.names(), ["accepted", "delivered"]);
    assert!(bus.delivered.is_empty());
    bus.flush_up_to(2);
    assert!(bus.delivered.is_empty(), "it is accepted on disk, and not yet delivered");
    bus.flush();
    let (actor, request) = bus.only_delivered();
    bus.replies(actor, &request, json!({ "number": 7 }));
    assert_eq!(bus.names(), ["accepted", "delivered", "ended"]);
    assert!(bus.written.is_empty());
    bus.flush();
    assert_eq!(data(&bus.only_written()), json!({ "number": 7 }));
}

#[test]
fn j1_4_what_is_not_durable_waits_for_no_disk() {
    let free = Manifest { durable: false, ..manifest("free", &["command:Free.Do", "query:Free.Ask"]) };
    let mut bus = Bus::new(vec![orders(), free]);
    let alice = bus.connect(1, "alice");
    let bob = bus.connect(2, "bob");
    bus.quick = false;
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    for (kind, name, id) in [("command", "Free.Do", "c-2"), ("query", "Free.Ask", "q-1")] {
        bus.send(bob, &line(kind, name, id, json!({})));
        let (actor, request) = bus.only_delivered();
        bus.replies(actor, &request, json!({}));
        assert_eq!(bus.only_written().causation(), Some(id));
    }
    let skips = line_with("command", "Order.Place", "c-3", json!({}), json!({ "durable": false }));
    bus.send(bob, &skips);
    assert!(bus.delivered.is_empty(), "it keeps its place behind the command before it");
    bus.flush();
    assert_eq!(bus.delivered.len(), 1, "the actor works on one at a time");
    assert_eq!(bus.names(), ["accepted", "delivered"], "and leaves no fact");
}

#[test]
fn j1_5_a_query_cannot_see_what_is_not_on_disk_yet() {
    let mut bus = Bus::new(vec![Manifest { limits: concurrency(4), ..orders() }]);
    let (alice, bob) = (bus.connect(1, "alice"), bus.connect(2, "bob"));
    bus.quick = false;
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    bus.flush();
    let (actor, command) = bus.only_delivered();
    bus.replies(actor, &command, json!({}));
    bus.send(bob, &line("query", "Order.Get", "q-1", json!({})));
    let (actor, query) = bus.only_delivered();
    bus.replies(actor, &query, json!("placed"));
    assert!(bus.written.is_empty(), "the end of the command is not on disk: {:?}", bus.written);
    bus.flush();
    let to: Vec<u64> = bus.written.iter().map(|(to, _)| to.0).collect();
    assert_eq!(to, [1, 2]);
}

fn concurrency(concurrency: u32) -> mainspring_kernel::ActorLimits {
    mainspring_kernel::ActorLimits { concurrency, ..Default::default() }
}

#[test]
fn j1_1_a_ping_says_that_what_was_sent_before_is_on_disk() {
    let mut bus = Bus::new(vec![orders()]);
    let (alice, bob) = (bus.connect(1, "alice"), bus.connect(2, "bob"));
    bus.quick = false;
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    bus.send(alice, &line("query", "Syscall.Ping", "p-1", json!({})));
    assert!(bus.written.is_empty());
    assert_eq!(bus.ask(bob, &line("query", "Syscall.Ping", "p-2", json!({}))).causation(), Some("p-2"));
    bus.flush();
    assert_eq!(bus.only_written().causation(), Some("p-1"));
}

#[test]
fn j1_6_who_demands_durability_and_cannot_have_it_is_refused() {
    let demands = |kind: &str, name: &str| line_with(kind, name, "x", json!({}), json!({ "durable": true }));
    let free = Manifest { durable: false, ..manifest("free", &["command:Free.Do"]) };
    let mut bus = Bus::new(vec![orders(), free]);
    let alice = bus.connect(1, "alice");
    for (kind, name) in [("query", "Order.Get"), ("command", "Free.Do"), ("command", "Syscall.Shutdown")] {
        let refusal = bus.ask(alice, &demands(kind, name));
        assert_eq!((refusal.type_name(), code(&refusal)), ("Sys.NotDurable", 422), "{name}");
        assert_eq!(data(&refusal)["started"], "no");
    }
    let refusal = bus.ask(alice, &demands("event", "Order.Seen"));
    assert_eq!(refusal.type_name(), "Sys.NotDurable");
    bus.send(alice, &demands("command", "Order.Place"));
    assert_eq!(bus.delivered.len(), 1);
    let wrong = line_with("command", "Order.Place", "y", json!({}), json!({ "durable": "yes" }));
    assert_eq!(code(&bus.ask(alice, &wrong)), 422);
    // Without a journal nobody gets it.
    let mut world = crate::support::World::booted(vec![orders()]);
    let client = world.connect(1);
    let refusal = world.ask(client, &demands("command", "Order.Place")).remove(0);
    assert_eq!(refusal.type_name(), "Sys.NotDurable");
    assert!(data(&refusal)["message"].as_str().unwrap().contains("no journal"));
}

#[test]
fn a_kernel_without_a_journal_records_nothing() {
    let mut kernel = Kernel::new(Config::default(), 1);
    let mut effects = Vec::new();
    let now = mainspring_kernel::Now::default();
    kernel.boot(mainspring_kernel::BootPlan { capabilities: vec![orders()], adapters: vec![] }, now);
    kernel.drain_effects(&mut effects);
    assert!(!kernel.is_durable());
    assert!(effects.iter().all(|effect| !matches!(effect, mainspring_kernel::Effect::Record(_))));
}

#[test]
fn j1_2_what_keeps_all_as_facts_costs_one_flush() {
    let memory =
        Manifest { keeps_facts: true, ..manifest("Memory", &["command:Memory.Set", "query:Memory.Get"]) };
    let mut bus = Bus::new(vec![memory.clone()]);
    let alice = bus.connect(1, "alice");
    bus.quick = false;
    bus.send(alice, &line("command", "Memory.Set", "c-1", json!({ "key": "a" })));
    let (actor, request) = bus.only_delivered();
    let put = Fact::Put { store: "Memory", key: "a", value: "1" };
    bus.kernel.actor_record(actor, &put, bus.now);
    bus.replies(actor, &request, json!({ "created": true }));
    assert_eq!(bus.names(), ["put", "ended"]);
    // Nobody sees the value before it is on disk.
    bus.send(alice, &line("query", "Memory.Get", "q-1", json!({ "key": "a" })));
    let (actor, query) = bus.only_delivered();
    bus.replies(actor, &query, json!(1));
    assert!(bus.written.is_empty());
    bus.flush();
    assert_eq!(bus.written.len(), 2);
    bus.cut_power(10);
    let alice = bus.connect(1, "alice");
    let again = bus.ask(alice, &line("command", "Memory.Set", "c-1", json!({ "key": "a" })));
    assert_eq!(data(&again), json!({ "created": true }), "and its answer is remembered");
    assert!(bus.delivered.is_empty());
}
