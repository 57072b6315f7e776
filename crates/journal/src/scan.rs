//! Reading a file of batches from its head to its end, and the rule that tells a torn batch from
//! damage.
//!
//! One batch is written at a time, and the next one only when it is durable. So a place that holds
//! no valid batch is where a crash tore the last one, unless a valid batch stands anywhere behind
//! it: that one proves that bytes are missing here which had been durable.

use crate::batch::{BATCH_HEADER, BatchHeader, OPENED, Record, SEALED, is_intact, records};
use crate::error::{Error, Result};
use crate::folder::File;
use crate::segment::{Head, PAGE};

/// How much is read at a time.
pub(crate) const CHUNK: usize = 1 << 20;
/// A page that nothing was written to.
const ZEROS: [u8; PAGE] = [0; PAGE];

/// What was cut off from the end of a journal: a batch that had not become durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file.
    pub file: String,
    /// Where the batch began.
    pub offset: u64,
    /// How many bytes, up to the last one that was written.
    pub bytes: u64,
    /// The last record before it.
    pub after: u64,
}

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Batch(BatchHeader),
    /// Zeros, or something that is no valid batch.
    Nothing,
    /// The end of the file.
    End,
}

/// A file of batches that is read from its beginning.
#[derive(Debug)]
pub(crate) struct Scan<F> {
    file: F,
    pub(crate) name: String,
    pub(crate) head: Head,
    length: u64,
    /// What was read of the file at once, and where it begins there.
    read_ahead: Vec<u8>,
    read_ahead_at: u64,
    /// Where the next batch is expected.
    pub(crate) offset: u64,
    /// The last number used so far.
    pub(crate) last: u64,
    /// The first number behind a leap, for [`Scan::take_any`].
    pub(crate) leapt_to: Option<u64>,
}

impl<F: File> Scan<F> {
    /// A scan that begins behind the head page. `last` is the number before the file's first
    /// record.
    pub(crate) fn new(file: F, name: String, head: Head, last: u64) -> Result<Scan<F>> {
        let length = file.len().map_err(Error::io("look at", &name))?;
        let offset = PAGE as u64;
        Ok(Scan {
            file,
            name,
            head,
            length,
            read_ahead: Vec::new(),
            read_ahead_at: 0,
            offset,
            last,
            leapt_to: None,
        })
    }

    pub(crate) fn file(&self) -> &F {
        &self.file
    }

    pub(crate) fn into_file(self) -> F {
        self.file
    }

    /// Begins again; `last` is the number before the file's first record.
    pub(crate) fn rewind(&mut self, last: u64) {
        (self.offset, self.last) = (PAGE as u64, last);
    }

    /// Reads from the file again what was read ahead.
    pub(crate) fn look_again(&mut self) {
        self.read_ahead.clear();
    }

