//! The flight recorder of the real program: recorded, replayed, and what a crash leaves behind.

use crate::place::{Place, Running};
use crate::support::{code, eventually, line};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const TOKEN: &str = "a-token-that-nobody-else-knows";

/// With a journal, a capability, and a recorder of so many bytes.
fn place(bytes: &str) -> Place {
    let ledger = crate::support::process(
        "ledger",
        &["command:Ledger.Write", "query:Ledger.Read"],
        &["python3", "ledger.py"],
        "durable_events = true",
    );
    Place::new(&format!(
        "{ledger}\n[journal]\nfolder = 'journal'\n[flight]\nbytes = '{bytes}'\n[[listen]]\ntcp = '127.0.0.1:0'\n\
         tokens = [{{ name = 'ci', token = '{TOKEN}' }}]\n"
    ))
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Does a little of everything. A journal remembers ids, so each run has ids of its own.
fn use_it(running: &Running, run: &str) {
    let mut client = running.connect();
    client.subscribe(&["Memory.*"]);
    for key in 0..20 {
        client.send(line(
            "command",
            "Memory.Set",
            &format!("{run}-m-{key}"),
            &json!({ "key": "a", "value": key }),
        ));
        client.receive_until(|message| message["kind"] == "reply");
        client.send(line("command", "Ledger.Write", &format!("{run}-w-{key}"), &json!({})));
        client.receive_until(|message| message["kind"] == "reply");
    }
    client.send("this is no message\n");
    client.receive_until(|message| message["kind"] == "error");
    client.query("Sys.Stats", json!({}));
    let timer = json!({ "timerId": "t", "delay": 10, "repeat": 10, "count": 3,
        "message": { "kind": "command", "type": "Ledger.Write", "data": {} } });
    client.command("Timer.Schedule", timer);
    assert_eq!(code(&client.ask("query", "No.Such", json!({}))), 404);
}

/// Waits until what happened up to now is in the files.
fn recorded(running: &Running) {
    let mut client = running.connect();
    let records = |client: &mut crate::support::Client| {
        client.query("Sys.Stats", json!({}))["floors"]["flight"]["records"].as_u64().expect("a recorder")
    };
    let before = records(&mut client);
    eventually("more is recorded", || records(&mut client) > before + 4);
}

#[test]
fn j8_1_a_recording_replays_to_the_same_effects_also_after_a_kill_and_a_restart() {
    let place = place("64MiB");
    let first = place.up();
    use_it(&first, "first");
    recorded(&first);
    let beside = place.run(&["flight", "replay"]);
    assert!(beside.status.success(), "{}", said(&beside));
    first.kill();
    let second = place.up();
    use_it(&second, "second");
    second.end();
    for run in ["0", "1"] {
        let output = place.run(&["flight", "replay", "flight", "--run", run, "--json"]);
        assert!(output.status.success(), "{}", said(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(found["same"] == true && found["inputs"].as_u64().unwrap() > 200, "{found}");
        assert!(found["effects"].as_u64().unwrap() > 50, "{found}");
    }
    let output = place.run(&["flight", "replay", "flight", "--run", "2"]);
    assert!(output.status.code() == Some(1) && said(&output).contains("2 runs"), "{}", said(&output));
    let shown = place.run(&["flight", "show", "--json"]);
    let lines = String::from_utf8(shown.stdout).unwrap();
    let inputs: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for name in ["begin", "restore", "boot", "connection_opened", "line", "actor_line", "flushed", "shutdown"]
    {
        assert!(inputs.iter().any(|input| input["input"] == name), "{name}");
    }
    assert!(lines.contains("this is no message"), "{lines}");
    let people = said(&place.run(&["flight", "show", "--last", "1h"]));
    assert!(people.contains("connection_opened"), "{people}");
}

#[test]
fn j8_1_another_build_is_refused() {
    let place = place("64MiB");
    let running = place.up();
    use_it(&running, "only");
    running.end();
    // The same program with a byte more at its end, which nobody reads.
    let other = place.path("other");
    let mut bytes = std::fs::read(env!("CARGO_BIN_EXE_mainspring")).unwrap();
    bytes.push(0);
    std::fs::write(&other, bytes).unwrap();
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o700)).unwrap();
    let run = |words: &[&str]| Command::new(&other).args(words).arg(place.path("flight")).output().unwrap();
    let output = run(&["flight", "replay"]);
    assert!(output.status.code() == Some(1) && said(&output).contains("another build"), "{}", said(&output));
    assert!(run(&["flight", "show"]).status.success());
}

fn contains(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[test]
fn j8_2_recordings_are_their_owners_alone_and_hold_no_token() {
    let place = place("64MiB");
    let running = place.up();
    let mut client = running.connect();
    let stats = client.query("Sys.Stats", json!({}));
    let listeners = stats["floors"]["daemon"]["listeners"].as_array().unwrap();
    let tcp = listeners.iter().find(|listener| listener["kind"] == "tcp").expect("a TCP listener");
    let mut stream = TcpStream::connect(tcp["address"].as_str().unwrap()).unwrap();
    stream.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    let set = line("command", "Memory.Set", "by-token", &json!({ "key": "a", "value": 1 }));
    stream.write_all(format!("{{\"token\":\"{TOKEN}\"}}\n{set}").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).unwrap();
    assert!(answer.contains("\"reply\""), "{answer}");
    let url = client.command("Sys.Console", json!({}))["url"].as_str().unwrap().to_owned();
    let (_, once) = url.split_once("#t=").expect("an address with a token");
    running.end();
    let folder = place.path("flight");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for entry in std::fs::read_dir(&folder).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    assert!(contains(&folder, "by-token"));
    assert!(!contains(&folder, TOKEN));
    assert!(!contains(&folder, once));
    let replayed = place.run(&["flight", "replay"]);
    assert!(replayed.status.success(), "{}", said(&replayed));
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (status, _) = place.try_up(|_| {}).err().unwrap();
    assert_eq!(status.code(), Some(1));
    let output = place.run(&["flight", "show"]);
    assert!(output.status.code() == Some(1) && said(&output).contains("chmod 700"), "{}", said(&output));
}

#[test]
fn j8_3_of_a_long_run_the_last_is_kept_and_a_replay_says_what_is_missing() {
    let place = place("1MiB");
    let running = place.up();
    let mut client = running.connect();
    let value = "x".repeat(50_000);
    let recorder = |client: &mut crate::support::Client| {
        client.query("Sys.Stats", json!({}))["floors"]["flight"].clone()
    };
    eventually("its beginning has gone", || {
        client.command("Memory.Set", json!({ "key": "a", "value": value }));
        recorder(&mut client)["replayable"] == false
    });
    assert!(recorder(&mut client)["bytes"].as_u64().unwrap() <= 1 << 20);
    running.end();
    let output = place.run(&["flight", "replay"]);
    assert!(output.status.code() == Some(1) && said(&output).contains("no longer kept"), "{}", said(&output));
    let shown = place.run(&["flight", "show"]);
    assert!(shown.status.success() && said(&shown).contains("Memory.Set"), "{}", said(&shown));
}

#[test]
fn j8_4_a_crash_report_carries_the_last_seconds() {
    let place = place("64MiB");
    let mut running = place.up_with(|command| {
        command.env("MAINSPRING_TEST_PANIC_AFTER", "400");
    });
    let mut client = running.connect();
    for key in 0..400 {
        let set = line("command", "Memory.Set", &format!("c-{key}"), &json!({ "key": "a", "value": key }));
        client.send(set);
        if client.next().is_none() {
            break;
        }
    }
    assert_eq!(running.wait().code(), Some(101), "{}", running.log());
    let reports: Vec<_> = std::fs::read_dir(place.path("flight"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    assert_eq!(reports.len(), 1, "{}", running.log());
    assert_eq!(reports[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&reports[0]).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let head = lines.next().unwrap();
    assert!(head["panic"].as_str().unwrap().contains("a test asked for"), "{head}");
    assert!(head["place"].as_str().unwrap().contains("flight"), "{head}");
    assert!(head["stack"].as_array().unwrap().len() > 3);
    let inputs: Vec<Value> = lines.collect();
    assert_eq!(head["inputs"], inputs.len());
    assert!(inputs.iter().any(|input| input["line"].as_str().is_some_and(|line| line.contains("c-1\""))));
    assert!(running.log().contains("crash report"), "{}", running.log());
    // What led to it replays: the same build would come to the same point.
    let replayed = place.run(&["flight", "replay"]);
    assert!(replayed.status.success(), "{}", said(&replayed));
    place.up().end();
}
