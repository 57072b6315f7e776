//! Daemons that are there and say nothing.

use crate::fake::{stderr, stdout};
use crate::real::Real;
use std::io::Write;
use std::process::{Output, Stdio};

fn gave_up(output: &Output) {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    // What was asked for is what is told, and the grace beside it.
    let words = "the daemon has not answered within 100ms, nor 2s later";
    assert!(stderr(output).contains(words), "{}", stderr(output));
}

#[test]
fn every_command_gives_a_stopped_daemon_up_after_the_time_that_was_asked_for() {
    let daemon = Real::start("");
    let _frozen = daemon.freeze();
    let long = format!("\"{}\"", "x".repeat(4 << 20));
    std::fs::write(daemon.folder().join("long.json"), long).unwrap();
    let commands = [
        &["query", "Syscall.Ping"][..],
        &["emit", "App.Done"],
        &["watch"],
        &["pipe"],
        &["actors"],
        &["top", "--once"],
        // More than the socket takes by itself.
        &["send", "Memory.Set", "--file", "long.json"],
    ];
    let children: Vec<_> = commands
        .iter()
        .map(|arguments| {
            let mut command = daemon.command(arguments);
            command.args(["--timeout", "100ms"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
            let mut input = child.stdin.take().unwrap();
            // For `pipe`; the others leave it unread.
            let _ = input.write_all(b"{\"kind\":\"query\",\"type\":\"Syscall.Ping\"}\n");
            child
        })
        .collect();
    for child in children {
        gave_up(&child.wait_with_output().unwrap());
    }
}

#[test]
fn pipe_gives_up_a_daemon_that_does_not_read_its_input() {
    let daemon = Real::start("");
    let _frozen = daemon.freeze();
    let mut command = daemon.command(&["pipe", "--timeout", "100ms"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        while input.write_all(b"{\"kind\":\"query\",\"type\":\"Syscall.Ping\"}\n").is_ok() {}
    });
    gave_up(&child.wait_with_output().unwrap());
    feeder.join().unwrap();
}

#[test]
fn pipe_with_a_time_ends_though_it_has_subscribed() {
    let daemon = Real::start("");
    let mut command = daemon.command(&["pipe", "--timeout", "500ms"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let subscribe = b"{\"kind\":\"command\",\"type\":\"Sys.Subscribe\",\"data\":{\"types\":[\"App.*\"]}}\n";
    child.stdin.take().unwrap().write_all(subscribe).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("Sys.Subscribe"), "{}", stdout(&output));
}

#[test]
fn the_time_of_pipe_is_that_of_lines_without_metadata() {
    let fake = crate::fake::Fake::serve(|connection| {
        let query = connection.read().unwrap();
        assert_eq!(query["metadata"]["timeout"], serde_json::json!(1500));
        let event = connection.read().unwrap();
        assert!(event["metadata"]["timeout"].is_null());
        connection.reply(&query, "1");
        assert!(connection.read().is_none());
    });
    let mut child = fake
        .command(&["pipe", "--timeout", "1.5s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = b"{\"kind\":\"query\",\"type\":\"A.B\"}\n{\"kind\":\"event\",\"type\":\"A.C\"}\n";
    child.stdin.take().unwrap().write_all(lines).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn no_time_at_all_is_refused() {
    let daemon = Real::start("");
    for arguments in [
        &["query", "Syscall.Ping", "--timeout", "0s"][..],
        &["watch", "--timeout", "0ms"],
        &["bench", "--duration", "0s"],
    ] {
        let output = daemon.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains("at least 1ms"), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn pipe_fails_when_the_daemon_hangs_up_on_it() {
    let daemon = Real::start("");
    let mut command = daemon.command(&["pipe"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = "{\"kind\":1}\n".repeat(200);
    input += "{\"kind\":\"query\",\"type\":\"Syscall.Ping\"}\n";
    // All of it is on its way before the daemon has had enough.
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 101);
    assert!(stdout(&output).trim_end().contains("so the connection is closed"), "{}", stdout(&output));
    assert!(stderr(&output).contains("closed the connection"), "{}", stderr(&output));
}
