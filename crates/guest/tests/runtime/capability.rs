//! Capabilities: messages in, messages out, a batch at a time.

use crate::support::Host;
use mainspring_guest::capability::{self, Envelope, Json, serve};
use mainspring_guest::{block_on, sleep, spawn};
use std::io::ErrorKind;
use std::time::Duration;

const STDIN: i32 = 0;
const STDOUT: i32 = 1;

fn query(id: &str) -> String {
    format!(
        r#"{{"kind":"query","type":"Echo.Say","data":{{"of":"{id}"}},"metadata":{{"id":"{id}","timestamp":1,"correlation":"w"}}}}"#
    ) + "\n"
}

/// What was said, as pairs of cause and data.
fn said(host: &Host) -> Vec<(String, String)> {
    let text = String::from_utf8(host.written(STDOUT)).unwrap();
    let parse =
        |line: &str| Envelope::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
    let lines = text.lines().map(parse);
    lines.map(|it| (it.causation().unwrap_or_default().to_owned(), it.data().to_owned())).collect()
}

fn end_input(host: &Host) {
    host.with_stream(STDIN, |stream| stream.ended = true);
}

#[test]
fn every_message_is_answered_in_order_and_the_end_of_the_input_is_the_end() {
    let (host, _installed) = Host::start();
    host.then(|host| host.deliver(STDIN, query("a").as_bytes()));
    host.then(|host| host.deliver(STDIN, query("b").as_bytes())).then(end_input);
    serve(|message, outbox| outbox.reply(message, message.data_json())).unwrap();
    let expected = ["a", "b"].map(|id| (id.to_owned(), format!(r#"{{"of":"{id}"}}"#)));
    assert_eq!(said(&host), expected);
    let text = String::from_utf8(host.written(STDOUT)).unwrap();
    assert!(
        text.lines().all(|line| line.contains(r#""correlation":"w""#) && line.contains(r#""timestamp":5"#))
    );
}

#[test]
fn a_batch_costs_one_wait_one_read_one_write_and_one_look_at_the_clock() {
    let (host, _installed) = Host::start();
    let batch: String = (0..50).map(|number| query(&number.to_string())).collect();
    host.then(move |host| host.deliver(STDIN, batch.as_bytes())).then(end_input);
    let calls_of_a_wait = 2;
    serve(|message, outbox| outbox.reply(message, Json::null())).unwrap();
    assert_eq!(said(&host).len(), 50);
    assert_eq!((host.polls.get(), host.clock_requests.get()), (2, 1));
    // Opening the clock and asking it twice, opening the loop; a read in vain, two waits with a
    // read each, and the one write.
    assert_eq!(host.calls.get(), 1 + 2 * 2 + 1 + 1 + 2 * (calls_of_a_wait + 1) + 1);
}

#[test]
fn messages_may_come_in_pieces_and_ids_are_never_the_same() {
    let (host, _installed) = Host::start();
    let text = query("a") + &query("b");
    for piece in text.as_bytes().chunks(7) {
        let piece = piece.to_vec();
        host.then(move |host| host.deliver(STDIN, &piece));
    }
    host.then(end_input);
    let mut ids = Vec::new();
    serve(|message, outbox| {
        outbox.event(message, "Echo.Heard", Json::null());
        outbox.error(message, 404, "nobody");
        ids.push(message.id().to_owned());
    })
    .unwrap();
    assert_eq!(ids, ["a", "b"]);
    let text = String::from_utf8(host.written(STDOUT)).unwrap();
    let mut ids: Vec<String> =
        text.lines().map(|line| Envelope::parse(line.as_bytes()).unwrap().id().to_owned()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[test]
fn a_capability_whose_reader_is_behind_stops_reading_and_keeps_its_lines_whole() {
    let (host, _installed) = Host::start();
    host.with_stream(STDOUT, |stream| stream.room = 10);
    host.deliver(STDIN, (query("a") + &query("b")).as_bytes());
    for _ in 0..40 {
        host.then(|host| host.with_stream(STDOUT, |stream| stream.room = 10));
    }
    host.then(end_input);
    serve(|message, outbox| outbox.reply(message, message.data_json())).unwrap();
    assert_eq!(said(&host).len(), 2);
    assert_eq!(host.empty_polls.get(), 0);
}

#[test]
fn tasks_answer_when_they_are_done_while_the_inbox_waits() {
    let (host, _installed) = Host::start();
    host.deliver(STDIN, (query("slow") + &query("quick")).as_bytes());
    block_on(async {
        let (mut inbox, outbox) = capability::open().unwrap();
        let mut tasks = Vec::new();
        for delay_ms in [20, 10] {
            let message = inbox.next().await.unwrap().unwrap();
            let outbox = outbox.clone();
            tasks.push(spawn(async move {
                sleep(Duration::from_millis(delay_ms)).await;
                outbox.reply(&message, message.data_json());
                outbox.flush().await.unwrap();
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
    let causes: Vec<String> = said(&host).into_iter().map(|(cause, _)| cause).collect();
    assert_eq!(causes, ["quick", "slow"]);
}

#[test]
fn a_line_that_is_no_message_is_an_error_and_the_next_one_is_read() {
    let (host, _installed) = Host::start();
    host.deliver(STDIN, ("nonsense\n".to_owned() + &query("a")).as_bytes());
    block_on(async {
        let (mut inbox, _outbox) = capability::open().unwrap();
        assert_eq!(inbox.next().await.unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(inbox.next().await.unwrap().unwrap().id(), "a");
    });
}
