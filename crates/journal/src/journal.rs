//! The journal: opening it, writing batches, rolling over to the next segment, forgetting what a
//! snapshot stands for.

use crate::batch::{Batch, CLOSED, OPENED, Record, SEALED};
use crate::error::{Error, Result};
use crate::folder::{File, Folder};
use crate::recovery;
use crate::scan::Cut;
use crate::segment::{Files, Head, NEXT_SEGMENT, PAGE, segment_name, snapshot_name};

/// The smallest segment: a few pages of batches beside the head.
const SEGMENT_BYTES_MIN: u64 = 16 * PAGE as u64;
/// The largest; offsets within a segment stay far below what lengths on disk can say.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// How much of the next segment is filled with zeros at least, before that is flushed. Whoever
/// writes next waits for it (0.4 ms where a flush takes 0.15); the whole at once would be 140 ms.
const FILL: usize = 256 << 10;
static ZEROS: [u8; FILL] = [0; FILL];
/// How many snapshots are kept: the newest may turn out to be damaged.
const SNAPSHOTS_KEPT: usize = 2;

/// The settings of a journal.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The size of a segment that is made from now on: whole pages, 64 KiB to 1 GiB. A batch must
    /// fit into one.
    pub segment_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { segment_bytes: 64 << 20 }
    }
}

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The next segment is there, or will be.
    Enough,
    /// The disk had no room for the next segment when the present one was half full. What was begun
    /// can still end.
    Full,
}

/// What opening a journal found.
#[derive(Debug)]
pub struct Opened {
    /// The number for the first record of the first [`Batch`].
    pub next: u64,
    /// The last record that a snapshot stood for, if there is one.
    pub snapshot: Option<u64>,
    /// A newer snapshot that could not be used, in words.
    pub passed_over: Option<String>,
    /// The torn batch that was cut off, if there was one.
    pub cut: Option<Cut>,
    /// Whether the journal was made just now.
    pub created: bool,
    /// Whether it was closed the last time.
    pub closed: bool,
}

/// What [`Journal::open`] reads, in this order.
#[derive(Clone, Copy, Debug)]
pub enum Restored<'a> {
    /// Part of the newest usable snapshot.
    Snapshot(Record<'a>),
    /// A record behind it.
    Record(Record<'a>),
}

/// A segment that is full, or older than the present one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed {
    number: u64,
    last: u64,
    bytes: u64,
}

impl Sealed {
    pub(crate) fn new(head: &Head, last: u64) -> Sealed {
        Sealed { number: head.number, last, bytes: head.bytes }
    }
}

/// Segments that were full when they were asked for.
#[derive(Clone, Debug)]
pub struct OldSegments {
    sealed: Vec<Sealed>,
}

/// What was deleted.
#[derive(Clone, Copy, Debug)]
pub struct Deleted {
    /// The number of the newest segment that is gone; 0 if none is.
    up_to: u64,
}

impl OldSegments {
    /// Deletes all but two snapshots, and of these segments those whose records are all at or
    /// before both the older snapshot and `up_to`: the oldest first, so that a crash leaves no gap.
    ///
    /// # Errors
    /// What the system says; the journal must be told ([`Journal::note_deleted`]).
    pub fn delete(self, folder: &impl Folder, up_to: u64) -> Result<Deleted> {
        let snapshots = Files::list(folder)?.snapshots;
        let kept = snapshots.len().saturating_sub(SNAPSHOTS_KEPT);
        for number in &snapshots[..kept] {
            delete(folder, &snapshot_name(*number))?;
        }
        // With one snapshot alone there is nothing to fall back to but the segments.
        let older = if snapshots.len() < SNAPSHOTS_KEPT { 0 } else { snapshots[kept] };
        let mut deleted = Deleted { up_to: 0 };
        for sealed in self.sealed.iter().take_while(|sealed| sealed.last <= older.min(up_to)) {
            delete(folder, &segment_name(sealed.number))?;
            deleted.up_to = sealed.number;
        }
        Ok(deleted)
    }
}

fn delete(folder: &impl Folder, name: &str) -> Result<()> {
    folder.remove(name).map_err(Error::io("delete", name))?;
    folder.sync().map_err(Error::io("flush", "the folder"))
}

/// An open journal, for the one thread that writes to it.
#[derive(Debug)]
pub struct Journal<D: Folder> {
    folder: D,
    options: Options,
    sealed: Vec<Sealed>,
    head: Head,
    file: D::File,
    /// Where the next batch goes.
    pub(crate) offset: u64,
    /// The last number that is durable.
    pub(crate) durable: u64,
    next: Option<NextSegment<D::File>>,
    space: Space,
    failure: Option<String>,
}

/// The segment that is being filled with zeros for later.
#[derive(Debug)]
pub(crate) struct NextSegment<F> {
    file: F,
    filled: u64,
}

