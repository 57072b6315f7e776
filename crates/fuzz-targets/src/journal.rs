//! A journal's folder after damage: it opens with the records that were written, all or the first
//! of them, or it is refused and nothing is changed.

use mainspring_journal::simulation::SimFolder;
use mainspring_journal::{Batch, Error, Journal, Options, Reader, Restored, SnapshotWriter, check};
use std::sync::OnceLock;

/// Small segments, so that a few batches fill them.
const OPTIONS: Options = Options { segment_bytes: 64 << 10 };
const RECORDS: u64 = 60;

type Records = Vec<(u64, Vec<u8>)>;

/// The input is a list of changes of five bytes each: which file, what is done, where (two bytes),
/// and with which byte.
pub(crate) fn run(bytes: &[u8]) {
    let (folder, whole) = base();
    let damaged = folder.copy();
    for change in bytes.chunks_exact(5).take(64) {
        damage(&damaged, change);
    }
    let before = damaged.files();
    let _ = check(&damaged, &mut |_, _| ());
    read_on(&damaged, whole);
    assert!(before == damaged.files(), "reading changed the folder");
    match open(&damaged) {
        Ok(records) => assert!(is_beginning(&records, whole), "another state: {} records", records.len()),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(before == damaged.files(), "refused ({error}), and changed");
        }
    }
}

fn damage(folder: &SimFolder, change: &[u8]) {
    let names: Vec<String> = folder.files().into_keys().collect();
    let Some(name) = names.get(usize::from(change[0]) % names.len().max(1)) else { return };
    let mut content = folder.files().remove(name).unwrap_or_default();
    let place = usize::from(u16::from_le_bytes([change[2], change[3]])) % content.len().max(1);
    match change[1] % 6 {
        0 => content.get_mut(place).into_iter().for_each(|byte| *byte = change[4]),
        1 => content.get_mut(place).into_iter().for_each(|byte| *byte ^= change[4]),
        2 => content.truncate(place),
        3 => content[place..].iter_mut().take(usize::from(change[4])).for_each(|byte| *byte = 0),
        4 => content.extend(std::iter::repeat_n(change[4], 16)),
        _ => {
            folder.take(name);
            return;
        }
    }
    folder.put(name, content);
}

/// The records of a snapshot are those up to it, each with its number before it.
fn open(folder: &SimFolder) -> Result<Records, Error> {
    let mut records = Vec::new();
    Journal::open(folder.clone(), OPTIONS, &mut |restored| match restored {
        Restored::Snapshot(record) => {
            let (number, data) = record.data.split_first_chunk().expect("a record of our snapshot");
            records.push((u64::from_le_bytes(*number), data.to_vec()));
        }
        Restored::Record(record) => records.push((record.number, record.data.to_vec())),
    })?;
    Ok(records)
}

/// What a reader beside the owner sees.
fn read_on(folder: &SimFolder, whole: &Records) {
    let Ok(oldest) = Reader::oldest(folder) else { return };
    let Ok(mut reader) = Reader::open(folder, oldest) else { return };
    let mut visit = |record: mainspring_journal::Record<'_>, _: u64| {
        let written = whole.iter().find(|(number, _)| *number == record.number);
        assert!(written.is_none_or(|(_, data)| data == record.data), "record {} is another", record.number);
    };
    while reader.read(&mut visit).is_ok_and(|more| more) {}
}

fn is_beginning(records: &Records, whole: &Records) -> bool {
    whole.starts_with(records)
}

/// A journal of a few segments with a snapshot, and what it holds.
fn base() -> &'static (SimFolder, Records) {
    static BASE: OnceLock<(SimFolder, Records)> = OnceLock::new();
    BASE.get_or_init(|| make().expect("a journal in memory"))
}

fn make() -> Result<(SimFolder, Records), Error> {
    let folder = SimFolder::default();
    let (mut journal, opened) = Journal::open(folder.clone(), OPTIONS, &mut |_| ())?;
    let (mut batch, mut records) = (Batch::new(opened.next), Records::new());
    let mut is_snapshot_made = false;
    for round in 0..RECORDS {
        let data = vec![round as u8; 40 + (round as usize * 97) % 3000];
        let number = batch.push(1, 1, &[&data])?;
        records.push((number, data));
        journal.write(&mut batch, 0)?;
        if let Some(sealed) = journal.sealed_up_to()
            && !is_snapshot_made
        {
            let mut snapshot = SnapshotWriter::create(&folder, sealed, 0)?;
            for (number, data) in records.iter().filter(|(number, _)| *number <= sealed) {
                snapshot.push(1, 1, &[&number.to_le_bytes(), data])?;
            }
            snapshot.finish()?;
            is_snapshot_made = true;
        }
    }
    Ok((folder, records))
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let changes = |list: &[[u8; 5]]| list.concat();
    vec![
        Vec::new(),
        changes(&[[2, 0, 0, 16, 1]]),
        changes(&[[3, 2, 0, 32, 0]]),
        changes(&[[1, 5, 0, 0, 0], [4, 3, 8, 0, 255]]),
        changes(&[[4, 4, 0, 0, 7]]),
    ]
}
