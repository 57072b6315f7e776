//! K-13: reload, without losing a message.

use super::support::*;
use mainspring_kernel::{ActorExit, ActorRef, Change, Config, ConnectionId, Effect, Manifest, RestartWhen};
use mainspring_message::{Draft, Json, Kind};
use serde_json::json;

fn actor_in(capability: u32, incarnation: u32) -> ActorRef {
    ActorRef::new(capability, incarnation)
}

fn shop() -> Manifest {
    manifest("shop", &["command:Shop.Buy", "query:Shop.Price", "event:Shop.Opened"])
}

/// A manifest of the same id that handles these.
fn shop_with(handles: &[&str]) -> Manifest {
    manifest("shop", handles)
}

fn buy(id: &str) -> String {
    line("command", "Shop.Buy", id, json!(1))
}

/// One capability, a client, and a client that hears everything the loop says.
fn watched() -> (World, ConnectionId, ConnectionId) {
    let mut world = World::booted(vec![shop()]);
    let (client, watcher) = (world.connect(1), world.connect(2));
    world.call(watcher, "command", "Sys.Subscribe", json!({ "types": ["Sys.*"] }));
    (world, client, watcher)
}

fn heard(world: &mut World, watcher: ConnectionId) -> Vec<String> {
    world.take_written(watcher).iter().map(|event| event.type_name().to_owned()).collect()
}

fn reload(world: &mut World, changes: Vec<Change>) -> Vec<u32> {
    let numbers = world.kernel.reload(changes, world.now).unwrap();
    world.kernel.audit().unwrap();
    world.run();
    numbers.into_iter().map(|capability| capability.0).collect()
}

fn refused(world: &mut World, changes: Vec<Change>) -> String {
    let reason = world.kernel.reload(changes, world.now).unwrap_err().reason;
    world.run();
    reason
}

#[test]
fn k13_1_a_life_that_is_replaced_finishes_what_it_has_and_the_next_one_gets_the_mailbox() {
    let (mut world, client, watcher) = watched();
    for id in ["c-1", "c-2"] {
        world.ask(client, &buy(id));
    }
    let (first, in_hand) = world.only_delivered();
    assert_eq!(reload(&mut world, vec![Change::Replace(shop())]), [0]);
    assert_eq!(world.actor_state(client, "shop"), "retiring");
    world.ask(client, &buy("c-3"));
    assert!(world.take_delivered().is_empty(), "nothing new comes to a life that is to end");
    assert_eq!(world.count(|effect| matches!(effect, Effect::Stop { .. })), 0);
    world.replies(first, &in_hand, json!("done"));
    assert_eq!(world.only_written(client).causation(), Some("c-1"));
    let stopped = world.effects.iter().position(|effect| *effect == Effect::Stop { actor: first }).unwrap();
    let spawned = world.effects.iter().position(|effect| *effect == Effect::Spawn { actor: actor_in(0, 2) });
    assert!(spawned.unwrap() > stopped);
    assert_eq!(world.count(|effect| matches!(effect, Effect::Terminate { .. })), 0);
    for id in ["c-2", "c-3"] {
        let (second, request) = world.only_delivered();
        assert_eq!((second, request.id()), (actor_in(0, 2), id));
        world.replies(second, &request, json!("done"));
        assert_eq!(world.only_written(client).causation(), Some(id));
    }
    let events = world.take_written(watcher);
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].type_name(), "Sys.CapabilityReloaded");
    assert_eq!(data(&events[0]), json!({ "capabilityId": "shop", "incarnation": 2, "newManifest": true }));
}

#[test]
fn k13_1_a_capability_is_restarted_under_the_same_manifest() {
    let (mut world, _, watcher) = watched();
    reload(&mut world, vec![Change::Restart("shop".into())]);
    let events = world.take_written(watcher);
    assert_eq!(events[0].type_name(), "Sys.CapabilityReloaded");
    assert_eq!(data(&events[0])["newManifest"], false);
    assert_eq!(world.count(|effect| *effect == Effect::Spawn { actor: actor_in(0, 2) }), 1);
}

