//! Disks that are full, or fail.

use crate::bus::{Bus, orders};
use crate::support::{code, data, line, line_with, manifest};
use mainspring_kernel::{Change, Fact, Limits, Manifest, Source};
use mainspring_message::{Draft, Json, Kind};
use serde_json::json;

#[test]
fn j3_1_what_waited_when_the_disk_failed_ends_in_503_started_yes_and_nothing_durable_is_taken() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.quick = false;
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    bus.flush();
    let (actor, first) = bus.only_delivered();
    bus.send(alice, &line("command", "Order.Place", "c-2", json!({})));
    // The first is done, and nobody was told yet; the second is about to be delivered.
    bus.replies(actor, &first, json!("done"));
    assert!(bus.written.is_empty() && bus.delivered.is_empty());
    bus.fail_storage();
    let mut told: Vec<(String, u64)> = bus
        .written
        .drain(..)
        .map(|(_, answer)| {
            assert_eq!(
                (answer.type_name(), data(&answer)["started"].as_str()),
                ("Sys.StorageFailed", Some("yes"))
            );
            (answer.causation().unwrap().to_owned(), code(&answer))
        })
        .collect();
    told.sort();
    assert_eq!(told, [("c-1".to_owned(), 503), ("c-2".to_owned(), 503)]);
    assert!(bus.delivered.is_empty(), "what rests on lost facts never leaves");
    // One outcome for one id, also in memory.
    let again = bus.ask(alice, &line("command", "Order.Place", "c-1", json!({})));
    assert_eq!((code(&again), data(&again)["started"].as_str()), (409, Some("yes")));
    let refused = bus.ask(alice, &line("command", "Order.Place", "c-3", json!({})));
    assert_eq!((code(&refused), data(&refused)["started"].as_str()), (503, Some("no")));
    // The rest goes on.
    bus.send(alice, &line("query", "Order.Get", "q-1", json!({})));
    let (actor, query) = bus.only_delivered();
    bus.replies(actor, &query, json!(1));
    assert_eq!(data(&bus.only_written()), json!(1));
    bus.send(alice, &line_with("command", "Order.Place", "c-4", json!({}), json!({ "durable": false })));
    let (actor, command) = bus.only_delivered();
    bus.replies(actor, &command, json!(2));
    assert_eq!(data(&bus.only_written()), json!(2));
    assert!(bus.kernel.audit().is_ok(), "{:?}", bus.kernel.audit());
}

#[test]
fn j3_1_an_actor_that_has_a_command_when_the_disk_fails_may_finish_it_late() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    let (actor, request) = bus.only_delivered();
    bus.fail_storage();
    assert_eq!(code(&bus.only_written()), 503);
    bus.replies(actor, &request, json!("late"));
    assert!(bus.written.is_empty());
    bus.send(alice, &line("query", "Order.Get", "q-1", json!({})));
    assert_eq!(bus.only_delivered().0, actor, "it is the same actor, and takes the next request");
}

#[test]
fn j3_2_a_full_disk_refuses_new_durable_commands_while_accepted_ones_end() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    bus.kernel.storage_full(true, bus.now);
    let refused = bus.ask(alice, &line("command", "Order.Place", "c-2", json!({})));
    assert_eq!((refused.type_name(), code(&refused)), ("Sys.StorageFull", 507));
    assert_eq!(data(&refused)["started"], "no");
    let timer = json!({ "delay": 1, "message": { "kind": "command", "type": "Order.Place", "data": {} } });
    assert_eq!(code(&bus.ask(alice, &line("command", "Timer.Schedule", "s-1", timer))), 507);
    let (actor, request) = bus.only_delivered();
    bus.replies(actor, &request, json!("done"));
    assert_eq!(data(&bus.only_written()), json!("done"));
    bus.kernel.storage_full(false, bus.now);
    bus.send(alice, &line("command", "Order.Place", "c-2", json!({})));
    assert_eq!(bus.only_delivered().1.id(), "c-2");
}

/// A command of which only its end is recorded.
fn whole(id: &str) -> String {
    let later =
        json!({ "delay": 60_000, "message": { "kind": "command", "type": "Order.Place", "data": {} } });
    line("command", "Timer.Schedule", id, later)
}

