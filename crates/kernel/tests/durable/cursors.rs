//! Durable events, and subscribers that come back.

use crate::bus::{Bus, orders};
use crate::support::{code, data, line, line_with, manifest};
use mainspring_kernel::{
    ActorRef, BootPlan, Config, ConnectionId, DurableBounds, Effect, Fact, Kernel, Manifest, Now, Source,
};
use mainspring_message::{Draft, Envelope, Json, Kind};
use serde_json::{Value, json};

fn shop() -> Manifest {
    Manifest { durable_events: true, uncaused: true, ..manifest("shop", &["command:Shop.Open"]) }
}

/// A bus whose second capability has durable events, and its actor.
fn bus() -> (Bus, ActorRef) {
    let mut bus = Bus::new(vec![orders(), shop()]);
    let actor = shop_of(&mut bus);
    (bus, actor)
}

/// The actor of the shop, by the one command that it is given.
fn shop_of(bus: &mut Bus) -> ActorRef {
    let connection = bus.connect(u64::MAX / 2, "somebody");
    let id = format!("open-{}", bus.now.unix_ms);
    bus.send(connection, &line("command", "Shop.Open", &id, json!({})));
    if !bus.quick {
        bus.flush();
    }
    let (actor, request) = bus.only_delivered();
    bus.replies(actor, &request, json!({}));
    bus.flush();
    bus.written.clear();
    actor
}

fn says(bus: &mut Bus, actor: ActorRef, type_name: &str, number: u64) {
    let draft = Draft::new(Kind::Event, type_name, Json::from(json!(number)));
    bus.kernel.actor_message(actor, draft, bus.now);
    bus.run();
}

fn ask(bus: &mut Bus, connection: ConnectionId, name: &str, data: Value) -> Envelope {
    let fresh = bus.fresh();
    let id = format!("q-{}-{fresh}", bus.now.unix_ms);
    let before = bus.written.len();
    bus.send(connection, &line("command", name, &id, data));
    // Events may follow the answer.
    let at = (before..bus.written.len()).find(|at| bus.written[*at].1.causation() == Some(&id));
    bus.written.remove(at.expect("an answer")).1
}

fn subscribe(bus: &mut Bus, connection: ConnectionId, types: &[&str], more: Value) -> Value {
    let mut asked = json!({ "types": types, "cursor": "billing" });
    asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = ask(bus, connection, "Sys.Subscribe", asked);
    assert_eq!(answer.kind(), Kind::Reply, "{answer:?}");
    data(&answer)
}

/// What was written of late: each event's number and data, or the words of a notice.
fn told(bus: &mut Bus) -> Vec<(Option<u64>, Value)> {
    let written = std::mem::take(&mut bus.written);
    let events = written.into_iter().filter(|(_, message)| message.kind() == Kind::Event);
    let number = |event: &Envelope| {
        let metadata: Value = serde_json::from_str(event.metadata()).unwrap();
        metadata["event"].as_u64()
    };
    events.map(|(_, event)| (number(&event), data(&event))).collect()
}

fn numbers(bus: &mut Bus) -> Vec<u64> {
    told(bus).into_iter().map(|(number, _)| number.expect("a number")).collect()
}

#[test]
fn j7_1_whoever_comes_back_is_given_what_it_has_not_acknowledged_in_order() {
    let (mut bus, actor) = bus();
    let first = bus.connect(1, "alice");
    assert_eq!(subscribe(&mut bus, first, &["Shop.*"], json!({}))["after"], 0);
    (1..=5).for_each(|number| says(&mut bus, actor, "Shop.Sold", number));
    assert_eq!(numbers(&mut bus), [1, 2, 3, 4, 5]);
    let moved = ask(&mut bus, first, "Sys.Acknowledge", json!({ "cursor": "billing", "event": 2 }));
    assert_eq!(data(&moved), json!({ "cursor": "billing", "event": 2 }));
    // Gone without a word; more happens; back under the same name.
    bus.kernel.connection_closed(first, bus.now);
    says(&mut bus, actor, "Shop.Sold", 6);
    let second = bus.connect(2, "alice");
    assert_eq!(subscribe(&mut bus, second, &["Shop.*"], json!({}))["after"], 2);
    assert_eq!(numbers(&mut bus), [3, 4, 5, 6]);
    // The same over a power cut, and nothing moves back.
    ask(&mut bus, second, "Sys.Acknowledge", json!({ "cursor": "billing", "event": 4 }));
    let late = ask(&mut bus, second, "Sys.Acknowledge", json!({ "cursor": "billing", "event": 1 }));
    assert_eq!(data(&late)["event"], 4);
    bus.cut_power(1000);
    let actor = shop_of(&mut bus);
    says(&mut bus, actor, "Shop.Sold", 7);
    let third = bus.connect(3, "alice");
    subscribe(&mut bus, third, &["Shop.*"], json!({}));
    assert_eq!(numbers(&mut bus), [5, 6, 7]);
    bus.kernel.audit().unwrap();
}