#[test]
fn k13_1_a_life_that_is_replaced_still_gets_the_answers_it_waits_for() {
    let helper = manifest("helper", &["query:Helper.Ask"]);
    let mut world = World::booted(vec![shop(), helper]);
    let client = world.connect(1);
    world.ask(client, &line("event", "Shop.Opened", "e-1", json!(1)));
    let (first, event) = world.only_delivered();
    // It works on an event, which nobody answers, by asking another.
    let ask = Draft::caused_by(&event, Kind::Query, "Helper.Ask", Json::null());
    world.says_draft(first, Draft { id: Some("q-1".into()), ..ask });
    let (other, query) = world.only_delivered();
    reload(&mut world, vec![Change::Restart("shop".into())]);
    assert_eq!(world.count(|effect| matches!(effect, Effect::Stop { .. })), 0);
    world.replies(other, &query, json!(7));
    let (to, answer) = world.only_delivered();
    assert_eq!((to, answer.data()), (first, "7"));
    assert_eq!(world.count(|effect| *effect == Effect::Stop { actor: first }), 1);
}

#[test]
fn k13_2_a_bad_manifest_changes_nothing_and_says_why() {
    let (mut world, client, watcher) = watched();
    let other = || manifest("other", &["command:Other.Do"]);
    reload(&mut world, vec![Change::Add(other())]);
    world.take_written(watcher);
    let before = data(&world.call(client, "query", "Syscall.Describe", json!({})));
    let mut infinite = shop();
    infinite.inbound =
        json!({ "properties": { "kind": { "const": "command" }, "type": { "type": "string" } } });
    let mut wordless = shop();
    wordless.description = " ".into();
    let cases = [
        (vec![Change::Replace(infinite)], "the inbound schema of shop"),
        (vec![Change::Replace(wordless)], "description"),
        (vec![Change::Replace(shop_with(&["command:Other.Do"]))], "shop"),
        (vec![Change::Replace(shop_with(&["command:Sys.Mine"]))], "keeps for itself"),
        (vec![Change::Add(manifest("third", &["command:Shop.Buy"]))], "shop and third"),
        (vec![Change::Add(shop())], "already"),
        (vec![Change::Replace(manifest("nobody", &[]))], "no capability"),
        (vec![Change::Remove("nobody".into())], "no capability"),
        (vec![Change::Restart("shop".into()), Change::Remove("shop".into())], "twice"),
        // One bad change among good ones.
        (vec![Change::Remove("other".into()), Change::Replace(shop_with(&["query:Syscall.Ping"]))], "keeps"),
    ];
    for (changes, words) in cases {
        let reason = refused(&mut world, changes);
        assert!(reason.contains(words), "{reason}");
        assert_eq!(heard(&mut world, watcher), ["Sys.ReloadFailed"], "{reason}");
    }
    assert_eq!(data(&world.call(client, "query", "Syscall.Describe", json!({}))), before);
    assert_eq!(world.count(|effect| matches!(effect, Effect::Stop { .. } | Effect::Terminate { .. })), 0);
    world.ask(client, &buy("c-1"));
    assert_eq!(world.only_delivered().0, actor_in(0, 1));
}

#[test]
fn k13_2_a_type_may_move_from_one_capability_to_another_in_one_reload() {
    let (mut world, client, _) = watched();
    for id in ["c-1", "c-2", "c-3"] {
        world.ask(client, &buy(id));
    }
    let (first, in_hand) = world.only_delivered();
    // This one waits in the lane.
    world.send(client, &buy("c-4"));
    let till = manifest("till", &["command:Shop.Buy"]);
    let numbers =
        reload(&mut world, vec![Change::Replace(shop_with(&["query:Shop.Price"])), Change::Add(till)]);
    assert_eq!(numbers, [0, 1]);
    for id in ["c-2", "c-3", "c-4"] {
        let (actor, request) = world.only_delivered();
        assert_eq!((actor, request.id()), (actor_in(1, 1), id), "in the order in which they came");
        world.replies(actor, &request, json!(1));
    }
    world.replies(first, &in_hand, json!(1));
    assert_eq!(world.take_written(client).len(), 4);
    world.kernel.audit().unwrap();
}

