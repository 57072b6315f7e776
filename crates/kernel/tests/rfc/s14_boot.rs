//! Section 14: the boot.

use super::support::*;
use mainspring_kernel::{ActorRef, BootPlan, Config, Effect, Manifest, Turn};
use serde_json::json;

fn plan() -> BootPlan {
    let memory = manifest("Memory", &["command:Memory.Set", "query:Memory.Get"]);
    let mut audit = manifest("Audit", &["command:Audit.Read"]);
    audit.subscribes = vec!["Memory.Changed".into()];
    BootPlan { capabilities: vec![memory, audit], adapters: vec!["unix".into(), "stdin".into()] }
}

fn by_hand() -> World {
    let mut world = World::new(Config::default());
    world.auto_start = false;
    world.kernel.boot(plan(), world.now);
    world.settle();
    world
}

/// A boot by hand that has come as far as its adapters.
fn with_actors() -> World {
    let mut world = by_hand();
    start_actors(&mut world);
    world
}

fn start_actors(world: &mut World) {
    for capability in [0, 1] {
        world.kernel.actor_spawned(actor(capability), Ok(()), world.now);
    }
    for capability in [0, 1] {
        world.kernel.actor_attached(actor(capability), Ok(()), world.now);
    }
}

fn actor(capability: u32) -> ActorRef {
    ActorRef::new(capability, 1)
}

fn exit_code(world: &World) -> Option<i32> {
    world.effects.iter().find_map(|effect| match effect {
        Effect::Exit { code } => Some(*code),
        _ => None,
    })
}

#[test]
fn s14_1_the_phases_come_in_order_and_each_waits_for_all_of_the_last() {
    let mut world = by_hand();
    assert_eq!(world.effects, [Effect::Spawn { actor: actor(0) }, Effect::Spawn { actor: actor(1) }]);
    world.effects.clear();
    world.kernel.actor_spawned(actor(1), Ok(()), world.now);
    world.settle();
    assert!(world.effects.is_empty());
    world.kernel.actor_spawned(actor(0), Ok(()), world.now);
    world.settle();
    assert_eq!(world.effects, [Effect::Attach { actor: actor(0) }, Effect::Attach { actor: actor(1) }]);
    world.effects.clear();
    for capability in [0, 1] {
        world.kernel.actor_attached(actor(capability), Ok(()), world.now);
    }
    world.settle();
    assert_eq!(world.effects, [Effect::StartAdapter { adapter: 0 }, Effect::StartAdapter { adapter: 1 }]);
    world.effects.clear();
    world.kernel.adapter_started(0, Ok("/run/a.sock".into()), world.now);
    world.settle();
    assert!(world.effects.is_empty());
    world.kernel.adapter_started(1, Ok("-".into()), world.now);
    world.settle();
    assert!(matches!(&world.effects[..], [Effect::Ready { .. }]));
}

#[test]
fn s14_1_messages_that_come_during_the_boot_wait_for_ready() {
    let mut world = by_hand();
    let client = world.connect(1);
    start_actors(&mut world);
    world.send(client, &line("command", "Memory.Set", "c-1", json!(1)));
    assert_eq!(world.run(), Turn::Idle);
    assert!(world.delivered.is_empty());
    world.kernel.adapter_started(0, Ok("a".into()), world.now);
    world.kernel.adapter_started(1, Ok("b".into()), world.now);
    world.run();
    world.only_delivered();
}

#[test]
fn s14_2_the_summary_names_capabilities_subscriptions_adapters_and_the_timeout() {
    let mut world = World::new(Config::default());
    world.kernel.boot(plan(), world.now);
    world.settle();
    let summary = world.effects.iter().find_map(|effect| match effect {
        Effect::Ready { summary } => Some(summary.clone()),
        _ => None,
    });
    let summary = summary.unwrap();
    assert_eq!((summary.kind().as_str(), summary.type_name()), ("event", "Sys.BootComplete"));
    assert_eq!(
        data(&summary),
        json!({
            "capabilities": [
                { "id": "Memory", "handles": ["command:Memory.Set", "query:Memory.Get"] },
                { "id": "Audit", "handles": ["command:Audit.Read"] },
            ],
            "subscriptions": { "Memory.Changed": ["Audit"] },
            "adapters": ["unix:/run/test.sock", "stdin:/run/test.sock"],
            "timers": { "defaultTimeout": 30000 },
        })
    );
}

