//! Section 5: what a worker is.

use super::support::*;
use serde_json::json;

#[test]
fn s5_3_1_messages_from_one_sender_to_one_actor_arrive_in_order() {
    let mut echo = manifest("echo", &["command:Echo.Say", "event:Echo.Heard"]);
    echo.limits.concurrency = 100;
    let mut world = World::booted(vec![echo]);
    let client = world.connect(1);
    for number in 0..20 {
        let kind = if number % 3 == 0 { ("event", "Echo.Heard") } else { ("command", "Echo.Say") };
        world.send(client, &line(kind.0, kind.1, &format!("m-{number}"), json!(number)));
    }
    world.run();
    let order: Vec<String> =
        world.take_delivered().iter().map(|(_, message)| message.id().to_owned()).collect();
    assert_eq!(order, (0..20).map(|number| format!("m-{number}")).collect::<Vec<_>>());
}

#[test]
fn s5_3_2_sending_delivers_nothing_before_a_turn() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    world.send(client, &line("command", "Echo.Say", "c-1", json!(1)));
    assert!(world.delivered.is_empty());
    world.run();
    world.only_delivered();
}

#[test]
fn s5_3_4_a_failure_in_one_actor_reaches_neither_the_sender_nor_a_neighbour() {
    let mut world = World::booted(vec![
        manifest("frail", &["command:Frail.Do"]),
        manifest("solid", &["command:Solid.Do"]),
    ]);
    let client = world.connect(1);
    world.send(client, &line("command", "Frail.Do", "c-1", json!(1)));
    world.send(client, &line("command", "Solid.Do", "c-2", json!(1)));
    world.run();
    let delivered = world.take_delivered();
    world.crashes(delivered[0].0);
    assert_eq!(code(&world.only_written(client)), 502);
    world.replies(delivered[1].0, &delivered[1].1, json!(2));
    assert_eq!(world.only_written(client).causation(), Some("c-2"));
}

#[test]
fn s5_4_2_an_actor_works_on_one_request_at_a_time() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    for id in ["c-1", "c-2"] {
        world.send(client, &line("command", "Echo.Say", id, json!(1)));
    }
    world.run();
    let (actor, first) = world.only_delivered();
    world.replies(actor, &first, json!(1));
    assert_eq!(world.only_delivered().1.id(), "c-2");
}
