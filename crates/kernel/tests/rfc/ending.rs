//! What a shutdown tells while it waits.

use super::support::*;
use mainspring_kernel::{ActorExit, Effect};
use serde_json::json;

/// The lines of the log that were written since the last time.
fn log(world: &mut World) -> Vec<String> {
    let effects = std::mem::take(&mut world.effects);
    let lines = effects.into_iter().filter_map(|effect| match effect {
        Effect::Log { text, .. } => Some(text),
        _ => None,
    });
    lines.collect()
}

#[test]
fn a_shutdown_says_what_it_waits_for_at_once_and_now_and_again() {
    let mut world = World::booted(vec![manifest("stuck", &["command:Stuck.Ask"])]);
    world.auto_stop = false;
    let client = world.connect(1);
    for id in ["one", "two"] {
        world.ask(client, &line("command", "Stuck.Ask", id, json!(1)));
    }
    let (actor, _) = world.only_delivered();
    log(&mut world);
    let told = data(&world.call(client, "command", "Syscall.Shutdown", json!({})));
    assert_eq!(told["waitsFor"], json!(["stuck (1 request, 1 waiting)"]));
    let first = log(&mut world).join("\n");
    assert!(first.contains("waiting at most 10s for stuck (1 request, 1 waiting)"), "{first}");
    world.pass_ms(1_000);
    assert_eq!(log(&mut world), ["still waiting for stuck (1 request, 1 waiting)"]);
    world.pass_ms(9_000);
    assert!(log(&mut world).iter().any(|line| line == "2 requests were not finished in time"));
    world.pass_ms(5_000);
    assert_eq!(log(&mut world), ["still waiting for stuck to end"]);
    world.kernel.actor_exited(actor, ActorExit::Done, world.now);
    world.run();
    assert_eq!(world.count(|effect| matches!(effect, Effect::Exit { .. })), 1);
    log(&mut world);
    world.pass_ms(60_000);
    assert!(log(&mut world).is_empty(), "nothing more is told");
}

#[test]
fn a_shutdown_with_nothing_to_wait_for_says_nothing_about_it() {
    let mut world = World::booted(vec![manifest("shop", &["command:Order.Place"])]);
    let client = world.connect(1);
    log(&mut world);
    let told = data(&world.call(client, "command", "Syscall.Shutdown", json!({})));
    assert_eq!(told, json!({ "message": "shutting down" }));
    world.pass_ms(60_000);
    assert_eq!(log(&mut world), ["shutting down: asked by Syscall.Shutdown"]);
}
