//! What becomes of commands, answers and dead letters when the daemon starts again.

use crate::bus::{Bus, orders};
use crate::support::{code, data, line, line_with, manifest};
use mainspring_kernel::{Answer, Ending, Fact, Limits, Manifest, PeerName, Redeliver, RetryPolicy};
use mainspring_message::Envelope;
use serde_json::json;

fn with(redeliver: Redeliver) -> Manifest {
    Manifest { redeliver, ..orders() }
}

fn letters(bus: &mut Bus) -> Vec<serde_json::Value> {
    let operator = bus.connect(99, "operator");
    let id = format!("letters-{}", bus.now.mono_ns);
    let answer = bus.ask(operator, &line("query", "Sys.DeadLetters", &id, json!({ "action": "list" })));
    data(&answer)["letters"].as_array().unwrap().clone()
}

#[test]
fn j4_1_what_was_accepted_and_not_delivered_is_delivered_by_the_next_run() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({ "n": 1 })));
    bus.send(alice, &line("command", "Order.Place", "c-2", json!({ "n": 2 })));
    assert_eq!(bus.only_delivered().1.id(), "c-1");
    bus.cut_power(100);
    // The first was with the actor, the second was not.
    let (actor, request) = bus.only_delivered();
    assert_eq!((request.id(), data(&request)), ("c-2", json!({ "n": 2 })));
    assert!(!request.metadata().contains("attempt"));
    // Its client comes back and asks again: it gets the one answer.
    let alice = bus.connect(2, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-2", json!({ "n": 2 })));
    assert!(bus.delivered.is_empty() && bus.written.is_empty());
    bus.replies(actor, &request, json!("done"));
    assert_eq!(data(&bus.only_written()), json!("done"));
}

#[test]
fn j4_1_what_was_never_on_disk_is_not_there_and_nobody_was_told_otherwise() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.quick = false;
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    assert!(bus.written.is_empty() && bus.delivered.is_empty());
    bus.cut_power(1);
    assert!(bus.delivered.is_empty());
}

#[test]
fn j4_2_what_an_actor_had_ends_in_502_and_is_a_dead_letter_unless_the_manifest_says_otherwise() {
    for redeliver in [Redeliver::IfNotStarted, Redeliver::Never] {
        let mut bus = Bus::new(vec![with(redeliver)]);
        let alice = bus.connect(1, "alice");
        bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
        assert_eq!(bus.delivered.len(), 1);
        bus.cut_power(100);
        assert!(bus.delivered.is_empty());
        let alice = bus.connect(2, "alice");
        let answer = bus.ask(alice, &line("command", "Order.Place", "c-1", json!({})));
        assert_eq!((answer.type_name(), code(&answer)), ("Sys.Interrupted", 502));
        assert_eq!(data(&answer)["started"], "yes");
        let letters = letters(&mut bus);
        assert_eq!((letters.len(), &letters[0]["attempts"]), (1, &json!(1)));
        assert_eq!(letters[0]["type"], "Order.Place");
        // Once told, it stays so.
        bus.cut_power(100);
        let alice = bus.connect(3, "alice");
        assert_eq!(code(&bus.ask(alice, &line("command", "Order.Place", "c-1", json!({})))), 502);
    }
}

