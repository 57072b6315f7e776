//! Killed at random under load, with accounting from outside.
//!
//! A few rounds run with the other tests; `cargo xtask kills` has 200.

use crate::place::Place;
use crate::support::{eventually, line};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How many rounds, unless `MAINSPRING_KILLS` says so.
const ROUNDS: usize = 6;
/// Requests that each client has under way.
const DEPTH: usize = 16;

/// So many commands are accounted for at a time, far fewer than the answers of a peer that are
/// remembered (`limits.window_peer_answers_max`): a quick machine sends more in all.
const ACCOUNT_FOR: usize = 2048;

/// What a client knows.
#[derive(Default)]
struct Known {
    /// Ids that were sent.
    sent: Vec<String>,
    /// Outcomes that came, by id.
    told: BTreeMap<String, Value>,
}

/// Sends commands until the daemon is gone.
fn load(socket: &Path, name: &str, over: &AtomicBool) -> Known {
    let mut known = Known::default();
    let Ok(stream) = UnixStream::connect(socket) else { return known };
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    let mut next = 0;
    'talking: while !over.load(Ordering::Relaxed) {
        let mut lines = String::new();
        for _ in 0..DEPTH {
            let id = format!("{name}-{next}");
            next += 1;
            lines += &match next % 3 {
                0 => line("command", "Memory.Set", &id, &json!({ "key": id, "value": id })),
                _ => line("command", "Ledger.Write", &id, &json!({})),
            };
            known.sent.push(id);
        }
        if stream.write_all(lines.as_bytes()).is_err() {
            break;
        }
        for _ in 0..DEPTH {
            let mut text = String::new();
            if !reader.read_line(&mut text).is_ok_and(|count| count > 0) || !text.ends_with('\n') {
                break 'talking;
            }
            let answer: Value = serde_json::from_str(&text).unwrap();
            let id = answer["metadata"]["causation"].as_str().unwrap().to_owned();
            assert!(known.told.insert(id, answer).is_none(), "two outcomes: {text}");
        }
    }
    known
}

