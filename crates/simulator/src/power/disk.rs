//! The journal of all runs, and a list of every fact beside it.

use crate::random::Random;
use crate::world::{Violation, must};
use mainspring_journal::simulation::SimFolder;
use mainspring_journal::{Batch, Journal, Options, Restored, SnapshotWriter};
use mainspring_kernel::{Durable, FactRecord};

/// Small segments, so that a few batches fill them.
const OPTIONS: Options = Options { segment_bytes: 64 << 10 };

/// A fact as it is written.
struct Written {
    number: u64,
    kind: u8,
    version: u8,
    bytes: Vec<u8>,
}

/// A disk with a journal. The power is on while the journal is open.
pub(super) struct Disk {
    folder: SimFolder,
    journal: Option<Journal<SimFolder>>,
    batch: Batch,
    /// Every fact, in order, of which those up to `flushed` are on disk and the others may be.
    all: Vec<Written>,
    flushed: u64,
    /// The number of the first fact of this run.
    first: u64,
    /// The last fact that the newest snapshot stands for.
    snapshot: u64,
    pub(super) snapshots: u64,
}

fn words(error: impl std::fmt::Display) -> Violation {
    Violation(format!("the journal: {error}"))
}

impl Disk {
    pub(super) fn new() -> Disk {
        Disk {
            folder: SimFolder::default(),
            journal: None,
            batch: Batch::new(1),
            all: Vec::new(),
            flushed: 0,
            first: 1,
            snapshot: 0,
            snapshots: 0,
        }
    }

    /// How many facts are on disk, of all runs.
    pub(super) fn facts(&self) -> u64 {
        self.all.iter().filter(|fact| fact.number <= self.flushed).count() as u64
    }

    /// Starts a run: what the facts come to. All that was flushed is there, and a snapshot makes no
    /// difference.
    pub(super) fn open(&mut self) -> Result<Durable, Violation> {
        let (mut durable, mut last, mut refused) = (Durable::default(), 0, None);
        let (journal, opened) = Journal::open(self.folder.clone(), OPTIONS, &mut |restored| {
            let record = match restored {
                Restored::Snapshot(record) => record,
                Restored::Record(record) => {
                    last = record.number;
                    record
                }
            };
            refused = refused.take().or(durable.apply_record(record.kind, record.version, record.data).err());
        })
        .map_err(words)?;
        must!(refused.is_none(), "a fact cannot be read: {refused:?}");
        let last = last.max(opened.snapshot.unwrap_or(0));
        must!(last >= self.flushed, "facts up to {} were on disk, and {last} is the last one", self.flushed);
        must!(opened.next > last, "the number {} is used twice", opened.next);
        // What was not flushed is there or not; nobody was told of it.
        self.all.retain(|fact| fact.number <= last);
        let expected = self.fold(u64::MAX)?;
        must!(durable == expected, "the snapshot and the rest do not come to what all facts come to");
        (self.first, self.flushed) = (opened.next, last);
        self.batch = Batch::new(opened.next);
        self.journal = Some(journal);
        Ok(durable)
    }

    /// What all facts up to this one come to.
    fn fold(&self, up_to: u64) -> Result<Durable, Violation> {
        let mut durable = Durable::default();
        for fact in self.all.iter().take_while(|fact| fact.number <= up_to) {
            durable.apply_record(fact.kind, fact.version, &fact.bytes).map_err(words)?;
        }
        Ok(durable)
    }

    pub(super) fn record(&mut self, fact: FactRecord<'_>) -> Result<(), Violation> {
        let FactRecord { kind, version, data } = fact;
        let number = self.batch.push(kind, version, &[data]).map_err(words)?;
        self.all.push(Written { number, kind, version, bytes: data.to_vec() });
        Ok(())
    }

    /// Writes what waits; gives how many facts of this run are on disk. Nothing if the power went
    /// meanwhile.
    pub(super) fn flush(&mut self, unix_ms: u64) -> Option<u64> {
        let journal = self.journal.as_mut()?;
        if !self.batch.is_empty() {
            // A power cut while the next segment is made ready comes after the batch is durable,
            // but nobody hears of it any more.
            let written = journal.write(&mut self.batch, unix_ms);
            match written.and_then(|durable| journal.prepare().map(|()| durable)) {
                Ok(durable) => self.flushed = durable,
                Err(_) => {
                    self.journal = None;
                    return None;
                }
            }
        }
        Some((self.flushed + 1).saturating_sub(self.first))
    }

    /// Makes a snapshot of the full segments, if there are new ones. False if the power went
    /// meanwhile.
    pub(super) fn make_snapshot(&mut self, unix_ms: u64) -> Result<bool, Violation> {
        let Some(sealed) = self.journal.as_ref().and_then(Journal::sealed_up_to) else { return Ok(true) };
        if sealed <= self.snapshot {
            return Ok(true);
        }
        let durable = self.fold(sealed)?;
        if self.write_snapshot(&durable, sealed, unix_ms).is_err() {
            self.journal = None;
            return Ok(false);
        }
        self.snapshot = sealed;
        self.snapshots += 1;
        Ok(true)
    }

    fn write_snapshot(
        &mut self,
        durable: &Durable,
        up_to: u64,
        unix_ms: u64,
    ) -> mainspring_journal::Result<()> {
        let mut writer = SnapshotWriter::create(&self.folder, up_to, unix_ms)?;
        let mut bytes = Vec::new();
        for fact in durable.facts() {
            bytes.clear();
            fact.write(&mut bytes);
            writer.push(fact.kind(), fact.version(), &[&bytes])?;
        }
        writer.finish()?;
        match &mut self.journal {
            Some(journal) => journal.forget(up_to),
            None => Ok(()),
        }
    }

    /// The power will go at one of the next operations.
    pub(super) fn crash_soon(&self, random: &mut Random) {
        self.folder.crash_at(self.folder.operations() + 1 + random.below(8));
    }

    /// The power goes now, and comes back: of what was not flushed, anything may be there.
    pub(super) fn cut_power(&mut self, random: &mut Random) {
        self.journal = None;
        let share = random.pick(&[0, 50, 100]);
        self.folder.cut_power(&mut || random.percent(share));
    }
}
