//! `send`, `query`, `emit` and `actors`.

use crate::fake::{Fake, command, event, stderr, stdout};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::process::Stdio;

#[test]
fn send_prints_the_data_of_the_reply_as_it_was_written() {
    let fake = Fake::serve(|connection| {
        let command = connection.read().unwrap();
        assert_eq!((&command["kind"], &command["type"]), (&json!("command"), &json!("Memory.Set")));
        assert_eq!(command["data"], json!({ "key": "a" }));
        assert_eq!(command["metadata"]["id"].as_str().unwrap().len(), 32);
        assert!(command["metadata"]["timestamp"].as_u64().unwrap() > 1_700_000_000_000);
        assert_eq!(command["metadata"].as_object().unwrap().len(), 2);
        // What is not the answer is passed over.
        connection.event("Memory.Changed", &json!({}));
        connection.answer(&json!({ "metadata": { "id": "other" } }), "reply", "Memory.Set", "0");
        connection.reply(&command, "{ \"b\": 1.50, \"a\": null }");
    });
    let output = fake.run(&["send", "Memory.Set", "{\"key\":\n\"a\"}"]);
    assert_eq!(
        (output.status.code(), stdout(&output), stderr(&output)),
        (Some(0), "{ \"b\": 1.50, \"a\": null }\n", "")
    );
}

#[test]
fn query_is_a_query_and_without_data_it_is_an_empty_object() {
    let fake = Fake::serve(|connection| {
        let query = connection.read().unwrap();
        assert_eq!((&query["kind"], &query["data"]), (&json!("query"), &json!({})));
        connection.reply(&query, "[1]");
    });
    assert_eq!(stdout(&fake.run(&["query", "Memory.List"])), "[1]\n");
}

#[test]
fn id_correlation_and_timeout_travel_with_the_message() {
    let fake = Fake::serve(|connection| {
        let command = connection.read().unwrap();
        let metadata = &command["metadata"];
        assert_eq!((&metadata["id"], &metadata["correlation"]), (&json!("my-id"), &json!("my-flow")));
        assert_eq!(metadata["timeout"], json!(1500));
        connection.reply(&command, "true");
    });
    let output =
        fake.run(&["send", "A.B", "--id", "my-id", "--correlation", "my-flow", "--timeout", "1.5s", "--raw"]);
    let line = stdout(&output);
    let reply: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((&reply["kind"], &reply["metadata"]["causation"]), (&json!("reply"), &json!("my-id")));
    assert!(line.ends_with("}\n"));
}

