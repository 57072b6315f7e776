//! Section 13: what the kernel asks of an adapter, and gives it.

use super::support::*;
use mainspring_kernel::{ActorRef, CloseReason, Config, ConnectionId, Effect, Source};
use mainspring_message::Envelope;
use serde_json::json;

#[test]
fn s13_1_a_message_is_one_line() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    let answers = world.ask(client, &line("query", "Syscall.Ping", "p-1", json!({ "text": "a\nb" })));
    assert!(!answers[0].line().contains('\n'));
    assert_eq!(data(&answers[0]), json!({ "text": "a\nb" }));
}

#[test]
fn s13_2_a_malformed_line_is_answered_and_the_next_one_is_read() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    for (bad, wanted) in [("{", 400), ("hello", 400), ("[]", 400), ("{}", 422)] {
        let answers = world.ask(client, bad);
        assert_eq!(code(&answers[0]), wanted, "{bad}");
    }
    assert_eq!(world.ask(client, &line("query", "Syscall.Ping", "p-1", json!(1)))[0].data(), "1");
}

#[test]
fn s13_2_a_line_beyond_the_limit_is_413() {
    let mut config = Config::default();
    config.limits.line_bytes_max = 200;
    let mut world = World::booted_with(config, vec![]);
    let client = world.connect(1);
    let long = line("query", "Syscall.Ping", "p-1", json!("x".repeat(200)));
    assert_eq!(code(&world.ask(client, &long)[0]), 413);
    world.kernel.line_too_long(client, world.now);
    world.settle();
    assert_eq!(code(&world.only_written(client)), 413);
}

#[test]
fn s13_2_a_connection_that_sends_only_nonsense_is_closed() {
    let mut config = Config::default();
    config.limits.bad_lines_max = 3;
    let mut world = World::booted_with(config, vec![]);
    let client = world.connect(1);
    for _ in 0..4 {
        world.send(client, "nonsense");
    }
    world.settle();
    let told = world.take_written(client);
    let says_so = |answer: &Envelope| answer.data().contains("so the connection is closed");
    assert_eq!(told.iter().map(says_so).collect::<Vec<_>>(), [false, false, false, true]);
    let closed = Effect::Close { connection: client, reason: CloseReason::BadLines };
    assert_eq!(world.count(|effect| *effect == closed), 1);
    assert_eq!(world.kernel.census().connections, 0);
}

#[test]
fn s13_2_reading_pauses_when_the_client_does_not_read_and_resumes_when_it_does() {
    let mut config = Config::default();
    config.limits.egress_bytes_max = 1000;
    let mut world = World::booted_with(config, vec![]);
    world.clients_read = false;
    let client = world.connect(1);
    let source = Source::Connection(client);
    for number in 0..8 {
        let ping = line("query", "Syscall.Ping", &format!("p-{number}"), json!("x".repeat(90)));
        world.send(client, &ping);
    }
    world.run();
    let bytes: usize = world.take_written(client).iter().map(|answer| answer.line().len() + 1).sum();
    assert_eq!(world.count(|effect| *effect == Effect::PauseReading { source }), 1);
    assert_eq!(world.kernel.census().egress_bytes, bytes);
    assert!(bytes < 1000 + 300, "{bytes} bytes for a client that reads none");
    assert!(world.kernel.census().user_held > 0, "what it asked besides waits");
    world.clients_read = true;
    world.kernel.written(client, bytes, world.now);
    world.run();
    assert_eq!(world.count(|effect| *effect == Effect::ResumeReading { source }), 1);
    let census = world.kernel.census();
    assert_eq!((census.user_lane, census.user_held, census.requests), (0, 0, 0));
}

/// A world with a capability that has 100 requests of a client in its hands, whose answers are of
/// 100 bytes and more.
fn with_requests_under_way() -> (World, ConnectionId, Vec<(ActorRef, Envelope)>) {
    let mut config = Config::default();
    config.limits.egress_bytes_max = 1000;
    let mut echo = manifest("echo", &["command:Echo.Say"]);
    echo.limits.concurrency = 100;
    let mut world = World::booted_with(config, vec![echo]);
    world.clients_read = false;
    let client = world.connect(1);
    for number in 0..100 {
        world.send(client, &line("command", "Echo.Say", &format!("c-{number}"), json!("x".repeat(100))));
    }
    world.run();
    let delivered = world.take_delivered();
    assert_eq!(delivered.len(), 100);
    (world, client, delivered)
}

