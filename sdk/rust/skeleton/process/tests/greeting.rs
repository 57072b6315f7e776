//! Tests {{name}} as the daemon sees it: `cargo test --release` in this folder.

use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

/// What the program says to requests.
fn ask(requests: &[(&str, &str, Value)]) -> Vec<Value> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_{{name}}"));
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for (number, (kind, type_name, data)) in requests.iter().enumerate() {
        let metadata = json!({ "id": format!("q{number}"), "timestamp": 0 });
        writeln!(input, "{}", json!({ "kind": kind, "type": type_name, "data": data, "metadata": metadata })).unwrap();
    }
    drop(input);
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let messages = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    messages.map(|message| json!([message["kind"], message["type"], message["data"]])).collect()
}

#[test]
fn people_are_greeted_by_name_and_it_is_told() {
    let said = ask(&[
        ("command", "{{Type}}.Greet", json!({ "name": "Ada" })),
        ("query", "{{Type}}.Times", json!({ "name": "Ada" })),
    ]);
    let times = json!({ "name": "Ada", "times": 1 });
    assert_eq!(
        said,
        [
            json!(["event", "{{Type}}.Greeted", times]),
            json!(["reply", "{{Type}}.Greet", { "text": "Hello, Ada!" }]),
            json!(["reply", "{{Type}}.Times", times]),
        ]
    );
}

#[test]
fn who_was_never_greeted_is_404() {
    let said = ask(&[("query", "{{Type}}.Times", json!({ "name": "Bob" }))]);
    assert_eq!((&said[0][0], &said[0][2]["code"]), (&json!("error"), &json!(404)));
}