fn rounds() -> usize {
    std::env::var("MAINSPRING_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS)
}

#[test]
fn j1_2_whatever_was_told_is_there_after_a_kill_and_every_id_has_one_outcome_and_one_execution() {
    let place = Place::with_ledger("");
    let mut told: BTreeMap<String, Value> = BTreeMap::new();
    let mut sent: BTreeSet<String> = BTreeSet::new();
    let mut all_told = 0;
    for round in 0..rounds() {
        let running = place.up();
        let over = Arc::new(AtomicBool::new(false));
        let socket: PathBuf = running.socket().to_owned();
        let clients: Vec<_> = (0..3)
            .map(|client| {
                let (socket, over) = (socket.clone(), Arc::clone(&over));
                let name = format!("r{round}-{client}");
                std::thread::spawn(move || load(&socket, &name, &over))
            })
            .collect();
        // Some rounds are killed at once: in the middle of a recovery, too.
        let ms = [0, 7, 40, 90, 150, 260][(round * 7 + round / 6) % 6] + (round as u64 * 37) % 50;
        std::thread::sleep(Duration::from_millis(ms));
        running.kill();
        over.store(true, Ordering::Relaxed);
        for client in clients {
            let known = client.join().expect("a client");
            sent.extend(known.sent);
            told.extend(known.told);
        }
        if sent.len() >= ACCOUNT_FOR || round + 1 == rounds() {
            account(&place, &sent, &told);
            all_told += told.len();
            sent.clear();
            told.clear();
        }
    }
    assert!(all_told > 0, "nothing was ever answered");
}

/// Every id is asked for again, and everything must fit together.
fn account(place: &Place, sent: &BTreeSet<String>, told: &BTreeMap<String, Value>) {
    let running = place.up();
    let mut client = running.connect();
    let mut executed: BTreeMap<String, usize> = BTreeMap::new();
    eventually("what is left is worked off", || {
        let stats = client.query("Sys.Actors", json!({}));
        stats["actors"]
            .as_array()
            .unwrap()
            .iter()
            .all(|actor| actor["mailbox"] == 0 && actor["inFlight"] == 0)
    });
    for (id, attempt) in place.book() {
        assert_eq!(attempt, 1, "{id} was delivered again");
        *executed.entry(id).or_default() += 1;
    }
    let (mut there, mut interrupted) = (0, 0);
    for id in sent {
        let times = executed.get(id).copied().unwrap_or(0);
        assert!(times <= 1, "{id} was executed {times} times");
        let answer = client.ask("query", "Sys.Result", json!({ "id": id }));
        let outcome = &answer["data"]["outcome"];
        if let Some(before) = told.get(id) {
            assert_eq!(answer["data"]["state"], "ended", "{id} was told and is gone: {answer}");
            assert_eq!(outcome, before, "{id} has two outcomes");
            there += 1;
            if before["kind"] == "reply" && before["type"] == "Ledger.Write" {
                assert_eq!(times, 1, "{id} was answered and not executed");
            }
        }
        if outcome["data"]["code"] == 502 {
            interrupted += 1;
            assert!(!told.contains_key(id) || told[id] == *outcome);
        }
        if told.get(id).is_some_and(|it| it["type"] == "Memory.Set") {
            assert_eq!(client.query("Memory.Get", json!({ "key": id }))["value"], id.as_str());
        }
    }
    assert_eq!(there, told.len());
    eprintln!(
        "{} sent, {there} told and there, {interrupted} interrupted, {} executed",
        sent.len(),
        executed.len()
    );
    running.end();
}

#[test]
fn j2_3_a_kill_in_the_middle_of_a_start_changes_nothing() {
    let place = Place::with_ledger("");
    let running = place.up();
    let mut client = running.connect();
    for key in 0..50 {
        client.command("Memory.Set", json!({ "key": key.to_string(), "value": key }));
    }
    running.kill();
    for ms in 0..12 {
        let mut child = crate::support::mainspring()
            .args(["up", "--config"])
            .arg(place.path("mainspring.toml"))
            .arg("--socket")
            .arg(place.path("socket"))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(ms * 4));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let running = place.up();
    let mut client = running.connect();
    for key in 0..50 {
        assert_eq!(client.query("Memory.Get", json!({ "key": key.to_string() }))["value"], key);
    }
    running.end();
}

/// Sets keys to large values, so that segments become full, until the daemon is gone; gives the
/// last value of each that was told.
fn fill(socket: &Path) -> BTreeMap<usize, String> {
    const KEYS: usize = 40;
    let mut told = BTreeMap::new();
    let Ok(mut stream) = UnixStream::connect(socket) else { return told };
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for round in 0..25 {
        let value = |key: usize| format!("{round}-{key}-{}", "x".repeat(900_000));
        let set = |key: usize| {
            let data = json!({ "key": key.to_string(), "value": value(key) });
            line("command", "Memory.Set", &format!("{round}-{key}"), &data)
        };
        for keys in (0..KEYS).collect::<Vec<_>>().chunks(8) {
            let lines: String = keys.iter().map(|key| set(*key)).collect();
            if stream.write_all(lines.as_bytes()).is_err() {
                return told;
            }
            for key in keys {
                let mut text = String::new();
                if !reader.read_line(&mut text).is_ok_and(|count| count > 0) || !text.ends_with('\n') {
                    return told;
                }
                assert!(text.contains("\"reply\""), "{text}");
                told.insert(*key, value(*key));
            }
        }
    }
    told
}

#[test]
fn j2_3_a_kill_in_the_middle_of_a_snapshot_changes_nothing() {
    let place = Place::with_ledger("");
    let running = place.up_with(|command| {
        command.env("MAINSPRING_TEST_FLUSH_MS", "100");
    });
    let socket = running.socket().to_owned();
    let client = std::thread::spawn(move || fill(&socket));
    let unfinished = || {
        std::fs::read_dir(place.path("journal"))
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().ends_with(".snapshot.tmp"))
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    while !unfinished() {
        assert!(std::time::Instant::now() < deadline, "no snapshot was begun");
        std::thread::sleep(Duration::from_millis(1));
    }
    running.kill();
    let was_unfinished = unfinished();
    let told = client.join().expect("a client");
    assert!(!told.is_empty());
    let running = place.up();
    assert!(!unfinished(), "what is left of it goes at the next start");
    let mut client = running.connect();
    for (key, value) in &told {
        let found = client.query("Memory.Get", json!({ "key": key.to_string() }))["value"].clone();
        // A later value may be there, of which nobody was told; an earlier one may not.
        let round = |text: &str| text.split('-').next().and_then(|round| round.parse::<u64>().ok()).unwrap();
        assert!(round(found.as_str().unwrap()) >= round(value), "{key}");
    }
    eprintln!("killed {} a snapshot was finished", if was_unfinished { "before" } else { "after" });
    running.end();
    assert!(place.run(&["journal", "check"]).status.success());
}