#[test]
fn s13_2_a_client_that_never_reads_is_closed_in_the_end() {
    let (mut world, client, mut delivered) = with_requests_under_way();
    let closed = Effect::Close { connection: client, reason: CloseReason::SlowReader };
    for (actor, request) in delivered.drain(..50) {
        world.replies(actor, &request, json!("x".repeat(100)));
    }
    assert!(world.kernel.census().egress_bytes > 4000);
    assert_eq!(world.count(|effect| *effect == closed), 0, "it may still read");
    world.pass_ms(5_000);
    for (actor, request) in delivered {
        world.replies(actor, &request, json!("x".repeat(100)));
    }
    assert_eq!(world.count(|effect| *effect == closed), 1);
    assert_eq!(world.kernel.census().egress_bytes, 0);
}

#[test]
fn s13_2_a_client_that_reads_however_slowly_is_not_closed() {
    let (mut world, client, delivered) = with_requests_under_way();
    for (actor, request) in delivered {
        world.replies(actor, &request, json!("x".repeat(100)));
        world.pass_ms(100);
        world.kernel.written(client, 1, world.now);
    }
    assert!(world.kernel.census().egress_bytes > 4 * 1000);
    assert_eq!(world.take_written(client).len(), 100);
    assert_eq!(world.count(|effect| matches!(effect, Effect::Close { .. })), 0);
}

/// Asks for large answers, all at once, and reads them slowly; returns the most bytes that were
/// unwritten.
fn ask_for_large_answers(world: &mut World, client: ConnectionId, count: usize) -> usize {
    for number in 0..count {
        world.send(client, &line("query", "Big.Get", &format!("q-{count}-{number}"), json!({})));
    }
    let (mut answered, mut most) = (0, 0);
    while answered < count {
        world.run();
        for (actor, request) in world.take_delivered() {
            world.replies(actor, &request, json!("x".repeat(900_000)));
        }
        answered += world.take_written(client).len();
        most = most.max(world.kernel.census().egress_bytes);
        assert_eq!(world.count(|effect| matches!(effect, Effect::Close { .. })), 0);
        world.kernel.written(client, 200_000, world.now);
    }
    let rest = world.kernel.census().egress_bytes;
    world.kernel.written(client, rest, world.now);
    most
}

#[test]
fn s13_2_a_client_that_reads_gets_every_large_answer_and_is_never_closed() {
    let mut world = World::booted(vec![manifest("big", &["query:Big.Get"])]);
    world.clients_read = false;
    let client = world.connect(1);
    ask_for_large_answers(&mut world, client, 32);
    // Now it is known that its answers are large: no more are under way than it could be given.
    let most = ask_for_large_answers(&mut world, client, 100);
    assert!(most < 10 << 20, "{most} bytes were unwritten");
    // With small answers that is forgotten.
    for number in 0..50 {
        world.ask(client, &line("query", "Syscall.Ping", &format!("p-{number}"), json!(1)));
    }
    for number in 0..100 {
        world.send(client, &line("query", "Big.Get", &format!("last-{number}"), json!({})));
    }
    world.run();
    assert_eq!(world.kernel.census().user_held, 0);
}

