//! How long a daemon takes to read its journal at a start.

use super::subjects::start_on;
use bench_support::{Keep, OURS, Results};
use mainspring_journal::{Batch, DiskFolder, Journal, Options, SnapshotWriter};
use mainspring_kernel::{Answer, ComposedAnswer, Ending, Fact, PeerName};
use std::path::Path;

/// Facts behind the last snapshot, as `Memory.Set` records them.
const FACTS: u64 = 1_000_000;
const FACTS_QUICK: u64 = 100_000;
/// How many facts one batch holds.
const PER_BATCH: u64 = 512;
/// What is kept of each kind at the shipped bounds: 64 MiB of answers, of events and of schedules,
/// 16 MiB of dead letters.
const KEPT: u64 = 65_000;
const KEPT_BYTES: usize = 900;
const LETTERS: u64 = 1024;
const LETTER_BYTES: usize = 15_000;

/// The names of the cases.
pub(super) const CASES: [&str; 2] = ["start-of-facts", "start-at-all-bounds"];

/// Makes a journal, starts a daemon on it, and notes what that took.
pub(super) fn measure(case: &str, folder: &Path, quick: bool, results: &mut Results) -> Result<(), String> {
    let place = folder.join(format!("journal-{case}"));
    let words = |error: mainspring_journal::Error| error.to_string();
    let disk = DiskFolder::open(&place).map_err(words)?;
    let facts = match case {
        "start-of-facts" => write_facts(disk, if quick { FACTS_QUICK } else { FACTS }).map_err(words)?,
        _ => write_snapshot(disk).map_err(words)?,
    };
    let (whole, reading) = start_on(folder, &place)?;
    let _ = std::fs::remove_dir_all(&place);
    results.record(case, OURS, "start", "ms", Keep::Minimum, whole * 1000.0);
    results.record(case, OURS, "facts_per_s", "1/s", Keep::Maximum, facts as f64 / reading);
    Ok(())
}

fn alice() -> PeerName<&'static str> {
    PeerName::Client("user:1000")
}

fn message(id: u64, bytes: usize) -> String {
    let filling = "x".repeat(bytes.saturating_sub(110));
    format!(
        r#"{{"kind":"command","type":"Order.Place","data":"{filling}","metadata":{{"id":"c-{id}","timestamp":1}}}}"#
    )
}

/// Two facts for each command: what it put, and how it ended.
fn write_facts(folder: DiskFolder, count: u64) -> mainspring_journal::Result<u64> {
    let (mut journal, opened) = Journal::open(folder, Options::default(), &mut |_| ())?;
    let mut batch = Batch::new(opened.next);
    let mut bytes = Vec::new();
    for at in 0..count / 2 {
        let (key, value) = (format!("key-{}", at % 1000), format!("\"0123456789abcdef{at}\""));
        let put = Fact::Put { store: "memory", key: &*key, value: &*value };
        let id = format!("c-{at}");
        let answer = ComposedAnswer {
            is_error: false,
            type_name: "Memory.Set",
            data: r#"{"created":false}"#,
            id: "18a0b2c4d6e8f0a1-1f4a3",
            timestamp_ms: 1_767_910_000_000,
            causation: Some(&*id),
            correlation: None,
            traceparent: None,
        };
        let ended = Fact::Ended {
            which: Ending::Whole { peer: alice(), id: &*id, fingerprint: at },
            unix_ms: 1_767_910_000_000,
            until_ms: u64::MAX,
            answer: Some(Answer::Composed(answer)),
        };
        for fact in [put, ended] {
            bytes.clear();
            fact.write(&mut bytes);
            batch.push(fact.kind(), fact.version(), &[&bytes])?;
        }
        if u64::from(batch.count()) >= PER_BATCH {
            journal.write(&mut batch, 1)?;
        }
    }
    if !batch.is_empty() {
        journal.write(&mut batch, 1)?;
    }
    journal.close(1)?;
    Ok(count)
}

/// A snapshot in which everything is at its bound.
fn write_snapshot(folder: DiskFolder) -> mainspring_journal::Result<u64> {
    let place = folder.try_clone()?;
    let (journal, opened) = Journal::open(folder, Options::default(), &mut |_| ())?;
    let mut writer = SnapshotWriter::create(&place, opened.next - 1, 1)?;
    let (mut facts, mut bytes) = (0, Vec::new());
    let mut push = |fact: Fact<&str>| {
        bytes.clear();
        fact.write(&mut bytes);
        facts += 1;
        writer.push(fact.kind(), fact.version(), &[&bytes])
    };
    for at in 1..=KEPT {
        let (line, id) = (message(at, KEPT_BYTES), format!("c-{at}"));
        let (peer, timer_id) = (format!("user:{}", at / 1000), format!("t-{at}"));
        push(Fact::Ended {
            which: Ending::Whole { peer: alice(), id: &*id, fingerprint: at },
            unix_ms: 1_767_910_000_000,
            until_ms: u64::MAX,
            answer: Some(Answer::Line(&*line)),
        })?;
        push(Fact::Emitted { event: at, unix_ms: 1_767_910_000_000, message: &*line })?;
        push(Fact::Scheduled {
            peer: PeerName::Client(&*peer),
            timer_id: &*timer_id,
            due_ms: 4_000_000_000_000,
            repeat_ms: None,
            left: Some(1),
            fired: 0,
            bytes: KEPT_BYTES as u64,
            rights: None,
            message: &*line,
        })?;
    }
    for letter in 1..=LETTERS {
        let line = message(letter, LETTER_BYTES);
        push(Fact::DeadLettered {
            letter,
            owner: alice(),
            attempts: 1,
            unix_ms: 1_767_910_000_000,
            reason: "why",
            message: &*line,
        })?;
    }
    writer.finish()?;
    journal.close(1)?;
    Ok(facts)
}