#[test]
fn j4_2_never_ends_also_what_was_not_delivered_and_it_may_be_sent_again() {
    let mut bus = Bus::new(vec![with(Redeliver::Never)]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    bus.send(alice, &line("command", "Order.Place", "c-2", json!({})));
    bus.cut_power(100);
    assert!(bus.delivered.is_empty());
    let letters = letters(&mut bus);
    let reasons: Vec<&str> = letters.iter().map(|letter| letter["reason"].as_str().unwrap()).collect();
    assert_eq!(letters.len(), 2, "{reasons:?}");
    assert!(reasons[1].contains("503") && reasons[1].contains(r#""started":"no""#), "{reasons:?}");
    let alice = bus.connect(2, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-2", json!({})));
    assert_eq!(bus.only_delivered().1.id(), "c-2");
}

#[test]
fn j4_2_always_delivers_again_and_the_attempt_counts_on() {
    let mut bus = Bus::new(vec![with(Redeliver::Always)]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({ "n": 1 })));
    bus.cut_power(100);
    let (actor, request) = bus.only_delivered();
    let metadata: serde_json::Value = serde_json::from_str(request.metadata()).unwrap();
    assert_eq!((request.id(), &metadata["attempt"]), ("c-1", &json!(2)));
    bus.replies(actor, &request, json!("done"));
    bus.cut_power(100);
    assert!(bus.delivered.is_empty());
    let alice = bus.connect(2, "alice");
    assert_eq!(
        data(&bus.ask(alice, &line("command", "Order.Place", "c-1", json!({ "n": 1 })))),
        json!("done")
    );
}

#[test]
fn j4_3_a_command_that_kills_the_daemon_each_time_becomes_a_dead_letter() {
    let retry = RetryPolicy { attempts: 4, ..RetryPolicy::default() };
    let mut bus = Bus::new(vec![Manifest { retry, ..with(Redeliver::Always) }]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    for attempt in 2..=4 {
        bus.cut_power(1);
        let (_, request) = bus.only_delivered();
        assert!(request.metadata().contains(&format!("\"attempt\":{attempt}")), "{request:?}");
    }
    bus.cut_power(1);
    assert!(bus.delivered.is_empty());
    let letters = letters(&mut bus);
    assert_eq!((letters.len(), &letters[0]["attempts"]), (1, &json!(4)));
    bus.cut_power(1);
    assert!(bus.delivered.is_empty());
}

#[test]
fn j4_4_an_answer_is_remembered_by_the_next_run_and_an_id_used_for_something_else_is_a_conflict() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({ "n": 1 })));
    let (actor, request) = bus.only_delivered();
    bus.replies(actor, &request, json!({ "number": 7 }));
    bus.cut_power(3_600_000);
    let (alice, bob) = (bus.connect(2, "alice"), bus.connect(3, "bob"));
    let again = bus.ask(alice, &line("command", "Order.Place", "c-1", json!({ "n": 1 })));
    assert_eq!(data(&again), json!({ "number": 7 }));
    assert_eq!(code(&bus.ask(alice, &line("command", "Order.Place", "c-1", json!({ "n": 2 })))), 409);
    // Ids are each peer's own.
    bus.send(bob, &line("command", "Order.Place", "c-1", json!({ "n": 1 })));
    assert_eq!(bus.delivered.len(), 1);
    // A day later it is new.
    bus.cut_power(24 * 3_600_000);
    let alice = bus.connect(4, "alice");
    bus.delivered.clear();
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({ "n": 1 })));
    assert_eq!(bus.delivered.len(), 1);
}

#[test]
fn j4_4_a_client_that_comes_back_can_ask_what_became_of_its_command() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    bus.send(alice, &line("command", "Order.Place", "c-2", json!({})));
    let ask = |bus: &mut Bus, connection, id: &str| {
        let question = format!("r-{}-{id}", bus.now.mono_ns);
        bus.ask(connection, &line("query", "Sys.Result", &question, json!({ "id": id })))
    };
    assert_eq!(data(&ask(&mut bus, alice, "c-1"))["state"], "delivered");
    assert_eq!(data(&ask(&mut bus, alice, "c-2"))["state"], "waiting");
    let (actor, request) = bus.only_delivered();
    bus.replies(actor, &request, json!("done"));
    bus.cut_power(10);
    let (alice, bob) = (bus.connect(2, "alice"), bus.connect(3, "bob"));
    let told = data(&ask(&mut bus, alice, "c-1"));
    assert_eq!((&told["state"], &told["outcome"]["data"]), (&json!("ended"), &json!("done")));
    assert_eq!(code(&ask(&mut bus, bob, "c-1")), 404, "it is not bob's");
    assert_eq!(code(&ask(&mut bus, alice, "c-9")), 404);
}

