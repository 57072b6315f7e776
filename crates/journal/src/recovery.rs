//! Opening a journal: making one, or reading what there is and judging it.

use crate::batch::{Batch, CLOSED, OPENED, Record, SEALED};
use crate::error::{Error, Result};
use crate::folder::{File, Folder};
use crate::journal::{Journal, NextSegment, Opened, Options, Restored, Sealed};
use crate::scan::{Cut, Scan};
use crate::segment::{
    FileKind, Files, Head, IDENTITY_FILE, Identity, NEXT_SEGMENT, PAGE, segment_name, unfinished,
};
use crate::snapshot;

/// How far numbers leap when a journal was not closed: more than any batch can hold, so that none
/// is used twice.
const LEAP: u64 = 1 << 24;

/// Opens what is in the folder, or makes a journal in an empty one.
pub(crate) fn open<D: Folder>(
    folder: D,
    options: Options,
    visit: &mut dyn FnMut(Restored<'_>) -> std::result::Result<(), String>,
) -> Result<(Journal<D>, Opened)> {
    let mut files = Files::list(&folder)?;
    let created = is_unmade(&folder, &files)?;
    if created {
        make(&folder, &files, options)?;
        files = Files::list(&folder)?;
    }
    let identity = read_identity(&folder)?;
    let heads = read_heads(&folder, identity, &files.segments)?;
    let chosen = snapshot::choose(&folder, identity, &files.snapshots, heads[0].before)?;
    let mut refused = None;
    let mut give = |number: u64, restored: Restored<'_>| {
        if refused.is_none() {
            refused = visit(restored).err().map(|reason| Error::Refused { number, reason });
        }
    };
    let snapshot_number = chosen.snapshot.as_ref().map(|snapshot| snapshot.number);
    if let Some(snapshot) = chosen.snapshot {
        snapshot.read(&mut |record| give(record.number, Restored::Snapshot(record)))?;
    }
    let behind = snapshot_number.unwrap_or(0);
    let mut row = Row::new(&folder, &heads, behind)?;
    row.read(&mut |record, _| {
        if record.number > behind {
            give(record.number, Restored::Record(record));
        }
    })?;
    // Nothing has been changed so far.
    if let Some(refused) = refused {
        return Err(refused);
    }
    let tail = row.judge(behind)?;
    for name in &files.unfinished {
        folder.remove(name).map_err(Error::io("delete", name))?;
    }
    let mut journal = Journal::assemble(folder, options, tail.sealed, tail.head, tail.file);
    (journal.offset, journal.durable) = (tail.offset, tail.last);
    let closed = tail.flags & CLOSED != 0;
    // The leap is durable before a number behind it is used; and this batch proves the ones before
    // it.
    let mut opened = Batch::new(if closed || created { tail.last + 1 } else { tail.last + 1 + LEAP });
    journal.write_with(&mut opened, OPENED, 0)?;
    let opened = Opened {
        next: opened.next(),
        snapshot: snapshot_number,
        passed_over: chosen.passed_over,
        cut: tail.cut,
        created,
        closed,
    };
    Ok((journal, opened))
}

pub(crate) fn read_identity(folder: &impl Folder) -> Result<Identity> {
    let file = folder.open(IDENTITY_FILE).map_err(Error::io("open", IDENTITY_FILE))?;
    Ok(Head::read(&file, IDENTITY_FILE, FileKind::Identity)?.identity)
}

