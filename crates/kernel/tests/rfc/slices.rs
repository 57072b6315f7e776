//! Work that can be a lot is cut by count, so that nobody waits for somebody else's.

use super::support::*;
use mainspring_kernel::{ConnectionId, Effect, Now, Turn};
use serde_json::{Value, json};

/// What a turn may cost in units of the kernel's count, which are nanoseconds of a usual machine:
/// each of its parts is cut, and goes a little beyond its bound.
const TURN_WORK_MAX: u64 = 500_000;

/// Turns until nothing is left, and the most work of one of them.
fn most_work_of_a_turn(world: &mut World) -> u64 {
    let mut most = 0;
    loop {
        let before = world.kernel.work();
        let turn = world.kernel.turn(world.now);
        most = most.max(world.kernel.work() - before);
        if !world.settle() && turn != Turn::More {
            return most;
        }
    }
}

/// Fills the history with pings, each caused by the one before.
fn fill_history(world: &mut World, client: ConnectionId, count: usize) {
    for number in 0..count {
        let cause = json!({ "causation": format!("p-{}", number.max(1) - 1), "correlation": "flow" });
        world.send(client, &line_with("query", "Syscall.Ping", &format!("p-{number}"), json!(1), cause));
        if number % 1000 == 0 {
            world.run();
            world.take_written(client);
        }
    }
    world.run();
    world.take_written(client);
}

/// Work of the kernel until a bystander's ping is answered, while the others' requests are worked
/// on.
fn work_until_a_bystander_is_answered(world: &mut World, bystander: ConnectionId, number: usize) -> u64 {
    let before = world.kernel.work();
    world.send(bystander, &line("query", "Syscall.Ping", &format!("by-{number}"), json!(number)));
    while world.take_written(bystander).is_empty() {
        world.kernel.turn(world.now);
        world.settle();
    }
    world.kernel.work() - before
}

#[test]
fn traces_of_a_long_history_are_cut_into_slices_and_a_bystander_is_answered_between_them() {
    let mut world = World::booted(vec![]);
    let (client, bystander) = (world.connect(1), world.connect(2));
    fill_history(&mut world, client, 20_000);
    for number in 0..20 {
        let what =
            if number % 2 == 0 { json!({ "id": "p-19000" }) } else { json!({ "correlation": "flow" }) };
        world.send(client, &line("query", "Sys.Trace", &format!("t-{number}"), what));
    }
    for number in 0..50 {
        let work = work_until_a_bystander_is_answered(&mut world, bystander, number);
        assert!(work < 2 * TURN_WORK_MAX, "a bystander waited for {work} ns of work");
    }
    assert!(world.kernel.census().requests > 0, "there is still something to do");
    let most = most_work_of_a_turn(&mut world);
    assert!(most < TURN_WORK_MAX, "a turn did {most} ns of work");
    let answers = world.take_written(client);
    assert_eq!(answers.len(), 20);
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(
            answer.causation(),
            Some(&*format!("t-{number}")),
            "in the order in which they were asked"
        );
        assert_eq!(data(answer)["nodes"].as_array().unwrap().len(), 1000);
    }
}

#[test]
fn the_tree_of_a_message_is_found_however_long_its_chain_of_causes_is() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    fill_history(&mut world, client, 900);
    // Backwards: each of these was there before what it was caused by.
    for number in (2000..2090).rev() {
        let cause = json!({ "causation": format!("p-{}", number + 1) });
        world.ask(client, &line_with("query", "Syscall.Ping", &format!("p-{number}"), json!(1), cause));
    }
    for (id, nodes) in [("p-0", 900), ("p-899", 900), ("p-450", 900), ("p-2000", 90), ("p-2089", 90)] {
        let trace = data(&world.call(client, "query", "Sys.Trace", json!({ "id": id })));
        assert_eq!(trace["nodes"].as_array().unwrap().len(), nodes, "{id}");
        assert_eq!(trace["leftOut"], json!(0));
    }
}

#[test]
fn a_trace_whose_history_is_forgotten_while_it_is_made_tells_what_is_left() {
    let mut world = World::booted(vec![]);
    let (client, other) = (world.connect(1), world.connect(2));
    fill_history(&mut world, client, 20_000);
    world.send(client, &line("query", "Sys.Trace", "t", json!({ "correlation": "flow" })));
    // More than the history holds comes between two slices.
    for number in 0..60_000 {
        world.send(other, &line("query", "Syscall.Ping", &format!("o-{number}"), json!(1)));
        world.kernel.turn(world.now);
        world.settle();
        world.take_written(other);
    }
    world.run();
    let trace = data(&world.only_written(client));
    assert!(trace["nodes"].is_array() && trace["leftOut"].is_u64(), "{trace}");
}

