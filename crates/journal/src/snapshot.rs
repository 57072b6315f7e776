//! Snapshots: a file that stands for all records up to a number. It is there as a whole or not at
//! all.

use crate::batch::{Batch, CLOSED, Record};
use crate::error::{Error, Result};
use crate::folder::{File, Folder};
use crate::recovery::{read_heads, read_identity};
use crate::scan::Scan;
use crate::segment::{FileKind, Files, Head, Identity, PAGE, snapshot_name, unfinished};

/// How much of a snapshot is written at a time.
const BLOCK: usize = 1 << 20;

/// Writes a snapshot, off the thread that writes the journal.
#[derive(Debug)]
pub struct SnapshotWriter<'a, D: Folder> {
    folder: &'a D,
    name: String,
    file: D::File,
    head: Head,
    block: Batch,
    offset: u64,
    unix_ms: u64,
    finished: bool,
}

impl<'a, D: Folder> SnapshotWriter<'a, D> {
    /// Begins a snapshot that will stand for all records up to `number`. What is left of an earlier
    /// try is replaced.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(folder: &'a D, number: u64, unix_ms: u64) -> Result<SnapshotWriter<'a, D>> {
        let identity = read_identity(folder)?;
        let name = snapshot_name(number);
        let unfinished = unfinished(&name);
        match folder.remove(&unfinished) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("delete", &unfinished)(error));
            }
            _ => {}
        }
        let file = folder.create(&unfinished).map_err(Error::io("create", &unfinished))?;
        let head = Head { kind: FileKind::Snapshot, identity, number, bytes: 0, before: 0 };
        file.write_at(&head.page(), 0).map_err(Error::io("write to", &unfinished))?;
        Ok(SnapshotWriter {
            folder,
            name,
            file,
            head,
            block: Batch::new(1),
            offset: PAGE as u64,
            unix_ms,
            finished: false,
        })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`Error::TooLarge`], or what the system says.
    pub fn push(&mut self, kind: u8, version: u8, parts: &[&[u8]]) -> Result<()> {
        self.block.push(kind, version, parts)?;
        if self.block.bytes() >= BLOCK {
            self.put(0)?;
            // A little at a time: whoever flushes the journal meanwhile waits behind what this has
            // the disk write.
            self.file.sync().map_err(Error::io("flush", &self.name))?;
        }
        Ok(())
    }

    /// Makes the snapshot durable and gives it its name. The journal takes note of it by
    /// [`Journal::forget`](crate::Journal::forget).
    ///
    /// # Errors
    /// What the system says; nothing has changed for the journal then.
    pub fn finish(mut self) -> Result<()> {
        self.put(CLOSED)?;
        self.file.sync().map_err(Error::io("flush", &self.name))?;
        let from = unfinished(&self.name);
        self.folder.rename(&from, &self.name).map_err(Error::io("name", &self.name))?;
        self.finished = true;
        self.folder.sync().map_err(Error::io("flush", "the folder"))
    }

    fn put(&mut self, flags: u32) -> Result<()> {
        let before = self.block.first() - 1;
        let bytes = self.block.seal(flags, before, self.unix_ms, self.head.seed(self.offset));
        self.file.write_at(bytes, self.offset).map_err(Error::io("write to", &self.name))?;
        self.offset += bytes.len() as u64;
        self.block.clear();
        Ok(())
    }
}

/// What is not finished takes no room: the reason may be that there is none.
impl<D: Folder> Drop for SnapshotWriter<'_, D> {
    fn drop(&mut self) {
        if !self.finished {
            // If it stays, the next start deletes it.
            let _ = self.folder.remove(&unfinished(&self.name));
        }
    }
}

/// The snapshot to start from.
#[derive(Debug)]
pub(crate) struct Chosen<F> {
    pub(crate) snapshot: Option<Snapshot<F>>,
    /// A newer one that is damaged, in words.
    pub(crate) passed_over: Option<String>,
}

/// A snapshot that is whole.
#[derive(Debug)]
pub(crate) struct Snapshot<F> {
    /// The last record that it stands for.
    pub(crate) number: u64,
    scan: Scan<F>,
}

