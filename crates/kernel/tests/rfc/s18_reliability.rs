//! Sections 17 and 18: compatibility with the envelope, and the measures of reliability.

use super::support::*;
use mainspring_kernel::{Config, ConnectionId};
use mainspring_message::Envelope;
use serde_json::json;

fn echo() -> World {
    World::booted(vec![manifest("echo", &["command:Echo.Say"])])
}

#[test]
fn s17_1_metadata_that_the_loop_does_not_know_travels_unchanged() {
    let mut world = echo();
    let client = world.connect(1);
    let sent = r#"{"metadata":{"baggage":"00-ab","id":"c-1","x":{"deep":[1]},"timestamp":5},"data":1,"type":"Echo.Say","kind":"command"}"#;
    world.ask(client, sent);
    let (actor, request) = world.only_delivered();
    assert_eq!(request.line(), sent);
    let said = r#"{"kind":"reply","type":"Echo.Say","data":2,"metadata":{"id":"r","timestamp":6,"causation":"c-1","y":null}}"#;
    world.says(actor, said);
    assert_eq!(world.only_written(client).line(), said);
}

#[test]
fn s17_1_a_type_may_have_more_than_two_segments() {
    let mut world = World::booted(vec![manifest("acme", &["command:Acme.Memory.Set"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Acme.Memory.Set", "c-1", json!(1)));
    assert_eq!(world.only_delivered().1.type_name(), "Acme.Memory.Set");
}

#[test]
fn s18_2_a_repetition_in_flight_shares_the_one_answer() {
    let mut world = echo();
    let (one, two) = (world.connect_as(1, "alice"), world.connect_as(2, "alice"));
    let same = line("command", "Echo.Say", "c-1", json!({ "n": 1 }));
    world.ask(one, &same);
    world.ask(two, &same);
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!(1));
    let (first, second) = (world.only_written(one), world.only_written(two));
    assert_eq!(first, second);
}

#[test]
fn s18_2_a_repetition_within_the_window_gets_the_same_answer_and_runs_nothing() {
    let mut world = echo();
    let client = world.connect(1);
    let same = line("command", "Echo.Say", "c-1", json!(1));
    world.ask(client, &same);
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!("once"));
    let first = world.only_written(client);
    world.pass_ms(119_999);
    assert_eq!(world.ask(client, &same), [first]);
    assert!(world.delivered.is_empty());
    world.pass_ms(1);
    assert!(world.ask(client, &same).is_empty());
    world.only_delivered();
}

#[test]
fn s18_2_the_same_id_with_another_body_is_a_conflict() {
    let mut world = echo();
    let client = world.connect(1);
    world.ask(client, &line("command", "Echo.Say", "c-1", json!(1)));
    let answers = world.ask(client, &line("command", "Echo.Say", "c-1", json!(2)));
    assert_eq!((answers[0].type_name(), code(&answers[0])), ("Sys.ConflictError", 409));
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!("one"));
    assert_eq!(world.only_written(client).data(), "\"one\"");
    let answers = world.ask(client, &line("command", "Echo.Say", "c-1", json!(2)));
    assert_eq!(code(&answers[0]), 409);
}

#[test]
fn s18_2_an_id_with_escapes_is_remembered_like_any_other() {
    let mut world = echo();
    let client = world.connect(1);
    let id = "c \"1\"\n\\";
    world.ask(client, &line("command", "Echo.Say", id, json!(1)));
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!("one"));
    let first = world.only_written(client);
    assert_eq!(first.causation(), Some(id));
    assert_eq!(world.ask(client, &line("command", "Echo.Say", id, json!(1))), [first]);
    assert_eq!(code(&world.ask(client, &line("command", "Echo.Say", id, json!(2)))[0]), 409);
}

#[test]
fn s18_2_an_error_for_what_never_started_is_not_remembered() {
    let mut echo = manifest("echo", &["command:Echo.Say"]);
    echo.limits.mailbox_messages = 1;
    let mut world = World::booted(vec![echo]);
    let client = world.connect(1);
    for id in ["c-1", "c-2"] {
        world.ask(client, &line("command", "Echo.Say", id, json!(1)));
    }
    let refused = world.ask(client, &line("command", "Echo.Say", "c-3", json!(1)));
    assert_eq!((code(&refused[0]), &data(&refused[0])["started"]), (503, &json!("no")));
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!(1));
    world.take_written(client);
    assert!(
        world.ask(client, &line("command", "Echo.Say", "c-3", json!(1))).is_empty(),
        "accepted this time"
    );
}

