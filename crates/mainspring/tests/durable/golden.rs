//! Journals of every version that was ever written can be read.
//!
//! Those in `golden` were written by `j2_6_write_the_golden_journal` (run it with `--ignored` when
//! a new version is made, into a new folder); what each says is in the file of its name that ends
//! in `.jsonl`. The first has every kind of fact in version 1, the others those that have a later
//! version.

use crate::support::mainspring;
use mainspring_journal::{Batch, DiskFolder, Journal, Options, SnapshotWriter};
use mainspring_kernel::{Answer, ComposedAnswer, Durable, Ending, Fact, PeerName, Rights};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/durable/golden").join(name)
}

/// One fact of each kind, as a daemon would record them.
fn facts() -> Vec<Fact<&'static str>> {
    let command =
        r#"{"kind":"command","type":"Order.Place","data":{"n":1},"metadata":{"id":"c-1","timestamp":1}}"#;
    let reply = r#"{"kind":"reply","type":"Order.Place","data":"done","metadata":{"id":"r-1","timestamp":2,"causation":"c-1"}}"#;
    let event = r#"{"kind":"event","type":"Order.Placed","data":1,"metadata":{"id":"e-1","timestamp":3}}"#;
    let alice = || PeerName::Client("user:1000");
    let timer = || "t-1";
    vec![
        Fact::Started { build: "0.1.0", unix_ms: 1000 },
        Fact::Accepted {
            request: 1,
            peer: alice(),
            timer_id: None,
            deadline_ms: 31_000,
            unix_ms: 1001,
            message: command,
        },
        Fact::Delivered { request: 1, attempt: 1, unix_ms: 1002 },
        Fact::Ended {
            which: Ending::Accepted(1),
            unix_ms: 1003,
            until_ms: u64::MAX,
            answer: Some(Answer::Line(reply)),
        },
        Fact::Ended {
            which: Ending::Whole { peer: alice(), id: "c-2", fingerprint: 99 },
            unix_ms: 1004,
            until_ms: u64::MAX,
            answer: Some(Answer::Line(reply)),
        },
        Fact::Scheduled {
            peer: alice(),
            timer_id: timer(),
            due_ms: 5000,
            repeat_ms: Some(1000),
            left: Some(3),
            fired: 0,
            bytes: 200,
            rights: None,
            message: command,
        },
        Fact::Fired { peer: alice(), timer_id: timer(), fired: 1, left: Some(2), next_ms: Some(6000) },
        Fact::Scheduled {
            peer: PeerName::Capability("orders"),
            timer_id: timer(),
            due_ms: 9000,
            repeat_ms: None,
            left: Some(1),
            fired: 0,
            bytes: 200,
            rights: None,
            message: event,
        },
        Fact::Cancelled { peer: PeerName::Capability("orders"), timer_id: timer() },
        Fact::DeadLettered {
            letter: 1,
            owner: PeerName::Capability("orders"),
            attempts: 2,
            unix_ms: 1005,
            reason: "it crashed",
            message: command,
        },
        Fact::DeadLettered {
            letter: 2,
            owner: alice(),
            attempts: 0,
            unix_ms: 1006,
            reason: "nobody",
            message: event,
        },
        Fact::Requeued { letter: 1 },
        Fact::Dropped { first: 2, last: 2 },
        Fact::Emitted { event: 1, unix_ms: 1007, message: event },
        Fact::CursorMoved { peer: alice(), name: "billing", event: 1 },
        Fact::Put { store: "Memory", key: "colour", value: "\"blue\"" },
        Fact::Put { store: "Memory", key: "gone", value: "1" },
        Fact::Deleted { store: "Memory", key: "gone" },
        Fact::Stopped { unix_ms: 1008 },
    ]
}

/// Facts that say more than their kind could say in version 1.
fn facts_of_version_2() -> Vec<Fact<&'static str>> {
    let mut all = facts();
    all.retain(|fact| matches!(fact, Fact::Started { .. } | Fact::Stopped { .. } | Fact::Scheduled { .. }));
    all.insert(1, Fact::CursorForgotten { peer: PeerName::Client("user:1000"), name: "billing" });
    let limited = Rights::default().limited_to(["Order.*", "Invoice.Print"]);
    let all_rights = [limited, Rights::of_operator()];
    let mut given = all_rights.into_iter();
    for fact in &mut all {
        if let Fact::Scheduled { rights, .. } = fact {
            *rights = given.next();
        }
    }
    all
}

