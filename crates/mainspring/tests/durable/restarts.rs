//! One daemon after the other on the same journal.

use crate::place::Place;
use crate::support::{code, eventually, line, line_with};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

#[test]
fn memory_schedules_and_answers_survive_a_kill() {
    let place = Place::with_ledger("");
    let first = place.up();
    let mut client = first.connect();
    client.command("Memory.Set", json!({ "key": "colour", "value": "blue" }));
    client.command("Memory.Set", json!({ "key": "gone", "value": 1 }));
    client.command("Memory.Delete", json!({ "key": "gone" }));
    client.send(line("command", "Ledger.Write", "c-1", &json!({})));
    assert_eq!(client.receive()["data"]["id"], "c-1");
    let timer = json!({ "timerId": "t", "delay": 1500, "message": { "kind": "command", "type": "Ledger.Write", "data": {} } });
    client.command("Timer.Schedule", timer);
    first.kill();
    let second = place.up();
    let mut client = second.connect();
    assert_eq!(client.query("Memory.Get", json!({ "key": "colour" }))["value"], "blue");
    assert_eq!(code(&client.ask("query", "Memory.Get", json!({ "key": "gone" }))), 404);
    assert_eq!(client.query("Memory.List", json!({}))["keys"], json!(["colour"]));
    client.send(line("command", "Ledger.Write", "c-1", &json!({})));
    assert_eq!(client.receive()["data"]["id"], "c-1");
    assert_eq!(client.query("Sys.Result", json!({ "id": "c-1" }))["outcome"]["data"]["id"], "c-1");
    eventually("the schedule fires", || place.book().len() == 2);
    assert_eq!(client.query("Timer.List", json!({}))["timers"], json!([]));
    assert_eq!(place.book()[0], ("c-1".to_owned(), 1));
    second.end();
    // And once more after an end in order.
    let third = place.up();
    assert_eq!(third.connect().query("Memory.Get", json!({ "key": "colour" }))["value"], "blue");
    assert_eq!(place.book().len(), 2);
    third.end();
}

#[test]
fn j4_2_what_a_capability_had_at_a_kill_is_delivered_again_where_its_manifest_says_so() {
    let place = Place::with_ledger("redeliver = \"always\"");
    let first = place.up();
    let mut client = first.connect();
    client.send(line("command", "Ledger.Write", "c-1", &json!({ "wait": 60 })));
    eventually("it is being worked on", || place.book().len() == 1);
    first.kill();
    let second = place.up();
    eventually("it is delivered again", || place.book() == [("c-1".to_owned(), 1), ("c-1".to_owned(), 2)]);
    drop(second);
}

#[test]
fn j4_2_what_a_capability_had_at_a_kill_is_a_dead_letter_where_its_manifest_says_nothing() {
    let place = Place::with_ledger("");
    let first = place.up();
    let mut client = first.connect();
    client.send(line("command", "Ledger.Write", "c-1", &json!({ "wait": 60 })));
    client.send(line("command", "Ledger.Write", "c-2", &json!({})));
    eventually("it is being worked on", || place.book().len() == 1);
    first.kill();
    let second = place.up();
    let mut client = second.connect();
    client.send(line("command", "Ledger.Write", "c-2", &json!({})));
    assert_eq!(client.receive()["data"]["id"], "c-2", "what was not delivered is");
    client.send(line("command", "Ledger.Write", "c-1", &json!({ "wait": 60 })));
    let answer = client.receive();
    assert_eq!((code(&answer), &answer["data"]["started"]), (502, &json!("yes")));
    let letters = client.query("Sys.DeadLetters", json!({ "action": "list" }));
    assert_eq!((&letters["total"], &letters["letters"][0]["type"]), (&json!(1), &json!("Ledger.Write")));
    assert_eq!(place.book().iter().filter(|(id, _)| id == "c-1").count(), 1);
    second.end();
}