/// A client has a command done, which the actor answers with this.
fn done(world: &mut World, client: ConnectionId, id: &str, answer: serde_json::Value) -> Envelope {
    world.ask(client, &line("command", "Echo.Say", id, json!(1)));
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, answer);
    world.only_written(client)
}

/// What comes back when a client sends its command again: an answer at once, or nothing because it
/// is done again.
fn again(world: &mut World, client: ConnectionId, id: &str) -> Option<Envelope> {
    let answer = world.ask(client, &line("command", "Echo.Say", id, json!(1))).pop();
    assert_eq!(answer.is_none(), !world.take_delivered().is_empty());
    answer
}

fn echo_with(set: impl FnOnce(&mut mainspring_kernel::Limits)) -> World {
    let mut config = Config::default();
    set(&mut config.limits);
    World::booted_with(config, vec![manifest("echo", &["command:Echo.Say", "query:Echo.Hear"])])
}

#[test]
fn s18_2_the_window_is_bounded_per_peer_and_the_offender_pays() {
    let mut world = echo_with(|limits| limits.window_peer_answers_max = 10);
    let (quiet, flood) = (world.connect(1), world.connect(2));
    let kept = done(&mut world, quiet, "kept", json!(1));
    for number in 0..100 {
        done(&mut world, flood, &format!("c-{number}"), json!(1));
    }
    assert_eq!(world.kernel.census().window_answers, 11);
    assert_eq!(world.kernel.counters().window_forgotten, 90);
    assert_eq!(again(&mut world, quiet, "kept"), Some(kept));
}

#[test]
fn s18_2_a_command_is_not_done_twice_because_of_what_other_clients_of_the_same_user_send() {
    let mut world = echo_with(|_| {});
    let (quiet, flood) = (world.connect_as(1, "alice"), world.connect_as(2, "alice"));
    let kept = done(&mut world, quiet, "kept", json!("once"));
    // Its connection is lost; what it had done is remembered for it all the same.
    world.kernel.connection_closed(quiet, world.now);
    for number in 0..9_000 {
        world.ask(flood, &line("query", "Syscall.Ping", &format!("p-{number}"), json!(1)));
    }
    assert_eq!(world.kernel.census().window_answers, 1, "queries are not remembered");
    for number in 0..9_000 {
        done(&mut world, flood, &format!("c-{number}"), json!(number));
    }
    let next = world.connect_as(3, "alice");
    assert_eq!(again(&mut world, next, "kept"), Some(kept));
    // The flood pays for itself, and it is told.
    assert_eq!(again(&mut world, flood, "c-0"), None);
    assert_eq!(data(&again(&mut world, flood, "c-8999").unwrap()), json!(8_999));
    let stats = data(&world.call(flood, "query", "Sys.Stats", json!({})));
    let forgotten = stats["counters"]["windowForgotten"].as_u64().unwrap();
    assert!((9_001 - 8_192..=9_001 - 8_192 + 8_192 / 16).contains(&forgotten), "{forgotten}");
    world.kernel.audit().unwrap();
    // And its own time ends like everybody's.
    world.pass_ms(120_000);
    assert_eq!(again(&mut world, next, "kept"), None);
}

#[test]
fn s18_2_of_the_connections_of_one_peer_those_with_most_bytes_pay() {
    let mut world = echo_with(|limits| limits.window_peer_bytes_max = 64_000);
    let clients: Vec<_> = (1..=4).map(|number| world.connect_as(number, "alice")).collect();
    let light = done(&mut world, clients[0], "light", json!(1));
    let medium = done(&mut world, clients[1], "medium", json!("x".repeat(10_000)));
    for number in 0..100 {
        for flood in &clients[2..] {
            done(&mut world, *flood, &format!("c-{}-{number}", flood.0), json!("x".repeat(1_000)));
        }
    }
    assert!(world.kernel.census().window_bytes <= 64_000);
    assert_eq!(again(&mut world, clients[0], "light"), Some(light));
    assert_eq!(again(&mut world, clients[1], "medium"), Some(medium));
    // The two that have most have about as much of it.
    let kept = |world: &mut World, flood: ConnectionId| {
        let ids = (0..100).map(|number| format!("c-{}-{number}", flood.0));
        ids.filter(|id| again(world, flood, id).unwrap().kind().as_str() == "reply").count()
    };
    let (third, fourth) = (kept(&mut world, clients[2]), kept(&mut world, clients[3]));
    assert!(third > 20 && third.abs_diff(fourth) <= 4, "{third} and {fourth}");
}