#[test]
fn lists_of_thousands_are_whole_and_cut_into_slices() {
    let actors: Vec<_> =
        (0..3000).map(|n| manifest(&format!("cap{n}"), &[&format!("query:Cap{n}.Ask")])).collect();
    let mut world = World::booted(actors);
    let (client, bystander) = (world.connect(1), world.connect(2));
    for number in 0..1000 {
        // An error from a client answers nobody, and is a dead letter.
        let error = json!({ "code": 500, "message": "x".repeat(200) });
        world.send(
            client,
            &line_with("error", "App.Error", &format!("e-{number}"), error, json!({ "causation": "x" })),
        );
        let message = json!({ "kind": "event", "type": "App.Later", "data": 1 });
        let data = json!({ "delay": 100_000, "message": message });
        world.call(client, "command", "Timer.Schedule", data);
    }
    let asked = [
        ("Sys.Actors", "actors", json!({}), 3000),
        ("Sys.DeadLetters", "letters", json!({ "limit": 1000 }), 1000),
        ("Timer.List", "timers", json!({}), 1000),
        ("Syscall.Describe", "capabilities", json!({}), 3000),
    ];
    for (type_name, _, what, _) in &asked {
        world.send(client, &line("query", type_name, type_name, what.clone()));
    }
    let mut bystander_work = 0;
    for number in 0..20 {
        bystander_work =
            bystander_work.max(work_until_a_bystander_is_answered(&mut world, bystander, number));
    }
    assert!(bystander_work < 2 * TURN_WORK_MAX, "a bystander waited for {bystander_work} ns of work");
    assert!(world.kernel.census().requests > 0, "there is still something to do");
    let most = most_work_of_a_turn(&mut world);
    assert!(most < TURN_WORK_MAX, "a turn did {most} ns of work");
    let answers = world.take_written(client);
    for ((type_name, list, _, count), answer) in asked.iter().zip(&answers) {
        assert_eq!(answer.type_name(), *type_name);
        let items: Vec<Value> = data(answer)[*list].as_array().unwrap().clone();
        let distinct: std::collections::BTreeSet<String> = items.iter().map(Value::to_string).collect();
        assert_eq!(distinct.len(), *count, "{type_name}");
    }
}

#[test]
fn a_request_that_times_out_between_two_slices_is_answered_once_and_its_sender_is_served_again() {
    let mut world = World::booted(vec![]);
    let client = world.connect(1);
    fill_history(&mut world, client, 20_000);
    let soon = json!({ "timeout": 1 });
    world.send(client, &line_with("query", "Sys.Trace", "t", json!({ "id": "p-1" }), soon));
    world.send(client, &line("query", "Syscall.Ping", "after", json!(1)));
    world.kernel.turn(world.now);
    world.now = Now { mono_ns: world.now.mono_ns + 2_000_000, ..world.now };
    world.run();
    let answers = world.take_written(client);
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert_eq!(code(&answers[0]), 504);
    assert_eq!(answers[1].data(), "1");
    assert!(world.kernel.audit().is_ok());
}

#[test]
fn a_client_that_leaves_between_two_slices_leaves_nothing_behind() {
    let mut world = World::booted(vec![]);
    let (client, other) = (world.connect(1), world.connect(2));
    fill_history(&mut world, client, 20_000);
    world.send(client, &line("query", "Sys.Trace", "t", json!({ "id": "p-1" })));
    world.kernel.turn(world.now);
    world.kernel.connection_closed(client, world.now);
    world.run();
    assert_eq!(world.kernel.census().requests, 0);
    assert!(world.kernel.audit().is_ok());
    assert_eq!(world.ask(other, &line("query", "Syscall.Ping", "p", json!(1))).len(), 1);
}

#[test]
fn an_event_for_ten_thousand_clients_is_told_in_many_turns_and_to_each_in_order() {
    let mut world = World::booted(vec![]);
    let clients: Vec<ConnectionId> = (1..=10_000).map(|number| world.connect(number)).collect();
    for client in &clients {
        world.send(*client, &line("command", "Sys.Subscribe", "s", json!({ "types": ["App.*"] })));
    }
    world.run();
    let source = world.connect(20_000);
    world.written.clear();
    for number in 0..3 {
        world.send(source, &line("event", "App.Happened", &format!("e-{number}"), json!(number)));
    }
    let most = most_work_of_a_turn(&mut world);
    assert!(most < TURN_WORK_MAX, "a turn did {most} ns of work");
    for client in clients {
        let heard: Vec<String> =
            world.take_written(client).iter().map(|event| event.data().to_owned()).collect();
        assert_eq!(heard, ["0", "1", "2"], "{client}");
    }
}

