//! Messages for later, over restarts.

use crate::bus::{Bus, orders};
use crate::support::{data, line, line_with};
use mainspring_kernel::{Fact, Rights};
use serde_json::{Value, json};

fn schedule(bus: &mut Bus, id: &str, timing: Value) {
    let connection = bus.connect(bus.now.mono_ns as u64 + 7, "alice");
    let mut data = json!({ "timerId": id, "message": { "kind": "command", "type": "Order.Place", "data": { "by": id } } });
    data.as_object_mut().unwrap().extend(timing.as_object().unwrap().clone());
    let answer = bus.ask(connection, &line("command", "Timer.Schedule", &format!("s-{id}"), data));
    assert_eq!(answer.kind().as_str(), "reply", "{answer:?}");
}

fn timers(bus: &mut Bus) -> Vec<Value> {
    let connection = bus.connect(bus.now.mono_ns as u64 + 8, "alice");
    let id = format!("l-{}", bus.now.mono_ns);
    data(&bus.ask(connection, &line("query", "Timer.List", &id, json!({}))))["timers"]
        .as_array()
        .unwrap()
        .clone()
}

#[test]
fn j5_1_a_schedule_fires_once_at_its_time_and_not_before_over_restarts() {
    let mut bus = Bus::new(vec![orders()]);
    schedule(&mut bus, "one", json!({ "delay": 60_000 }));
    bus.pass_ms(10_000);
    bus.cut_power(20_000);
    bus.pass_ms(29_990);
    assert!(bus.delivered.is_empty());
    bus.pass_ms(20);
    let (actor, request) = bus.only_delivered();
    assert_eq!(data(&request), json!({ "by": "one" }));
    bus.replies(actor, &request, json!("done"));
    bus.cut_power(10);
    bus.pass_ms(100_000);
    assert!(bus.delivered.is_empty() && timers(&mut bus).is_empty());
}

#[test]
fn j5_1_what_was_due_while_no_daemon_ran_fires_once_and_says_how_much_it_missed() {
    let mut bus = Bus::new(vec![orders()]);
    schedule(&mut bus, "tick", json!({ "repeat": 10_000 }));
    schedule(&mut bus, "once", json!({ "delay": 5_000 }));
    bus.cut_power(45_000);
    bus.run();
    let mut by: Vec<(String, bool)> = Vec::new();
    for _ in 0..2 {
        let (actor, request) = bus.only_delivered();
        by.push((
            data(&request)["by"].as_str().unwrap().into(),
            request.metadata().contains("\"missedTicks\":3"),
        ));
        bus.replies(actor, &request, json!({}));
    }
    by.sort();
    assert_eq!(by, [("once".to_owned(), false), ("tick".to_owned(), true)]);
    // And at its own rate from its first time on: at 50 s.
    bus.pass_ms(4_900);
    assert!(bus.delivered.is_empty());
    bus.pass_ms(200);
    assert_eq!(bus.delivered.len(), 1);
}

#[test]
fn j5_1_a_firing_and_the_command_that_it_sends_are_one_and_survive_together_or_not_at_all() {
    let mut bus = Bus::new(vec![orders()]);
    schedule(&mut bus, "one", json!({ "delay": 1_000 }));
    bus.quick = false;
    bus.pass_ms(1_001);
    assert_eq!(bus.names().last_chunk::<3>(), Some(&["accepted", "fired", "delivered"]));
    bus.cut_power(1);
    bus.flush();
    assert_eq!(bus.delivered.len(), 1, "it fires in this run instead");
}

#[test]
fn j5_1_counts_and_cancellations_survive() {
    let mut bus = Bus::new(vec![orders()]);
    schedule(&mut bus, "thrice", json!({ "repeat": 1_000, "count": 3 }));
    schedule(&mut bus, "gone", json!({ "delay": 5_000 }));
    let connection = bus.connect(77, "alice");
    bus.ask(connection, &line("command", "Timer.Cancel", "x", json!({ "timerId": "gone" })));
    bus.pass_ms(1_500);
    let (actor, request) = bus.only_delivered();
    bus.replies(actor, &request, json!({}));
    bus.cut_power(10);
    let left = timers(&mut bus);
    assert_eq!((left.len(), &left[0]["timerId"], &left[0]["left"]), (1, &json!("thrice"), &json!(2)));
    for _ in 0..2 {
        bus.pass_ms(1_000);
        let (actor, request) = bus.only_delivered();
        bus.replies(actor, &request, json!({}));
    }
    bus.pass_ms(10_000);
    assert!(bus.delivered.is_empty() && timers(&mut bus).is_empty());
}