#[test]
fn s14_3_a_failed_spawn_is_reported_undone_and_ends_with_a_code() {
    let mut world = by_hand();
    world.kernel.actor_spawned(actor(0), Ok(()), world.now);
    world.kernel.actor_spawned(actor(1), Err("no such file".into()), world.now);
    world.settle();
    let report = world.effects.iter().find_map(|effect| match effect {
        Effect::BootFailed { report } => Some(report.clone()),
        _ => None,
    });
    let report = report.unwrap();
    assert_eq!((report.kind().as_str(), report.type_name()), ("error", "Sys.BootFailed"));
    assert_eq!(data(&report)["message"], "SPAWN: Audit could not be spawned: no such file");
    assert_eq!(world.count(|effect| *effect == Effect::Terminate { actor: actor(0) }), 1);
    assert_eq!(world.count(|effect| *effect == Effect::Terminate { actor: actor(1) }), 0);
    assert_eq!(exit_code(&world), Some(1));
    assert_eq!(world.run(), Turn::Ended);
}

#[test]
fn s14_3_a_failed_adapter_undoes_adapters_and_actors() {
    let mut world = with_actors();
    world.kernel.adapter_started(0, Ok("a".into()), world.now);
    world.kernel.adapter_started(1, Err("address in use".into()), world.now);
    world.settle();
    let undone: Vec<&Effect> = world
        .effects
        .iter()
        .filter(|effect| matches!(effect, Effect::StopAdapter { .. } | Effect::Terminate { .. }))
        .collect();
    assert_eq!(
        undone,
        [
            &Effect::StopAdapter { adapter: 0 },
            &Effect::Terminate { actor: actor(1) },
            &Effect::Terminate { actor: actor(0) }
        ]
    );
    assert_eq!(exit_code(&world), Some(1));
}

#[test]
fn s14_3_an_actor_that_ends_during_the_boot_fails_it() {
    let mut world = by_hand();
    world.crashes(actor(0));
    assert_eq!(exit_code(&world), Some(1));
}

#[test]
fn s14_3_a_boot_that_takes_too_long_fails_and_names_what_it_waits_for() {
    let mut world = by_hand();
    world.pass_ms(30_000);
    assert_eq!(exit_code(&world), Some(1));
    let told = world.effects.iter().find_map(|effect| match effect {
        Effect::BootFailed { report } => Some(data(report)["message"].as_str().unwrap().to_owned()),
        _ => None,
    });
    assert_eq!(told.unwrap(), "SPAWN: not started within 30000 ms (`timeouts.boot`): Memory, Audit");
}

#[test]
fn s14_3_a_manifest_with_mistakes_fails_the_boot_and_names_them() {
    type Spoil = fn(&mut Manifest);
    let cases: [(&str, Spoil); 6] = [
        ("id", |m| m.id = "a b".into()),
        ("description", |m| m.description = " ".into()),
        ("concurrency", |m| m.limits.concurrency = 0),
        ("attempts", |m| m.retry.attempts = 0),
        ("subscribes", |m| m.subscribes = vec!["nonsense".into()]),
        ("outbound", |m| m.outbound = Some(json!({ "type": 7 }))),
    ];
    for (what, spoil) in cases {
        let mut bad = manifest("bad", &["command:Bad.Do"]);
        spoil(&mut bad);
        let mut world = World::new(Config::default());
        world.boot(vec![bad]);
        let logged = world.effects.iter().any(|effect| match effect {
            Effect::BootFailed { report } => report.data().contains(what),
            _ => false,
        });
        assert!(logged, "{what}: {:?}", world.effects);
    }
}

#[test]
fn s14_3_what_clients_asked_during_a_boot_that_fails_is_answered_and_they_are_closed() {
    let mut world = with_actors();
    world.kernel.adapter_started(0, Ok("a".into()), world.now);
    let client = world.connect(1);
    world.send(client, &line("command", "Memory.Set", "c-1", json!(1)));
    world.kernel.adapter_started(1, Err("address in use".into()), world.now);
    world.settle();
    let answer = world.only_written(client);
    assert_eq!((code(&answer), answer.causation()), (503, Some("c-1")));
    let places: Vec<usize> = [
        world.effects.iter().position(|effect| matches!(effect, Effect::Write { .. })),
        world.effects.iter().position(|effect| matches!(effect, Effect::Close { .. })),
        world.effects.iter().position(|effect| matches!(effect, Effect::Exit { .. })),
    ]
    .map(|place| place.expect("it is there"))
    .to_vec();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn s14_3_an_adapter_that_is_still_starting_is_stopped_too() {
    let mut world = with_actors();
    world.kernel.adapter_started(0, Err("address in use".into()), world.now);
    world.settle();
    let stopped = |adapter| world.count(|effect| *effect == Effect::StopAdapter { adapter });
    assert_eq!((stopped(0), stopped(1)), (0, 1));
}