#[test]
fn k13_3_what_waits_and_does_not_fit_the_new_manifest_ends_as_if_it_came_now() {
    let (mut world, client, _) = watched();
    world.ask(client, &buy("c-1"));
    let (first, in_hand) = world.only_delivered();
    world.ask(client, &buy("c-2"));
    world.ask(client, &line("query", "Shop.Price", "q-1", json!("what")));
    world.ask(client, &line("event", "Shop.Opened", "e-1", json!(1)));
    let mut stricter = shop_with(&["command:Shop.Buy"]);
    stricter.inbound = json!({ "properties": {
        "kind": { "const": "command" }, "type": { "const": "Shop.Buy" }, "data": { "type": "string" },
    } });
    stricter.subscribes = vec![];
    reload(&mut world, vec![Change::Replace(stricter)]);
    let errors = world.take_written(client);
    let seen: Vec<_> = errors
        .iter()
        .map(|error| (error.causation().unwrap(), code(error), &data(error)["started"] == "no"))
        .collect();
    assert_eq!(seen, [("c-2", 422, true), ("q-1", 404, true)]);
    world.replies(first, &in_hand, json!("by the old contract"));
    assert_eq!(world.only_written(client).causation(), Some("c-1"));
    let letters = world.dead_letters(client);
    assert_eq!((letters.len(), &letters[0]["id"]), (1, &json!("e-1")));
    let error = world.ask(client, &buy("c-3")).remove(0);
    assert_eq!(code(&error), 422, "new messages are held to the new schema");
}

#[test]
fn k13_3_each_life_is_held_to_its_own_outbound_schema() {
    let mut sayer = shop();
    sayer.outbound = Some(
        json!({ "properties": { "kind": { "const": "reply" }, "type": { "const": "Shop.Buy" }, "data": { "const": "old" } } }),
    );
    let mut world = World::booted(vec![sayer.clone()]);
    let client = world.connect(1);
    world.ask(client, &buy("c-1"));
    let (first, in_hand) = world.only_delivered();
    sayer.outbound.as_mut().unwrap()["properties"]["data"]["const"] = json!("new");
    reload(&mut world, vec![Change::Replace(sayer)]);
    world.replies(first, &in_hand, json!("old"));
    assert_eq!(world.only_written(client).kind(), Kind::Reply);
    world.ask(client, &buy("c-2"));
    let (second, request) = world.only_delivered();
    world.replies(second, &request, json!("old"));
    assert_eq!(code(&world.only_written(client)), 502);
}

#[test]
fn k13_4_a_life_that_does_not_finish_is_terminated_and_what_it_had_is_answered() {
    let (mut world, client, watcher) = watched();
    world.ask(client, &buy("c-1"));
    world.ask(client, &buy("c-2"));
    world.take_delivered();
    reload(&mut world, vec![Change::Replace(shop())]);
    let drain_ms = Config::default().drain_ms;
    world.pass_ms(drain_ms - 1);
    assert!(world.take_written(client).is_empty());
    world.pass_ms(1);
    assert_eq!(world.count(|effect| *effect == Effect::Terminate { actor: actor_in(0, 1) }), 1);
    let error = world.only_written(client);
    assert_eq!((error.causation(), code(&error)), (Some("c-1"), 502));
    assert_eq!(data(&error)["started"], "yes");
    let (second, request) = world.only_delivered();
    assert_eq!(
        (second, request.id()),
        (actor_in(0, 2), "c-2"),
        "at once: the pause is for failures of its own"
    );
    assert_eq!(heard(&mut world, watcher), ["Sys.ActorFault", "Sys.CapabilityReloaded"]);
}

#[test]
fn k13_4_a_life_that_does_not_end_with_its_input_is_terminated() {
    let (mut world, client, watcher) = watched();
    world.auto_stop = false;
    world.ask(client, &line("event", "Shop.Opened", "e-1", json!(1)));
    reload(&mut world, vec![Change::Restart("shop".into())]);
    assert_eq!(world.count(|effect| *effect == Effect::Stop { actor: actor_in(0, 1) }), 1);
    world.pass_ms(Config::default().drain_ms);
    assert_eq!(world.count(|effect| *effect == Effect::Terminate { actor: actor_in(0, 1) }), 1);
    assert_eq!(heard(&mut world, watcher), ["Sys.CapabilityReloaded"]);
    assert_eq!(world.dead_letters(client).len(), 1, "nobody knows whether it finished the event");
}

#[test]
fn k13_4_events_taken_by_a_life_that_ends_as_it_was_asked_to_are_finished() {
    let (mut world, client, _) = watched();
    world.ask(client, &line("event", "Shop.Opened", "e-1", json!(1)));
    reload(&mut world, vec![Change::Restart("shop".into())]);
    assert!(world.dead_letters(client).is_empty());
}