impl<F: File> Snapshot<F> {
    /// Gives its records to `visit`.
    pub(crate) fn read(mut self, visit: &mut dyn FnMut(Record<'_>)) -> Result<()> {
        run_whole(&mut self.scan, visit)
    }
}

/// The newest snapshot that is whole. A damaged one is passed over if the records that it stands
/// for are still there: `before` is the last record that no segment holds any more.
pub(crate) fn choose<D: Folder>(
    folder: &D,
    identity: Identity,
    snapshots: &[u64],
    before: u64,
) -> Result<Chosen<D::File>> {
    let mut first_damage = None;
    for number in snapshots.iter().rev().copied().filter(|number| *number >= before) {
        match whole(folder, identity, number) {
            Ok(snapshot) => {
                return Ok(Chosen { snapshot: Some(snapshot), passed_over: words(&first_damage) });
            }
            Err(error @ Error::Damaged { .. }) => first_damage = first_damage.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    match first_damage {
        damage if before == 0 => Ok(Chosen { snapshot: None, passed_over: words(&damage) }),
        Some(damage) => Err(damage),
        None => Err(missing(before)),
    }
}

/// There is no snapshot that stands for the records before the oldest segment.
pub(crate) fn missing(before: u64) -> Error {
    let reason = format!("no snapshot stands for the records up to {before}, whose segments are gone");
    Error::Damaged { file: snapshot_name(before), offset: 0, number: 0, reason }
}

fn words(damage: &Option<Error>) -> Option<String> {
    damage.as_ref().map(Error::to_string)
}

/// Gives the records of the newest snapshot that is whole to `visit`; gives the last record that it
/// stands for, or nothing if there is no snapshot.
///
/// # Errors
/// [`Error::Damaged`] if there is none that can be used, or what the system says.
pub fn read_snapshot(folder: &impl Folder, visit: &mut dyn FnMut(Record<'_>)) -> Result<Option<u64>> {
    let identity = read_identity(folder)?;
    let snapshot = Files::look(folder, |files| {
        let heads = read_heads(folder, identity, &files.segments)?;
        Ok(choose(folder, identity, &files.snapshots, heads[0].before)?.snapshot)
    })?;
    let Some(snapshot) = snapshot else { return Ok(None) };
    let number = snapshot.number;
    snapshot.read(visit)?;
    Ok(Some(number))
}

/// How many bytes the snapshots of a journal take on disk.
///
/// # Errors
/// What the system says.
pub fn snapshot_bytes(folder: &impl Folder) -> Result<u64> {
    Files::list(folder)?.snapshots.iter().try_fold(0, |bytes, number| {
        let name = snapshot_name(*number);
        let length = folder.open(&name).and_then(|file| file.len());
        Ok(bytes + length.map_err(Error::io("look at", &name))?)
    })
}

/// A snapshot, if all of it can be read.
pub(crate) fn whole<D: Folder>(folder: &D, identity: Identity, number: u64) -> Result<Snapshot<D::File>> {
    let mut scan = scan_of(folder, identity, number)?;
    run_whole(&mut scan, &mut |_| ())?;
    scan.rewind(0);
    Ok(Snapshot { number, scan })
}

fn scan_of<D: Folder>(folder: &D, identity: Identity, number: u64) -> Result<Scan<D::File>> {
    let name = snapshot_name(number);
    let file = folder.open(&name).map_err(Error::io("open", &name))?;
    file.settle().map_err(Error::io("flush", &name))?;
    let head = Head::read(&file, &name, FileKind::Snapshot)?;
    let scan = Scan::new(file, name, head, 0)?;
    if head.identity != identity || head.number != number {
        return Err(scan.damaged(0, "it does not belong here: it is of another journal or number"));
    }
    Ok(scan)
}

fn run_whole<F: File>(scan: &mut Scan<F>, visit: &mut dyn FnMut(Record<'_>)) -> Result<()> {
    let flags = scan.run(&mut |record, _| visit(record))?;
    if flags & CLOSED == 0 || !scan.is_at_end() {
        return Err(scan.damaged(scan.offset, "it is not complete, or more follows its end"));
    }
    Ok(())
}
