//! Damage of every kind: the same state, a torn last batch that is told, or a refusal that changes
//! nothing.

mod support;

use mainspring_journal::simulation::SimFolder;
use mainspring_journal::{Batch, Checked, Cut, Error, Reader, check};
use std::collections::BTreeMap;
use support::{Content, Random, fill, open, snapshot};

/// The name of the oldest segment.
const FIRST: &str = "0000000000000001.segment";

/// A journal of a few segments, with two snapshots, and what it holds.
fn journal(closed: bool, snapshots: usize) -> (SimFolder, Content) {
    let folder = SimFolder::default();
    let mut random = Random(7);
    let (mut journal, opened, mut content) = open(&folder).unwrap();
    let mut batch = Batch::new(opened.next);
    let mut made: Vec<u64> = Vec::new();
    while content.records.len() < 100 {
        let records = fill(&mut batch, &mut random);
        journal.write(&mut batch, 0).unwrap();
        content.records.extend(records);
        if let Some(sealed) = journal.sealed_up_to()
            && made.len() < snapshots
            && made.last() != Some(&sealed)
        {
            snapshot(&folder, &content.records, sealed).unwrap();
            made.push(sealed);
        }
    }
    if closed {
        journal.close(0).unwrap();
    }
    assert!(folder.files().len() >= 3 + snapshots, "{:?}", folder.files().keys());
    (folder, content)
}

type Records = Vec<(u64, Vec<u8>)>;

/// What a reader beside the owner gives.
fn read(folder: &SimFolder) -> Result<Records, Error> {
    let mut records = Vec::new();
    let mut reader = Reader::open(folder, 1)?;
    while reader.read(&mut |record, _| records.push((record.number, record.data.to_vec())))? {}
    Ok(records)
}

/// What those say who look at a journal and change nothing.
struct Looked {
    read: Result<Records, Error>,
    checked: Result<Checked, Error>,
    has_snapshots: bool,
}

fn look(folder: &SimFolder) -> Looked {
    let has_snapshots = folder.files().keys().any(|name| name.ends_with(".snapshot"));
    Looked { read: read(folder), checked: check(folder, &mut |_, _| ()), has_snapshots }
}

impl Looked {
    /// They say what a start says, which gave these records. It reads no segment that a snapshot
    /// stands for, and they do.
    fn agree_with(&self, content: &Content, cut: Option<&Cut>, context: &str) {
        match &self.read {
            Ok(read) => assert!(content.records.ends_with(read), "{context}: another state was read"),
            Err(error) => assert!(self.has_snapshots, "{context}: {error}"),
        }
        match &self.checked {
            Ok(checked) => assert_eq!(checked.torn.as_ref(), cut, "{context}"),
            Err(error) => assert!(self.has_snapshots, "{context}: {error}"),
        }
    }

    /// A start refuses it, and so does a check. A reader may give the records of segments that are
    /// whole, and all of them.
    fn refuse(&self, whole: &Content, context: &str) {
        assert!(self.checked.is_err(), "{context}: a check says that all is well");
        let is_all = self.read.as_ref().is_ok_and(|read| whole.records.ends_with(read));
        assert!(is_all || self.read.is_err(), "{context}: a reader ended without a word");
    }
}

/// What may come of a damaged journal.
fn judge(damaged: &SimFolder, whole: &Content, context: &str) -> &'static str {
    let before = damaged.files();
    let looked = look(damaged);
    match open(damaged) {
        Ok((_, opened, content)) => {
            looked.agree_with(&content, opened.cut.as_ref(), context);
            match opened.cut {
                None => {
                    assert!(content == *whole, "{context}: another state, and no word of it");
                    "the same"
                }
                Some(cut) => {
                    let kept = content.records.len();
                    assert!(content.records[..] == whole.records[..kept], "{context}: another state");
                    let last = content.records.last().map_or(0, |(number, _)| *number);
                    assert!(cut.after >= last, "{context}: {cut:?}");
                    "cut"
                }
            }
        }
        Err(error) => {
            looked.refuse(whole, context);
            assert!(
                matches!(error, Error::Damaged { .. } | Error::Newer { .. } | Error::Io { .. }),
                "{context}: {error}"
            );
            assert!(before == damaged.files(), "{context}: refused, and changed");
            "refused"
        }
    }
}

