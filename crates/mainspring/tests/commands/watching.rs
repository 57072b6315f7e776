//! `watch`.

use crate::fake::{Connection, Fake, event, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

fn subscribed(connection: &mut Connection) -> Value {
    let request = connection.read().unwrap();
    assert_eq!((&request["kind"], &request["type"]), (&json!("command"), &json!("Sys.Subscribe")));
    connection.reply(&request, "{\"types\":[]}");
    request["data"].clone()
}

fn spawn(fake: &Fake, arguments: &[&str]) -> Child {
    let mut command = fake.command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A line without the time at which its event came: that is now, whatever the sender's clock says
/// (1970, in these tests).
fn arrived(line: &str) -> &str {
    let (time, rest) = line.split_once("  ").unwrap();
    assert_eq!((time.len(), time.as_bytes()[2], time.as_bytes()[8]), (12, b':', b'.'), "{line}");
    assert_ne!(&time[3..], "00:01.000", "the sender's clock");
    rest
}

#[test]
fn events_are_shown_one_a_line_until_there_were_enough() {
    let fake = Fake::serve(|connection| {
        assert_eq!(subscribed(connection), json!({ "types": ["*"], "slow": "drop_oldest" }));
        // In one piece: the command may hang up as soon as it has two.
        let events =
            ["Order.Placed", "Order.Shipped", "Order.Lost"].map(|name| event(name, &json!({ "item": 7 })));
        connection.write(&events.concat());
        assert!(connection.read().is_none());
    });
    let output = fake.run(&["watch", "--count", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines: Vec<&str> = stdout(&output).lines().map(arrived).collect();
    assert_eq!(lines, ["Order.Placed  {\"item\":7}", "Order.Shipped  {\"item\":7}"]);
}

#[test]
fn patterns_and_the_choice_to_lose_nothing_are_passed_on_and_lines_stay_as_they_are() {
    let fake = Fake::serve(|connection| {
        let data = subscribed(connection);
        assert_eq!(data, json!({ "types": ["Order.*", "A.B"], "slow": "disconnect" }));
        connection.event("Order.Placed", &json!(1));
        assert!(connection.read().is_none());
    });
    let output = fake.run(&["watch", "Order.*", "A.B", "--all", "--json", "--count", "1"]);
    assert_eq!(stdout(&output), event("Order.Placed", &json!(1)));
}

#[test]
fn only_events_of_a_workflow_are_shown_if_one_is_named() {
    let fake = Fake::serve(|connection| {
        subscribed(connection);
        connection.event("A.B", &json!("other"));
        let mine =
            event("A.B", &json!("mine")).replace("\"timestamp\"", "\"correlation\":\"w\",\"timestamp\"");
        connection.write(&mine);
        assert!(connection.read().is_none());
    });
    let output = fake.run(&["watch", "--correlation", "w", "--count", "1"]);
    assert_eq!(arrived(stdout(&output)), "A.B  \"mine\"  [w]\n");
}

#[test]
fn lost_events_are_told_on_standard_error_and_not_counted() {
    let fake = Fake::serve(|connection| {
        subscribed(connection);
        connection.event("Sys.EventsDropped", &json!({ "count": 12 }));
        connection.event("A.B", &json!(1));
        assert!(connection.read().is_none());
    });
    let output = fake.run(&["watch", "--count", "1", "--json"]);
    assert_eq!(stdout(&output), event("A.B", &json!(1)));
    assert!(stderr(&output).contains("12 events were dropped"), "{}", stderr(&output));
}

#[test]
fn an_interrupt_ends_it_cleanly() {
    for signal in [Signal::INT, Signal::TERM] {
        let fake = Fake::serve(|connection| {
            subscribed(connection);
            connection.event("A.B", &json!(1));
            assert!(connection.read().is_none());
        });
        let mut child = spawn(&fake, &["watch"]);
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.ends_with("A.B  1\n"), "{line}");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    }
}

#[test]
fn it_ends_when_nobody_reads_it_any_more_even_if_nothing_happens() {
    let fake = Fake::serve(|connection| {
        subscribed(connection);
        connection.event("A.B", &json!(1));
        // Not a word more: it must find out by itself.
        assert!(connection.read().is_none());
    });
    let mut child = spawn(&fake, &["watch"]);
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 4]).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
}

#[test]
fn a_flood_to_a_reader_that_left_ends_it_too() {
    let fake = Fake::serve(|connection| {
        subscribed(connection);
        assert!(connection.write_until_closed(&event("A.B", &json!("x".repeat(1000)))));
    });
    let mut child = spawn(&fake, &["watch"]);
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 100_000]).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
}

#[test]
fn a_refusal_and_the_end_of_the_daemon_are_exit_code_1() {
    let refuses = Fake::serve(|connection| {
        let request = connection.read().unwrap();
        connection.answer(
            &request,
            "error",
            "Sys.SchemaError",
            "{\"code\":422,\"message\":\"data.types: no\"}",
        );
        assert!(connection.read().is_none());
    });
    let output = refuses.run(&["watch", "nonsense"]);
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(1), "mainspring: Sys.SchemaError (422): data.types: no\n")
    );
    let ends = Fake::serve(|connection| {
        subscribed(connection);
    });
    let output = ends.run(&["watch"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the daemon ended the connection"), "{}", stderr(&output));
}