/// Ends with answers that the kernel composed: kept by their parts, not by their line.
fn facts_with_composed_answers() -> Vec<Fact<&'static str>> {
    let mut all = facts();
    all.retain(|fact| {
        matches!(
            fact,
            Fact::Started { .. } | Fact::Accepted { .. } | Fact::Ended { .. } | Fact::Stopped { .. }
        )
    });
    let reply = ComposedAnswer {
        is_error: false,
        type_name: "Order.Place",
        data: "\"done\"",
        id: "r-\"1\"",
        timestamp_ms: 1002,
        causation: Some("c-1"),
        correlation: None,
        traceparent: None,
    };
    let error = ComposedAnswer {
        is_error: true,
        type_name: "Sys.Timeout",
        data: r#"{"code":504}"#,
        id: "r-2",
        causation: Some("c-2"),
        correlation: Some("w-1"),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ..reply
    };
    let mut answers = [reply, error].into_iter();
    for fact in &mut all {
        if let Fact::Ended { answer, .. } = fact {
            *answer = answers.next().map(Answer::Composed);
        }
    }
    all
}

/// The golden journals, and what they are made of.
fn journals() -> [(&'static str, Vec<Fact<&'static str>>); 3] {
    [
        ("journal-1", facts()),
        ("journal-2", facts_of_version_2()),
        ("journal-3", facts_with_composed_answers()),
    ]
}

#[test]
#[ignore = "writes the test data of a new version"]
fn j2_6_write_the_golden_journal() {
    // Those of earlier versions stay as they are.
    for (name, facts) in journals().into_iter().filter(|(name, _)| !golden(name).exists()) {
        write_journal(&golden(name), &facts);
    }
}

fn write_journal(path: &Path, all: &[Fact<&'static str>]) {
    let folder = DiskFolder::open(path).unwrap();
    let options = Options { segment_bytes: 64 << 10 };
    let (mut journal, opened) = Journal::open(folder, options, &mut |_| ()).unwrap();
    let (mut batch, mut bytes, mut durable) = (Batch::new(opened.next), Vec::new(), Durable::default());
    for fact in all {
        bytes.clear();
        fact.write(&mut bytes);
        batch.push(fact.kind(), fact.version(), &[&bytes]).unwrap();
        durable.apply_record(fact.kind(), fact.version(), &bytes).unwrap();
    }
    let last = journal.write(&mut batch, 1010).unwrap();
    let mut writer = SnapshotWriter::create(journal.folder(), last, 1011).unwrap();
    for fact in durable.facts() {
        bytes.clear();
        fact.write(&mut bytes);
        writer.push(fact.kind(), fact.version(), &[&bytes]).unwrap();
    }
    writer.finish().unwrap();
    journal.close(1012).unwrap();
}

/// Says what a golden journal says, and what it comes to.
fn read_back(name: &str) -> serde_json::Value {
    let copy = tempfile::tempdir().unwrap();
    std::fs::set_permissions(copy.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    for entry in std::fs::read_dir(golden(name)).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    let exported = mainspring().args(["journal", "export"]).arg(copy.path()).output().unwrap();
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    let expected = std::fs::read_to_string(golden(&format!("{name}.jsonl"))).unwrap();
    assert_eq!(String::from_utf8_lossy(&exported.stdout), expected);
    let checked = mainspring().args(["journal", "check", "--json"]).arg(copy.path()).output().unwrap();
    serde_json::from_slice(&checked.stdout).unwrap()
}

#[test]
fn j2_6_journals_of_earlier_versions_are_read() {
    let found = read_back("journal-1");
    let state = serde_json::json!({
        "commands": 0, "answers": 2, "schedules": 1, "dead_letters": 0, "events": 1, "keys": 1
    });
    assert_eq!((&found["state"], &found["snapshots"]), (&state, &serde_json::json!(1)));
    let found = read_back("journal-2");
    assert_eq!((&found["state"]["schedules"], &found["snapshots"]), (&2.into(), &1.into()));
    let found = read_back("journal-3");
    assert_eq!((&found["state"]["answers"], &found["snapshots"]), (&2.into(), &1.into()));
}