#[test]
fn s18_2_a_query_is_shared_while_it_is_under_way_and_not_remembered() {
    let mut world = echo_with(|_| {});
    let (one, two) = (world.connect_as(1, "alice"), world.connect_as(2, "alice"));
    let ask = line("query", "Echo.Hear", "q-1", json!(1));
    world.ask(one, &ask);
    world.ask(two, &ask);
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!("first"));
    assert_eq!(world.only_written(one), world.only_written(two));
    assert_eq!((world.kernel.census().window_answers, world.kernel.census().window_bytes), (0, 0));
    world.ask(one, &ask);
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!("second"));
    assert_eq!(world.only_written(one).data(), "\"second\"");
    // The same holds for what the loop answers itself.
    let stats = line("query", "Sys.Stats", "s-1", json!({}));
    let (first, second) = (world.ask(one, &stats).remove(0), world.ask(one, &stats).remove(0));
    assert_ne!(first.id(), second.id());
    // What the loop does is done once.
    let tick = json!({ "kind": "event", "type": "Test.Tick", "data": 1 });
    let schedule = line("command", "Timer.Schedule", "t-1", json!({ "delay": 5, "message": tick }));
    let (first, second) = (world.ask(one, &schedule).remove(0), world.ask(two, &schedule).remove(0));
    assert_eq!((&first, world.kernel.census().schedules), (&second, 1));
}

#[test]
fn s18_2_the_window_is_bounded_in_bytes() {
    let mut world = echo_with(|limits| {
        limits.window_peer_bytes_max = 5000;
        limits.window_bytes_max = 8000;
    });
    for number in 0..60 {
        let client = world.connect(number % 3);
        done(&mut world, client, &format!("c-{number}"), json!("x".repeat(400)));
    }
    let census = world.kernel.census();
    assert!((6000..=8000).contains(&census.window_bytes) && census.window_answers == 60, "{census:?}");
}

#[test]
fn s18_2_a_command_whose_answer_is_forgotten_is_refused_and_not_done_again() {
    let mut world = echo_with(|limits| limits.window_peer_bytes_max = 3000);
    let client = world.connect(1);
    for number in 0..10 {
        done(&mut world, client, &format!("c-{number}"), json!("x".repeat(500)));
    }
    // One whose answer alone is too large for the window.
    done(&mut world, client, "large", json!("x".repeat(5000)));
    for id in ["c-0", "large"] {
        let error = again(&mut world, client, id).expect("a refusal");
        assert_eq!((code(&error), &data(&error)["started"]), (409, &json!("yes")), "{id}");
    }
    assert_eq!(again(&mut world, client, "c-9").unwrap().kind().as_str(), "reply");
    let counters = *world.kernel.counters();
    assert!(counters.window_evictions >= 6 && counters.window_forgotten == 0, "{counters:?}");
    world.kernel.audit().unwrap();
    world.pass_ms(120_000);
    assert_eq!(again(&mut world, client, "c-0"), None);
}

#[test]
fn s18_2_at_the_bound_of_all_the_peers_that_have_most_pay() {
    let mut world = echo_with(|limits| limits.window_answers_max = 100);
    let light = world.connect(1);
    let kept: Vec<Envelope> =
        (0..10).map(|number| done(&mut world, light, &format!("c-{number}"), json!(1))).collect();
    for number in 0..500 {
        let heavy = world.connect(2 + number % 2);
        done(&mut world, heavy, &format!("c-{number}"), json!(1));
    }
    assert!((90..=100).contains(&world.kernel.census().window_answers));
    for (number, kept) in kept.into_iter().enumerate() {
        assert_eq!(again(&mut world, light, &format!("c-{number}")), Some(kept));
    }
    world.kernel.audit().unwrap();
}

#[test]
fn s18_2_the_memory_between_remembered_answers_is_bounded_too() {
    let mut world = echo_with(|limits| {
        limits.window_peer_answers_max = 1;
        limits.window_bytes_max = 1 << 20;
    });
    let (body, flood) = ("x".repeat(7000), world.connect(0));
    // Each quiet peer keeps one answer among many that are forgotten at once.
    let mut kept = Vec::new();
    for number in 1..=100 {
        let quiet = world.connect(number);
        kept.push((quiet, done(&mut world, quiet, "kept", json!(number))));
        for other in 0..10 {
            done(&mut world, flood, &format!("c-{number}-{other}"), json!(body));
        }
        let wasted_bytes = world.kernel.audit().unwrap().wasted_bytes;
        assert!(wasted_bytes <= 1 << 20, "{wasted_bytes} bytes of {} quiet peers", kept.len());
    }
    for (quiet, answer) in kept {
        assert_eq!(again(&mut world, quiet, "kept"), Some(answer));
    }
}