#[test]
fn j5_2_a_deadline_that_passed_while_no_daemon_ran_is_504_and_a_dead_letter() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    bus.send(alice, &line("command", "Order.Place", "c-2", json!({})));
    bus.cut_power(40_000);
    assert!(bus.delivered.is_empty());
    let letters = letters(&mut bus);
    assert!(letters[1]["reason"].as_str().unwrap().contains("504"), "{letters:?}");
}

#[test]
fn j5_2_a_deadline_counts_on_after_a_restart() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    bus.send(alice, &line("command", "Order.Place", "c-2", json!({})));
    bus.cut_power(20_000);
    assert_eq!(bus.only_delivered().1.id(), "c-2");
    let alice = bus.connect(2, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-2", json!({})));
    bus.pass_ms(9_900);
    assert!(bus.written.is_empty());
    bus.pass_ms(200);
    assert_eq!(code(&bus.only_written()), 504);
}

#[test]
fn dead_letters_keep_their_numbers_and_what_was_dropped_or_sent_again_stays_so() {
    let mut bus = Bus::new(vec![orders()]);
    for round in 1..=3 {
        let alice = bus.connect(round, "alice");
        bus.send(alice, &line("command", "Order.Place", &format!("c-{round}"), json!({ "n": round })));
        bus.delivered.clear();
        bus.cut_power(10);
    }
    let numbers: Vec<u64> = letters(&mut bus).iter().map(|it| it["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let operator = bus.connect(50, "operator");
    let act =
        |bus: &mut Bus, id: &str, data| bus.send(operator, &line("command", "Sys.DeadLetters", id, data));
    act(&mut bus, "d-1", json!({ "action": "drop", "number": 1 }));
    act(&mut bus, "d-2", json!({ "action": "requeue", "number": 2 }));
    assert_eq!(data(&bus.only_delivered().1), json!({ "n": 2 }));
    bus.cut_power(10);
    let numbers: Vec<u64> = letters(&mut bus).iter().map(|it| it["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [3, 4], "4 is the one that was sent again, and interrupted");
}

#[test]
fn a_shutdown_leaves_what_was_not_delivered_to_the_next_run_and_tells_nobody_that_it_was_not_done() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    bus.send(alice, &line("command", "Order.Place", "c-2", json!({})));
    bus.delivered.clear();
    bus.kernel.shutdown("test", bus.now);
    bus.pass_ms(60_000);
    assert_eq!(bus.exit, Some(0));
    let told: Vec<&str> = bus.written.iter().filter_map(|(_, message)| message.causation()).collect();
    assert_eq!(told, ["c-1"], "{:?}", bus.written);
    assert_eq!(bus.recorded.last().unwrap().name(), "stopped");
    bus.cut_power(100);
    assert!(bus.delivered.is_empty(), "its time is over by now");
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    bus.send(alice, &line("command", "Order.Place", "c-2", json!({})));
    bus.kernel.shutdown("test", bus.now);
    bus.pass_ms(15_000);
    bus.cut_power(100);
    assert_eq!(bus.only_delivered().1.id(), "c-2");
}

#[test]
fn what_no_capability_handles_any_more_ends_in_an_error_and_is_a_dead_letter() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    bus.send(alice, &line("command", "Order.Place", "c-2", json!({})));
    bus.cut_power_and_run(10, vec![manifest("other", &["command:Other.Do"])]);
    let letters = letters(&mut bus);
    assert_eq!(letters.len(), 2, "{letters:?}");
    bus.cut_power_and_run(10, vec![orders()]);
    assert!(bus.delivered.is_empty());
}

#[test]
fn a_boot_that_fails_leaves_everything_as_it_was() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    bus.send(alice, &line("command", "Order.Place", "c-2", json!({})));
    bus.cut_power_and_run(10, vec![orders(), orders()]);
    assert_eq!(bus.exit, Some(1));
    bus.cut_power_and_run(10, vec![orders()]);
    assert_eq!(bus.only_delivered().1.id(), "c-2");
}

#[test]
fn more_than_a_mailbox_takes_is_taken_up_all_the_same() {
    let limits = mainspring_kernel::ActorLimits { mailbox_messages: 4, ..Default::default() };
    let mut bus = Bus::new(vec![Manifest { limits, ..orders() }]);
    let mut accepted = 0;
    for round in 0..3 {
        let alice = bus.connect(10 + round, "alice");
        for number in 0..4 {
            bus.send(alice, &line("command", "Order.Place", &format!("c-{round}-{number}"), json!({})));
        }
        accepted = bus.disk.iter().filter(|fact| fact.name() == "accepted").count();
        bus.cut_power(1);
    }
    let operator = bus.connect(99, "operator");
    let stats = bus.ask(operator, &line("query", "Sys.Stats", "s", json!({})));
    assert!(accepted > 8, "{accepted}");
    assert_eq!(data(&stats)["counters"]["requestsFailed"], 1, "only the one that was delivered");
}

/// The end of a command of this peer that is told whole.
fn ended(peer: &'static str, id: String, unix_ms: u64) -> Fact<&'static str> {
    let answer = line_with("reply", "Memory.Set", "r", json!(1), json!({ "causation": id }));
    let which = Ending::Whole { peer: PeerName::Client(peer), id: &*id.leak(), fingerprint: 1 };
    let answer = Some(Answer::Line(&*answer.leak()));
    Fact::Ended { which, unix_ms, until_ms: unix_ms + 24 * 3_600_000, answer }
}

#[test]
fn j4_4_a_command_was_done_again_after_a_restart_because_a_neighbour_was_busy() {
    let mut bus = Bus::new(vec![orders()]);
    let bob = bus.connect(1, "bob");
    bus.send(bob, &line("command", "Order.Place", "c-1", json!({})));
    let (actor, request) = bus.only_delivered();
    bus.replies(actor, &request, json!("done"));
    let now_ms = bus.now.unix_ms;
    bus.disk.extend((0..66_000).map(|id| ended("eve", format!("e-{id}"), now_ms)));
    bus.cut_power(100);
    let bob = bus.connect(2, "bob");
    let told = bus.ask(bob, &line("query", "Sys.Result", "q-1", json!({ "id": "c-1" })));
    assert_eq!(data(&told)["outcome"]["data"], "done");
    assert_eq!(data(&bus.ask(bob, &line("command", "Order.Place", "c-1", json!({})))), json!("done"));
    assert!(bus.delivered.is_empty());
}

/// Sends a command, and has it answered with so many bytes.
fn done_with(bus: &mut Bus, id: &str, bytes: usize) {
    let alice = mainspring_kernel::ConnectionId(1);
    bus.send(alice, &line("command", "Order.Place", id, json!({})));
    let (actor, request) = bus.only_delivered();
    bus.replies(actor, &request, json!("x".repeat(bytes)));
    assert_eq!(bus.only_written().causation(), Some(id));
}

/// That the command was done is known, its answer is not.
fn assert_known_as_done(bus: &mut Bus, connection: u64, id: &str) {
    let alice = bus.connect(connection, "alice");
    let again = bus.ask(alice, &line("command", "Order.Place", id, json!({})));
    assert_eq!((code(&again), data(&again)["started"].as_str()), (409, Some("yes")));
    let told = bus.ask(alice, &line("query", "Sys.Result", "q-1", json!({ "id": id })));
    assert_eq!((&data(&told)["state"], &data(&told)["outcome"]), (&json!("ended"), &json!(null)));
    assert!(bus.delivered.is_empty());
}

#[test]
fn j4_4_commands_were_done_again_after_a_restart_because_their_answers_were_large() {
    let mut bus = Bus::new(vec![orders()]);
    bus.connect(1, "alice");
    for number in 0..80 {
        done_with(&mut bus, &format!("c-{number}"), 900_000);
    }
    assert_known_as_done(&mut bus, 2, "c-0");
    bus.cut_power(100);
    assert_known_as_done(&mut bus, 3, "c-0");
    let alice = bus.connect(4, "alice");
    let last = bus.ask(alice, &line("command", "Order.Place", "c-79", json!({})));
    assert_eq!(last.data().len(), 900_002);
}

#[test]
fn j4_4_a_command_was_done_again_after_a_restart_because_its_answer_fits_no_fact() {
    let large = 64 << 20;
    let roomy = Limits {
        line_bytes_max: large,
        lane_bytes_max: large,
        egress_bytes_max: large,
        window_peer_bytes_max: large,
        ..Limits::default()
    };
    let mut bus = Bus::with_limits(roomy, vec![orders()]);
    bus.connect(1, "alice");
    done_with(&mut bus, "c-1", 9 << 20);
    bus.cut_power(100);
    assert_known_as_done(&mut bus, 2, "c-1");
    bus.cut_power(100);
    assert_known_as_done(&mut bus, 3, "c-1");
}

#[test]
fn j4_4_what_was_done_twice_has_its_last_answer_after_a_restart() {
    let mut bus = Bus::new(vec![orders()]);
    let alice = bus.connect(1, "alice");
    bus.send(alice, &line("command", "Order.Place", "c-1", json!({})));
    let (actor, request) = bus.only_delivered();
    bus.replies(actor, &request, json!("first"));
    // The window forgot it early, and it was done again.
    let mut facts: Vec<Fact<&str>> = bus.disk.iter().filter(|fact| fact.name() == "ended").cloned().collect();
    let again = line_with("reply", "Order.Place", "r-2", json!("second"), json!({ "causation": "c-1" }));
    let asked = Envelope::parse(line("command", "Order.Place", "c-1", json!({})).as_bytes()).unwrap();
    if let Some(Fact::Ended { which, answer, .. }) = facts.first_mut() {
        let fingerprint = mainspring_kernel::fingerprint(&asked);
        *which = Ending::Whole { peer: PeerName::Client("alice"), id: "c-1", fingerprint };
        *answer = Some(Answer::Line(again.leak()));
    }
    bus.disk.extend(facts);
    bus.cut_power(100);
    let alice = bus.connect(2, "alice");
    assert_eq!(data(&bus.ask(alice, &line("command", "Order.Place", "c-1", json!({})))), json!("second"));
}

#[test]
fn j4_4_a_wall_clock_that_was_ahead_for_a_while_ended_remembering_for_good() {
    const DAY_MS: u64 = 24 * 3_600_000;
    let mut bus = Bus::new(vec![orders()]);
    bus.now.unix_ms += 10 * DAY_MS;
    bus.cut_power(100);
    // The clock is set right while the daemon runs.
    bus.now.unix_ms -= 10 * DAY_MS;
    for round in 0..3 {
        let id = format!("c-{round}");
        let alice = bus.connect(1, "alice");
        bus.send(alice, &line("command", "Order.Place", &id, json!({})));
        let (actor, request) = bus.only_delivered();
        bus.replies(actor, &request, json!("done"));
        bus.cut_power(100);
        let alice = bus.connect(2, "alice");
        assert_eq!(data(&bus.ask(alice, &line("command", "Order.Place", &id, json!({})))), json!("done"));
    }
}

#[test]
fn j4_4_what_ended_by_a_clock_that_was_ahead_is_remembered_no_longer_than_anything_else() {
    const DAY_MS: u64 = 24 * 3_600_000;
    let mut bus = Bus::new(vec![orders()]);
    bus.now.unix_ms += 10 * DAY_MS;
    bus.connect(1, "alice");
    done_with(&mut bus, "c-1", 10);
    bus.now.unix_ms -= 10 * DAY_MS;
    done_with(&mut bus, "c-2", 10);
    bus.cut_power(DAY_MS - 1000);
    assert_eq!(bus.durable().counts()[1], ("answers", 2));
    bus.cut_power(1000);
    assert_eq!(bus.durable().counts()[1], ("answers", 0));
}