/// A world in which so many clients subscribed to `App.*`, and one that did not.
fn crowd(subscribers: u64) -> (World, Vec<ConnectionId>, ConnectionId) {
    let mut world = World::booted(vec![]);
    let clients: Vec<ConnectionId> = (1..=subscribers).map(|number| world.connect(number)).collect();
    for client in &clients {
        world.send(*client, &line("command", "Sys.Subscribe", "s", json!({ "types": ["App.*"] })));
    }
    world.run();
    world.written.clear();
    let source = world.connect(100_000);
    (world, clients, source)
}

#[test]
fn requests_are_served_while_an_event_is_on_its_way_to_ten_thousand_clients() {
    let (mut world, clients, source) = crowd(10_000);
    let asking = world.connect(100_001);
    world.send(source, &line("event", "App.Happened", "e-0", json!(0)));
    world.send(source, &line("event", "App.Happened", "e-1", json!(1)));
    // What its sender sends behind an event is served behind it.
    world.send(source, &line("query", "Syscall.Ping", "behind", json!(2)));
    let last = clients[clients.len() - 1];
    for number in 0..20 {
        let work = work_until_a_bystander_is_answered(&mut world, asking, number);
        assert!(work < TURN_WORK_MAX, "a bystander waited for {work} ns of work");
    }
    let is_reached = |client| world.written.contains_key(&client);
    assert!(is_reached(clients[0]) && !is_reached(last), "the event is on its way");
    assert!(world.take_written(source).is_empty());
    let most = most_work_of_a_turn(&mut world);
    assert!(most < TURN_WORK_MAX, "a turn did {most} ns of work");
    assert_eq!(world.only_written(source).causation(), Some("behind"));
    for client in clients {
        let heard: Vec<String> =
            world.take_written(client).iter().map(|event| event.data().to_owned()).collect();
        assert_eq!(heard, ["0", "1"], "{client}");
    }
}

#[test]
fn a_client_that_unsubscribes_while_an_event_is_on_its_way_does_not_get_it_after_the_answer() {
    let (mut world, clients, source) = crowd(2_000);
    let (leaving, staying) = (clients[1_999], clients[1_998]);
    world.send(source, &line("event", "App.Happened", "e", json!(0)));
    world.kernel.turn(world.now);
    world.send(leaving, &line("command", "Sys.Unsubscribe", "u", json!({})));
    world.run();
    assert_eq!(world.only_written(leaving).causation(), Some("u"));
    assert_eq!(world.only_written(staying).data(), "0");
}

#[test]
fn thousands_of_requests_that_a_shutdown_gives_up_are_answered_some_at_a_time() {
    let mut slow = manifest("slow", &["command:Slow.Do"]);
    slow.limits.mailbox_messages = 100_000;
    let mut world = World::booted(vec![slow]);
    let client = world.connect(1);
    for number in 0..10_000 {
        world.send(client, &line("command", "Slow.Do", &format!("c-{number}"), json!(1)));
        if number % 1000 == 0 {
            world.run();
        }
    }
    world.run();
    world.kernel.shutdown("test", world.now);
    world.run();
    world.kernel.hasten(world.now);
    let most = most_work_of_a_turn(&mut world);
    assert!(most < TURN_WORK_MAX, "a turn did {most} ns of work");
    let answers = world.take_written(client);
    assert_eq!(answers.len(), 10_000);
    assert!(answers.iter().all(|answer| code(answer) == 503));
    assert_eq!(world.count(|effect| matches!(effect, Effect::Exit { code: 0 })), 1);
}

#[test]
fn large_answers_that_come_at_once_are_handed_out_some_at_a_time() {
    let mut big = manifest("big", &["query:Big.Get"]);
    big.limits.concurrency = 64;
    let mut world = World::booted(vec![big]);
    for number in 1..=64 {
        let client = world.connect(number);
        world.send(client, &line("query", "Big.Get", &format!("q-{number}"), json!({})));
    }
    world.run();
    for (actor, request) in world.take_delivered() {
        let reply = mainspring_message::Draft::reply(&request, json!("x".repeat(900_000)).into());
        world.kernel.actor_message(actor, reply, world.now);
    }
    let most = most_work_of_a_turn(&mut world);
    assert!(most < 2 * TURN_WORK_MAX, "a turn did {most} ns of work");
    assert_eq!(world.written.len(), 64);
}
