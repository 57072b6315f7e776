//! Snapshots: what the facts of full segments come to, folded on a thread of its own from the last
//! snapshot on, so that a start is short and old segments can go.

#[cfg(test)]
mod tests;

use super::writer::unix_ms;
use mainspring_journal::{
    Deleted, Folder, OldSegments, Reader, SnapshotWriter, list_segments, read_snapshot,
};
use mainspring_kernel::{Durable, DurableBounds};
use std::time::{Duration, Instant};

/// How long segments that snapshots stand for are kept, for people who look back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    /// Segments older than this go.
    pub(crate) age: Duration,
    /// Beyond so many bytes of segments, the oldest go.
    pub(crate) bytes: u64,
}

/// When snapshots are made, and of what.
#[derive(Clone, Debug)]
pub(super) struct Plan<D> {
    pub(super) folder: D,
    pub(super) bounds: DurableBounds,
    pub(super) retention: Retention,
    /// The last record that the newest snapshot stands for, or one that was tried.
    pub(super) last: u64,
    /// The last full segment's last record, and how many bytes of segments became full since the
    /// newest snapshot.
    pub(super) sealed: u64,
    pub(super) sealed_bytes: u64,
    pub(super) segment_bytes: u64,
    /// The size of the newest snapshot: making one is not worth it for less than it costs.
    pub(super) snapshot_bytes: u64,
}

/// A snapshot to be made.
pub(super) struct Job<D> {
    folder: D,
    bounds: DurableBounds,
    retention: Retention,
    up_to: u64,
    /// What was full when it began, of which some can go afterwards.
    old: OldSegments,
}

/// What came of a job.
pub(super) struct Made {
    pub(super) snapshot: Snapshot,
    /// What was deleted then; a failure is final for the journal.
    pub(super) deleted: mainspring_journal::Result<Deleted>,
}

/// A snapshot that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// The last record that it stands for.
    pub(super) number: u64,
    /// How many facts stand in it, and their bytes.
    pub(super) facts: u64,
    pub(super) bytes: u64,
    pub(super) took_ms: u64,
}

impl<D: Folder + Clone> Plan<D> {
    /// The record that a snapshot should stand for, if one is due. `sealed_up_to` is the last
    /// record of a full segment. If that snapshot fails, the next full segment is the next chance:
    /// what is wrong may stay so, and each try reads all segments since the last snapshot.
    pub(super) fn due(&mut self, sealed_up_to: Option<u64>) -> Option<u64> {
        let sealed = sealed_up_to?;
        if sealed > self.sealed {
            self.sealed = sealed;
            self.sealed_bytes += self.segment_bytes;
        }
        if sealed <= self.last || self.sealed_bytes < self.snapshot_bytes {
            return None;
        }
        self.last = sealed;
        Some(sealed)
    }

    pub(super) fn job(&self, up_to: u64, old: OldSegments) -> Job<D> {
        Job { folder: self.folder.clone(), bounds: self.bounds, retention: self.retention, up_to, old }
    }

    pub(super) fn note(&mut self, snapshot: &Snapshot) {
        self.last = snapshot.number;
        self.snapshot_bytes = snapshot.bytes;
        self.sealed_bytes = 0;
    }
}

/// Folds the last snapshot and the full segments behind it, writes what they come to, and deletes
/// what is not needed any more.
pub(super) fn make<D: Folder>(job: Job<D>) -> Result<Made, String> {
    let began = Instant::now();
    let durable = fold(&job.folder, job.bounds, job.up_to)?;
    let words = |error: mainspring_journal::Error| error.to_string();
    let mut writer = SnapshotWriter::create(&job.folder, job.up_to, unix_ms()).map_err(words)?;
    let (mut facts, mut bytes, mut scratch) = (0, 0, Vec::new());
    for fact in durable.facts() {
        scratch.clear();
        fact.write(&mut scratch);
        writer.push(fact.kind(), fact.version(), &[&scratch]).map_err(words)?;
        facts += 1;
        bytes += scratch.len() as u64;
    }
    writer.finish().map_err(words)?;
    let forget_up_to = forget_up_to(&job.folder, job.retention, unix_ms()).map_err(words)?;
    let took_ms = began.elapsed().as_millis() as u64;
    let snapshot = Snapshot { number: job.up_to, facts, bytes, took_ms };
    Ok(Made { snapshot, deleted: job.old.delete(&job.folder, forget_up_to) })
}

/// What the newest snapshot and the records behind it come to, up to a record. `Err` says why not
/// all of them can be read: a snapshot without them would drop them for good.
pub(super) fn fold<D: Folder>(folder: &D, bounds: DurableBounds, up_to: u64) -> Result<Durable, String> {
    let mut durable = Durable::new(bounds);
    let mut refused = None;
    let last = read_snapshot(folder, &mut |record| {
        if refused.is_none() {
            refused = durable.apply_record(record.kind, record.version, record.data).err();
        }
    });
    let last = last.map_err(|error| error.to_string())?.unwrap_or(0);
    let mut reader = Reader::open(folder, last + 1).map_err(|error| error.to_string())?;
    while reader.reached() < up_to && refused.is_none() {
        let more = reader.read(&mut |record, _| {
            if record.number <= up_to && refused.is_none() {
                refused = durable.apply_record(record.kind, record.version, record.data).err();
            }
        });
        if !more.map_err(|error| error.to_string())? {
            return Err(format!("fact {up_to} had been durable, and fact {} is the last", reader.reached()));
        }
    }
    match refused {
        Some(error) => Err(error.to_string()),
        None => Ok(durable),
    }
}

/// The last record of the newest segment that may go: it is too old, or those behind it take all
/// the bytes that may be kept.
fn forget_up_to(
    folder: &impl Folder,
    retention: Retention,
    now_ms: u64,
) -> Result<u64, mainspring_journal::Error> {
    let segments = list_segments(folder)?;
    let age_ms = u64::try_from(retention.age.as_millis()).unwrap_or(u64::MAX);
    let mut bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let mut up_to = 0;
    for pair in segments.windows(2) {
        // It became full when its successor began.
        let is_old = pair[1].unix_ms > 0 && pair[1].unix_ms.saturating_add(age_ms) < now_ms;
        if bytes <= retention.bytes && !is_old {
            break;
        }
        bytes -= pair[0].bytes;
        up_to = pair[1].before;
    }
    Ok(up_to)
}