#[test]
fn the_node_that_is_to_do_it_travels_with_the_message() {
    for (words, kind) in [(["send", "Order.Place"], "command"), (["query", "Order.Place"], "query")] {
        let fake = Fake::serve(move |connection| {
            let described = connection.read().unwrap();
            assert_eq!(described["type"], json!("Syscall.Describe"));
            let handler = json!({ "capability": "uplink:orders", "kind": kind });
            connection.reply(&described, &json!({ "handlers": [handler] }).to_string());
            let request = connection.read().unwrap();
            assert_eq!((&request["kind"], &request["type"]), (&json!(kind), &json!("Order.Place")));
            assert_eq!(request["metadata"]["to_node"], json!("kitchen"));
            connection.reply(&request, "true");
        });
        let output = fake.run(&[&words[..], &["--to-node", "kitchen"]].concat());
        assert_eq!((output.status.code(), stdout(&output)), (Some(0), "true\n"), "{}", stderr(&output));
    }
    let folder = tempfile::tempdir().unwrap();
    for wrong in [&["--to-node", "a b"][..], &["--to-node", "b", "--delay", "1h"]] {
        let output = command(&[&["send", "Order.Place"], wrong].concat(), folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
}

#[test]
fn a_node_cannot_be_named_for_what_the_daemon_serves_itself() {
    let fake = Fake::serve(|connection| {
        let described = connection.read().unwrap();
        connection.reply(&described, r#"{"handlers":[{"capability":"orders","kind":"command"}]}"#);
        let stats = connection.read().unwrap();
        connection.reply(&stats, r#"{"floors":{}}"#);
    });
    let output = fake.run(&["send", "Order.Place", "--to-node", "kitchen"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("goes to no other node; leave --to-node out"), "{}", stderr(&output));
}

#[test]
fn data_comes_from_a_file_or_from_standard_input() {
    for way in ["file", "input"] {
        let fake = Fake::serve(|connection| {
            let command = connection.read().unwrap();
            assert_eq!(command["data"], json!([1, { "a": "é" }]));
            connection.reply(&command, "1");
        });
        let text = "[1,\n  {\"a\": \"é\"}\n]\n";
        let output = if way == "file" {
            let path = fake.socket().with_file_name("data.json");
            fs::write(&path, text).unwrap();
            fake.run(&["send", "A.B", "--file", path.to_str().unwrap()])
        } else {
            let mut command = fake.command(&["send", "A.B", "-"]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        };
        assert_eq!(stdout(&output), "1\n", "{way}: {}", stderr(&output));
    }
}

#[test]
fn an_error_is_one_line_on_standard_error_and_exit_code_1() {
    let error = "{\"code\":404,\"message\":\"nobody handles A.B\",\"started\":\"no\"}";
    let serve = move || {
        Fake::serve(move |connection| {
            let command = connection.read().unwrap();
            connection.answer(&command, "error", "Sys.RoutingError", error);
        })
    };
    let output = serve().run(&["send", "A.B"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        (stdout(&output), stderr(&output)),
        ("", "mainspring: Sys.RoutingError (404): nobody handles A.B\n")
    );
    let output = serve().run(&["send", "A.B", "--raw"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""));
    assert!(stderr(&output).starts_with("{\"kind\":\"error\""), "{}", stderr(&output));
}

#[test]
fn what_makes_no_sense_is_refused_before_any_daemon_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, words) in [
        (&["send", "memory"][..], "mainspring: type: "),
        (&["send", "Memory.Set", "{key: 1}"], "data: not JSON at byte 1"),
        (&["send", "Memory.Set", "1 2"], "data: not JSON at byte 2: expected nothing more after the value"),
        (&["send", "Memory.Set", "01"], "nothing more after the value"),
        (&["send", "Memory.Set", "--file", "nowhere"], "cannot read nowhere"),
        (&["send", "Memory.Set", "--file", "/dev/zero"], "/dev/zero is longer than 64 MiB"),
        (&["send", "Memory.Set", "-"], "standard input is empty"),
        (&["send", "Memory.Set", "--id", ""], "metadata.id: must not be empty"),
        (&["send", "Memory.Set", "--timeout", "5"], "needs a unit of time"),
        (&["send"], "TYPE"),
        (&["watch", "--count", "0"], "count"),
    ] {
        let output = command(arguments, folder.path()).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn a_daemon_that_hangs_up_or_talks_nonsense_is_exit_code_1() {
    let hangs_up = Fake::serve(|connection| drop(connection.read()));
    let output = hangs_up.run(&["send", "A.B"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("closed the connection before it had answered"), "{}", stderr(&output));
    let nonsense = Fake::serve(|connection| {
        connection.read();
        connection.write("hello\n");
        connection.read();
    });
    let output = nonsense.run(&["send", "A.B"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("not a message: hello"), "{}", stderr(&output));
}

#[test]
fn a_silent_daemon_is_given_up_a_while_after_the_timeout() {
    let fake = Fake::serve(|connection| {
        connection.read();
        // Not a word, until the command hangs up.
        assert!(connection.read().is_none());
    });
    let output = fake.run(&["send", "A.B", "--timeout", "1ms"]);
    assert_eq!(output.status.code(), Some(1));
    let words = "the daemon has not answered within 1ms, nor 2s later";
    assert!(stderr(&output).contains(words), "{}", stderr(&output));
}

#[test]
fn emit_ends_when_the_daemon_took_the_event() {
    let fake = Fake::serve(|connection| {
        let event = connection.read().unwrap();
        assert_eq!((&event["kind"], &event["type"]), (&json!("event"), &json!("App.Done")));
        let ping = connection.read().unwrap();
        connection.reply(&ping, "null");
    });
    let output = fake.run(&["emit", "App.Done", "{}"]);
    assert_eq!((output.status.code(), stdout(&output), stderr(&output)), (Some(0), "", ""));
}

#[test]
fn emit_tells_a_refusal() {
    let fake = Fake::serve(|connection| {
        let event = connection.read().unwrap();
        let ping = connection.read().unwrap();
        connection.answer(&event, "error", "Sys.ForbiddenError", "{\"code\":403,\"message\":\"reserved\"}");
        connection.reply(&ping, "null");
    });
    let output = fake.run(&["emit", "Sys.Mine"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "mainspring: Sys.ForbiddenError (403): reserved\n");
}

#[test]
fn actors_are_listed_for_people_and_for_programs() {
    let data = json!({ "actors": [{ "capabilityId": "memory", "state": "up", "sinceMs": 5, "mailbox": 0, "inFlight": 0,
        "handled": 3, "faults": 0, "restartsInWindow": 0, "incarnation": 1, "blocked": false }] });
    let answer = data.to_string();
    let serve = move || {
        let answer = answer.clone();
        Fake::serve(move |connection| {
            let query = connection.read().unwrap();
            assert_eq!(query["type"], json!("Sys.Actors"));
            connection.reply(&query, &answer);
        })
    };
    let output = serve().run(&["actors"]);
    let row: Vec<&str> = stdout(&output).lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["memory", "up", "5ms", "0", "0", "0", "3", "0", "1"]);
    let output = serve().run(&["actors", "--json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(stdout(&output)).unwrap(), data);
}

#[test]
fn an_answer_in_pieces_is_put_together() {
    let fake = Fake::serve(|connection| {
        let query = connection.read().unwrap();
        let id = query["metadata"]["id"].as_str().unwrap();
        let long = "x".repeat(300_000);
        let line = format!(
            "{}{{\"kind\":\"reply\",\"type\":\"A.B\",\"data\":\"{long}\",\"metadata\":{{\"id\":\"r\",\"timestamp\":1,\"causation\":\"{id}\"}}}}\n",
            event("A.C", &json!(1))
        );
        for piece in line.as_bytes().chunks(7001) {
            connection.write(std::str::from_utf8(piece).unwrap());
        }
    });
    assert_eq!(stdout(&fake.run(&["query", "A.B"])).len(), 300_003);
}
