//! Slow, failing and full disks.

use crate::place::Place;
use crate::support::{code, eventually, line, line_with};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn j1_4_a_slow_disk_holds_up_nobody_who_does_not_wait_for_it() {
    let place = Place::with_ledger("");
    let running = place.up_with(|command| {
        command.env("MAINSPRING_TEST_FLUSH_MS", "500");
    });
    let (mut durable, mut other) = (running.connect(), running.connect());
    // The capability's program takes its time to start.
    other.query("Ledger.Read", json!({}));
    let began = Instant::now();
    durable.send(line("command", "Memory.Set", "c-1", &json!({ "key": "a", "value": 1 })));
    let mut worst = Duration::ZERO;
    let mut asked = 0;
    while began.elapsed() < Duration::from_millis(450) {
        let asking = Instant::now();
        other.query("Syscall.Ping", json!({}));
        other.query("Ledger.Read", json!({}));
        worst = worst.max(asking.elapsed());
        asked += 1;
    }
    // Twice as long as the busiest machine takes for two requests, half of a flush.
    assert!(worst < Duration::from_millis(250), "{worst:?}");
    assert!(asked > 3, "{asked}");
    assert_eq!(durable.receive()["kind"], "reply");
    assert!(began.elapsed() >= Duration::from_millis(500), "an answer before its flush");
}

#[test]
fn j1_3_a_client_whose_answers_wait_for_the_disk_was_read_in_two_parts_for_two_flushes() {
    let place = Place::with_ledger("");
    let running = place.up();
    let (mut client, mut other) = (running.connect(), running.connect());
    let mut reads = || {
        let stats = other.query("Sys.Stats", json!({}));
        stats["floors"]["clients"]["reads"].as_u64().expect("a count")
    };
    let (mut before, bursts) = (0, 10);
    for burst in 0..=bursts {
        // More than is read at a time of a client that waits for nothing.
        let line = |at| {
            line("command", "Memory.Set", &format!("c-{burst}-{at}"), &json!({ "key": "a", "value": at }))
        };
        let lines: String = (0..80).map(line).collect();
        assert!((8 << 10..16 << 10).contains(&lines.len()), "{}", lines.len());
        client.send(lines);
        (0..80).for_each(|_| assert_eq!(client.receive()["kind"], "reply"));
        if burst == 0 {
            // By now the daemon knows that this client's answers wait for the disk.
            before = reads();
        }
    }
    // One each, and one for the other client.
    let counted = reads() - before;
    assert!(counted <= bursts + 2, "{counted} reads for {bursts} bursts");
}

#[test]
fn j1_7_facts_gathered_without_bound_behind_a_flush_that_took_seconds() {
    let place = Place::with_ledger("");
    // One daemon makes the journal, which takes more flushes than a start.
    place.up().end();
    let running = place.up_with(|command| {
        command.env("MAINSPRING_TEST_FLUSH_MS", "3000");
    });
    let mut other = running.connect();
    let mut stream = UnixStream::connect(running.socket()).expect("a connection");
    stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a limit of time");
    let (value, mut sent) = ("x".repeat(100_000), 0);
    // It is not read any more when too much waits for the disk.
    let mut lines = (0..1000).map(|at| {
        let data = json!({ "key": "a", "value": format!("{at}{value}") });
        line("command", "Memory.Set", &format!("c-{at}"), &data)
    });
    let stopped = lines.find(|line| match stream.write_all(line.as_bytes()) {
        Ok(()) => {
            sent += 1;
            false
        }
        Err(_) => true,
    });
    assert!(stopped.is_some(), "all of it was read");
    let waits = other.query("Sys.Stats", json!({}))["floors"]["journal"]["unflushedBytes"].as_u64();
    assert!(waits.is_some_and(|bytes| (8 << 20..24 << 20).contains(&bytes)), "{waits:?}, {sent} sent");
    // When the disk goes on, so does the client.
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit of time");
    for told in BufReader::new(stream).lines().take(sent) {
        let told = told.expect("an answer");
        assert!(told.contains("\"kind\":\"reply\""), "{told}");
    }
}