#[test]
fn j7_1_how_far_a_cursor_is_is_told_when_that_is_on_disk_whoever_moved_it() {
    let (mut bus, actor) = bus();
    let first = bus.connect(1, "alice");
    subscribe(&mut bus, first, &["Shop.*"], json!({}));
    says(&mut bus, actor, "Shop.Sold", 1);
    assert_eq!(numbers(&mut bus), [1]);
    bus.quick = false;
    let acknowledged = json!({ "cursor": "billing", "event": 1 });
    bus.send(first, &line("command", "Sys.Acknowledge", "a-1", acknowledged.clone()));
    bus.kernel.connection_closed(first, bus.now);
    // Another connection of the same peer hears nothing of it before the flush.
    let second = bus.connect(2, "alice");
    let data = json!({ "types": ["Shop.*"], "cursor": "billing" });
    bus.send(second, &line("command", "Sys.Subscribe", "s-2", data));
    bus.send(second, &line("command", "Sys.Acknowledge", "a-2", acknowledged));
    assert!(bus.written.is_empty(), "{:?}", bus.written);
    bus.flush();
    let its_own = bus.written.iter().filter(|(connection, _)| *connection == second);
    let answered: Vec<_> = its_own.map(|(_, answer)| answer.causation().unwrap()).collect();
    assert_eq!(answered, ["s-2", "a-2"]);
}

#[test]
fn j7_1_an_event_is_told_when_it_is_on_disk_and_never_before() {
    let (mut bus, actor) = bus();
    let connection = bus.connect(1, "alice");
    subscribe(&mut bus, connection, &["*"], json!({}));
    bus.quick = false;
    says(&mut bus, actor, "Shop.Sold", 1);
    assert!(told(&mut bus).is_empty());
    assert_eq!(bus.names().last(), Some(&"emitted"));
    bus.flush();
    assert_eq!(numbers(&mut bus), [1]);
    // What was not on disk never was: its number is free.
    says(&mut bus, actor, "Shop.Sold", 2);
    bus.cut_power(1000);
    bus.quick = true;
    let actor = shop_of(&mut bus);
    says(&mut bus, actor, "Shop.Sold", 3);
    let connection = bus.connect(2, "alice");
    subscribe(&mut bus, connection, &["*"], json!({ "after": 0 }));
    assert_eq!(told(&mut bus), [(Some(1), json!(1)), (Some(2), json!(3))]);
}

#[test]
fn j7_1_what_a_capability_said_before_its_answer_is_on_disk_with_the_answer() {
    let (mut bus, _) = bus();
    bus.quick = false;
    let connection = bus.connect(1, "alice");
    bus.send(connection, &line("command", "Shop.Open", "c-1", json!({})));
    bus.flush();
    let (actor, request) = bus.only_delivered();
    says(&mut bus, actor, "Shop.Sold", 1);
    bus.replies(actor, &request, json!({}));
    let at = |name: &str| bus.recorded.iter().rposition(|fact| fact.name() == name).unwrap();
    assert!(at("emitted") < at("ended"));
}

#[test]
fn j7_2_only_durable_events_of_the_wanted_types_come_by_a_cursor() {
    let (mut bus, actor) = bus();
    let connection = bus.connect(1, "alice");
    subscribe(&mut bus, connection, &["Shop.Sold"], json!({}));
    let client = bus.connect(2, "bob");
    bus.send(client, &line("event", "Shop.Sold", "e-1", json!("a client's")));
    says(&mut bus, actor, "Shop.Closed", 1);
    says(&mut bus, actor, "Shop.Sold", 2);
    assert_eq!(numbers(&mut bus), [2]);
    ask(&mut bus, connection, "Sys.Acknowledge", json!({ "cursor": "billing", "event": 2 }));
    // What it did not want is behind it, so that it is no gap later.
    says(&mut bus, actor, "Shop.Closed", 3);
    bus.kernel.connection_closed(connection, bus.now);
    bus.run();
    let moved = bus.recorded.iter().rev().find_map(|fact| match fact {
        Fact::CursorMoved { event, .. } => Some(*event),
        _ => None,
    });
    assert_eq!(moved, Some(3));
}