#[test]
fn s18_2_a_request_is_a_cause_for_its_actor_after_its_answer_is_forgotten() {
    let mut world = echo_with(|limits| {
        limits.window_peer_answers_max = 2;
        limits.window_peer_bytes_max = 1500;
    });
    let client = world.connect(1);
    let requests = [("command", "Echo.Say"), ("query", "Echo.Hear")];
    for number in 0..12 {
        let (kind, name) = requests[number % 2];
        let flow = json!({ "correlation": format!("flow-{number}") });
        world.ask(client, &line_with(kind, name, &format!("c-{number}"), json!(1), flow));
        let (actor, request) = world.only_delivered();
        world.replies(actor, &request, json!("x".repeat(if number < 8 { 300 } else { 1000 })));
    }
    let counters = *world.kernel.counters();
    assert!(counters.window_evictions > 0 && counters.window_forgotten > 0, "{counters:?}");
    world.take_written(client);
    world.call(client, "command", "Sys.Subscribe", json!({ "types": ["Echo.Said"] }));
    let actor = mainspring_kernel::ActorRef::new(0, 1);
    for number in 0..12 {
        let id = format!("e-{number}");
        let cause = json!({ "causation": format!("c-{number}") });
        world.says(actor, &line_with("event", "Echo.Said", &id, json!(1), cause));
        let event = world.only_written(client);
        assert_eq!(event.correlation(), Some(format!("flow-{number}").as_str()), "restored");
    }
    // It is known for what it was: another workflow is still wrong, and so is what it was never
    // given.
    let wrong = json!({ "causation": "c-0", "correlation": "flow-1" });
    world.says(actor, &line_with("event", "Echo.Said", "e-12", json!(1), wrong));
    assert_eq!(world.kernel.counters().actor_faults, 1);
}

#[test]
fn s18_2_an_idle_peer_is_forgotten_when_nothing_refers_to_it() {
    let mut world = echo();
    let before = world.kernel.census().peers;
    for number in 0..50 {
        let client = world.connect(number);
        done(&mut world, client, "c", json!(1));
        world.kernel.connection_closed(client, world.now);
    }
    assert_eq!(world.kernel.census().peers, before + 50);
    world.pass_ms(120_000);
    let client = world.connect(99);
    world.ask(client, &line("query", "Syscall.Ping", "p", json!(1)));
    assert_eq!(world.kernel.census().peers, before + 1);
}

#[test]
fn s18_2_the_next_life_of_an_actor_that_repeats_its_request_gets_the_answer() {
    let mut asker = manifest("asker", &["command:Ask.Do"]);
    asker.retry.attempts = 2;
    asker.retry.backoff_ms = 1;
    let mut world = World::booted(vec![asker, manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Ask.Do", "c-1", json!(1)));
    let (first_life, _) = world.only_delivered();
    let ask = line_with("command", "Echo.Say", "c-1/ask", json!(1), json!({ "causation": "c-1" }));
    world.says(first_life, &ask);
    let (echo, asked) = world.only_delivered();
    world.crashes(first_life);
    world.pass_ms(1000);
    let (second_life, again) = world.only_delivered();
    assert_eq!((second_life.incarnation, again.id()), (2, "c-1"));
    world.says(second_life, &ask);
    assert!(world.delivered.is_empty(), "it is being worked on already");
    world.replies(echo, &asked, json!("answer"));
    let (to, answer) = world.only_delivered();
    assert_eq!((to, answer.causation()), (second_life, Some("c-1/ask")));
}

#[test]
fn s18_2_a_subscription_belongs_to_its_connection_whatever_its_id() {
    let mut world = echo();
    let (one, two) = (world.connect_as(1, "alice"), world.connect_as(2, "alice"));
    let same = line("command", "Sys.Subscribe", "sub", json!({ "types": ["A.B"] }));
    for client in [one, two] {
        assert_eq!(world.ask(client, &same)[0].kind().as_str(), "reply");
    }
    world.ask(one, &line("event", "A.B", "e-1", json!(1)));
    assert_eq!(world.only_written(two).id(), "e-1");
    for client in [one, two] {
        world.send(client, &line("command", "Sys.Unsubscribe", "unsub", json!({})));
    }
    world.run();
    assert_eq!(world.take_written(one).last().unwrap().kind().as_str(), "reply");
    assert_eq!(code(&world.only_written(two)), 409);
}