#[test]
fn j1_6_a_daemon_without_a_journal_says_so_and_refuses_who_demands_one() {
    let place = Place::new("");
    let running = place.up();
    let mut client = running.connect();
    let set = json!({ "key": "a", "value": 1 });
    client.send(line_with("command", "Memory.Set", "c-1", &set, &json!({ "durable": true })));
    let answer = client.receive();
    assert_eq!((code(&answer), &answer["type"]), (422, &json!("Sys.NotDurable")));
    assert!(client.query("Sys.Stats", json!({}))["floors"]["journal"].is_null());
    running.end();
}

#[test]
fn the_journal_is_private_has_one_owner_and_no_symbolic_link_is_followed() {
    let place = Place::with_ledger("");
    let first = place.up();
    let mode = |name: &str| place.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("journal"), 0o700);
    for (name, _) in place.journal() {
        assert_eq!(mode(&format!("journal/{name}")), 0o600, "{name}");
    }
    let (status, log) = place.try_up(|_| {}).err().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(log.contains("journal") && log.contains("in use by another process"), "{log}");
    first.end();
    std::fs::set_permissions(place.path("journal"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (status, log) = place.try_up(|_| {}).err().unwrap();
    assert!(status.code() == Some(1) && log.contains("chmod 700"), "{log}");
    std::fs::set_permissions(place.path("journal"), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::rename(place.path("journal"), place.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(place.path("elsewhere"), place.path("journal")).unwrap();
    let (status, _) = place.try_up(|_| {}).err().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn j2_2_a_damaged_journal_keeps_the_daemon_from_starting_and_is_not_changed() {
    let place = Place::with_ledger("");
    let first = place.up();
    let mut client = first.connect();
    for key in 0..20 {
        client.command("Memory.Set", json!({ "key": key.to_string(), "value": 1 }));
    }
    first.end();
    let name = "journal/0000000000000001.segment";
    let mut bytes = std::fs::read(place.path(name)).unwrap();
    let whole = bytes.clone();
    bytes[5 * 4096 + 60] ^= 1;
    std::fs::write(place.path(name), &bytes).unwrap();
    let before = place.journal();
    let (status, log) = place.try_up(|_| {}).err().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(log.contains("0000000000000001.segment") && log.contains("offset 20480"), "{log}");
    assert!(before == place.journal(), "it was changed");
    let checked = place.run(&["journal", "check"]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.code() == Some(1) && said.contains("offset 20480"), "{said}");
    // A torn last batch is cut off, and told.
    let end = whole.chunks(4096).rposition(|page| page.iter().any(|byte| *byte != 0)).unwrap();
    let mut torn = whole;
    // The one that closed the journal, and half of the one before it.
    torn[end * 4096..(end + 1) * 4096].fill(0);
    torn[end * 4096 - 4096 + 100] ^= 1;
    std::fs::write(place.path(name), &torn).unwrap();
    let running = place.up();
    eventually("it is told", || running.log().contains("torn and is cut off"));
    running.end();
}

#[test]
fn an_idle_daemon_with_a_journal_wakes_no_thread() {
    let place = Place::with_ledger("");
    let running = place.up();
    running.connect().command("Memory.Set", json!({ "key": "a", "value": 1 }));
    let switches = || -> Vec<(String, String)> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", running.pid())).unwrap();
        let mut all: Vec<(String, String)> = tasks
            .map(|task| {
                let path = task.unwrap().path();
                let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
                let line = status.lines().find(|line| line.starts_with("voluntary")).unwrap_or_default();
                (path.display().to_string(), line.to_owned())
            })
            .collect();
        all.sort();
        all
    };
    eventually("it comes to rest", || {
        let before = switches();
        std::thread::sleep(std::time::Duration::from_millis(1200));
        before == switches()
    });
    running.end();
}

const SHOP: &str = r#"
from lib import *
for message in messages():
    say("event", "Shop.Sold", message["data"], message)
    reply(message, {})
"#;

#[test]
fn j7_1_a_subscriber_that_comes_back_after_a_kill_gets_what_it_has_not_acknowledged() {
    let shop = crate::support::process(
        "shop",
        &["command:Shop.Sell"],
        &["python3", "shop.py"],
        "durable_events = true",
    );
    let place = Place::new(&format!("{shop}\n[journal]\nfolder = 'journal'\n"));
    place.write("shop.py", SHOP);
    let first = place.up();
    let (mut reader, mut client) = (first.connect(), first.connect());
    let cursor = json!({ "types": ["Shop.*"], "cursor": "billing" });
    reader.command("Sys.Subscribe", cursor.clone());
    for number in 1..=3 {
        client.command("Shop.Sell", json!({ "n": number }));
    }
    let event = |reader: &mut crate::support::Client| {
        let event = reader.event("Shop.Sold");
        (event["metadata"]["event"].as_u64(), event["data"]["n"].as_u64())
    };
    for number in 1..=3 {
        assert_eq!(event(&mut reader), (Some(number), Some(number)));
    }
    reader.command("Sys.Acknowledge", json!({ "cursor": "billing", "event": 1 }));
    first.kill();
    let second = place.up();
    let (mut reader, mut client) = (second.connect(), second.connect());
    client.command("Shop.Sell", json!({ "n": 4 }));
    assert_eq!(reader.command("Sys.Subscribe", cursor)["after"], 1);
    for number in 2..=4 {
        assert_eq!(event(&mut reader), (Some(number), Some(number)));
    }
    second.end();
}

#[test]
fn j7_1_watching_by_a_cursor_goes_on_where_it_ended() {
    let shop = crate::support::process(
        "shop",
        &["command:Shop.Sell"],
        &["python3", "shop.py"],
        "durable_events = true",
    );
    let place = Place::new(&format!("{shop}\n[journal]\nfolder = 'journal'\n"));
    place.write("shop.py", SHOP);
    let running = place.up();
    let mut client = running.connect();
    let cursor = json!({ "types": ["Shop.*"], "cursor": "cli" });
    running.connect().command("Sys.Subscribe", cursor);
    for number in 1..=3 {
        client.command("Shop.Sell", json!({ "n": number }));
    }
    let watch = |count: &str| {
        let output = place.run(&["watch", "--json", "--cursor", "cli", "--count", count, "Shop.*"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let number =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["data"]["n"].as_u64();
        text.lines().filter_map(number).collect::<Vec<u64>>()
    };
    assert_eq!(watch("1"), [1]);
    // What came and was not shown is not acknowledged.
    assert_eq!(watch("2"), [2, 3]);
    running.end();
}

/// Settings with a peer `ci` that may send these types, by TCP.
fn with_token(allow: &str) -> String {
    let ledger = crate::support::process("ledger", &["command:Ledger.Write"], &["python3", "ledger.py"], "");
    format!(
        "{ledger}\n[journal]\nfolder = 'journal'\n[[listen]]\ntcp = '127.0.0.1:0'\n\
         tokens = [{{ name = 'ci', token = '0123456789abcdef', allow = ['{allow}'] }}]\n"
    )
}

#[test]
fn j5_3_what_a_token_scheduled_is_refused_by_the_next_daemon_if_it_lost_that_right() {
    let place = Place::new(&with_token("Ledger.*"));
    let first = place.up();
    let stats = first.connect().query("Sys.Stats", json!({}));
    let listeners = stats["floors"]["daemon"]["listeners"].as_array().unwrap();
    let tcp = listeners.iter().find(|listener| listener["kind"] == "tcp").expect("a TCP listener");
    let mut stream = TcpStream::connect(tcp["address"].as_str().unwrap()).unwrap();
    stream.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    let message = json!({ "kind": "command", "type": "Ledger.Write", "data": {} });
    let schedule = line(
        "command",
        "Timer.Schedule",
        "s-1",
        &json!({ "timerId": "t", "delay": 1500, "message": message }),
    );
    stream.write_all(format!("{{\"token\":\"0123456789abcdef\"}}\n{schedule}").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).unwrap();
    assert!(answer.contains("\"reply\""), "{answer}");
    first.kill();
    place.write("mainspring.toml", &with_token("Other.*"));
    let second = place.up();
    let mut client = second.connect();
    let letters = |client: &mut crate::support::Client| {
        client.query("Sys.DeadLetters", json!({ "action": "list" }))["total"].as_u64()
    };
    eventually("the schedule is refused", || letters(&mut client) == Some(1));
    assert_eq!(place.book(), []);
    second.end();
}