#[test]
fn k13_4_a_life_that_fails_while_it_is_replaced_costs_the_next_one_nothing() {
    let (mut world, client, _) = watched();
    world.ask(client, &buy("c-1"));
    reload(&mut world, vec![Change::Replace(shop())]);
    world.crashes(actor_in(0, 1));
    assert_eq!(code(&world.only_written(client)), 502);
    assert_eq!(world.count(|effect| *effect == Effect::Spawn { actor: actor_in(0, 2) }), 1);
    assert_eq!(world.kernel.counters().actor_restarts, 0);
}

#[test]
fn k13_5_a_next_life_that_cannot_be_spawned_follows_the_restart_policy() {
    let (mut world, client, watcher) = watched();
    world.ask(client, &buy("c-1"));
    let (first, request) = world.only_delivered();
    world.ask(client, &buy("c-2"));
    world.auto_start = false;
    reload(&mut world, vec![Change::Replace(shop())]);
    world.replies(first, &request, json!(1));
    world.kernel.actor_spawned(actor_in(0, 2), Err("no such file".into()), world.now);
    world.run();
    assert_eq!(world.actor_state(client, "shop"), "backoff");
    assert_eq!(heard(&mut world, watcher), ["Sys.ActorCrash"]);
    world.auto_start = true;
    world.pass_ms(1000);
    assert_eq!(heard(&mut world, watcher), ["Sys.CapabilityReloaded"]);
    let (third, waited) = world.only_delivered();
    assert_eq!((third, waited.id()), (actor_in(0, 3), "c-2"));
}

#[test]
fn k13_5_a_reload_starts_a_capability_that_was_unhealthy_or_starting() {
    let (mut world, client, _) = watched();
    let mut frail = shop();
    frail.restart.when = RestartWhen::Never;
    reload(&mut world, vec![Change::Replace(frail)]);
    world.crashes(actor_in(0, 2));
    assert_eq!(world.actor_state(client, "shop"), "unhealthy");
    world.auto_start = false;
    reload(&mut world, vec![Change::Replace(shop())]);
    assert_eq!(world.actor_state(client, "shop"), "starting");
    world.auto_start = true;
    reload(&mut world, vec![Change::Restart("shop".into())]);
    assert_eq!(world.count(|effect| *effect == Effect::Terminate { actor: actor_in(0, 3) }), 1);
    assert_eq!(world.actor_state(client, "shop"), "up");
}

#[test]
fn k13_6_a_removed_capability_refuses_what_is_new_and_finishes_what_it_was_given() {
    let (mut world, client, watcher) = watched();
    world.ask(client, &buy("c-1"));
    world.ask(client, &buy("c-2"));
    world.send(client, &buy("c-3"));
    let (actor, mut request) = world.only_delivered();
    reload(&mut world, vec![Change::Remove("shop".into())]);
    assert_eq!(code(&world.ask(client, &buy("c-4"))[0]), 404);
    for id in ["c-1", "c-2", "c-3"] {
        assert_eq!(request.id(), id);
        assert_eq!(world.count(|effect| matches!(effect, Effect::Stop { .. })), 0);
        world.replies(actor, &request, json!(1));
        assert_eq!(world.only_written(client).kind(), Kind::Reply);
        if let Some((same, next)) = world.take_delivered().pop() {
            assert_eq!(same, actor);
            request = next;
        }
    }
    assert_eq!(world.count(|effect| *effect == Effect::Stop { actor }), 1);
    assert_eq!(heard(&mut world, watcher), ["Sys.CapabilityRemoved"]);
    let actors = data(&world.call(client, "query", "Sys.Actors", json!({})));
    assert_eq!(actors["actors"], json!([]));
    let error = world.call(client, "command", "Sys.ResetActor", json!({ "capabilityId": "shop" }));
    assert_eq!(code(&error), 404);
}

#[test]
fn k13_6_what_a_removed_capability_does_not_finish_in_time_is_answered() {
    let (mut world, client, _) = watched();
    world.ask(client, &buy("c-1"));
    world.ask(client, &buy("c-2"));
    reload(&mut world, vec![Change::Remove("shop".into())]);
    world.pass_ms(Config::default().drain_ms);
    let errors = world.take_written(client);
    let seen: Vec<_> = errors.iter().map(|error| (error.causation().unwrap(), code(error))).collect();
    assert_eq!(seen, [("c-1", 502), ("c-2", 404)]);
}

