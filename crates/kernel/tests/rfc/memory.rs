//! What clients and actors make the daemon hold is counted, and bounded in all.

use super::support::*;
use mainspring_kernel::{CloseReason, Config, ConnectionId, Effect};
use serde_json::json;

const MIB: usize = 1 << 20;

fn bounded(bytes: usize) -> Config {
    let mut config = Config::default();
    config.limits.memory_bytes_max = bytes;
    config
}

/// Turns often enough for the account to be looked at.
fn look(world: &mut World) {
    for _ in 0..16 {
        world.kernel.turn(world.now);
    }
    world.run();
}

fn closed_for_memory(world: &World) -> Vec<ConnectionId> {
    let closed = world.effects.iter().filter_map(|effect| match effect {
        Effect::Close { connection, reason: CloseReason::Memory } => Some(*connection),
        _ => None,
    });
    closed.collect()
}

#[test]
fn subscribers_that_do_not_read_lose_events_at_the_bound_of_all_and_are_told() {
    let mut world = World::booted_with(bounded(256 * MIB), vec![]);
    let clients: Vec<ConnectionId> = (1..=60).map(|number| world.connect(number)).collect();
    for client in &clients {
        world.ask(*client, &line("command", "Sys.Subscribe", "s", json!({ "types": ["App.*"] })));
    }
    let source = world.connect(100);
    world.clients_read = false;
    for number in 0..12 {
        let event = line("event", "App.Happened", &format!("e-{number}"), json!("x".repeat(900_000)));
        world.send(source, &event);
        look(&mut world);
        let held = world.kernel.memory_bytes();
        assert!(held <= 256 * MIB + 8 * MIB, "{held} bytes");
        world.written.clear();
    }
    assert!(world.kernel.counters().shed > 0);
    // Those who read again are told what they missed; nobody had to go who could lose events
    // instead.
    let client = *clients.iter().find(|client| !closed_for_memory(&world).contains(client)).unwrap();
    world.clients_read = true;
    world.kernel.written(client, 100 * MIB, world.now);
    world.run();
    let told = world.take_written(client);
    assert!(told.iter().any(|event| event.type_name() == "Sys.EventsDropped"), "{}", told.len());
    assert_eq!(world.ask(source, &line("query", "Syscall.Ping", "p", json!(1))).len(), 1);
}

#[test]
fn whoever_has_most_is_closed_at_the_bound_and_nobody_else() {
    let mut world = World::booted_with(bounded(24 * MIB), vec![]);
    world.clients_read = false;
    let (small, big) = (world.connect(1), world.connect(2));
    let others: Vec<ConnectionId> = (3..=10).map(|number| world.connect(number)).collect();
    let ping =
        |id: usize, bytes: usize| line("query", "Syscall.Ping", &format!("p-{id}"), json!("x".repeat(bytes)));
    world.send(small, &ping(0, 100_000));
    for id in 0..4 {
        world.send(big, &ping(id, 1_000_000));
        look(&mut world);
    }
    let mut id = 0;
    while closed_for_memory(&world).is_empty() {
        id += 1;
        assert!(id < 100, "{} bytes and nobody pays", world.kernel.memory_bytes());
        world.send(others[id % others.len()], &ping(id, 300_000));
        look(&mut world);
    }
    assert_eq!(closed_for_memory(&world), [big]);
    assert!(world.kernel.memory_bytes() <= 24 * MIB);
    assert!(world.effects.iter().any(
        |effect| matches!(effect, Effect::Log { text, .. } if text.contains("limits.memory_bytes_max"))
    ));
    let stats = data(&world.call(small, "query", "Sys.Stats", json!({})));
    assert_eq!(stats["gauges"]["memoryBytesMax"], json!(24 * MIB));
    assert!(stats["gauges"]["memoryBytes"].as_u64().unwrap() > 0);
    assert_eq!(stats["counters"]["shed"], json!(1));
}

#[test]
fn a_mailbox_that_has_most_has_its_newest_messages_refused() {
    let mut slow = manifest("slow", &["command:Slow.Do"]);
    slow.limits.mailbox_bytes = 1 << 30;
    let mut world = World::booted_with(bounded(16 * MIB), vec![slow]);
    let client = world.connect(1);
    for number in 0..30 {
        world.send(client, &line("command", "Slow.Do", &format!("c-{number}"), json!("x".repeat(900_000))));
        look(&mut world);
        assert!(world.kernel.memory_bytes() <= 17 * MIB);
    }
    let refused = world.take_written(client);
    assert!(refused.len() > 5 && refused.iter().all(|answer| code(answer) == 503), "{}", refused.len());
    assert_eq!(world.count(|effect| matches!(effect, Effect::Close { .. })), 0);
    assert!(world.kernel.audit().is_ok());
}

#[test]
fn what_the_daemon_holds_itself_counts() {
    let mut world = World::booted_with(bounded(16 * MIB), vec![]);
    let client = world.connect(1);
    world.clients_read = false;
    world.send(client, &line("query", "Syscall.Ping", "p", json!("x".repeat(900_000))));
    look(&mut world);
    assert_eq!(closed_for_memory(&world), []);
    world.kernel.note_outside_bytes(16 * MIB);
    look(&mut world);
    assert_eq!(closed_for_memory(&world), [client]);
}