#[test]
fn j1_7_whoever_sends_durable_commands_is_paused_while_too_much_waits_for_the_disk() {
    let mut bus = Bus::new(vec![orders()]);
    let (alice, bob, carol) = (bus.connect(1, "alice"), bus.connect(2, "bob"), bus.connect(3, "carol"));
    bus.kernel.storage_congested(true, bus.now);
    bus.kernel.ingest(alice, line("command", "Order.Place", "c-1", json!({})).as_bytes(), bus.now);
    bus.kernel.ingest(bob, line("query", "Order.Get", "q-1", json!({})).as_bytes(), bus.now);
    let free = line_with("command", "Order.Place", "c-2", json!({}), json!({ "durable": false }));
    bus.kernel.ingest(bob, free.as_bytes(), bus.now);
    bus.kernel.ingest(carol, whole("s-1").as_bytes(), bus.now);
    let paused = vec![Source::Connection(alice), Source::Connection(carol)];
    assert_eq!(bus.reading(), (paused.clone(), vec![]));
    bus.kernel.storage_congested(false, bus.now);
    assert_eq!(bus.reading(), (vec![], paused));
}

#[test]
fn j1_7_what_many_senders_add_while_too_much_waits_for_the_disk_is_bounded() {
    let mut bus = Bus::new(vec![orders()]);
    bus.kernel.storage_congested(true, bus.now);
    let large = json!({ "filling": "x".repeat(900_000) });
    let place = |bus: &mut Bus, number: u64| {
        let client = bus.connect(number, "alice");
        bus.send(client, &line("command", "Order.Place", &format!("c-{number}"), large.clone()));
        bus.written.drain(..).find(|(to, _)| *to == client).map(|(_, answer)| answer)
    };
    let mut taken = 0;
    let refused = loop {
        match place(&mut bus, taken + 1) {
            None => taken += 1,
            Some(answer) => break answer,
        }
        // Its mailbox is not what is full.
        for (actor, request) in std::mem::take(&mut bus.delivered) {
            bus.replies(actor, &request, json!("done"));
        }
        bus.written.clear();
        assert!(taken < 1000, "it is never too much");
    };
    assert_eq!((refused.type_name(), code(&refused)), ("Sys.Overloaded", 503), "{refused:?}");
    assert_eq!(data(&refused)["started"], "no");
    assert!((70..80).contains(&taken), "{taken}");
    bus.kernel.storage_congested(false, bus.now);
    assert!(place(&mut bus, 2000).is_none(), "there is room again");
}

