//! Reading a journal beside whoever writes it, and checking all of it.

use crate::batch::{Record, SEALED};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::recovery::{read_heads, read_identity};
use crate::scan::{CHUNK, Cut, Place, Scan};
use crate::segment::{Files, Head, Identity, segment_name};
use crate::snapshot;

/// Reads records in order, a batch at a time, and can be asked again when more has been written.
#[derive(Debug)]
pub struct Reader<'a, D: Folder> {
    folder: &'a D,
    identity: Identity,
    from: u64,
    scan: Scan<D::File>,
    /// The batch at the end that is torn, or being written, when it was last looked at.
    torn: Option<Cut>,
}

impl<'a, D: Folder> Reader<'a, D> {
    /// A reader whose first record has the number `from`, or the next higher one that there is.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Newer`], or what the system says.
    pub fn open(folder: &'a D, from: u64) -> Result<Reader<'a, D>> {
        let identity = read_identity(folder)?;
        Files::look(folder, |files| {
            let heads = read_heads(folder, identity, &files.segments)?;
            let start = heads.iter().rposition(|head| head.before < from).unwrap_or(0);
            Reader::begin(folder, identity, from, &heads[start])
        })
    }

    fn begin(folder: &'a D, identity: Identity, from: u64, head: &Head) -> Result<Reader<'a, D>> {
        Ok(Reader { folder, identity, from, scan: scan_of(folder, head)?, torn: None })
    }

    /// The last record before the oldest one that can still be read.
    ///
    /// # Errors
    /// As those of [`Reader::open`].
    pub fn oldest(folder: &D) -> Result<u64> {
        let identity = read_identity(folder)?;
        Files::look(folder, |files| Ok(read_heads(folder, identity, &files.segments)?[0].before))
    }

    /// The last number that was read; what a start leapt over counts as read.
    pub fn reached(&self) -> u64 {
        self.scan.last
    }

    /// Gives the records of the next batch to `visit`, each with the time at which it was written;
    /// false if there is none yet. That takes a look at all that stands behind it;
    /// [`Reader::poll`] is for whoever asks often.
    ///
    /// # Errors
    /// [`Error::Damaged`], or what the system says: also if the journal's owner has deleted the
    /// next segment meanwhile.
    pub fn read(&mut self, visit: &mut dyn FnMut(Record<'_>, u64)) -> Result<bool> {
        self.read_or_look(u64::MAX, visit)
    }

    /// As [`Reader::read`], for whoever asks again several times a second. If there is no batch
    /// yet, 1 MiB behind its place is looked at, so damage of a larger one may not be found until
    /// the segment has a successor.
    ///
    /// # Errors
    /// As those of [`Reader::read`].
    pub fn poll(&mut self, visit: &mut dyn FnMut(Record<'_>, u64)) -> Result<bool> {
        self.read_or_look(CHUNK as u64, visit)
    }

    fn read_or_look(&mut self, bytes: u64, visit: &mut dyn FnMut(Record<'_>, u64)) -> Result<bool> {
        if self.take(visit)? {
            return Ok(true);
        }
        let looked = self.look_behind(bytes);
        // What was read ahead may have been written since.
        self.scan.look_again();
        match looked {
            Ok(()) => Ok(false),
            // Whoever writes may have gone on before that look. Then the batch is here by now: it
            // is durable before anything behind it is written.
            Err(damage) => match self.take(visit)? {
                true => Ok(true),
                false => Err(damage),
            },
        }
    }

    /// Gives the batch at the place to `visit`, if one stands there.
    fn take(&mut self, visit: &mut dyn FnMut(Record<'_>, u64)) -> Result<bool> {
        let from = self.from;
        let place = self.scan.next(&mut |record, unix_ms| {
            if record.number >= from {
                visit(record, unix_ms);
            }
        })?;
        let Place::Batch(header) = place else { return Ok(false) };
        if header.is(SEALED) {
            self.go_on()?;
        }
        Ok(true)
    }

    /// At the place where no batch stands: looks for what proves that there had been one.
    fn look_behind(&mut self, bytes: u64) -> Result<()> {
        self.torn = self.scan.tail_within(bytes)?;
        let here = self.scan.head.number;
        let newer = Files::list(self.folder)?.segments.into_iter().filter(|number| *number > here);
        let was_sealed = match newer.collect::<Vec<u64>>()[..] {
            [] => false,
            // The seal is written when the successor is there, and before anything is written to
            // that.
            [next] if next == here + 1 => !self.successor()?.is_bare_within(bytes)?,
            _ => true,
        };
        match was_sealed {
            true => Err(self.scan.unsealed(self.scan.offset)),
            false => Ok(()),
        }
    }

    fn go_on(&mut self) -> Result<()> {
        let newest = Files::list(self.folder)?.segments.last().copied();
        if newest.is_none_or(|newest| newest <= self.scan.head.number) {
            return Err(self.scan.damaged(self.scan.offset, "it is sealed, and its successor is missing"));
        }
        self.scan = self.successor()?;
        Ok(())
    }

    /// The next segment, which must follow on what was read of this one.
    fn successor(&self) -> Result<Scan<D::File>> {
        let here = &self.scan;
        let heads = read_heads(self.folder, self.identity, &[here.head.number + 1])?;
        if heads[0].before != here.last {
            let reason =
                format!("it ends with record {}, and its successor follows {}", here.last, heads[0].before);
            return Err(here.damaged(here.offset, reason));
        }
        scan_of(self.folder, &heads[0])
    }
}

/// A segment to be read from its beginning.
pub(crate) fn scan_of<D: Folder>(folder: &D, head: &Head) -> Result<Scan<D::File>> {
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
    Files::look(folder, |files| {
        read_heads(folder, identity, &files.segments)?.iter().map(|head| info(folder, head)).collect()
    })
}

fn info(folder: &impl Folder, head: &Head) -> Result<SegmentInfo> {
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
    let checked = Files::look(folder, |files| check_segments(folder, identity, files, progress))?;
    Files::look(folder, |files| {
        files.snapshots.iter().try_for_each(|number| snapshot::whole(folder, identity, *number).map(drop))
    })?;
    Ok(checked)
}

fn check_segments<D: Folder>(
    folder: &D,
    identity: Identity,
    files: &Files,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Checked> {
    let heads = read_heads(folder, identity, &files.segments)?;
    let all: u64 = heads.iter().map(|head| head.bytes).sum();
    let (before, newest) = (heads[0].before, files.snapshots.last().copied().unwrap_or(0));
    if newest < before {
        return Err(snapshot::missing(before));
    }
    let mut reader = Reader::begin(folder, identity, 1, &heads[0])?;
    let mut records = 0;
    while reader.read(&mut |_, _| records += 1)? {
        let full = heads.iter().take_while(|head| head.number < reader.scan.head.number);
        let done = full.map(|head| head.bytes).sum::<u64>() + reader.scan.offset;
        progress(done.min(all), all);
    }
    progress(all, all);
    let Reader { scan, torn, .. } = reader;
    if scan.last < newest {
        return Err(scan.behind_snapshot(newest));
    }
    let (segments, snapshots) = (heads.len(), files.snapshots.len());
    Ok(Checked { segments, snapshots, records, before, last: scan.last, torn })
}