#[test]
fn s13_2_an_answer_that_is_there_already_waits_too_until_the_client_has_read() {
    let mut config = Config::default();
    config.limits.egress_bytes_max = 1000;
    let mut world = World::booted_with(config, vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    let command = line("command", "Echo.Say", "c-1", json!(1));
    world.ask(client, &command);
    let (actor, request) = world.only_delivered();
    world.replies(actor, &request, json!("x".repeat(600)));
    world.take_written(client);
    world.clients_read = false;
    for _ in 0..50 {
        world.send(client, &command);
    }
    world.run();
    let egress = world.kernel.census().egress_bytes;
    assert!(egress < 2000, "{egress} bytes for a client that reads none");
    world.clients_read = true;
    world.kernel.written(client, egress, world.now);
    world.run();
    assert_eq!(world.take_written(client).len(), 50);
    assert!(!world.kernel.owes(client));
}

#[test]
fn s13_2_a_schedule_does_not_repeat_itself_for_a_client_that_does_not_read() {
    let mut config = Config::default();
    config.limits.egress_bytes_max = 1000;
    let mut world = World::booted_with(config, vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    let message = json!({ "kind": "command", "type": "Echo.Say", "data": 1 });
    world.call(client, "command", "Timer.Schedule", json!({ "repeat": 1, "message": message }));
    world.clients_read = false;
    for _ in 0..200 {
        world.pass_ms(1);
        for (actor, request) in world.take_delivered() {
            world.replies(actor, &request, json!("x".repeat(300)));
        }
    }
    let egress = world.kernel.census().egress_bytes;
    assert!(egress < 3000, "{egress} bytes for a client that reads none");
    world.kernel.written(client, egress, world.now);
    world.take_written(client);
    world.pass_ms(2);
    assert!(!world.take_delivered().is_empty(), "it goes on when the client has read");
}

#[test]
fn s13_3_replies_find_their_connection_in_one_table_however_many_there_are() {
    let mut echo = manifest("echo", &["command:Echo.Say"]);
    echo.limits.concurrency = 1000;
    let mut world = World::booted(vec![echo]);
    for number in 1..=500 {
        let client = world.connect(number);
        world.send(client, &line("command", "Echo.Say", "same", json!(number)));
    }
    world.run();
    while !world.delivered.is_empty() {
        for (actor, request) in world.take_delivered() {
            let number = data(&request);
            world.replies(actor, &request, number);
        }
    }
    for number in 1..=500 {
        assert_eq!(world.only_written(ConnectionId(number)).data(), number.to_string());
    }
}

#[test]
fn s13_1_the_error_about_a_line_that_is_no_message_is_itself_a_message() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    let answer = world.ask(client, "nonsense").remove(0);
    assert!(mainspring_message::Envelope::parse(answer.line().as_bytes()).is_ok(), "{answer:?}");
    assert_eq!(data(&answer)["originalId"], json!(null));
}

#[test]
fn s13_3_the_loop_knows_whether_it_owes_a_client_an_answer() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    let (client, other) = (world.connect(1), world.connect(2));
    assert!(!world.kernel.owes(client));
    let request = line("command", "Echo.Say", "c-1", json!(1));
    world.ask(client, &request);
    // A repetition waits for the same answer.
    world.ask(client, &request);
    assert!(world.kernel.owes(client));
    assert!(!world.kernel.owes(other));
    let (actor, delivered) = world.only_delivered();
    world.replies(actor, &delivered, json!(1));
    assert_eq!(world.take_written(client).len(), 2);
    assert!(!world.kernel.owes(client));
    // What is refused, or answered from the window, is answered at once.
    world.ask(client, &request);
    world.ask(client, &line("command", "No.Such", "c-2", json!(1)));
    assert!(!world.kernel.owes(client));
    world.ask(client, &line("command", "Sys.Subscribe", "c-3", json!({ "types": ["Echo.*"] })));
    assert!(world.kernel.owes(client), "events may come");
}

#[test]
fn s13_2_a_refusal_names_the_id_of_a_line_whose_fault_stands_before_it() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    let bad = r#"{"kind":"order","type":"A.B","data":1,"metadata":{"id":"c-1","timestamp":1}}"#;
    let error = world.ask(client, bad).remove(0);
    assert_eq!((error.causation(), &data(&error)["originalId"]), (Some("c-1"), &json!("c-1")));
    // And none is made of an error that is no message, wherever it says that it is one.
    let bad = r#"{"type":"bad","data":1,"metadata":{"id":"e-1","timestamp":1},"kind":"error"}"#;
    assert!(world.ask(client, bad).is_empty());
}
