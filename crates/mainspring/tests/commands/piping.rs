//! `pipe`.

use crate::fake::{Fake, stderr};
use crate::real::Real;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn feed(mut command: Command, text: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text = text.to_owned();
    // The command may stop reading before it has all.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(text.as_bytes())));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output
}

fn lines(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_request_of_the_input_is_answered_before_it_ends() {
    let daemon = Real::start("");
    let count = 5000;
    let mut input = String::new();
    for number in 0..count {
        input += &format!(
            "{{\"kind\":\"command\",\"type\":\"Memory.Set\",\"data\":{{\"key\":\"k{number}\",\"value\":{number}}},\"metadata\":{{\"id\":\"c{number}\",\"timestamp\":1}}}}\n"
        );
    }
    // A line without metadata, one that is no message, and one without an end.
    input += "{\"kind\":\"query\",\"type\":\"Memory.Get\",\"data\":{\"key\":\"k7\"}}\n\n[]\n";
    input += "{\"kind\":\"query\",\"type\":\"Nobody.Knows\",\"data\":1,\"metadata\":{\"id\":\"last\",\"timestamp\":1}}";
    let output = feed(daemon.command(&["pipe"]), &input);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let answers = lines(&output);
    assert_eq!(answers.len(), count + 3);
    let by_cause: HashMap<&str, &Value> = answers
        .iter()
        .map(|answer| (answer["metadata"]["causation"].as_str().unwrap(), &answer["type"]))
        .collect();
    assert_eq!(by_cause["c4999"], "Memory.Set");
    assert_eq!(by_cause["last"], "Sys.RoutingError");
    assert!(answers.iter().any(|answer| answer["data"] == json!({ "value": 7 })));
    assert!(answers.iter().any(|answer| answer["type"] == "Sys.MalformedError"));
}

#[test]
fn what_is_not_json_ends_it_with_2_after_what_came_before_was_answered() {
    let daemon = Real::start("");
    let output = feed(
        daemon.command(&["pipe"]),
        "{\"kind\":\"query\",\"type\":\"Syscall.Ping\",\"data\":1}\nhello\n{}\n",
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("line 2 of the input is not JSON"), "{}", stderr(&output));
    assert_eq!(lines(&output).len(), 1);
}

#[test]
fn a_daemon_that_leaves_early_is_exit_code_1() {
    let fake = Fake::serve(|connection| {
        connection.read();
    });
    let mut command = fake.command(&["pipe"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Held open: there might be more to say.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"kind\":\"query\",\"type\":\"Syscall.Ping\"}\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("closed the connection"), "{}", stderr(&output));
    drop(stdin);
}

#[test]
fn events_come_through_it_too() {
    let daemon = Real::start("");
    let input = "{\"kind\":\"command\",\"type\":\"Sys.Subscribe\",\"data\":{\"types\":[\"App.*\"]}}\n{\"kind\":\"event\",\"type\":\"App.Done\",\"data\":5}\n{\"kind\":\"query\",\"type\":\"Syscall.Ping\",\"data\":\"end\"}\n";
    let mut command = daemon.command(&["pipe"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    let mut found = Vec::new();
    let mut out = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    while found.len() < 3 {
        let line: Value = serde_json::from_str(&out.next().unwrap().unwrap()).unwrap();
        found.push(line["type"].as_str().unwrap().to_owned());
    }
    found.sort();
    assert_eq!(found, ["App.Done", "Sys.Subscribe", "Syscall.Ping"]);
    // Nobody reads any more.
    drop(out);
    let _ = stdin.write_all(b"{\"kind\":\"query\",\"type\":\"Syscall.Ping\",\"data\":1}\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