    /// Whether nothing stands behind the batches that were read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.offset == self.length
    }

    pub(crate) fn damaged(&self, offset: u64, reason: impl Into<String>) -> Error {
        Error::Damaged { file: self.name.clone(), offset, number: self.last, reason: reason.into() }
    }

    /// No valid batch stands at `start`, but this one does behind it, at an offset.
    pub(crate) fn gap(&self, start: u64, offset: u64, header: &BatchHeader) -> Error {
        let reason = format!(
            "no valid batch is here, but one follows at offset {offset} (from record {}), \
             so this one had been durable",
            header.first
        );
        self.damaged(start, reason)
    }

    /// It needs a seal, and there is none where its batches end.
    pub(crate) fn unsealed(&self, offset: u64) -> Error {
        self.damaged(offset, "it has a successor and is not sealed")
    }

    /// It ends before records that a snapshot stands for.
    pub(crate) fn behind_snapshot(&self, number: u64) -> Error {
        self.damaged(self.offset, format!("records up to {number} had been durable, as a snapshot proves"))
    }

    /// The bytes at an offset. A read error is damage, never the end.
    fn bytes(&mut self, offset: u64, count: usize) -> Result<&[u8]> {
        let end = self.read_ahead_at + self.read_ahead.len() as u64;
        if offset < self.read_ahead_at || offset + count as u64 > end {
            let size = count.max(CHUNK).min((self.length - offset) as usize);
            self.read_ahead.resize(size, 0);
            if let Err(error) = self.file.read_at(&mut self.read_ahead, offset) {
                self.read_ahead.clear();
                return Err(self.damaged(offset, format!("it cannot be read: {error}")));
            }
            self.read_ahead_at = offset;
        }
        let start = (offset - self.read_ahead_at) as usize;
        Ok(&self.read_ahead[start..start + count])
    }

    /// What stands at an offset, whatever came before.
    fn place(&mut self, offset: u64) -> Result<Place> {
        if offset + PAGE as u64 > self.length {
            return Ok(Place::End);
        }
        let Some(header) = BatchHeader::read(&self.bytes(offset, BATCH_HEADER)?[..BATCH_HEADER]) else {
            return Ok(Place::Nothing);
        };
        if offset + header.padded_bytes() > self.length {
            return Ok(Place::Nothing);
        }
        let seed = self.head.seed(offset);
        let intact = is_intact(self.bytes(offset, header.padded_bytes() as usize)?, seed);
        Ok(if intact { Place::Batch(header) } else { Place::Nothing })
    }

    /// The next batch, if a valid one stands where it is expected; gives its records to `visit`.
    pub(crate) fn next(&mut self, visit: &mut dyn FnMut(Record<'_>, u64)) -> Result<Place> {
        let offset = self.offset;
        let place = self.place(offset)?;
        let Place::Batch(header) = place else { return Ok(place) };
        let follows = header.durable == self.last
            && if header.is(OPENED) { header.first > self.last } else { header.first == self.last + 1 };
        if !follows {
            let reason = format!("batch from record {} does not follow the one before", header.first);
            return Err(self.damaged(offset, reason));
        }
        let bytes = self.bytes(offset, header.padded_bytes() as usize)?;
        let whole = records(&header, bytes)
            .all(|record| record.map(|record| visit(record, header.unix_ms)).is_some());
        if !whole {
            return Err(self.damaged(offset, "a record of a batch with a good checksum is none"));
        }
        self.last = header.last();
        self.offset = offset + header.padded_bytes();
        Ok(place)
    }

    /// The batch at the place, whatever came before it; gives its records to `visit` as far as they
    /// are whole.
    pub(crate) fn take_any(&mut self, visit: &mut dyn FnMut(Record<'_>, u64)) -> Result<Place> {
        let offset = self.offset;
        let place = self.place(offset)?;
        let Place::Batch(header) = place else { return Ok(place) };
        let bytes = self.bytes(offset, header.padded_bytes() as usize)?;
        records(&header, bytes).map_while(|record| record).for_each(|record| visit(record, header.unix_ms));
        if header.is(OPENED) {
            self.leapt_to = Some(header.first);
        }
        self.offset = offset + header.padded_bytes();
        Ok(place)
    }

    /// Reads batches until there is no further one; gives the flags of the last.
    pub(crate) fn run(&mut self, visit: &mut dyn FnMut(Record<'_>, u64)) -> Result<u32> {
        let mut flags = 0;
        while let Place::Batch(header) = self.next(visit)? {
            flags = header.flags;
            if header.is(SEALED) {
                break;
            }
        }
        Ok(flags)
    }

    /// At the place where no batch stands: nothing there, a torn batch, or damage.
    pub(crate) fn tail(&mut self) -> Result<Option<Cut>> {
        self.tail_within(self.length)
    }

    /// As [`Scan::tail`], but only so many bytes are looked at.
    pub(crate) fn tail_within(&mut self, bytes: u64) -> Result<Option<Cut>> {
        let start = self.offset;
        let stop = self.length.min(start.saturating_add(bytes));
        let mut end = start;
        let mut offset = start;
        while offset + PAGE as u64 <= stop {
            // A segment is mostly zeros, and every start looks at all of them.
            if self.bytes(offset, PAGE)? != ZEROS {
                end = offset + PAGE as u64;
                if let Place::Batch(header) = self.place(offset)? {
                    return Err(self.gap(start, offset, &header));
                }
            }
            offset += PAGE as u64;
        }
        let cut = Cut { file: self.name.clone(), offset: start, bytes: end - start, after: self.last };
        Ok((cut.bytes > 0).then_some(cut))
    }

    /// Whether a segment that nothing was read of holds no batch, as far as so many bytes show.
    pub(crate) fn is_bare_within(&mut self, bytes: u64) -> Result<bool> {
        if let Place::Batch(_) = self.place(self.offset)? {
            return Ok(false);
        }
        self.tail_within(bytes)?;
        Ok(true)
    }
}
