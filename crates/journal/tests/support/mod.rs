//! What the tests of a journal share.

#![allow(dead_code)]

use mainspring_journal::simulation::SimFolder;
use mainspring_journal::{Batch, Error, Journal, Opened, Options, Restored, SnapshotWriter};

/// Small segments, so that a few batches fill them.
pub(crate) const OPTIONS: Options = Options { segment_bytes: 64 << 10 };

/// Numbers that look random and are the same for the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// What a journal holds: the state of the snapshot (here simply all records up to it) and the
/// records behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) records: Vec<(u64, Vec<u8>)>,
}

pub(crate) type Open = (Journal<SimFolder>, Opened, Content);

/// Opens a journal whose snapshots are made by [`snapshot`].
pub(crate) fn open(folder: &SimFolder) -> Result<Open, Error> {
    let mut content = Content::default();
    let (journal, opened) = Journal::open(folder.clone(), OPTIONS, &mut |restored| match restored {
        Restored::Snapshot(record) => {
            let (number, data) = record.data.split_at(8);
            content.records.push((u64::from_le_bytes(number.try_into().unwrap()), data.to_vec()));
        }
        Restored::Record(record) => content.records.push((record.number, record.data.to_vec())),
    })?;
    Ok((journal, opened, content))
}

/// A snapshot that holds every record as it is, up to a number.
pub(crate) fn snapshot(folder: &SimFolder, records: &[(u64, Vec<u8>)], up_to: u64) -> Result<(), Error> {
    let mut writer = SnapshotWriter::create(folder, up_to, 0)?;
    for (number, data) in records.iter().filter(|(number, _)| *number <= up_to) {
        writer.push(1, 1, &[&number.to_le_bytes(), data])?;
    }
    writer.finish()
}

/// Appends a batch of records of random sizes; gives what was in it.
pub(crate) fn fill(batch: &mut Batch, random: &mut Random) -> Vec<(u64, Vec<u8>)> {
    let count = 1 + random.below(5);
    (0..count)
        .map(|_| {
            let data: Vec<u8> = (0..random.below(3000)).map(|_| random.next() as u8).collect();
            (batch.push(1, 1, &[&data]).unwrap(), data)
        })
        .collect()
}