#[test]
fn j7_2_names_are_per_peer_and_one_connection_reads_at_a_time() {
    let (mut bus, actor) = bus();
    let (alice, bob) = (bus.connect(1, "alice"), bus.connect(2, "bob"));
    subscribe(&mut bus, alice, &["*"], json!({}));
    subscribe(&mut bus, bob, &["*"], json!({}));
    says(&mut bus, actor, "Shop.Sold", 1);
    assert_eq!(numbers(&mut bus), [1, 1]);
    ask(&mut bus, alice, "Sys.Acknowledge", json!({ "cursor": "billing", "event": 1 }));
    assert_eq!(subscribe(&mut bus, bob, &["*"], json!({}))["after"], 0);
    bus.written.clear();
    let again = bus.connect(3, "alice");
    subscribe(&mut bus, again, &["*"], json!({}));
    let [(connection, ended)] = &bus.written[..] else { panic!("{:?}", bus.written) };
    assert_eq!((*connection, ended.type_name()), (alice, "Sys.CursorEnded"));
    bus.written.clear();
    says(&mut bus, actor, "Shop.Sold", 2);
    assert_eq!(bus.written.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [bob, again]);
    bus.kernel.audit().unwrap();
}

#[test]
fn j7_3_events_that_are_no_longer_kept_are_a_gap_that_is_told_first() {
    let (mut bus, _) = bus();
    let connection = bus.connect(1, "alice");
    subscribe(&mut bus, connection, &["*"], json!({}));
    bus.bounds = DurableBounds { events_max: 20, ..DurableBounds::default() };
    bus.cut_power(10);
    let actor = shop_of(&mut bus);
    (1..=30).for_each(|number| says(&mut bus, actor, "Shop.Sold", number));
    for restarted in [false, true] {
        if restarted {
            bus.cut_power(1000);
        }
        let connection = bus.connect(2 + u64::from(restarted), "alice");
        subscribe(&mut bus, connection, &["Shop.*"], json!({}));
        let all = told(&mut bus);
        assert_eq!(all[0].1, json!({ "count": 10, "from": 1, "to": 10, "cursor": "billing" }));
        let rest: Vec<u64> = all[1..].iter().map(|(number, _)| number.unwrap()).collect();
        assert_eq!(rest, (11..=30).collect::<Vec<_>>());
        bus.kernel.audit().unwrap();
        bus.kernel.connection_closed(connection, bus.now);
    }
    // Bytes are bounded as well.
    bus.bounds = DurableBounds { event_bytes_max: 1_000, ..DurableBounds::default() };
    bus.cut_power(10);
    let connection = bus.connect(9, "alice");
    subscribe(&mut bus, connection, &["Shop.*"], json!({}));
    let all = told(&mut bus);
    let bytes: usize = all[1..].iter().map(|(_, data)| data.to_string().len() + 80).sum();
    assert!(all[0].1["to"].as_u64() > Some(10) && all.len() > 1 && bytes < 1_200, "{all:?}");
}

#[test]
fn j7_4_rights_hold_for_cursors_also_when_they_are_given_up_later() {
    let (mut bus, actor) = bus();
    let connection = bus.connect(1, "ci");
    subscribe(&mut bus, connection, &["Shop.*"], json!({}));
    ask(&mut bus, connection, "Sys.Restrict", json!({ "allow": ["Order.*"], "operator": false }));
    says(&mut bus, actor, "Shop.Sold", 1);
    assert!(told(&mut bus).is_empty());
    let refused = ask(&mut bus, connection, "Sys.Subscribe", json!({ "types": ["Shop.*"], "cursor": "c" }));
    assert_eq!(code(&refused), 403);
    bus.kernel.audit().unwrap();
}