#[test]
fn j1_7_a_capability_that_sent_durable_commands_was_read_while_too_much_waited_for_the_disk() {
    let shop = Manifest { uncaused: true, ..manifest("shop", &["command:Shop.Open"]) };
    let mut bus = Bus::new(vec![orders(), shop]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Shop.Open", "c-1", json!({})));
    let (actor, request) = bus.only_delivered();
    let ask = |bus: &mut Bus, type_name: &str| {
        let draft = Draft::caused_by(&request, Kind::Command, type_name, Json::from(json!({})));
        bus.kernel.actor_message(actor, draft, bus.now);
    };
    bus.kernel.storage_congested(true, bus.now);
    ask(&mut bus, "Order.Place");
    ask(&mut bus, "Order.Place");
    let source = vec![Source::Actor(actor)];
    assert_eq!(bus.reading(), (source.clone(), vec![]));
    // What was accepted can end on a full disk, so the capability is heard again.
    bus.kernel.storage_full(true, bus.now);
    assert_eq!(bus.reading(), (vec![], source.clone()));
    bus.kernel.storage_full(false, bus.now);
    ask(&mut bus, "Order.Place");
    assert_eq!(bus.reading(), (source.clone(), vec![]));
    bus.kernel.storage_congested(false, bus.now);
    assert_eq!(bus.reading(), (vec![], source));
}

#[test]
fn j1_7_a_retired_capability_that_is_not_read_because_of_the_disk_is_not_taken_for_unfinished() {
    let shop = Manifest { uncaused: true, ..manifest("shop", &["command:Shop.Open"]) };
    let mut bus = Bus::new(vec![orders(), shop]);
    let alice = bus.connect(1, "alice");
    let patient = json!({ "durable": false, "timeout": 3_600_000 });
    bus.send(alice, &line_with("command", "Shop.Open", "c-1", json!({}), patient));
    let (actor, request) = bus.only_delivered();
    bus.kernel.storage_congested(true, bus.now);
    let draft = Draft::caused_by(&request, Kind::Command, "Order.Place", Json::from(json!({})));
    bus.kernel.actor_message(actor, draft, bus.now);
    bus.run();
    let (other, placed) = bus.only_delivered();
    bus.replies(other, &placed, json!("done"));
    bus.kernel.reload(vec![Change::Restart("shop".into())], bus.now).unwrap();
    let faults = |bus: &mut Bus| {
        let number = bus.now.unix_ms;
        let operator = bus.connect(number, "operator");
        let stats = bus.ask(operator, &line("query", "Sys.Stats", &format!("q-{number}"), json!({})));
        data(&stats)["counters"]["actorFaults"].clone()
    };
    bus.pass_ms(600_000);
    assert_eq!(faults(&mut bus), 0);
    bus.kernel.storage_congested(false, bus.now);
    bus.pass_ms(60_000);
    assert_eq!(faults(&mut bus), 1, "it had its time after that");
}

/// Has a message sent each so many milliseconds.
fn repeat(bus: &mut Bus, ms: u64, message: serde_json::Value, metadata: serde_json::Value) {
    let alice = bus.connect(1, "alice");
    let often = json!({ "timerId": "t", "delay": ms, "repeat": ms, "message": message });
    let answer = bus.ask(alice, &line_with("command", "Timer.Schedule", "s-1", often, metadata));
    assert_eq!(answer.kind(), Kind::Reply, "{answer:?}");
    bus.ask(alice, &line("command", "Sys.Subscribe", "s-2", json!({ "types": ["Order.Due"] })));
}

#[test]
fn j1_7_a_schedule_waits_while_too_much_waits_for_the_disk() {
    let mut bus = Bus::new(vec![orders()]);
    repeat(&mut bus, 10, json!({ "kind": "event", "type": "Order.Due", "data": {} }), json!({}));
    bus.kernel.storage_congested(true, bus.now);
    let before = bus.recorded.len();
    bus.pass_ms(1000);
    assert_eq!((bus.recorded.len(), bus.written.len()), (before, 0));
    bus.kernel.storage_congested(false, bus.now);
    bus.pass_ms(10);
    let told = bus.only_written();
    assert_eq!((told.type_name(), bus.recorded.len()), ("Order.Due", before + 1));
    assert!(told.metadata().contains("\"missedTicks\":100"), "{told:?}");
}

#[test]
fn j1_7_a_burst_of_others_made_a_daily_schedule_leave_out_a_day() {
    const DAY_MS: u64 = 86_400_000;
    let mut bus = Bus::new(vec![orders()]);
    repeat(&mut bus, DAY_MS, json!({ "kind": "event", "type": "Order.Due", "data": {} }), json!({}));
    bus.pass_ms(DAY_MS - 1);
    bus.kernel.storage_congested(true, bus.now);
    bus.pass_ms(5);
    assert!(bus.written.is_empty());
    bus.kernel.storage_congested(false, bus.now);
    bus.pass_ms(200);
    let told = bus.only_written();
    assert_eq!(told.type_name(), "Order.Due");
    assert!(!told.metadata().contains("missedTicks"), "{told:?}");
    bus.pass_ms(DAY_MS - 205);
    assert!(bus.written.is_empty());
    bus.pass_ms(1);
    assert_eq!(bus.only_written().type_name(), "Order.Due");
}

#[test]
fn j1_7_a_schedule_that_is_not_durable_waits_if_the_command_that_it_sends_is() {
    let skip = json!({ "durable": false });
    let mut bus = Bus::new(vec![orders()]);
    repeat(&mut bus, 10, json!({ "kind": "command", "type": "Order.Place", "data": {} }), skip.clone());
    bus.kernel.storage_congested(true, bus.now);
    let before = bus.recorded.len();
    bus.pass_ms(1000);
    assert_eq!((bus.recorded.len(), bus.delivered.len()), (before, 0));
    bus.kernel.storage_congested(false, bus.now);
    bus.pass_ms(10);
    assert_eq!(bus.only_delivered().1.type_name(), "Order.Place");
    // What is not to be kept waits for no disk.
    let mut bus = Bus::new(vec![orders()]);
    repeat(&mut bus, 10, json!({ "kind": "event", "type": "Order.Due", "data": {} }), skip);
    bus.kernel.storage_congested(true, bus.now);
    bus.pass_ms(100);
    assert_eq!(bus.written.len(), 10);
}

#[test]
fn j3_2_schedules_ate_what_a_full_disk_keeps_for_accepted_commands() {
    let mut bus = Bus::new(vec![orders()]);
    repeat(&mut bus, 10, json!({ "kind": "command", "type": "Order.Place", "data": {} }), json!({}));
    bus.kernel.storage_full(true, bus.now);
    let before = bus.recorded.len();
    bus.pass_ms(1000);
    assert_eq!((bus.recorded.len(), bus.delivered.len()), (before, 0));
    bus.kernel.storage_full(false, bus.now);
    bus.pass_ms(10);
    assert_eq!(bus.only_delivered().1.type_name(), "Order.Place");
}

#[test]
fn j1_7_dead_letters_were_recorded_without_bound_while_too_much_waited_for_the_disk() {
    let limits = Limits { dead_letters_max: 10, ..Limits::default() };
    let mut bus = Bus::with_limits(limits, vec![orders()]);
    let mallory = bus.connect(1, "mallory");
    let mut number = 0;
    // What answers nothing becomes a dead letter.
    let mut bury = |bus: &mut Bus, filling: &str| {
        number += 1;
        let id = format!("l-{number}");
        let answers_nothing = json!({ "causation": "x" });
        bus.send(mallory, &line_with("error", "A.B", &id, json!(filling), answers_nothing));
    };
    bus.kernel.storage_congested(true, bus.now);
    let before = bus.recorded.len();
    (0..100).for_each(|_| bury(&mut bus, &"x".repeat(900_000)));
    let recorded = bus.recorded.len() - before;
    let letters = |bus: &Bus, from: usize| {
        bus.recorded[from..].iter().filter(|fact| matches!(fact, Fact::DeadLettered { .. })).count()
    };
    assert!((70..80).contains(&letters(&bus, before)), "{recorded} facts");
    // Those that come and go meanwhile are not even remembered.
    (0..6000).for_each(|_| bury(&mut bus, "small"));
    assert_eq!(bus.recorded.len() - before, recorded);
    let list = |bus: &mut Bus| {
        let asking = bus.connect(bus.now.unix_ms + bus.recorded.len() as u64, "operator");
        let id = format!("q-{}", bus.recorded.len());
        let answer = bus.ask(asking, &line("query", "Sys.DeadLetters", &id, json!({ "action": "list" })));
        data(&answer)["letters"].clone()
    };
    let kept = list(&mut bus);
    assert_eq!(kept.as_array().map(Vec::len), Some(10), "{kept}");
    bus.kernel.storage_congested(false, bus.now);
    bus.run();
    assert!(bus.recorded.len() - before - recorded < 5000, "{}", bus.recorded.len());
    assert_eq!(letters(&bus, before + recorded), 10);
    bus.cut_power(1000);
    assert_eq!(list(&mut bus), kept);
}

#[test]
fn j3_1_whoever_was_paused_for_a_disk_that_then_failed_or_was_full_was_never_read_again() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    let source = vec![Source::Connection(alice)];
    let pause = |bus: &mut Bus, id: &str| {
        bus.kernel.storage_congested(true, bus.now);
        bus.kernel.ingest(alice, whole(id).as_bytes(), bus.now);
        assert_eq!(bus.reading(), (source.clone(), vec![]));
    };
    pause(&mut bus, "s-1");
    bus.kernel.storage_full(true, bus.now);
    assert_eq!(bus.reading(), (vec![], source.clone()));
    bus.kernel.storage_full(false, bus.now);
    pause(&mut bus, "s-2");
    bus.kernel.storage_failed("input/output error", bus.now);
    assert_eq!(bus.reading(), (vec![], source));
    bus.kernel.storage_congested(true, bus.now);
    bus.kernel.ingest(alice, line("query", "Order.Get", "q-1", json!({})).as_bytes(), bus.now);
    assert_eq!(bus.reading(), (vec![], vec![]));
}