#[test]
fn a_schedule_that_is_not_to_be_durable_ends_with_the_run() {
    let mut bus = Bus::new(vec![orders()]);
    let connection = bus.connect(1, "alice");
    let data = json!({ "delay": 1000, "message": { "kind": "command", "type": "Order.Place", "data": {} } });
    bus.ask(connection, &line_with("command", "Timer.Schedule", "s", data, json!({ "durable": false })));
    assert!(bus.names().is_empty());
    bus.cut_power(10);
    assert!(timers(&mut bus).is_empty());
}

#[test]
fn a_shutdown_keeps_what_is_scheduled() {
    let mut bus = Bus::new(vec![orders()]);
    schedule(&mut bus, "one", json!({ "delay": 60_000 }));
    bus.kernel.shutdown("test", bus.now);
    bus.pass_ms(1_000);
    assert_eq!(bus.exit, Some(0));
    bus.cut_power(10);
    assert_eq!(timers(&mut bus).len(), 1);
}

/// A client that gave up all but orders schedules one.
fn schedule_restricted(bus: &mut Bus, name: &str, id: &str, repeat_ms: u64) {
    let connection = bus.connect(bus.now.mono_ns as u64 + 9, name);
    bus.ask(
        connection,
        &line(
            "command",
            "Sys.Restrict",
            &format!("r-{id}"),
            json!({ "allow": ["Order.*"], "operator": false }),
        ),
    );
    let data = json!({ "timerId": id, "repeat": repeat_ms,
        "message": { "kind": "command", "type": "Order.Place", "data": { "by": id } } });
    let answer = bus.ask(connection, &line("command", "Timer.Schedule", &format!("s-{id}"), data));
    assert_eq!(answer.kind().as_str(), "reply", "{answer:?}");
}

#[test]
fn j5_3_what_a_limited_peer_scheduled_is_limited_after_a_restart_and_still_sent() {
    let mut bus = Bus::new(vec![orders()]);
    schedule_restricted(&mut bus, "ci", "tick", 1_000);
    let recorded = bus.recorded.iter().find_map(|fact| match fact {
        Fact::Scheduled { rights, .. } => Some(rights.clone()),
        _ => None,
    });
    assert_eq!(recorded, Some(Some(Rights::default().limited_to(["Order.*"]))));
    bus.cut_power(10);
    // Its rights come over all restarts, not only the first.
    bus.cut_power(10);
    let kept: Vec<_> = bus.durable().facts().map(|fact| (fact.name(), fact.version())).collect();
    assert!(kept.contains(&("scheduled", 2)), "{kept:?}");
    bus.pass_ms(1_000);
    assert_eq!(bus.only_delivered().1.type_name(), "Order.Place");
}

#[test]
fn j5_3_what_a_peer_scheduled_is_refused_when_its_token_has_lost_that_right_meanwhile() {
    let mut bus = Bus::new(vec![orders()]);
    schedule_restricted(&mut bus, "ci", "tick", 1_000);
    bus.peers = vec![("ci".into(), Rights::default().limited_to(["Invoice.*"]))];
    bus.cut_power(10);
    bus.pass_ms(1_000);
    assert!(bus.delivered.is_empty(), "{:?}", bus.delivered);
    let letter = bus.recorded.iter().find_map(|fact| match fact {
        Fact::DeadLettered { reason, .. } => Some(reason.to_string()),
        _ => None,
    });
    let letter = letter.expect("a dead letter");
    assert!(letter.contains("403") && letter.contains("Invoice.*"), "{letter}");
    // One token of the name that allows it is enough, and a name that the settings do not know
    // keeps what it had.
    let narrow = || Rights::default().limited_to(["Invoice.*"]);
    for peers in
        [vec![("ci".into(), narrow()), ("ci".into(), Rights::default())], vec![("ann".into(), narrow())]]
    {
        bus.peers = peers;
        bus.cut_power(10);
        bus.pass_ms(1_000);
        let (actor, request) = bus.only_delivered();
        bus.replies(actor, &request, json!({}));
    }
}
