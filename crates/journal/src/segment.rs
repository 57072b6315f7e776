//! What files look like: names, the head page that every file begins with, and the seed of its
//! checksums.
//!
//! | file | holds |
//! | --- | --- |
//! | `identity` | the journal's identity; written last when a journal is made |
//! | `NUMBER.segment` | batches; always of full size, zeros behind the last batch |
//! | `NUMBER.snapshot` | what stands for all records up to that number |
//! | `next.segment.tmp` | the next segment, not finished |
//! | `identity.tmp`, `NUMBER.snapshot.tmp` | not finished, as well; all three go at the next start |
//!
//! Whatever else is in the folder is left alone.

use crate::error::{Error, Result};
use crate::folder::{File, Folder};

/// The unit of writing: a page that holds durable bytes is never written again.
pub(crate) const PAGE: usize = 4096;
/// The format that is written, and the newest one that is read.
pub(crate) const FORMAT: u32 = 1;
/// The name of the file with the journal's identity.
pub(crate) const IDENTITY_FILE: &str = "identity";
/// The segment that is being made for later.
pub(crate) const NEXT_SEGMENT: &str = "next.segment.tmp";
/// The ending of names of files that are not finished.
const UNFINISHED: &str = ".tmp";

const MAGIC: [u8; 8] = *b"msjournl";
/// Where the checksum of a head page is.
const HEAD_CHECKSUM: usize = PAGE - 4;

/// Which journal a file belongs to: random, made once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(pub(crate) [u8; 16]);

/// What kind of file a head page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Identity = 1,
    Segment = 2,
    Snapshot = 3,
}

/// The head page of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: FileKind,
    pub(crate) identity: Identity,
    /// Of a segment: its place in the row of segments. Of a snapshot: the last record it stands
    /// for.
    pub(crate) number: u64,
    /// The size of the whole file, of a segment.
    pub(crate) bytes: u64,
    /// Of a segment: the last record before it.
    pub(crate) before: u64,
}

impl Head {
    /// The page as it stands on disk.
    pub(crate) fn page(&self) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        page[..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        page[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        page[16..32].copy_from_slice(&self.identity.0);
        page[32..40].copy_from_slice(&self.number.to_le_bytes());
        page[40..48].copy_from_slice(&self.bytes.to_le_bytes());
        page[48..56].copy_from_slice(&self.before.to_le_bytes());
        let checksum = crc32c::crc32c(&page[..HEAD_CHECKSUM]);
        page[HEAD_CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        page
    }

    /// Reads the head page of a file that must be of this kind.
    pub(crate) fn read(file: &impl File, name: &str, kind: FileKind) -> Result<Head> {
        let mut page = [0; PAGE];
        let damaged =
            |reason: &str| Error::Damaged { file: name.into(), offset: 0, number: 0, reason: reason.into() };
        file.read_at(&mut page, 0).map_err(|error| damaged(&format!("its head cannot be read: {error}")))?;
        if page[..8] != MAGIC || u32_at(&page, HEAD_CHECKSUM) != crc32c::crc32c(&page[..HEAD_CHECKSUM]) {
            return Err(damaged("its head is not that of a file of a journal"));
        }
        let found = u32_at(&page, 8);
        if found > FORMAT {
            return Err(Error::Newer { file: name.into(), found, known: FORMAT });
        }
        if u32_at(&page, 12) != kind as u32 {
            return Err(damaged("its head belongs to another kind of file"));
        }
        let mut identity = [0; 16];
        identity.copy_from_slice(&page[16..32]);
        Ok(Head {
            kind,
            identity: Identity(identity),
            number: u64_at(&page, 32),
            bytes: u64_at(&page, 40),
            before: u64_at(&page, 48),
        })
    }

    /// What checksums of batches in this file start from, at an offset: a batch that stands
    /// elsewhere never counts.
    pub(crate) fn seed(&self, offset: u64) -> u32 {
        let mut place = [0; 40];
        place[..16].copy_from_slice(&self.identity.0);
        place[16..24].copy_from_slice(&self.number.to_le_bytes());
        place[24..32].copy_from_slice(&offset.to_le_bytes());
        place[32] = self.kind as u8;
        crc32c::crc32c(&place)
    }
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from(u32_at(bytes, offset)) | u64::from(u32_at(bytes, offset + 4)) << 32
}

/// A length, rounded up to whole pages.
pub(crate) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE)
}

pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:016x}.segment")
}

pub(crate) fn snapshot_name(number: u64) -> String {
    format!("{number:016x}.snapshot")
}

/// The finished files of a folder, by number, lowest first.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) segments: Vec<u64>,
    pub(crate) snapshots: Vec<u64>,
    pub(crate) unfinished: Vec<String>,
    pub(crate) has_identity: bool,
}

impl Files {
    pub(crate) fn list(folder: &impl Folder) -> Result<Files> {
        let mut files = Files::default();
        for name in folder.list().map_err(Error::io("list", "the folder"))? {
            if name == IDENTITY_FILE {
                files.has_identity = true;
            } else if is_unfinished(&name) {
                files.unfinished.push(name);
            } else if let Some(number) = number_of(&name, ".segment") {
                files.segments.push(number);
            } else if let Some(number) = number_of(&name, ".snapshot") {
                files.snapshots.push(number);
            }
        }
        files.segments.sort_unstable();
        files.snapshots.sort_unstable();
        Ok(files)
    }

    /// Gives `work` the files that there are. If it fails and some of them are gone by then, it is
    /// done again: the journal's owner deletes what it does not need any more.
    pub(crate) fn look<T>(folder: &impl Folder, mut work: impl FnMut(&Files) -> Result<T>) -> Result<T> {
        loop {
            let files = Files::list(folder)?;
            let result = work(&files);
            if result.is_ok() || Files::list(folder)?.has_all_of(&files) {
                return result;
            }
        }
    }

    fn has_all_of(&self, other: &Files) -> bool {
        other.segments.iter().all(|number| self.segments.contains(number))
            && other.snapshots.iter().all(|number| self.snapshots.contains(number))
    }
}

/// Whether a file of this name is one that a crash kept from being finished. Other people's files
/// may end in the same way.
fn is_unfinished(name: &str) -> bool {
    let is_of_whole = |whole: &str| whole == IDENTITY_FILE || number_of(whole, ".snapshot").is_some();
    name == NEXT_SEGMENT || name.strip_suffix(UNFINISHED).is_some_and(is_of_whole)
}

/// The name of a file while it is not finished.
pub(crate) fn unfinished(name: &str) -> String {
    format!("{name}{UNFINISHED}")
}

/// The number in a file's name, if it is written as we write it.
fn number_of(name: &str, ending: &str) -> Option<u64> {
    let digits = name.strip_suffix(ending)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (format!("{number:016x}") == digits).then_some(number)
}
