//! The files of a recorder: segments of this run, the oldest of which go, and those of the run
//! before.

use crate::flight::{FORMAT, Header, SegmentName, build_id, frame, segments};
use mainspring_journal::{DiskFolder, File, Folder};
use mainspring_kernel::tape_gap;
use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

/// How many segments the bytes of a run are divided into: what goes at a time is one of them.
const SEGMENTS: u64 = 8;

/// The segments of this run.
pub(super) struct Ring {
    folder: DiskFolder,
    run: u64,
    bytes_max: u64,
    /// Which program this is, once that is known.
    build: Option<String>,
    /// Segments that are full, each with its bytes and records.
    full: VecDeque<(SegmentName, u64, u64)>,
    full_bytes: u64,
    /// The segment that is being written.
    open: Option<Open>,
    next_segment: u32,
    /// Records of the run that were written, and that have gone.
    written: u64,
    gone: u64,
    frame: Vec<u8>,
}

struct Open {
    name: SegmentName,
    file: std::fs::File,
    bytes: u64,
    records: u64,
}

pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Ring {
    /// Makes room: of the runs before, the newest stays.
    pub(super) fn prepare(folder: DiskFolder, bytes_max: u64) -> std::io::Result<Ring> {
        let known = segments(&folder)?;
        let newest = known.last().map_or(0, |name| name.run);
        for name in known.iter().filter(|name| name.run != newest) {
            folder.remove(&name.file())?;
        }
        Ok(Ring {
            folder,
            // Later than any other, also when the clock was set back.
            run: unix_ms().max(newest + 1),
            bytes_max,
            build: None,
            full: VecDeque::new(),
            full_bytes: 0,
            open: None,
            next_segment: 1,
            written: 0,
            gone: 0,
            frame: Vec::new(),
        })
    }

    pub(super) fn folder(&self) -> &DiskFolder {
        &self.folder
    }

    pub(super) fn path(&self) -> &str {
        self.folder.path()
    }

    pub(super) fn run(&self) -> u64 {
        self.run
    }

    /// Which program this is.
    pub(super) fn build(&self) -> &str {
        self.build.as_deref().unwrap_or_default()
    }

    /// Bytes and records that are kept of this run.
    pub(super) fn bytes(&self) -> u64 {
        self.full_bytes + self.open.as_ref().map_or(0, |open| open.bytes)
    }

    pub(super) fn records(&self) -> u64 {
        self.written - self.gone
    }

    /// Whether nothing of the run has gone, so that it can be replayed.
    pub(super) fn has_beginning(&self) -> bool {
        self.gone == 0
    }

    /// Writes records, frame by frame (each with its end and the number of records up to there),
    /// and how many are lost behind them.
    pub(super) fn write(&mut self, bytes: &[u8], cuts: &[(usize, u64)], lost: u64) -> Result<(), String> {
        let (mut start, mut before) = (0, 0);
        for (end, records) in cuts {
            self.append(&bytes[start..*end], records - before)?;
            (start, before) = (*end, *records);
        }
        if lost > 0 {
            self.append(&tape_gap(lost), 1)?;
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8], records: u64) -> Result<(), String> {
        let mut open = match self.open.take() {
            Some(open) if open.bytes < self.bytes_max / SEGMENTS => open,
            full => {
                if let Some(full) = full {
                    self.full_bytes += full.bytes;
                    self.full.push_back((full.name, full.bytes, full.records));
                }
                self.begin()?
            }
        };
        self.frame.clear();
        frame(bytes, &mut self.frame);
        let result = File::write_at(&open.file, &self.frame, open.bytes);
        result.map_err(|error| format!("cannot write to {}: {error}", open.name.file()))?;
        open.bytes += self.frame.len() as u64;
        open.records += records;
        self.written += records;
        self.open = Some(open);
        self.frame.shrink_to(1 << 20);
        self.trim()
    }

    fn begin(&mut self) -> Result<Open, String> {
        if self.build.is_none() {
            let build =
                build_id().map_err(|error| format!("cannot read this program's own file: {error}"))?;
            self.build = Some(build);
        }
        let name = SegmentName { run: self.run, segment: self.next_segment };
        let header = Header {
            format: FORMAT,
            build: self.build().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            before: self.written,
            unix_ms: unix_ms(),
        };
        let told = |error: &dyn std::fmt::Display| format!("cannot make {}: {error}", name.file());
        let file = self.folder.create(&name.file()).map_err(|error| told(&error))?;
        let mut bytes = Vec::new();
        frame(&serde_json::to_vec(&header).map_err(|error| told(&error))?, &mut bytes);
        File::write_at(&file, &bytes, 0).map_err(|error| told(&error))?;
        self.next_segment += 1;
        Ok(Open { name, file, bytes: bytes.len() as u64, records: 0 })
    }

    /// Lets the oldest segments go that there is no room for.
    fn trim(&mut self) -> Result<(), String> {
        while self.bytes() > self.bytes_max
            && let Some((name, bytes, records)) = self.full.pop_front()
        {
            self.folder
                .remove(&name.file())
                .map_err(|error| format!("cannot delete {}: {error}", name.file()))?;
            self.full_bytes -= bytes;
            self.gone += records;
        }
        Ok(())
    }
}
