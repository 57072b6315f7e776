//! Full disks, sizes, and reading beside the writer.

mod support;

use mainspring_journal::simulation::SimFolder;
use mainspring_journal::{Batch, Error, Journal, Options, RECORD_BYTES_MAX, Reader, Space};
use support::{OPTIONS, open, snapshot};

#[test]
fn j3_2_a_full_disk_is_told_while_there_is_room_for_what_was_begun() {
    let folder = SimFolder::default();
    let (mut journal, opened, _) = open(&folder).unwrap();
    folder.set_capacity(Some(80 << 10));
    let mut batch = Batch::new(opened.next);
    let mut after = 0;
    let error = loop {
        batch.push(1, 1, &[&[7; 1000]]).unwrap();
        match journal.write(&mut batch, 0) {
            Ok(_) => after += u64::from(journal.space() == Space::Full),
            Err(error) => break error,
        }
        journal.prepare().unwrap();
    };
    assert!(matches!(error, Error::Full { .. }), "{error}");
    assert!(after >= 5, "only {after} batches after the disk was told to be full");
    // Room again: the same batch goes through.
    folder.set_capacity(None);
    journal.write(&mut batch, 0).unwrap();
    assert_eq!(journal.space(), Space::Enough);
    let count = journal.durable() - opened.next + 1;
    drop(journal);
    assert_eq!(open(&folder).unwrap().2.records.len() as u64, count);
}

#[test]
fn disk_use_stays_bounded_while_snapshots_are_made() {
    let folder = SimFolder::default();
    let (mut journal, opened, _) = open(&folder).unwrap();
    let mut batch = Batch::new(opened.next);
    let mut sealed = None;
    for _ in 0..2000 {
        batch.push(1, 1, &[&[7; 3000]]).unwrap();
        journal.write(&mut batch, 0).unwrap();
        if journal.sealed_up_to() != sealed {
            sealed = journal.sealed_up_to();
            snapshot(&folder, &[], sealed.unwrap()).unwrap();
            journal.forget(u64::MAX).unwrap();
        }
        assert!(journal.bytes() <= 5 * OPTIONS.segment_bytes, "{}", journal.bytes());
    }
    let on_disk: usize = folder.files().values().map(Vec::len).sum();
    assert!(on_disk as u64 <= 5 * OPTIONS.segment_bytes + 64 * 1024, "{on_disk}");
}

#[test]
fn what_is_still_wanted_is_not_forgotten() {
    let folder = SimFolder::default();
    let (mut journal, opened, _) = open(&folder).unwrap();
    let mut batch = Batch::new(opened.next);
    for _ in 0..60 {
        batch.push(1, 1, &[&[7; 3000]]).unwrap();
        journal.write(&mut batch, 0).unwrap();
    }
    let sealed = journal.sealed_up_to().unwrap();
    snapshot(&folder, &[], sealed - 1).unwrap();
    snapshot(&folder, &[], sealed).unwrap();
    journal.forget(3).unwrap();
    let mut numbers = Vec::new();
    let mut reader = Reader::open(&folder, 4).unwrap();
    while reader.read(&mut |record, _| numbers.push(record.number)).unwrap() {}
    assert_eq!(numbers.first(), Some(&4));
    assert_eq!(numbers.len() as u64, journal.durable() - 3);
}

#[test]
fn a_record_or_batch_that_does_not_fit_is_refused_and_harms_nothing() {
    let folder = SimFolder::default();
    let (mut journal, opened, _) = open(&folder).unwrap();
    let mut batch = Batch::new(opened.next);
    let huge = vec![0; RECORD_BYTES_MAX + 1];
    assert!(matches!(batch.push(1, 1, &[&huge]), Err(Error::TooLarge { .. })));
    assert!(batch.is_empty());
    batch.push(1, 1, &[&vec![1; 60 << 10]]).unwrap();
    assert!(matches!(journal.write(&mut batch, 0), Err(Error::TooLarge { .. })));
    let mut batch = Batch::new(opened.next);
    batch.push(1, 1, &[b"fits"]).unwrap();
    journal.write(&mut batch, 0).unwrap();
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for segment_bytes in [0, 4096, (64 << 10) + 1, 2 << 30] {
        let opened = Journal::open(SimFolder::default(), Options { segment_bytes }, &mut |_| ());
        assert!(matches!(opened, Err(Error::Setting { .. })), "{segment_bytes}");
    }
}

#[test]
fn j1_3_a_batch_is_one_write_and_one_flush() {
    let folder = SimFolder::default();
    let (mut journal, opened, _) = open(&folder).unwrap();
    let mut batch = Batch::new(opened.next);
    let before = folder.operations();
    for _ in 0..100 {
        batch.push(1, 1, &[b"small"]).unwrap();
    }
    journal.write(&mut batch, 0).unwrap();
    assert_eq!(folder.operations() - before, 2);
}

#[test]
fn j1_3_the_next_segment_is_made_apart_from_what_is_waited_for() {
    let folder = SimFolder::default();
    let (mut journal, opened, _) = open(&folder).unwrap();
    let mut batch = Batch::new(opened.next);
    let (mut waited_for, mut apart) = (0, 0);
    while journal.segments() < 3 {
        batch.push(1, 1, &[&[7; 1000]]).unwrap();
        let before = folder.operations();
        journal.write(&mut batch, 0).unwrap();
        let written = folder.operations();
        journal.prepare().unwrap();
        waited_for = (written - before).max(waited_for);
        apart = (folder.operations() - written).max(apart);
    }
    // The head, its flush, the name, the folder's flush and the seal with its own come to six.
    assert!(waited_for <= 8, "a batch took {waited_for} operations");
    assert!(apart > 0, "nothing was made ready");
}

#[test]
fn a_reader_beside_the_writer_sees_what_is_written_later() {
    let folder = SimFolder::default();
    let (mut journal, opened, _) = open(&folder).unwrap();
    let mut batch = Batch::new(opened.next);
    let mut reader = Reader::open(&folder, 1).unwrap();
    let mut seen = 0;
    for round in 1..=100 {
        batch.push(1, 1, &[&[9; 2000]]).unwrap();
        journal.write(&mut batch, round).unwrap();
        while reader.read(&mut |_, unix_ms| seen = unix_ms).unwrap() {}
        assert_eq!(seen, round);
    }
}

#[test]
fn j2_5_numbers_go_on_after_a_clean_close_and_leap_after_a_crash() {
    let folder = SimFolder::default();
    let (mut journal, opened, _) = open(&folder).unwrap();
    assert!(opened.created);
    let mut batch = Batch::new(opened.next);
    batch.push(1, 1, &[b"one"]).unwrap();
    journal.write(&mut batch, 0).unwrap();
    journal.close(0).unwrap();
    let (journal, opened, _) = open(&folder).unwrap();
    assert!(opened.closed && !opened.created);
    assert_eq!(opened.next, 2);
    drop(journal);
    let (_, opened, _) = open(&folder).unwrap();
    assert!(!opened.closed);
    assert!(opened.next > 1000);
}