impl<D: Folder> Journal<D> {
    /// Opens the journal in a folder, or makes one in an empty folder, and gives what it holds to
    /// `visit`: the newest snapshot, then the records behind it. Segments that the snapshot stands
    /// for are not read.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Newer`] or what the system says. The folder is as it was then,
    /// but for a torn batch that may have been cut off.
    pub fn open(
        folder: D,
        options: Options,
        visit: &mut dyn FnMut(Restored<'_>),
    ) -> Result<(Journal<D>, Opened)> {
        Journal::open_if(folder, options, &mut |restored| {
            visit(restored);
            Ok(())
        })
    }

    /// As [`Journal::open`], but `visit` may refuse a record, in words: then the folder stays as it
    /// was.
    ///
    /// # Errors
    /// As those of [`Journal::open`], and [`Error::Refused`].
    pub fn open_if(
        folder: D,
        options: Options,
        visit: &mut dyn FnMut(Restored<'_>) -> std::result::Result<(), String>,
    ) -> Result<(Journal<D>, Opened)> {
        let sizes = SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX;
        if !sizes.contains(&options.segment_bytes) || !options.segment_bytes.is_multiple_of(PAGE as u64) {
            return Err(Error::Setting { what: "a segment must be whole pages, 64 KiB to 1 GiB" });
        }
        recovery::open(folder, options, visit)
    }

    /// A journal that goes on in this segment.
    pub(crate) fn assemble(
        folder: D,
        options: Options,
        sealed: Vec<Sealed>,
        head: Head,
        file: D::File,
    ) -> Journal<D> {
        let (offset, durable) = (PAGE as u64, head.before);
        let (next, space, failure) = (None, Space::Enough, None);
        Journal { folder, options, sealed, head, file, offset, durable, next, space, failure }
    }

    /// Writes a batch and makes it durable; gives the last number that is durable now. The batch is
    /// empty afterwards and goes on behind its records. `unix_ms` is the time, for people who read
    /// the journal.
    ///
    /// # Errors
    /// [`Error::TooLarge`] and [`Error::Full`] leave the journal as it was. Everything else is
    /// final.
    pub fn write(&mut self, batch: &mut Batch, unix_ms: u64) -> Result<u64> {
        self.write_with(batch, 0, unix_ms)?;
        Ok(self.durable)
    }

    /// Makes the next segment ready, a part of it each time: for after a [`Journal::write`], when
    /// those who waited for it have been told. Without this call a segment is made whole when it is
    /// needed.
    ///
    /// From the middle of the present segment on, the next one's zeros are kept twice as far as
    /// what is written here, so that [`Journal::space`] is known while there is still room.
    ///
    /// # Errors
    /// What the system says; that is final.
    pub fn prepare(&mut self) -> Result<()> {
        self.check()?;
        let half = self.head.bytes / 2;
        let due = (2 * self.offset.saturating_sub(half)).min(self.options.segment_bytes);
        if due == 0 {
            return Ok(());
        }
        match self.fill_next(due) {
            Ok(()) => self.space = Space::Enough,
            Err(error) if error.is_out_of_space() => self.space = Space::Full,
            Err(error) => return self.note(Err(error)),
        }
        Ok(())
    }

    /// Ends the journal with a batch that proves the one before: whatever is missing then at the
    /// next start is damage.
    ///
    /// # Errors
    /// As those of [`Journal::write`].
    pub fn close(mut self, unix_ms: u64) -> Result<()> {
        let mut last = Batch::new(self.durable + 1);
        self.write_with(&mut last, CLOSED, unix_ms)
    }

    /// The last number that is durable.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// How much room there is.
    pub fn space(&self) -> Space {
        self.space
    }

    /// Looks for room again when the disk was full; gives how much there is now.
    ///
    /// # Errors
    /// What the system says; that is final.
    pub fn look_for_space(&mut self) -> Result<Space> {
        self.check()?;
        if self.space == Space::Full {
            self.prepare()?;
        }
        Ok(self.space)
    }

    /// How many segments there are.
    pub fn segments(&self) -> usize {
        self.sealed.len() + 1
    }

    /// How many bytes its segments take on disk.
    pub fn bytes(&self) -> u64 {
        self.sealed.iter().map(|sealed| sealed.bytes).sum::<u64>()
            + self.head.bytes
            + self.next.as_ref().map_or(0, |next| next.filled)
    }

    /// The folder that it is in.
    pub fn folder(&self) -> &D {
        &self.folder
    }

    /// The last record in a segment that is full: what a snapshot can stand for now.
    pub fn sealed_up_to(&self) -> Option<u64> {
        self.sealed.last().map(|sealed| sealed.last)
    }

    /// Takes note of a snapshot that has been finished, and deletes what is not needed any more:
    /// all but two snapshots, and segments whose records are all at or before both the older
    /// snapshot and `up_to`.
    ///
    /// # Errors
    /// What the system says; that is final.
    pub fn forget(&mut self, up_to: u64) -> Result<()> {
        self.check()?;
        let deleted = self.old_segments().delete(&self.folder, up_to);
        self.note_deleted(deleted)
    }

    /// The segments that are full by now. Deleting one takes the system 20 ms, so that is for
    /// another thread, which [`Journal::note_deleted`] hears from afterwards.
    pub fn old_segments(&self) -> OldSegments {
        OldSegments { sealed: self.sealed.clone() }
    }

    /// Takes note of what [`OldSegments::delete`] gave.
    ///
    /// # Errors
    /// The one that is given, or that of an earlier failure; that is final.
    pub fn note_deleted(&mut self, deleted: Result<Deleted>) -> Result<()> {
        self.check()?;
        let Deleted { up_to } = self.note(deleted)?;
        self.sealed.retain(|sealed| sealed.number > up_to);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        match &self.failure {
            Some(reason) => Err(Error::Failed { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Remembers a failure for ever: after a failed flush nobody knows what is on disk.
    fn note<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && !matches!(error, Error::TooLarge { .. } | Error::Full { .. })
        {
            self.failure = Some(error.to_string());
        }
        result
    }

    pub(crate) fn write_with(&mut self, batch: &mut Batch, flags: u32, unix_ms: u64) -> Result<()> {
        self.check()?;
        let result = self.try_write(batch, flags, unix_ms);
        self.note(result)
    }

    fn try_write(&mut self, batch: &mut Batch, flags: u32, unix_ms: u64) -> Result<()> {
        debug_assert!(flags == OPENED || batch.first() == self.durable + 1, "numbers follow each other");
        let bytes = batch.padded_bytes() as u64;
        let most = self.options.segment_bytes - 2 * PAGE as u64;
        if bytes > most {
            return Err(Error::TooLarge { bytes: bytes as usize, most: most as usize });
        }
        // The last page is for the seal.
        if self.offset + bytes + PAGE as u64 > self.head.bytes {
            self.roll(unix_ms)?;
        }
        self.put(batch, flags, unix_ms)?;
        self.durable = batch.next() - 1;
        batch.clear();
        Ok(())
    }

    /// One write and one flush, at the present offset.
    fn put(&mut self, batch: &mut Batch, flags: u32, unix_ms: u64) -> Result<()> {
        let name = segment_name(self.head.number);
        let bytes = batch.seal(flags, self.durable, unix_ms, self.head.seed(self.offset));
        self.file.write_at(bytes, self.offset).map_err(Error::io("write to", &name))?;
        self.file.sync().map_err(Error::io("flush", &name))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Goes on in the next segment. Its head is durable before this one is sealed, so that a sealed
    /// segment without its successor is damage and not a crash at a bad moment.
    fn roll(&mut self, unix_ms: u64) -> Result<()> {
        let bytes = self.options.segment_bytes;
        if let Err(error) = self.fill_next(bytes) {
            if !error.is_out_of_space() {
                return Err(error);
            }
            self.space = Space::Full;
            return Err(Error::Full { bytes });
        }
        let Some(next) = self.next.take() else {
            return Err(Error::Failed { reason: "no next segment was made".into() });
        };
        let number = self.head.number + 1;
        let head = Head { number, bytes, before: self.durable, ..self.head };
        let file = next.finish(&self.folder, &head)?;
        let mut seal = Batch::new(self.durable + 1);
        self.put(&mut seal, SEALED, unix_ms)?;
        self.sealed.push(Sealed::new(&self.head, self.durable));
        (self.head, self.file, self.offset) = (head, file, PAGE as u64);
        self.space = Space::Enough;
        Ok(())
    }

    /// Sees to it that the next segment has this many bytes of zeros.
    fn fill_next(&mut self, due: u64) -> Result<()> {
        let mut next = match self.next.take() {
            Some(next) => next,
            None => {
                let file = self.folder.create(NEXT_SEGMENT).map_err(Error::io("create", NEXT_SEGMENT))?;
                NextSegment::new(file)
            }
        };
        let result = next.fill(due, self.options.segment_bytes);
        self.next = Some(next);
        result
    }
}

impl<F: File> NextSegment<F> {
    pub(crate) fn new(file: F) -> NextSegment<F> {
        NextSegment { file, filled: 0 }
    }

    /// Sees to it that this many bytes of zeros are there. They are flushed here so that there is
    /// little to flush when the segment is needed.
    pub(crate) fn fill(&mut self, due: u64, whole: u64) -> Result<()> {
        let before = self.filled;
        while self.filled < due {
            let step = (whole - self.filled).min(FILL as u64);
            self.file
                .write_at(&ZEROS[..step as usize], self.filled)
                .map_err(Error::io("fill", NEXT_SEGMENT))?;
            self.filled += step;
        }
        if self.filled > before
            && let Err(error) = self.file.sync()
        {
            self.filled = before;
            return Err(Error::io("flush", NEXT_SEGMENT)(error));
        }
        Ok(())
    }

    /// Gives it its head and its name, durably.
    pub(crate) fn finish(self, folder: &impl Folder<File = F>, head: &Head) -> Result<F> {
        let name = segment_name(head.number);
        self.file.write_at(&head.page(), 0).map_err(Error::io("write to", &name))?;
        self.file.sync().map_err(Error::io("flush", &name))?;
        folder.rename(NEXT_SEGMENT, &name).map_err(Error::io("name", &name))?;
        folder.sync().map_err(Error::io("flush", "the folder"))?;
        Ok(self.file)
    }
}