/// The last bytes of a file that are not zeros.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

#[test]
fn j2_2_every_byte_that_is_flipped_leaves_the_same_state_or_a_refusal() {
    for closed in [false, true] {
        let (folder, whole) = journal(closed, 0);
        let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, bytes) in folder.files() {
            // All bytes of heads and headers, and a sample of the rest and of the zeros behind.
            let end = (used(&bytes) + 4096).min(bytes.len());
            for place in (0..end).filter(|place| place % 4096 < 64 || place % 61 == 0) {
                let mut flipped = bytes.clone();
                flipped[place] ^= 1 << (place % 8);
                let damaged = folder.copy();
                damaged.put(&name, flipped);
                let outcome = judge(&damaged, &whole, &format!("{name} at {place}"));
                *outcomes.entry(outcome).or_default() += 1;
            }
        }
        assert!(outcomes["refused"] > 1000, "{outcomes:?}");
        assert!(outcomes["cut"] < 2 * (4096 / 61 + 70) + 300, "only the last batch may be cut: {outcomes:?}");
    }
}

/// A journal of one segment with three small batches.
fn small(closed: bool) -> (SimFolder, Content) {
    let folder = SimFolder::default();
    let (mut journal, opened, mut content) = open(&folder).unwrap();
    let mut batch = Batch::new(opened.next);
    for text in ["one", "two", "three"] {
        let number = batch.push(1, 1, &[text.as_bytes()]).unwrap();
        journal.write(&mut batch, 0).unwrap();
        content.records.push((number, text.into()));
    }
    if closed {
        journal.close(0).unwrap();
    }
    (folder, content)
}

#[test]
fn j2_2_every_single_byte_of_a_small_journal_counts_and_only_its_last_batch_may_be_cut() {
    for closed in [false, true] {
        let (folder, whole) = small(closed);
        for (name, bytes) in folder.files() {
            let used = used(&bytes);
            let last_page = used.next_multiple_of(4096) - 4096;
            for place in 0..(used + 512).next_multiple_of(4096).min(bytes.len()) {
                let mut flipped = bytes.clone();
                flipped[place] ^= 1 << (place % 8);
                let damaged = folder.copy();
                damaged.put(&name, flipped);
                let outcome = judge(&damaged, &whole, &format!("{name} at {place}"));
                // The batch that closes a journal holds nothing, and proves the one before it.
                let is_tail = name.ends_with(".segment") && place >= last_page;
                assert!(is_tail || outcome == "refused", "{name} at {place}: {outcome}");
            }
        }
    }
}

#[test]
fn j2_2_every_length_of_a_small_journal_but_its_own_is_refused() {
    let (folder, whole) = small(true);
    for (name, bytes) in folder.files().into_iter().filter(|(name, _)| name.ends_with(".segment")) {
        for length in 0..bytes.len() {
            let damaged = folder.copy();
            damaged.put(&name, bytes[..length].to_vec());
            assert_eq!(judge(&damaged, &whole, &format!("{name} cut at {length}")), "refused", "{length}");
        }
    }
}

#[test]
fn j2_2_after_a_clean_close_damage_of_any_record_is_a_refusal() {
    let (folder, whole) = journal(true, 0);
    let (name, bytes) = folder.files().into_iter().rfind(|(name, _)| name.ends_with(".segment")).unwrap();
    let last_page = used(&bytes).next_multiple_of(4096) - 4096;
    for place in (4096..last_page).step_by(97) {
        let mut flipped = bytes.clone();
        flipped[place] ^= 0x40;
        let damaged = folder.copy();
        damaged.put(&name, flipped);
        assert_eq!(judge(&damaged, &whole, &format!("{name} at {place}")), "refused", "at {place}");
    }
}