#[test]
fn j7_5_a_cursor_that_cannot_be_had_is_refused_in_words() {
    let (mut bus, actor) = bus();
    let connection = bus.connect(1, "alice");
    says(&mut bus, actor, "Shop.Sold", 1);
    let mut refused = |name: &str, asked: Value, wanted: u64, words: &str| {
        let answer = ask(&mut bus, connection, name, asked);
        let told = data(&answer)["message"].as_str().unwrap_or_default().to_owned();
        assert!(code(&answer) == wanted && told.contains(words), "{name}: {answer:?}");
    };
    let types = json!(["*"]);
    refused("Sys.Subscribe", json!({ "types": types, "cursor": "" }), 422, "cursor");
    refused("Sys.Subscribe", json!({ "types": types, "cursor": "x".repeat(257) }), 422, "cursor");
    refused("Sys.Subscribe", json!({ "types": types, "after": 1 }), 422, "needs data.cursor");
    refused("Sys.Subscribe", json!({ "types": types, "cursor": "c", "slow": "disconnect" }), 422, "slow");
    refused("Sys.Subscribe", json!({ "types": types, "cursor": "c", "after": 2 }), 409, "the last one is 1");
    refused("Sys.Subscribe", json!({ "types": ["x"], "cursor": "c" }), 422, "data.types");
    refused("Sys.Acknowledge", json!({ "cursor": "c", "event": 1 }), 404, "no cursor");
    refused("Sys.Unsubscribe", json!({ "cursor": "c" }), 404, "no cursor");
    subscribe(&mut bus, connection, &["*"], json!({}));
    let mut refused = |name: &str, asked: Value, wanted: u64| {
        let answer = ask(&mut bus, connection, name, asked);
        assert_eq!(code(&answer), wanted, "{name}: {answer:?}");
    };
    refused("Sys.Subscribe", json!({ "types": types, "cursor": "other" }), 409);
    refused("Sys.Acknowledge", json!({ "cursor": "billing", "event": 9 }), 409);
    // Without durable events, without a journal.
    let mut plain = Bus::new(vec![orders()]);
    let connection = plain.connect(1, "alice");
    let answer = ask(&mut plain, connection, "Sys.Subscribe", json!({ "types": types, "cursor": "c" }));
    assert_eq!(code(&answer), 422, "{answer:?}");
}