/// The heads of all segments: there is at least one, they are of this journal, whole, and follow
/// each other.
pub(crate) fn read_heads(folder: &impl Folder, identity: Identity, segments: &[u64]) -> Result<Vec<Head>> {
    let mut heads: Vec<Head> = Vec::with_capacity(segments.len());
    for number in segments {
        let name = segment_name(*number);
        let before = heads.last().map_or(0, |head| head.before);
        let damaged =
            |reason: String| Error::Damaged { file: name.clone(), offset: 0, number: before, reason };
        if let Some(last) = heads.last()
            && last.number + 1 != *number
        {
            return Err(damaged(format!("{} is missing before it", segment_name(number - 1))));
        }
        let file = folder.open(&name).map_err(Error::io("open", &name))?;
        let head = Head::read(&file, &name, FileKind::Segment)?;
        let length = file.len().map_err(Error::io("look at", &name))?;
        if head.identity != identity || head.number != *number || head.before < before {
            return Err(damaged("it does not belong here: it is of another journal or place".into()));
        }
        if length != head.bytes {
            return Err(damaged(format!("it has {length} bytes and should have {}", head.bytes)));
        }
        heads.push(head);
    }
    if heads.is_empty() {
        let reason = "there is no segment".into();
        return Err(Error::Damaged { file: segment_name(1), offset: 0, number: 0, reason });
    }
    Ok(heads)
}

/// The row of segments, read from the one where the snapshot ends.
struct Row<'a, D: Folder> {
    folder: &'a D,
    heads: &'a [Head],
    sealed: Vec<Sealed>,
    /// The one before the last, if a crash came before it was sealed.
    unsealed: Option<Scan<D::File>>,
    last: Scan<D::File>,
    flags: u32,
}

/// Where a journal goes on.
struct Tail<F> {
    sealed: Vec<Sealed>,
    head: Head,
    file: F,
    offset: u64,
    last: u64,
    flags: u32,
    cut: Option<Cut>,
}

impl<'a, D: Folder> Row<'a, D> {
    fn new(folder: &'a D, heads: &'a [Head], behind: u64) -> Result<Row<'a, D>> {
        let start = heads.iter().rposition(|head| head.before <= behind).unwrap_or(0);
        let skipped = heads[..=start].windows(2).map(|pair| Sealed::new(&pair[0], pair[1].before));
        let sealed = skipped.collect();
        let last = scan_of(folder, &heads[start])?;
        Ok(Row { folder, heads: &heads[start + 1..], sealed, unsealed: None, last, flags: 0 })
    }

    /// Reads every batch, up to the place where no further one stands.
    fn read(&mut self, visit: &mut dyn FnMut(Record<'_>, u64)) -> Result<()> {
        self.flags = self.last.run(visit)?;
        for (index, head) in self.heads.iter().enumerate() {
            let here = &self.last;
            if here.last != head.before {
                let reason =
                    format!("it ends with record {}, and its successor follows {}", here.last, head.before);
                return Err(here.damaged(here.offset, reason));
            }
            let next = scan_of(self.folder, head)?;
            let finished = std::mem::replace(&mut self.last, next);
            let sealed = self.flags & SEALED != 0;
            self.sealed.push(Sealed::new(&finished.head, finished.last));
            self.flags = self.last.run(visit)?;
            if !sealed {
                let bare = index + 1 == self.heads.len() && self.last.offset == PAGE as u64;
                if !bare {
                    return Err(finished.unsealed(finished.offset));
                }
                self.unsealed = Some(finished);
            }
        }
        Ok(())
    }

    /// Tells a torn end from damage, and mends the former.
    fn judge(mut self, behind: u64) -> Result<Tail<D::File>> {
        let last = self.last.last;
        if self.flags & SEALED != 0 {
            return Err(self.last.damaged(self.last.offset, "it is sealed, and its successor is missing"));
        }
        if last < behind {
            return Err(self.last.behind_snapshot(behind));
        }
        let cut = self.last.tail()?;
        let torn_seal = self.unsealed.as_mut().map(Scan::tail).transpose()?;
        if let Some(cut) = &cut {
            self.last.erase(cut)?;
        }
        if let (Some(unsealed), Some(torn)) = (&mut self.unsealed, torn_seal) {
            if let Some(torn) = torn {
                unsealed.erase(&torn)?;
            }
            unsealed.write_seal()?;
        }
        let (head, offset) = (self.last.head, self.last.offset);
        let file = self.last.into_file();
        Ok(Tail { sealed: self.sealed, head, file, offset, last, flags: self.flags, cut })
    }
}