#[test]
fn j2_2_a_file_of_another_length_is_refused() {
    let (folder, whole) = journal(false, 2);
    for (name, bytes) in folder.files().into_iter().filter(|(name, _)| name.ends_with(".segment")) {
        for length in (0..bytes.len()).step_by(509).chain([bytes.len() - 1]) {
            let damaged = folder.copy();
            damaged.put(&name, bytes[..length].to_vec());
            assert_eq!(
                judge(&damaged, &whole, &format!("{name} cut at {length}")),
                "refused",
                "{name} {length}"
            );
        }
        let damaged = folder.copy();
        damaged.put(&name, [&bytes[..], &[0; 4096]].concat());
        assert_eq!(judge(&damaged, &whole, &format!("{name} longer")), "refused");
    }
}

#[test]
fn j2_2_segments_that_are_dropped_swapped_or_doubled_are_refused() {
    let (folder, whole) = journal(false, 0);
    let names: Vec<String> = folder.files().into_keys().filter(|name| name.ends_with(".segment")).collect();
    assert!(names.len() >= 3, "{names:?}");
    for name in &names {
        let damaged = folder.copy();
        damaged.take(name);
        assert_eq!(judge(&damaged, &whole, &format!("without {name}")), "refused");
        for other in names.iter().filter(|other| *other != name) {
            let damaged = folder.copy();
            let bytes = damaged.take(other).unwrap();
            damaged.put(other, folder.files()[name].clone());
            assert_eq!(judge(&damaged, &whole, &format!("{name} doubled as {other}")), "refused");
            damaged.put(name, bytes);
            assert_eq!(judge(&damaged, &whole, &format!("{name} and {other} swapped")), "refused");
        }
    }
    let damaged = folder.copy();
    damaged.take("identity");
    assert_eq!(judge(&damaged, &whole, "without an identity"), "refused");
}

#[test]
fn j2_2_a_batch_of_another_place_or_journal_never_counts() {
    let (folder, whole) = journal(false, 0);
    let (other, _) = journal(false, 0);
    let name = folder.files().into_keys().rfind(|name| name.ends_with(".segment")).unwrap();
    let bytes = folder.files()[&name].clone();
    let end = used(&bytes).next_multiple_of(4096);
    // A copy of an earlier batch behind the last one, and the same place of another journal.
    for source in [bytes[4096..8192].to_vec(), other.files()[&name][4096..8192].to_vec()] {
        let damaged = folder.copy();
        let mut changed = bytes.clone();
        changed[end..end + 4096].copy_from_slice(&source);
        damaged.put(&name, changed);
        let outcome = judge(&damaged, &whole, "a foreign batch behind the last one");
        assert_eq!(outcome, "cut");
    }
}

#[test]
fn j2_2_a_read_error_is_damage_and_never_the_end() {
    let (folder, whole) = journal(false, 0);
    for name in folder.files().into_keys().filter(|name| name.ends_with(".segment")) {
        for offset in [0, 4096, 30_000, 60_000] {
            let damaged = folder.copy();
            damaged.fail_reads(&name, offset);
            assert_eq!(judge(&damaged, &whole, &format!("{name} unreadable from {offset}")), "refused");
        }
    }
}

#[test]
fn j2_2_a_damaged_newer_snapshot_gives_way_to_the_older_one_and_is_told() {
    let (folder, whole) = journal(false, 2);
    let snapshots: Vec<String> =
        folder.files().into_keys().filter(|name| name.ends_with(".snapshot")).collect();
    assert_eq!(snapshots.len(), 2);
    for place in [0, 100, 4096, 5000] {
        let damaged = folder.copy();
        let mut bytes = damaged.take(&snapshots[1]).unwrap();
        bytes[place] ^= 1;
        damaged.put(&snapshots[1], bytes);
        let (_, opened, content) = open(&damaged).unwrap();
        assert!(content == whole);
        assert!(opened.passed_over.unwrap().contains(&snapshots[1]));
    }
}

