//! Batches: what one write and one flush carry, and how they stand on disk.
//!
//! A batch is a header of 48 bytes, records, and zeros up to the next page. A record is a header of
//! 12 bytes and its data.
//!
//! | batch | bytes | | record | bytes | |
//! | --- | --- | --- | --- | --- | --- |
//! | 0 | 4 | magic | 0 | 4 | length of the data |
//! | 4 | 4 | flags | 4 | 1 | kind |
//! | 8 | 4 | length of all records | 5 | 1 | version |
//! | 12 | 4 | how many records | 6 | 2 | zero |
//! | 16 | 8 | number of the first one | 8 | 4 | checksum of the above and the data |
//! | 24 | 8 | the number that was durable when it was written | | | |
//! | 32 | 8 | when, in Unix milliseconds | | | |
//! | 40 | 4 | checksum of all else, zeros at the end included | | | |
//! | 44 | 4 | zero | | | |

use crate::error::{Error, Result};
use crate::segment::{PAGE, padded, u32_at, u64_at};

/// The most data that one record may have.
pub const RECORD_BYTES_MAX: usize = 16 << 20;

const MAGIC: u32 = 0x3142_534d;
pub(crate) const BATCH_HEADER: usize = 48;
pub(crate) const RECORD_HEADER: usize = 12;
const CHECKSUM: usize = 40;
/// What a batch keeps of its memory for the next one.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// A journal was opened here; its numbers may leap.
pub(crate) const OPENED: u32 = 1;
/// The segment is full, and its successor is there.
pub(crate) const SEALED: u32 = 2;
/// The journal was closed, or the snapshot is complete.
pub(crate) const CLOSED: u32 = 4;

/// One record, as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number; in a snapshot, its place in it, from 1.
    pub number: u64,
    /// What kind of record it is, to whoever wrote it.
    pub kind: u8,
    /// In which version of that kind it was written.
    pub version: u8,
    /// What it holds.
    pub data: &'a [u8],
}

/// Records that are to be written and flushed together.
#[derive(Debug)]
pub struct Batch {
    /// Room for the header, then records.
    bytes: Vec<u8>,
    first: u64,
    count: u32,
}

impl Batch {
    /// An empty batch whose first record will have this number.
    pub fn new(first: u64) -> Batch {
        Batch { bytes: vec![0; BATCH_HEADER], first, count: 0 }
    }

    /// Adds a record whose data are these parts, one behind the other, and gives its number.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond [`RECORD_BYTES_MAX`]; the batch is as it was then.
    pub fn push(&mut self, kind: u8, version: u8, parts: &[&[u8]]) -> Result<u64> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes > RECORD_BYTES_MAX {
            return Err(Error::TooLarge { bytes, most: RECORD_BYTES_MAX });
        }
        // The checksum follows on the thread that writes.
        let [a, b, c, d] = (bytes as u32).to_le_bytes();
        self.bytes.extend_from_slice(&[a, b, c, d, kind, version, 0, 0, 0, 0, 0, 0]);
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.count += 1;
        Ok(self.next() - 1)
    }

    /// Adds records that stand one behind the other as they do in a batch, but for their checksums,
    /// which are zero.
    ///
    /// # Errors
    /// [`Error::NoRecords`] if the bytes are something else; the batch is as it was then.
    pub fn push_records(&mut self, records: &[u8]) -> Result<()> {
        let (mut rest, mut count) = (records, 0);
        while !rest.is_empty() {
            rest = behind_unsealed(rest).ok_or(Error::NoRecords)?;
            count += 1;
        }
        self.bytes.extend_from_slice(records);
        self.count += count;
        Ok(())
    }

    /// The number that the next record gets.
    pub fn next(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// How many records there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many bytes its records take, without what is added on disk.
    pub fn bytes(&self) -> usize {
        self.bytes.len() - BATCH_HEADER
    }

    /// Gives these records away and goes on behind them.
    pub fn take(&mut self) -> Batch {
        let next = Batch::new(self.next());
        std::mem::replace(self, next)
    }

    /// Moves the records of another batch, which follow on these, to the end of this one. The other
    /// goes on behind them.
    ///
    /// An empty batch takes the other's place and memory, so that nothing is copied.
    ///
    /// # Panics
    /// If the other batch's numbers do not follow on those here.
    pub fn append(&mut self, other: &mut Batch) {
        if self.is_empty() {
            self.first = other.first;
            std::mem::swap(&mut self.bytes, &mut other.bytes);
        } else {
            assert_eq!(self.next(), other.first, "numbers follow each other");
            self.bytes.extend_from_slice(&other.bytes[BATCH_HEADER..]);
        }
        self.count += other.count;
        other.clear();
    }

    /// Forgets the records and goes on behind them, with the memory that they had.
    pub(crate) fn clear(&mut self) {
        self.first = self.next();
        self.count = 0;
        self.bytes.truncate(BATCH_HEADER);
        self.bytes.shrink_to(SPARE_BYTES_MAX);
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// How much of a file it takes.
    pub(crate) fn padded_bytes(&self) -> usize {
        padded(self.bytes.len())
    }

    /// Gives every record its checksum.
    fn seal_records(&mut self) {
        let mut rest = &mut self.bytes[BATCH_HEADER..];
        while !rest.is_empty() {
            let length = RECORD_HEADER + u32_at(rest, 0) as usize;
            let (record, behind) = std::mem::take(&mut rest).split_at_mut(length);
            let checksum = record_checksum(record);
            record[8..RECORD_HEADER].copy_from_slice(&checksum.to_le_bytes());
            rest = behind;
        }
    }

    /// The bytes for the disk. `seed` is that of their place.
    pub(crate) fn seal(&mut self, flags: u32, durable: u64, unix_ms: u64, seed: u32) -> &[u8] {
        self.seal_records();
        let records = (self.bytes.len() - BATCH_HEADER) as u32;
        let fields = [MAGIC, flags, records, self.count];
        for (field, place) in fields.iter().zip(self.bytes.chunks_exact_mut(4)) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        self.bytes[16..24].copy_from_slice(&self.first.to_le_bytes());
        self.bytes[24..32].copy_from_slice(&durable.to_le_bytes());
        self.bytes[32..40].copy_from_slice(&unix_ms.to_le_bytes());
        self.bytes.resize(self.padded_bytes(), 0);
        let checksum = batch_checksum(&self.bytes, seed);
        self.bytes[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
        &self.bytes
    }
}

/// The header of a batch on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub(crate) flags: u32,
    /// The length of its records.
    pub(crate) records: usize,
    pub(crate) count: u32,
    pub(crate) first: u64,
    pub(crate) durable: u64,
    pub(crate) unix_ms: u64,
}

impl BatchHeader {
    /// Reads what looks like a header; the checksum is still to be checked.
    pub(crate) fn read(bytes: &[u8]) -> Option<BatchHeader> {
        let header = BatchHeader {
            flags: u32_at(bytes, 4),
            records: u32_at(bytes, 8) as usize,
            count: u32_at(bytes, 12),
            first: u64_at(bytes, 16),
            durable: u64_at(bytes, 24),
            unix_ms: u64_at(bytes, 32),
        };
        let plausible = header.first > 0
            && header.first.checked_add(u64::from(header.count)).is_some()
            && header.count as usize * RECORD_HEADER <= header.records;
        (u32_at(bytes, 0) == MAGIC && plausible).then_some(header)
    }

    /// The last number that is used up behind it.
    pub(crate) fn last(&self) -> u64 {
        self.first + u64::from(self.count) - 1
    }

    pub(crate) fn padded_bytes(&self) -> u64 {
        padded(BATCH_HEADER + self.records) as u64
    }

    pub(crate) fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// Whether these bytes, up to the end of their last page, are a batch that belongs where they are.
pub(crate) fn is_intact(bytes: &[u8], seed: u32) -> bool {
    bytes.len().is_multiple_of(PAGE) && u32_at(bytes, CHECKSUM) == batch_checksum(bytes, seed)
}

fn batch_checksum(bytes: &[u8], seed: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &bytes[..CHECKSUM]), &bytes[CHECKSUM + 4..])
}

