//! Crashes at every operation: what was told is there, nothing else is, and numbers are used once.

mod support;

use mainspring_journal::simulation::SimFolder;
use mainspring_journal::{Batch, Error, check};
use std::io::ErrorKind;
use support::{Random, fill, open, snapshot};

/// What a run knows of the journal from outside.
#[derive(Clone, Default)]
struct Ledger {
    /// Written and told to be durable.
    durable: Vec<(u64, Vec<u8>)>,
    /// Written, and never told.
    unknown: Vec<(u64, Vec<u8>)>,
    /// The highest number that was ever used.
    highest: u64,
}

impl Ledger {
    /// What a journal holds must be what was told, and perhaps the batch whose fate is unknown, as
    /// a whole.
    fn check(&mut self, content: &[(u64, Vec<u8>)], context: &str) {
        let told = self.durable.len();
        assert!(content.len() >= told, "{context}: {} of {told} durable records", content.len());
        assert!(content[..told] == self.durable[..], "{context}: durable records differ");
        let rest = &content[told..];
        assert!(
            rest.is_empty() || *rest == self.unknown[..],
            "{context}: {} records beyond what was told, {} unknown",
            rest.len(),
            self.unknown.len()
        );
        self.durable = content.to_vec();
        self.unknown.clear();
    }
}

/// Some batches, with segments that fill up, snapshots and deletions, until an operation fails.
fn work(folder: &SimFolder, ledger: &mut Ledger, random: &mut Random, context: &str) -> Result<(), Error> {
    let (mut journal, opened, content) = open(folder)?;
    ledger.check(&content.records, context);
    assert!(opened.next > ledger.highest, "{context}: number {} is used twice", opened.next);
    let mut batch = Batch::new(opened.next);
    let mut last_snapshot = None;
    for _ in 0..24 {
        ledger.unknown = fill(&mut batch, random);
        ledger.highest = batch.next() - 1;
        let durable = journal.write(&mut batch, 0)?;
        assert_eq!(durable, ledger.highest);
        ledger.durable.append(&mut ledger.unknown);
        journal.prepare()?;
        let sealed = journal.sealed_up_to();
        if let Some(number) = sealed
            && sealed != last_snapshot
            && random.below(2) == 0
        {
            snapshot(folder, &ledger.durable, number)?;
            journal.forget(u64::MAX)?;
            last_snapshot = sealed;
        }
    }
    if random.below(2) == 0 {
        journal.close(0)?;
    }
    Ok(())
}

/// Whoever looks at what a crash left, which is also what whoever looks beside the owner may find,
/// sees no damage.
fn look(folder: &SimFolder, context: &str) {
    if folder.files().contains_key("identity") {
        check(folder, &mut |_, _| ()).unwrap_or_else(|error| panic!("{context}: {error}"));
    }
}

/// Opens, writes one batch, and opens twice: what recovery mended stays mended, and nothing is cut
/// off again.
fn go_on_a_little(folder: &SimFolder, context: &str) {
    let (mut journal, opened, mut content) =
        open(folder).unwrap_or_else(|error| panic!("{context}: {error}"));
    let mut batch = Batch::new(opened.next);
    content.records.extend(fill(&mut batch, &mut Random(0)));
    journal.write(&mut batch, 0).unwrap();
    drop(journal);
    for _ in 0..2 {
        let (_, again, same) =
            open(folder).unwrap_or_else(|error| panic!("{context}, opened again: {error}"));
        assert_eq!(again.cut, None, "{context}: cut off twice");
        assert!(same == content, "{context}: another state");
    }
}

/// How many operations a whole run takes.
fn operations(seed: u64) -> u64 {
    let folder = SimFolder::default();
    work(&folder, &mut Ledger::default(), &mut Random(seed), "whole").unwrap();
    folder.operations()
}