#[test]
fn j7_5_a_kernel_without_a_journal_says_that_durable_events_are_not_kept() {
    let now = Now { mono_ns: 1, unix_ms: 1 };
    let mut kernel = Kernel::new(Config::default(), 1);
    kernel.boot(BootPlan { capabilities: vec![orders(), shop()], adapters: Vec::new() }, now);
    let mut effects = Vec::new();
    kernel.drain_effects(&mut effects);
    let told = effects.iter().filter_map(|effect| match effect {
        Effect::Log { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let told: Vec<&str> = told.filter(|text| text.contains("durable_events")).collect();
    assert!(matches!(told[..], [text] if text.starts_with("shop has")), "{told:?}");
}

#[test]
fn j7_5_a_peer_has_so_many_cursors_and_forgets_those_that_it_does_not_need() {
    let (mut bus, _) = bus();
    let mut taken = 0;
    for number in 0..70 {
        let connection = bus.connect(number + 1, "alice");
        let asked = json!({ "types": ["*"], "cursor": format!("c-{number}") });
        let answer = ask(&mut bus, connection, "Sys.Subscribe", asked);
        taken += usize::from(answer.kind() == Kind::Reply);
        bus.kernel.connection_closed(connection, bus.now);
    }
    assert_eq!(taken, 64);
    let connection = bus.connect(1000, "alice");
    assert_eq!(ask(&mut bus, connection, "Sys.Unsubscribe", json!({ "cursor": "c-3" })).kind(), Kind::Reply);
    subscribe(&mut bus, connection, &["*"], json!({}));
    bus.cut_power(10);
    let connection = bus.connect(1001, "alice");
    let asked = json!({ "cursor": "c-3", "event": 0 });
    assert_eq!(code(&ask(&mut bus, connection, "Sys.Acknowledge", asked)), 404);
    let asked = json!({ "cursor": "c-4", "event": 0 });
    assert_eq!(ask(&mut bus, connection, "Sys.Acknowledge", asked).kind(), Kind::Reply);
}

#[test]
fn j7_5_readers_are_told_when_the_journal_fails() {
    let (mut bus, actor) = bus();
    let connection = bus.connect(1, "alice");
    subscribe(&mut bus, connection, &["*"], json!({}));
    bus.written.clear();
    bus.fail_storage();
    let ended = bus.written.iter().find(|(_, event)| event.type_name() == "Sys.CursorEnded");
    assert!(ended.is_some_and(|(to, _)| *to == connection), "{:?}", bus.written);
    says(&mut bus, actor, "Shop.Sold", 1);
    let answer = ask(&mut bus, connection, "Sys.Acknowledge", json!({ "cursor": "billing", "event": 0 }));
    assert_eq!(code(&answer), 503);
}

#[test]
fn j7_1_a_reader_that_does_not_keep_up_loses_nothing_that_is_kept() {
    let (mut bus, actor) = bus();
    let connection = bus.connect(1, "alice");
    subscribe(&mut bus, connection, &["*"], json!({}));
    bus.reads = false;
    let data = Json::from(json!("x".repeat(100_000)));
    for _ in 0..200 {
        bus.kernel.actor_message(actor, Draft::new(Kind::Event, "Shop.Sold", data.clone()), bus.now);
        bus.run();
    }
    let at_once = numbers(&mut bus);
    assert!(at_once.len() < 200);
    let mut all = at_once;
    while all.len() < 200 {
        bus.read_all();
        let more = numbers(&mut bus);
        assert!(!more.is_empty(), "it stops at {}", all.len());
        all.extend(more);
    }
    assert_eq!(all, (1..=200).collect::<Vec<_>>());
    bus.kernel.audit().unwrap();
}

fn says_unheard(bus: &mut Bus, actor: ActorRef) {
    let draft = Draft::new(Kind::Event, "Shop.Sold", Json::from(json!(1)));
    bus.kernel.actor_message(actor, draft, bus.now);
}

#[test]
fn j1_7_durable_events_were_read_without_bound_while_the_disk_did_not_keep_up() {
    let (mut bus, actor) = bus();
    let source = Source::Actor(actor);
    bus.kernel.storage_congested(true, bus.now);
    says_unheard(&mut bus, actor);
    says_unheard(&mut bus, actor);
    assert_eq!(bus.reading(), (vec![source], vec![]));
    bus.kernel.storage_congested(false, bus.now);
    assert_eq!(bus.reading(), (vec![], vec![source]));
    says_unheard(&mut bus, actor);
    assert_eq!(bus.reading(), (vec![], vec![]));
}

#[test]
fn j3_2_durable_events_ate_what_a_full_disk_keeps_for_accepted_commands() {
    let (mut bus, actor) = bus();
    let source = Source::Actor(actor);
    bus.kernel.storage_full(true, bus.now);
    says_unheard(&mut bus, actor);
    bus.kernel.storage_congested(true, bus.now);
    bus.kernel.storage_congested(false, bus.now);
    assert_eq!(bus.reading(), (vec![source], vec![]), "it is still full");
    bus.kernel.storage_full(false, bus.now);
    assert_eq!(bus.reading(), (vec![], vec![source]));
    bus.kernel.storage_full(true, bus.now);
    says_unheard(&mut bus, actor);
    bus.kernel.storage_failed("input/output error", bus.now);
    assert_eq!(bus.reading(), (vec![source], vec![source]), "nothing is kept any more");
}

/// Has the shop say an event that is not on disk, and gives it a command with a deadline of a
/// second.
fn ask_behind_an_event(bus: &mut Bus, actor: ActorRef) {
    bus.quick = false;
    says(bus, actor, "Shop.Sold", 1);
    let alice = bus.connect(1, "alice");
    let soon = json!({ "durable": false, "timeout": 1000 });
    bus.send(alice, &line_with("command", "Shop.Open", "c-1", json!({}), soon));
    assert_eq!(bus.only_delivered().0, actor);
}

#[test]
fn j1_5_a_deadline_went_untold_because_its_capability_had_facts_that_were_not_on_disk() {
    let (mut bus, actor) = bus();
    ask_behind_an_event(&mut bus, actor);
    bus.pass_ms(1000);
    assert_eq!(code(&bus.only_written()), 504);
    // What the capability itself says waits.
    let bob = bus.connect(2, "bob");
    let free = json!({ "durable": false });
    bus.send(bob, &line_with("command", "Shop.Open", "c-2", json!({}), free));
    let late = Draft::new(Kind::Reply, "Shop.Open", Json::from(json!(1)));
    bus.kernel.actor_message(actor, Draft { causation: Some("c-1".into()), ..late }, bus.now);
    bus.run();
    let (_, request) = bus.only_delivered();
    bus.replies(actor, &request, json!({}));
    assert!(bus.written.is_empty(), "{:?}", bus.written);
    bus.flush();
    assert_eq!(bus.only_written().causation(), Some("c-2"));
}

#[test]
fn j1_7_a_capability_that_is_not_read_because_of_the_disk_is_not_taken_for_hung() {
    let (mut bus, actor) = bus();
    bus.kernel.storage_congested(true, bus.now);
    ask_behind_an_event(&mut bus, actor);
    bus.pass_ms(600_000);
    let faults = |bus: &mut Bus| {
        let number = bus.fresh() + 100;
        let operator = bus.connect(number, "operator");
        let stats = bus.ask(operator, &line("query", "Sys.Stats", "s-1", json!({})));
        data(&stats)["counters"]["actorFaults"].clone()
    };
    assert_eq!(faults(&mut bus), 0);
    bus.kernel.storage_congested(false, bus.now);
    bus.pass_ms(60_000);
    assert_eq!(faults(&mut bus), 1, "it had its time after that");
}