#[test]
fn k13_6_a_removed_capability_comes_back_in_its_old_place() {
    let (mut world, client, watcher) = watched();
    reload(&mut world, vec![Change::Remove("shop".into())]);
    assert_eq!(reload(&mut world, vec![Change::Add(shop())]), [0]);
    assert_eq!(heard(&mut world, watcher), ["Sys.CapabilityRemoved", "Sys.CapabilityAdded"]);
    world.ask(client, &buy("c-1"));
    assert_eq!(world.only_delivered().0, actor_in(0, 2));
}

#[test]
fn k13_6_the_schedules_of_a_removed_capability_are_given_up() {
    let (mut world, client, _) = watched();
    world.ask(client, &buy("c-1"));
    let (actor, request) = world.only_delivered();
    let inner = json!({ "kind": "event", "type": "Shop.Tick", "data": 1 });
    let schedule = Draft::caused_by(
        &request,
        Kind::Command,
        "Timer.Schedule",
        json!({ "repeat": 1000, "message": inner }).into(),
    );
    world.says_draft(actor, schedule);
    world.replies(actor, &request, json!(1));
    assert_eq!(world.kernel.census().schedules, 1);
    reload(&mut world, vec![Change::Restart("shop".into())]);
    assert_eq!(world.kernel.census().schedules, 1, "the next life is the same peer");
    reload(&mut world, vec![Change::Remove("shop".into())]);
    assert_eq!(world.kernel.census().schedules, 0);
}

#[test]
fn k13_7_a_reload_before_ready_or_during_a_shutdown_is_refused() {
    let mut world = World::new(Config::default());
    world.auto_start = false;
    world.boot(vec![shop()]);
    assert!(refused(&mut world, vec![Change::Restart("shop".into())]).contains("boot"));
    let (mut world, client, _) = watched();
    world.ask(client, &buy("c-1"));
    world.kernel.shutdown("the test says so", world.now);
    assert!(refused(&mut world, vec![Change::Restart("shop".into())]).contains("shutting down"));
}

#[test]
fn k13_7_a_shutdown_in_the_middle_of_a_reload_still_finishes_what_was_accepted() {
    let (mut world, client, _) = watched();
    world.ask(client, &buy("c-1"));
    world.ask(client, &buy("c-2"));
    let (first, request) = world.only_delivered();
    reload(&mut world, vec![Change::Replace(shop())]);
    world.kernel.shutdown("the test says so", world.now);
    world.replies(first, &request, json!(1));
    let (second, request) = world.only_delivered();
    assert_eq!(second, actor_in(0, 2));
    world.replies(second, &request, json!(1));
    assert_eq!(world.take_written(client).len(), 2);
    assert_eq!(world.effects.last(), Some(&Effect::Exit { code: 0 }));
}

#[test]
fn k13_7_a_request_that_would_wait_for_a_life_that_waits_for_it_ends_at_once() {
    let mut wide = shop();
    wide.limits.concurrency = 4;
    let helper = manifest("helper", &["query:Helper.Ask"]);
    let mut world = World::booted(vec![wide.clone(), helper]);
    let client = world.connect(1);
    world.ask(client, &buy("c-1"));
    let (first, request) = world.only_delivered();
    world.says_draft(first, Draft::caused_by(&request, Kind::Query, "Helper.Ask", Json::null()));
    let (helper, query) = world.only_delivered();
    reload(&mut world, vec![Change::Replace(wide)]);
    world.says_draft(helper, Draft::caused_by(&query, Kind::Query, "Shop.Price", Json::null()));
    let (to, answer) = world.only_delivered();
    assert_eq!((to, code(&answer)), (helper, 508));
}

#[test]
fn k13_4_a_life_that_fails_as_its_input_ends_leaves_its_events_as_dead_letters() {
    let (mut world, client, _) = watched();
    world.auto_stop = false;
    world.ask(client, &line("event", "Shop.Opened", "e-1", json!(1)));
    reload(&mut world, vec![Change::Restart("shop".into())]);
    world.kernel.actor_exited(actor_in(0, 1), ActorExit::Failed("exit code 3".into()), world.now);
    world.run();
    assert_eq!(world.dead_letters(client).len(), 1);
    assert_eq!(world.actor_state(client, "shop"), "up");
}