#[test]
fn j1_5_an_answer_that_waits_for_the_disk_reaches_a_client_that_will_send_no_more() {
    let place = Place::with_ledger("");
    let running = place.up_with(|command| {
        command.env("MAINSPRING_TEST_FLUSH_MS", "200");
    });
    let mut client = running.connect();
    let timer = json!({ "timerId": "t", "delay": 3_600_000, "message": { "kind": "command", "type": "Ledger.Write", "data": {} } });
    client.send(line("command", "Timer.Schedule", "c-1", &timer));
    client.send(line("command", "Memory.Set", "c-2", &json!({ "key": "a", "value": 1 })));
    client.end_input();
    let mut answered: Vec<_> =
        client.rest().iter().map(|answer| answer["metadata"]["causation"].to_string()).collect();
    answered.sort();
    assert_eq!(answered, ["\"c-1\"", "\"c-2\""]);
    // And it is let go then.
    let mut other = running.connect();
    eventually("it is gone", || other.query("Sys.Stats", json!({}))["gauges"]["connections"] == json!(1));
}

#[test]
fn j3_1_a_failed_flush_is_final_is_told_and_the_rest_goes_on() {
    let place = Place::with_ledger("");
    // One daemon makes the journal, so that the number of flushes at the next start is small and
    // known.
    place.up().end();
    let running = place.up_with(|command| {
        command.env("MAINSPRING_TEST_FLUSHES_GOOD", "3");
    });
    let mut client = running.connect();
    let mut failed = None;
    for key in 0..20 {
        client.send(line("command", "Memory.Set", &format!("c-{key}"), &json!({ "key": "a", "value": key })));
        let answer = client.receive();
        if answer["kind"] == "error" {
            failed = Some(answer);
            break;
        }
    }
    let failed = failed.expect("a flush that failed");
    assert_eq!((code(&failed), &failed["type"]), (503, &json!("Sys.StorageFailed")));
    assert_eq!(failed["data"]["started"], "yes");
    let refused = client.ask("command", "Memory.Set", json!({ "key": "a", "value": 99 }));
    assert_eq!((code(&refused), &refused["data"]["started"]), (503, &json!("no")));
    assert!(client.query("Memory.Get", json!({ "key": "a" }))["value"].is_number());
    let skip = line_with("command", "Ledger.Write", "x", &json!({}), &json!({ "durable": false }));
    client.send(skip);
    assert_eq!(client.receive()["kind"], "reply");
    assert!(client.query("Sys.Stats", json!({}))["floors"]["journal"]["failed"].is_string());
    assert!(running.log().contains("failed for good"), "{}", running.log());
    drop(running);
    // The next one starts from what is there.
    place.up().end();
}

#[test]
fn j3_1_a_daemon_that_is_told_to_ends_when_its_journal_fails() {
    let place = Place::new("[journal]\nfolder = 'journal'\non_failure = 'exit'\n");
    place.up().end();
    let mut running = place.up_with(|command| {
        command.env("MAINSPRING_TEST_FLUSHES_GOOD", "3");
    });
    let mut client = running.connect();
    for key in 0..20 {
        client.send(line("command", "Memory.Set", &format!("c-{key}"), &json!({ "key": "a", "value": key })));
        if client.next().is_none_or(|answer| answer["kind"] == "error") {
            break;
        }
    }
    assert_eq!(running.wait().code(), Some(1));
}

/// A small file system in memory, unmounted when it is dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: &std::path::Path, bytes: &str) -> Option<SmallDisk> {
        std::fs::create_dir_all(at).ok()?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes},mode=700"), "tmpfs"])
            .arg(at)
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn j3_2_a_full_disk_refuses_new_durable_commands_and_a_kill_on_it_loses_nothing() {
    let place = Place::new("[journal]\nfolder = 'disk/journal'\n");
    let Some(_disk) = SmallDisk::mount(&place.path("disk"), "80m") else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    let running = place.up();
    let mut client = running.connect();
    let value = "x".repeat(900_000);
    let mut stored = 0;
    let refused = loop {
        let id = format!("c-{stored}");
        client.send(line("command", "Memory.Set", &id, &json!({ "key": id, "value": value })));
        let answer = client.receive();
        if answer["kind"] == "error" {
            break answer;
        }
        stored += 1;
        assert!(stored < 200, "it never becomes full");
    };
    assert_eq!((code(&refused), &refused["type"]), (507, &json!("Sys.StorageFull")));
    assert!(stored > 30, "{stored}");
    assert_eq!(client.query("Memory.Get", json!({ "key": "c-0" }))["value"], value.as_str());
    running.kill();
    let running = place.up();
    let mut client = running.connect();
    for key in 0..stored {
        assert!(
            client.query("Memory.Get", json!({ "key": format!("c-{key}") }))["value"].is_string(),
            "{key}"
        );
    }
    running.end();
}