#[test]
fn j2_1_a_crash_at_any_operation_loses_nothing_that_was_told_and_adds_nothing() {
    for seed in 0..6 {
        for crash in 1..=operations(seed) {
            let folder = SimFolder::default();
            let (mut ledger, mut random) = (Ledger::default(), Random(seed));
            folder.crash_at(crash);
            let context = format!("seed {seed}, crash at {crash}");
            assert!(work(&folder, &mut ledger, &mut random, &context).is_err(), "{context}");
            folder.restart();
            look(&folder, &context);
            let mut coin = Random(seed ^ crash << 8);
            let odds = coin.below(5);
            folder.cut_power(&mut || coin.below(4) < odds);
            look(&folder, &context);
            go_on_a_little(&folder.copy(), &context);
            let mut second = Ledger { unknown: ledger.unknown.clone(), ..ledger };
            work(&folder, &mut second, &mut random, &context)
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            let (_, _, content) = open(&folder).unwrap_or_else(|error| panic!("{context}: {error}"));
            second.check(&content.records, &context);
        }
    }
}

#[test]
fn j2_3_recovery_is_the_same_however_often_it_is_interrupted() {
    for crash in (1..=operations(1)).step_by(7) {
        let folder = SimFolder::default();
        let (mut ledger, mut random) = (Ledger::default(), Random(1));
        folder.crash_at(crash);
        let _ = work(&folder, &mut ledger, &mut random, "first");
        let mut coin = Random(crash);
        folder.cut_power(&mut || coin.below(2) == 0);
        for interrupted in 1..1000 {
            assert!(interrupted < 999, "a recovery that never ends");
            let trial = folder.copy();
            trial.crash_at(interrupted);
            let done = open(&trial).is_ok();
            trial.cut_power(&mut || coin.below(2) == 0);
            let context = format!("crash at {crash}, again at {interrupted}");
            let (_, _, content) = open(&trial).unwrap_or_else(|error| panic!("{context}: {error}"));
            ledger.clone().check(&content.records, &context);
            if done {
                break;
            }
        }
    }
}

#[test]
fn j3_1_a_failed_operation_is_final_and_nothing_told_is_lost() {
    for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
        for fault in 1..=operations(2) {
            let folder = SimFolder::default();
            let (mut ledger, mut random) = (Ledger::default(), Random(2));
            folder.fail_at(fault, kind);
            let context = format!("{kind:?} at {fault}");
            let first = work(&folder, &mut ledger, &mut random, &context);
            // A disk that was full for a moment may never be noticed: the next segment is tried
            // again.
            assert!(first.is_err() || kind == ErrorKind::StorageFull, "{context}");
            // The process starts again on a machine that goes on, and later the power fails too.
            folder.restart();
            let result = work(&folder, &mut ledger, &mut random, &context);
            result.unwrap_or_else(|error| panic!("{context}: {error}"));
            folder.cut_power(&mut || false);
            let (_, _, content) = open(&folder).unwrap_or_else(|error| panic!("{context}: {error}"));
            ledger.check(&content.records, &context);
        }
    }
}

#[test]
fn j3_1_after_a_failed_flush_every_later_write_fails() {
    let folder = SimFolder::default();
    let (mut journal, opened, _) = open(&folder).unwrap();
    let mut batch = Batch::new(opened.next);
    batch.push(1, 1, &[b"first"]).unwrap();
    folder.fail_at(folder.operations() + 2, ErrorKind::Other);
    assert!(matches!(journal.write(&mut batch, 0), Err(Error::Io { .. })));
    assert!(matches!(journal.write(&mut batch, 0), Err(Error::Failed { .. })));
    assert!(matches!(journal.forget(1), Err(Error::Failed { .. })));
    assert!(matches!(journal.close(0), Err(Error::Failed { .. })));
}

#[test]
fn j2_3_bytes_that_a_failed_flush_left_in_memory_alone_are_not_taken_for_durable() {
    let folder = SimFolder::default();
    let (mut journal, opened, _) = open(&folder).unwrap();
    let mut batch = Batch::new(opened.next);
    batch.push(1, 1, &[b"never flushed"]).unwrap();
    folder.fail_at(folder.operations() + 2, ErrorKind::Other);
    assert!(journal.write(&mut batch, 0).is_err());
    drop(journal);
    // The process starts again, goes on, and only then the power fails.
    folder.restart();
    let (mut journal, opened, _) = open(&folder).unwrap();
    let mut batch = Batch::new(opened.next);
    batch.push(1, 1, &[b"flushed"]).unwrap();
    journal.write(&mut batch, 0).unwrap();
    drop(journal);
    folder.cut_power(&mut || false);
    let (_, _, content) = open(&folder).unwrap();
    assert_eq!(content.records, [(opened.next, b"flushed".to_vec())]);
}
