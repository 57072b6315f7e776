//! Batches: messages on standard input, answers on standard output, an end when nothing is left to
//! do.

use crate::support::{PATIENCE, line, mainspring};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Output, Stdio};

fn batch(input: &[u8]) -> Output {
    let mut child = mainspring()
        .args(["up", "--batch", "--no-config"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    output
}

fn messages(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_batch_answers_everything_and_ends() {
    let input: String = (0..5000)
        .map(|n| {
            line("command", "Memory.Set", &format!("c-{n}"), &json!({ "key": format!("k{n}"), "value": n }))
        })
        .collect();
    let output = batch(input.as_bytes());
    assert!(output.status.success());
    let mut answered: Vec<u64> = messages(&output)
        .iter()
        .map(|message| {
            assert_eq!(message["kind"], json!("reply"));
            message["metadata"]["causation"].as_str().unwrap()[2..].parse().unwrap()
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..5000).collect::<Vec<u64>>());
}

#[test]
fn a_last_line_without_a_line_break_counts() {
    let text = line("query", "Syscall.Ping", "q-1", &json!(7));
    let output = batch(text.trim_end().as_bytes());
    assert_eq!(messages(&output)[0]["data"], json!(7));
}

#[test]
fn a_batch_takes_a_line_without_metadata_as_pipe_does() {
    let lines = "{\"kind\":\"command\",\"type\":\"Memory.Set\",\"data\":{\"key\":\"a\",\"value\":1}}
{\"kind\":\"query\",\"type\":\"Memory.List\"}
{\"kind\":\"query\",\"type\":\"Memory.List\",\"metadata\":{}}
{\"kind\":\"query\",\"type\":\"Syscall.Ping\",\"data\":\"the last one\"}";
    let output = batch(lines.as_bytes());
    assert!(output.status.success());
    let said = messages(&output);
    let data_of = |kind: &str, type_name: &str| {
        let found = said.iter().find(|it| it["kind"] == kind && it["type"] == type_name);
        found.unwrap_or_else(|| panic!("{type_name}: {said:?}"))["data"].clone()
    };
    assert_eq!(data_of("reply", "Memory.List")["keys"], json!(["a"]));
    assert_eq!(data_of("reply", "Syscall.Ping"), json!("the last one"));
    // What has metadata is sent as it is, and answered as it deserves.
    assert!(said.iter().any(|it| it["kind"] == "error"), "{said:?}");
    let ids: std::collections::HashSet<&str> =
        said.iter().filter_map(|it| it["metadata"]["causation"].as_str()).collect();
    assert_eq!((said.len(), ids.len()), (4, 4), "every message has an id of its own: {said:?}");
}

#[test]
fn crash_and_restart_lines_of_the_json_log_have_the_capability_as_a_field() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[[capability]]
id = 'frail'
description = 'Breaks.'
inbound = { properties = { kind = { const = 'command' }, type = { const = 'App.Break' } } }
program = { process = ['sh', '-c', 'read line; echo oh >&2; exit 1'] }
restart = { backoff_ms = 1 }
";
    std::fs::write(folder.path().join("mainspring.toml"), config).unwrap();
    let lines = "{\"kind\":\"command\",\"type\":\"App.Break\"}\n".repeat(2);
    std::fs::write(folder.path().join("input"), lines).unwrap();
    let input = std::fs::File::open(folder.path().join("input")).unwrap();
    let mut up = mainspring();
    up.args(["up", "--batch", "--log-json"]).current_dir(folder.path());
    let output = up.stdin(input).output().unwrap();
    let log: Vec<Value> = String::from_utf8(output.stderr)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    for words in ["oh", "frail: Sys.ActorCrash: it ended with exit code 1", "frail runs again"] {
        let line = log.iter().find(|line| line["message"] == *words).unwrap_or_else(|| panic!("{log:?}"));
        assert_eq!(line["capability"], json!("frail"), "{line}");
    }
    let end = log.iter().find(|line| line["message"].as_str().unwrap().contains("shutting down")).unwrap();
    assert_eq!(end.get("capability"), None, "it is about no capability: {end}");
}

#[test]
fn a_batch_whose_input_stays_open_is_served_when_a_read_took_exactly_what_there_was() {
    let message = json!({ "kind": "command", "type": "Memory.Set", "data": { "key": "a", "value": 1 } });
    let schedule = line("command", "Timer.Schedule", "s-1", &json!({ "delay": 100, "message": message }));
    // One read of the daemon, to the byte: a second one would wait for more, and everything with
    // it.
    let input = format!("{:<5119}\n", schedule.trim_end());
    let mut child = mainspring()
        .args(["up", "--batch", "--no-config"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (tell, told) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        while let Some(Ok(line)) = lines.next() {
            let _ = tell.send(line);
        }
    });
    let scheduled = told.recv_timeout(PATIENCE).expect("the answer");
    assert!(scheduled.contains("s-1"), "{scheduled}");
    let outcome = told.recv_timeout(PATIENCE);
    drop(stdin);
    let _ = child.wait();
    reading.join().unwrap();
    assert!(
        outcome.is_ok_and(|line| line.contains("Memory.Set")),
        "the timer did not fire while the input was open"
    );
}

#[test]
fn a_batch_waits_for_its_timers() {
    let message = json!({ "kind": "command", "type": "Memory.Set", "data": { "key": "a", "value": 1 } });
    let text = line("command", "Timer.Schedule", "t-1", &json!({ "delay": 50, "message": message }));
    let output = batch(text.as_bytes());
    assert!(output.status.success());
    let types: Vec<Value> = messages(&output).iter().map(|message| message["type"].clone()).collect();
    assert_eq!(types, [json!("Timer.Schedule"), json!("Memory.Set")]);
}

#[test]
fn a_batch_from_a_file_into_a_file_works_too() {
    let folder = tempfile::TempDir::new().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    std::fs::write(&input, line("query", "Syscall.Ping", "q-1", &json!("file"))).unwrap();
    let status = mainspring()
        .args(["up", "--batch", "--no-config"])
        .stdin(std::fs::File::open(&input).unwrap())
        .stdout(std::fs::File::create(&output).unwrap())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert!(std::fs::read_to_string(&output).unwrap().contains("\"file\""));
}

#[test]
fn an_empty_batch_ends_at_once() {
    let output = batch(b"");
    assert!(output.status.success());
    assert!(output.stdout.is_empty());
}

#[test]
fn a_batch_whose_answers_nobody_reads_ends() {
    let mut child = mainspring()
        .args(["up", "--batch", "--no-config"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    let text = line("query", "Syscall.Ping", "q-1", &json!(1));
    // The pipe stays open: what ends the batch is that nobody listens.
    stdin.write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_batch_whose_answers_cannot_be_written_fails() {
    let folder = tempfile::TempDir::new().unwrap();
    let input = folder.path().join("in");
    std::fs::write(&input, line("query", "Syscall.Ping", "q-1", &json!(1))).unwrap();
    let output = mainspring()
        .args(["up", "--batch", "--no-config"])
        .stdin(std::fs::File::open(&input).unwrap())
        .stdout(std::fs::File::options().write(true).open("/dev/full").unwrap())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(log.contains("cannot write to standard output: No space left on device"), "{log}");
}

#[test]
fn a_batch_that_cannot_be_read_fails() {
    let folder = tempfile::TempDir::new().unwrap();
    let output = mainspring()
        .args(["up", "--batch", "--no-config"])
        .stdin(std::fs::File::open(folder.path()).unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_batch_of_nonsense_says_that_the_rest_is_not_served_and_fails() {
    let mut input = "nonsense\n".repeat(200);
    input += &line("query", "Syscall.Ping", "q-1", &json!(1));
    let output = batch(input.as_bytes());
    assert_eq!(output.status.code(), Some(1));
    let answers = messages(&output);
    assert_eq!(answers.len(), 101);
    let last = answers[100]["data"]["message"].as_str().unwrap();
    assert!(last.ends_with("so the connection is closed"), "{last}");
}
