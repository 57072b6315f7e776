//! Reading a journal beside whoever writes it, and checking all of it.

use crate::batch::{Record, SEALED};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::recovery::{read_heads, read_identity};
use crate::scan::{Cut, Place, Scan};
use crate::segment::{Files, Head, Identity, segment_name};
use crate::snapshot;

/// Reads records in order, a batch at a time, and can be asked again when more has been written.
#[derive(Debug)]
pub struct Reader<'a, D: Folder> {
    folder: &'a D,
    identity: Identity,
    from: u64,
    scan: Scan<D::File>,
}

impl<'a, D: Folder> Reader<'a, D> {
    /// A reader whose first record has the number `from`, or the next higher one that there is.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Newer`], or what the system says.
    pub fn open(folder: &'a D, from: u64) -> Result<Reader<'a, D>> {
        let identity = read_identity(folder)?;
        let heads = read_heads(folder, identity, &Files::list(folder)?.segments)?;
        let start = heads.iter().rposition(|head| head.before < from).unwrap_or(0);
        Ok(Reader { folder, identity, from, scan: scan_of(folder, &heads[start])? })
    }

    /// The last record before the oldest one that can still be read.
    ///
    /// # Errors
    /// As those of [`Reader::open`].
    pub fn oldest(folder: &D) -> Result<u64> {
        let identity = read_identity(folder)?;
        Ok(read_heads(folder, identity, &Files::list(folder)?.segments)?[0].before)
    }

    /// Gives the records of the next batch to `visit`, each with the time at which it was written;
    /// false if there is none yet.
    ///
    /// # Errors
    /// [`Error::Damaged`], or what the system says.
    pub fn read(&mut self, visit: &mut dyn FnMut(Record<'_>, u64)) -> Result<bool> {
        let from = self.from;
        let place = self.scan.next(&mut |record, unix_ms| {
            if record.number >= from {
                visit(record, unix_ms);
            }
        })?;
        match place {
            Place::Batch(header) if header.is(SEALED) => self.go_on()?,
            Place::Batch(_) => {}
            Place::Nothing | Place::End => {
                // What was read ahead may have been written since.
                self.scan.look_again();
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn go_on(&mut self) -> Result<()> {
        let next = self.scan.head.number + 1;
        let heads = read_heads(self.folder, self.identity, &[next])?;
        if heads[0].before != self.scan.last {
            let reason = format!("it follows record {}, and not {}", heads[0].before, self.scan.last);
            return Err(Error::Damaged {
                file: segment_name(next),
                offset: 0,
                number: self.scan.last,
                reason,
            });
        }
        self.scan = scan_of(self.folder, &heads[0])?;
        Ok(())
    }
}

fn scan_of<D: Folder>(folder: &D, head: &Head) -> Result<Scan<D::File>> {
    let name = segment_name(head.number);
    let file = folder.open(&name).map_err(Error::io("open", &name))?;
    Scan::new(file, name, *head, head.before)
}

/// A segment that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The last record before it.
    pub before: u64,
    /// Its size.
    pub bytes: u64,
    /// When its first batch was written, in Unix milliseconds; 0 if it holds none with a time.
    pub unix_ms: u64,
}

/// The segments, oldest first. Of each only its head and its first batches are read.
///
/// # Errors
/// [`Error::Damaged`], or what the system says.
pub fn list_segments<D: Folder>(folder: &D) -> Result<Vec<SegmentInfo>> {
    let identity = read_identity(folder)?;
    let heads = read_heads(folder, identity, &Files::list(folder)?.segments)?;
    heads
        .iter()
        .map(|head| {
            let mut scan = scan_of(folder, head)?;
            let mut unix_ms = 0;
            // The batch that marks a start has no time.
            while unix_ms == 0
                && let Place::Batch(header) = scan.next(&mut |_, _| ())?
                && !header.is(SEALED)
            {
                unix_ms = header.unix_ms;
            }
            Ok(SegmentInfo { before: head.before, bytes: head.bytes, unix_ms })
        })
        .collect()
}

/// What [`check`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// How many segments there are.
    pub segments: usize,
    /// How many snapshots.
    pub snapshots: usize,
    /// How many records are in the segments.
    pub records: u64,
    /// The last number before the oldest record.
    pub before: u64,
    /// The last number that is used.
    pub last: u64,
    /// A torn batch that the next start will cut off, or that is being written just now.
    pub torn: Option<Cut>,
}

/// Reads every byte of a journal and changes nothing. `progress` gets bytes done and bytes in all.
///
/// # Errors
/// The first [`Error::Damaged`], or what the system says.
pub fn check<D: Folder>(folder: &D, progress: &mut dyn FnMut(u64, u64)) -> Result<Checked> {
    let identity = read_identity(folder)?;
    let files = Files::list(folder)?;
    let heads = read_heads(folder, identity, &files.segments)?;
    let all: u64 = heads.iter().map(|head| head.bytes).sum();
    let before = heads[0].before;
    let mut checked = Checked {
        segments: heads.len(),
        snapshots: files.snapshots.len(),
        records: 0,
        before,
        last: before,
        torn: None,
    };
    let mut done = 0;
    for (index, head) in heads.iter().enumerate() {
        let mut scan = scan_of(folder, head)?;
        if head.before != checked.last {
            return Err(
                scan.damaged(0, format!("it follows record {}, and not {}", head.before, checked.last))
            );
        }
        let flags = scan.run(&mut |_, _| checked.records += 1)?;
        checked.last = scan.last;
        let is_last = index + 1 == heads.len();
        match (flags & SEALED != 0, is_last) {
            (true, true) => {
                return Err(scan.damaged(scan.offset, "it is sealed, and its successor is missing"));
            }
            (false, _) => checked.torn = scan.tail()?.or(checked.torn),
            (true, false) => {}
        }
        done += head.bytes;
        progress(done, all);
    }
    for number in &files.snapshots {
        snapshot::read(folder, identity, *number, &mut |_| ())?;
    }
    Ok(checked)
}