/// The checksum of a record, whose own place counts as nothing.
fn record_checksum(record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record[..8]), &record[RECORD_HEADER..])
}

/// The records of an intact batch, in order. `None` at a place that holds no record. Their own
/// checksums, for those who read no batches, are part of what the batch's proves.
pub(crate) fn records<'a>(
    header: &BatchHeader,
    bytes: &'a [u8],
) -> impl Iterator<Item = Option<Record<'a>>> + use<'a> {
    let mut rest = &bytes[BATCH_HEADER..BATCH_HEADER + header.records];
    let mut number = header.first;
    let end = header.first + u64::from(header.count);
    std::iter::from_fn(move || {
        if number == end {
            // Nothing may be left over.
            return (!std::mem::take(&mut rest).is_empty()).then_some(None);
        }
        let Some(record) = first_record(rest) else {
            number = end;
            rest = &[];
            return Some(None);
        };
        rest = &rest[RECORD_HEADER + record.data.len()..];
        number += 1;
        Some(Some(Record { number: number - 1, ..record }))
    })
}

/// What stands behind the first record, which has no checksum yet.
#[inline]
fn behind_unsealed(records: &[u8]) -> Option<&[u8]> {
    let (header, rest) = records.split_first_chunk::<RECORD_HEADER>()?;
    let [a, b, c, d, _, _, zeros @ ..] = *header;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if zeros != [0; 6] || length > RECORD_BYTES_MAX { None } else { rest.get(length..) }
}

fn first_record(bytes: &[u8]) -> Option<Record<'_>> {
    let header = bytes.get(..RECORD_HEADER)?;
    let length = u32_at(header, 0) as usize;
    let whole = bytes.get(..RECORD_HEADER.checked_add(length)?)?;
    Some(Record { number: 0, kind: header[4], version: header[5], data: &whole[RECORD_HEADER..] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_stand_one_behind_the_other_are_added_as_if_one_by_one() {
        let (mut whole, mut by_one) = (Batch::new(7), Batch::new(7));
        whole.push(1, 1, &[b"first"]).unwrap();
        by_one.push(1, 1, &[b"first"]).unwrap();
        let mut bytes = Vec::new();
        for data in [&b"second"[..], b"", b"fourth"] {
            by_one.push(2, 3, &[data]).unwrap();
            bytes.extend_from_slice(&(data.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&[2, 3, 0, 0, 0, 0, 0, 0]);
            bytes.extend_from_slice(data);
        }
        whole.push_records(&bytes).unwrap();
        assert_eq!((whole.next(), &whole.bytes), (by_one.next(), &by_one.bytes));
        let before = whole.bytes.len();
        for wrong in [&bytes[..bytes.len() - 1], &bytes[1..], &bytes[..RECORD_HEADER - 1], &[0xff; 40]] {
            assert!(matches!(whole.push_records(wrong), Err(Error::NoRecords)));
            assert_eq!((whole.next(), whole.bytes.len()), (by_one.next(), before));
        }
    }
}