#[test]
fn j2_2_without_a_snapshot_that_its_deleted_segments_need_it_is_refused() {
    let (folder, whole) = journal(false, 0);
    let (mut journal, _, content) = open(&folder).unwrap();
    let sealed = journal.sealed_up_to().unwrap();
    snapshot(&folder, &content.records, sealed - 5).unwrap();
    snapshot(&folder, &content.records, sealed).unwrap();
    journal.forget(u64::MAX).unwrap();
    drop(journal);
    let (_, opened, content) = open(&folder).unwrap();
    assert!(content == whole);
    assert_eq!(opened.snapshot, Some(sealed));
    for name in folder.files().into_keys().filter(|name| name.ends_with(".snapshot")) {
        folder.take(&name);
    }
    assert_eq!(judge(&folder, &whole, "without its snapshots"), "refused");
}

#[test]
fn j2_6_a_newer_format_is_refused_with_both_versions() {
    let (folder, _) = journal(false, 0);
    let mut page = folder.take("identity").unwrap();
    page[8] = 9;
    let checksum = crc32c::crc32c(&page[..4092]);
    page[4092..].copy_from_slice(&checksum.to_le_bytes());
    folder.put("identity", page);
    let error = open(&folder).unwrap_err().to_string();
    assert_eq!(error, "identity has format 9; this program reads formats up to 1");
}

#[test]
fn a_check_reads_everything_and_changes_nothing() {
    let (folder, whole) = journal(false, 2);
    let before = folder.files();
    let mut steps = Vec::new();
    let checked = check(&folder, &mut |done, all| steps.push((done, all))).unwrap();
    assert_eq!(checked.records, whole.records.len() as u64);
    assert_eq!(checked.snapshots, 2);
    assert_eq!(steps.last().map(|(done, all)| done == all), Some(true));
    assert!(before == folder.files());
    // Damage in a segment that a start would not even read is found.
    let mut bytes = folder.take(FIRST).unwrap();
    bytes[9000] ^= 1;
    folder.put(FIRST, bytes);
    assert!(matches!(check(&folder, &mut |_, _| ()), Err(Error::Damaged { .. })));
    assert!(open(&folder).is_ok());
}

/// A journal, its first segment, and how many pages of that are used up to its seal.
fn sealed() -> (SimFolder, Vec<u8>, usize) {
    let (folder, _) = journal(true, 0);
    let bytes = folder.files()[FIRST].clone();
    let pages = used(&bytes).div_ceil(4096);
    (folder, bytes, pages)
}

#[test]
fn j2_2_a_reader_took_damage_for_the_end_and_said_nothing() {
    let (folder, bytes, pages) = sealed();
    for page in 1..pages {
        let damaged = folder.copy();
        let mut changed = bytes.clone();
        changed[page * 4096 + 20] ^= 1;
        damaged.put(FIRST, changed);
        for reads in [Reader::read, Reader::poll] {
            let mut reader = Reader::open(&damaged, 1).unwrap();
            let error = loop {
                match reads(&mut reader, &mut |_, _| ()) {
                    Ok(more) => assert!(more, "page {page}: it ended at record {}", reader.reached()),
                    Err(error) => break error,
                }
            };
            let Error::Damaged { file, offset, number, .. } = error else { panic!("{error}") };
            assert_eq!((file.as_str(), number), (FIRST, reader.reached()));
            assert!(offset <= page as u64 * 4096, "page {page}: {offset}");
        }
    }
}

#[test]
fn j2_2_a_segment_without_its_seal_was_well_to_a_check_and_not_to_a_start() {
    let (folder, bytes, pages) = sealed();
    let seal = (pages - 1) * 4096;
    for damage in [1, 4096] {
        let damaged = folder.copy();
        let mut changed = bytes.clone();
        changed[seal..seal + damage].fill(0);
        damaged.put(FIRST, changed);
        let error = check(&damaged, &mut |_, _| ()).unwrap_err();
        let Error::Damaged { file, offset, reason, .. } = error else { panic!("{error}") };
        assert_eq!((file.as_str(), offset), (FIRST, seal as u64));
        assert_eq!(reason, "it has a successor and is not sealed");
        assert!(read(&damaged).is_err());
        assert!(open(&damaged).is_err());
    }
}

