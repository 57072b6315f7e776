//! The order in which the User lane is served.

use super::*;

fn lanes() -> Lanes {
    Lanes::new(&Limits::default())
}

fn push(lanes: &mut Lanes, queue: QueueId, id: &str) {
    assert!(lanes.push(queue, event(id), 10).is_none());
}

fn event(id: &str) -> Item {
    let line = format!(
        r#"{{"kind":"event","type":"Test.Happened","data":1,"metadata":{{"id":"{id}","timestamp":0}}}}"#
    );
    Item::Event(Envelope::parse(line.as_bytes()).unwrap())
}

fn pop_id(lanes: &mut Lanes) -> String {
    match lanes.pop().unwrap().item {
        Item::Event(message) => message.id().to_owned(),
        Item::Request(_) | Item::Repetition(_) => unreachable!(),
    }
}

#[test]
fn senders_take_turns_and_each_keeps_its_order() {
    let mut lanes = lanes();
    let flood = lanes.open(Sender::Connection(ConnectionId(1)));
    let quiet = lanes.open(Sender::Connection(ConnectionId(2)));
    for id in ["a1", "a2", "a3"] {
        push(&mut lanes, flood, id);
    }
    push(&mut lanes, quiet, "b1");
    let order: Vec<String> = (0..4).map(|_| pop_id(&mut lanes)).collect();
    assert_eq!(order, ["a1", "b1", "a2", "a3"]);
    assert!(lanes.is_empty());
}

#[test]
fn whoever_gets_large_answers_comes_after_the_others_but_is_not_forgotten() {
    let mut lanes = lanes();
    let (large, usual) = (lanes.open(Sender::Kernel), lanes.open(Sender::Kernel));
    lanes.set_window(large, NonZeroU32::new(4));
    for id in ["l1", "l2", "l3"] {
        push(&mut lanes, large, id);
    }
    for _ in 0..100 {
        push(&mut lanes, usual, "u");
    }
    let order: Vec<String> = (0..103).map(|_| pop_id(&mut lanes)).collect();
    let places: Vec<usize> = (0..103).filter(|at| order[*at] != "u").collect();
    assert_eq!(places, [0, 65, 102]);
    assert!(lanes.is_empty());
}

#[test]
fn a_queue_that_is_held_keeps_its_place_and_its_order_and_the_others_are_served() {
    let mut lanes = lanes();
    let (slow, other) = (lanes.open(Sender::Kernel), lanes.open(Sender::Kernel));
    push(&mut lanes, slow, "a1");
    push(&mut lanes, slow, "a2");
    push(&mut lanes, other, "b1");
    lanes.hold(slow, Hold::Egress);
    lanes.hold(slow, Hold::Chore);
    assert_eq!((lanes.user_len(), lanes.held_len(), lanes.is_ready()), (3, 2, true));
    assert_eq!(pop_id(&mut lanes), "b1");
    assert!(lanes.pop().is_none() && !lanes.is_ready() && !lanes.is_empty());
    push(&mut lanes, slow, "a3");
    lanes.release(slow, Hold::Egress);
    assert!(lanes.pop().is_none(), "it is still held for the other reason");
    lanes.release(slow, Hold::Chore);
    let order: Vec<String> = (0..3).map(|_| pop_id(&mut lanes)).collect();
    assert_eq!((order, lanes.held_len(), lanes.bytes()), (vec!["a1".into(), "a2".into(), "a3".into()], 0, 0));
}

#[test]
fn what_a_sender_sent_before_it_left_is_served_though_it_was_held() {
    let mut lanes = lanes();
    let queue = lanes.open(Sender::Kernel);
    push(&mut lanes, queue, "a");
    lanes.hold(queue, Hold::Egress);
    assert!(lanes.pop().is_none());
    lanes.close(queue);
    assert_eq!(pop_id(&mut lanes), "a");
    assert_eq!(lanes.open(Sender::Kernel), queue);
    // Held for a chore, it stays until that is over.
    lanes.hold(queue, Hold::Chore);
    lanes.close(queue);
    assert_ne!(lanes.open(Sender::Kernel), queue);
    lanes.release(queue, Hold::Chore);
    assert_eq!(lanes.open(Sender::Kernel), queue);
}

#[test]
fn while_events_wait_requests_are_served_and_each_sender_keeps_its_order() {
    let mut lanes = lanes();
    let (mixed, asking) = (lanes.open(Sender::Kernel), lanes.open(Sender::Kernel));
    let repetition = |id: &str| match event(id) {
        Item::Event(message) => Item::Repetition(message),
        other => other,
    };
    let id = |lanes: &mut Lanes| {
        lanes.pop().map(|served| match served.item {
            Item::Event(message) | Item::Repetition(message) => message.id().to_owned(),
            Item::Request(_) => unreachable!(),
        })
    };
    push(&mut lanes, mixed, "e1");
    assert!(lanes.push(mixed, repetition("r1"), 10).is_none());
    assert!(lanes.push(asking, repetition("r2"), 10).is_none());
    assert!(lanes.push(asking, repetition("r3"), 10).is_none());
    lanes.hold_events();
    assert_eq!(id(&mut lanes).as_deref(), Some("r2"));
    assert_eq!(id(&mut lanes).as_deref(), Some("r3"));
    assert_eq!(id(&mut lanes), None, "what comes behind an event waits with it");
    push(&mut lanes, asking, "e2");
    assert_eq!(id(&mut lanes), None);
    lanes.release_events();
    let order: Vec<String> = std::iter::from_fn(|| id(&mut lanes)).collect();
    assert_eq!(order, ["e1", "e2", "r1"]);
}

#[test]
fn a_queue_outlives_its_sender_until_it_is_empty() {
    let mut lanes = lanes();
    let queue = lanes.open(Sender::Kernel);
    push(&mut lanes, queue, "a");
    lanes.close(queue);
    assert_eq!(pop_id(&mut lanes), "a");
    assert_eq!(lanes.open(Sender::Kernel), queue);
}
