//! Sections 17 and 18: compatibility with the envelope, and the measures of reliability.

use super::support::*;
use mainspring_kernel::Config;
use serde_json::json;

fn echo() -> World {
    World::booted(vec![manifest("echo", &["command:Echo.Say"])])
}

#[test]
fn s17_1_metadata_that_the_loop_does_not_know_travels_unchanged() {
    let mut world = echo();
    let client = world.connect(1);
    let sent = r#"{"metadata":{"traceparent":"00-ab","id":"c-1","x":{"deep":[1]},"timestamp":5},"data":1,"type":"Echo.Say","kind":"command"}"#;
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

#[test]
fn s18_2_the_window_is_bounded_per_peer_and_the_offender_pays() {
    let mut config = Config::default();
    config.limits.window_peer_answers_max = 10;
    let mut world = World::booted_with(config, vec![]);
    let (quiet, flood) = (world.connect(1), world.connect(2));
    let kept = world.ask(quiet, &line("query", "Syscall.Ping", "kept", json!(1)));
    for number in 0..100 {
        world.ask(flood, &line("query", "Syscall.Ping", &format!("p-{number}"), json!(1)));
    }
    assert_eq!(world.kernel.census().window_answers, 11);
    assert_eq!(world.kernel.counters().window_evictions, 90);
    assert_eq!(world.ask(quiet, &line("query", "Syscall.Ping", "kept", json!(1))), kept);
}

#[test]
fn s18_2_the_window_is_bounded_in_bytes() {
    let mut config = Config::default();
    config.limits.window_peer_bytes_max = 5000;
    config.limits.window_bytes_max = 8000;
    let mut world = World::booted_with(config, vec![]);
    for number in 0..60 {
        let client = world.connect(number % 3);
        world.ask(client, &line("query", "Syscall.Ping", &format!("p-{number}"), json!("x".repeat(400))));
    }
    let census = world.kernel.census();
    assert!(census.window_bytes <= 8000 && census.window_answers > 5, "{census:?}");
}

#[test]
fn s18_2_the_memory_between_remembered_answers_is_bounded_too() {
    let mut config = Config::default();
    config.limits.window_peer_answers_max = 1;
    config.limits.window_bytes_max = 1 << 20;
    let mut world = World::booted_with(config, vec![]);
    let (body, flood) = ("x".repeat(7000), world.connect(0));
    // Each quiet peer keeps one answer among many that are forgotten at once.
    for number in 1..=40 {
        let quiet = world.connect(number);
        world.ask(quiet, &line("query", "Syscall.Ping", "kept", json!(1)));
        for other in 0..10 {
            let id = format!("p-{number}-{other}");
            world.ask(flood, &line("query", "Syscall.Ping", &id, json!(body)));
        }
    }
    let census = world.kernel.census();
    assert!((10..=25).contains(&census.window_answers), "{census:?}");
}

#[test]
fn s18_2_an_idle_peer_is_forgotten_when_nothing_refers_to_it() {
    let mut world = echo();
    let before = world.kernel.census().peers;
    for number in 0..50 {
        let client = world.connect(number);
        world.ask(client, &line("query", "Syscall.Ping", "p", json!(1)));
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