#[test]
fn salvage_gives_what_is_whole_and_names_what_is_missing() {
    use mainspring_journal::{Found, salvage};
    let (folder, whole) = journal(true, 0);
    let read = |folder: &SimFolder| {
        let mut records = Vec::new();
        let mut visit = |found: Found<'_>| {
            if let Found::Record(record, _) = found {
                records.push((record.number, record.data.to_vec()));
            }
        };
        let salvaged = salvage(folder, &mut visit, &mut |_, _| ()).unwrap();
        (records, salvaged)
    };
    let (records, salvaged) = read(&folder);
    assert_eq!(records, whole.records);
    assert!(salvaged.missing.is_empty() && salvaged.damaged.is_empty(), "{salvaged:?}");
    // One byte of each page of the first segment in turn: at most that batch is missing, and it is
    // told.
    let name = FIRST;
    let bytes = folder.files()[name].clone();
    for page in 1..bytes.len() / 4096 {
        let damaged = folder.copy();
        let mut changed = bytes.clone();
        changed[page * 4096 + 20] ^= 1;
        damaged.put(name, changed);
        let before = damaged.files();
        let (records, salvaged) = read(&damaged);
        assert!(before == damaged.files(), "salvage changed something");
        let told: u64 = salvaged.missing.iter().map(|(first, last)| last - first + 1).sum();
        assert_eq!(records.len() as u64 + told, whole.records.len() as u64, "page {page}: {salvaged:?}");
        assert!(told <= 5 && records.iter().all(|record| whole.records.contains(record)), "page {page}");
    }
    // A segment without its head is lost, and named.
    let damaged = folder.copy();
    damaged.put(name, vec![0; bytes.len()]);
    let (records, salvaged) = read(&damaged);
    assert!(!records.is_empty() && salvaged.damaged[0].contains(name), "{salvaged:?}");
    assert_eq!(salvaged.missing, [(1, records[0].0 - 1)]);
}

#[test]
fn j2_2_salvage_named_no_place_where_a_batch_or_a_seal_was_gone() {
    let (folder, bytes, pages) = sealed();
    let salvage = |folder: &SimFolder| {
        mainspring_journal::salvage(folder, &mut |_| (), &mut |_, _| ()).unwrap().damaged
    };
    for page in 1..pages {
        let damaged = folder.copy();
        let mut changed = bytes.clone();
        changed[page * 4096 + 20] ^= 1;
        damaged.put(FIRST, changed);
        let told = check(&damaged, &mut |_, _| ()).unwrap_err().to_string();
        assert_eq!(salvage(&damaged), [told], "page {page}");
    }
    // A crash between a successor and the seal is no damage.
    let crashed = folder.copy();
    let names: Vec<String> = folder.files().into_keys().filter(|name| name.ends_with(".segment")).collect();
    for name in &names[2..] {
        crashed.take(name);
    }
    let mut first = bytes;
    first[(pages - 1) * 4096..pages * 4096].fill(0);
    let mut second = crashed.take(&names[1]).unwrap();
    second[4096..].fill(0);
    crashed.put(FIRST, first);
    crashed.put(&names[1], second);
    assert!(check(&crashed, &mut |_, _| ()).is_ok() && salvage(&crashed).is_empty());
    assert!(open(&crashed).is_ok());
}

#[test]
fn a_record_that_its_reader_refuses_changes_nothing() {
    let (folder, _) = journal(false, 0);
    let before = folder.files();
    let opened =
        mainspring_journal::Journal::open_if(
            folder.clone(),
            support::OPTIONS,
            &mut |restored| match restored {
                mainspring_journal::Restored::Record(record) if record.number == 50 => Err("too new".into()),
                _ => Ok(()),
            },
        );
    let error = opened.unwrap_err().to_string();
    assert_eq!(error, "record 50 cannot be used: too new");
    assert!(before == folder.files());
}