fn scan_of<D: Folder>(folder: &D, head: &Head) -> Result<Scan<D::File>> {
    let name = segment_name(head.number);
    let file = folder.open(&name).map_err(Error::io("open", &name))?;
    file.settle().map_err(Error::io("flush", &name))?;
    Scan::new(file, name, *head, head.before)
}

impl<F: File> Scan<F> {
    /// Writes zeros over a torn batch. If that is interrupted, the rest of it is cut off the next
    /// time.
    fn erase(&mut self, cut: &Cut) -> Result<()> {
        let zeros = vec![0; cut.bytes as usize];
        self.file().write_at(&zeros, cut.offset).map_err(Error::io("write to", &self.name))?;
        self.file().sync().map_err(Error::io("flush", &self.name))
    }

    /// Seals a segment whose successor is there already.
    fn write_seal(&mut self) -> Result<()> {
        let mut seal = Batch::new(self.last + 1);
        let bytes = seal.seal(SEALED, self.last, 0, self.head.seed(self.offset));
        self.file().write_at(bytes, self.offset).map_err(Error::io("write to", &self.name))?;
        self.file().sync().map_err(Error::io("flush", &self.name))
    }
}

/// Whether there is no journal yet, or one whose making was interrupted: the identity is written
/// last.
fn is_unmade(folder: &impl Folder, files: &Files) -> Result<bool> {
    if files.has_identity {
        return Ok(false);
    }
    let bare = match files.segments[..] {
        [] => files.snapshots.is_empty(),
        [1] => files.snapshots.is_empty() && is_bare(folder, &segment_name(1))?,
        _ => false,
    };
    if bare {
        return Ok(true);
    }
    let reason = "it is missing, although there are segments or snapshots".into();
    Err(Error::Damaged { file: IDENTITY_FILE.into(), offset: 0, number: 0, reason })
}

/// Whether a segment holds nothing behind its head.
fn is_bare(folder: &impl Folder, name: &str) -> Result<bool> {
    let file = folder.open(name).map_err(Error::io("open", name))?;
    let head = Head::read(&file, name, FileKind::Segment)?;
    let mut scan = Scan::new(file, name.into(), head, head.before)?;
    scan.run(&mut |_, _| ())?;
    Ok(scan.offset == PAGE as u64 && scan.tail()?.is_none())
}

/// What makes a journal's identity its own.
#[cfg(target_os = "linux")]
fn random_bytes() -> std::io::Result<[u8; 16]> {
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(random)
}

/// The same where there is no such call.
#[cfg(not(target_os = "linux"))]
fn random_bytes() -> std::io::Result<[u8; 16]> {
    use std::io::Read;
    let mut random = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random)
}

/// Makes a journal: its first segment, then its identity.
fn make<D: Folder>(folder: &D, files: &Files, options: Options) -> Result<()> {
    for name in &files.unfinished {
        folder.remove(name).map_err(Error::io("delete", name))?;
    }
    let random = random_bytes().map_err(Error::io("draw", "random bytes"))?;
    let bytes = options.segment_bytes;
    let head = Head { kind: FileKind::Segment, identity: Identity(random), number: 1, bytes, before: 0 };
    let file = folder.create(NEXT_SEGMENT).map_err(Error::io("create", NEXT_SEGMENT))?;
    let mut next = NextSegment::new(file);
    next.fill(bytes, bytes)?;
    next.finish(folder, &head)?;
    let head = Head { kind: FileKind::Identity, number: 0, bytes: PAGE as u64, ..head };
    let unfinished = unfinished(IDENTITY_FILE);
    let file = folder.create(&unfinished).map_err(Error::io("create", &unfinished))?;
    file.write_at(&head.page(), 0).map_err(Error::io("write to", &unfinished))?;
    file.sync().map_err(Error::io("flush", &unfinished))?;
    folder.rename(&unfinished, IDENTITY_FILE).map_err(Error::io("name", IDENTITY_FILE))?;
    folder.sync().map_err(Error::io("flush", "the folder"))
}
