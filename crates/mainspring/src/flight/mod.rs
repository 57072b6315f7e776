//! Flight recordings: the kernel's tape in files, for whoever wants to know what happened.
//!
//! A folder holds the recordings of the newest runs of a daemon. Each is a chain of segments,
//! `<run>-<segment>.flight`; the oldest segments go when there are more bytes than allowed. A
//! segment is a chain of frames: length, checksum, bytes. The first frame is a [`Header`], the
//! others are records of the tape. What a crash left half written at the end is not read.
//!
//! `daemon/flight` writes them, `mainspring flight` reads them.

pub(crate) mod describe;
pub(crate) mod reading;

use mainspring_journal::{DiskFolder, Folder};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{self, Read};

/// The format of the files.
pub(crate) const FORMAT: u32 = 1;
/// Length and checksum of a frame.
pub(crate) const FRAME_HEAD: usize = 8;
/// A frame of the daemon's is far smaller: what is taken up at a start is the largest.
const FRAME_BYTES_MAX: usize = 1 << 30;

/// What a segment says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Header {
    /// The format of the files.
    pub(crate) format: u32,
    /// Which program wrote it: the digest of its file.
    pub(crate) build: String,
    /// The program's version, for people.
    pub(crate) version: String,
    /// How many records of the run came before.
    pub(crate) before: u64,
    /// When it was begun.
    pub(crate) unix_ms: u64,
}

/// Which segment of which run a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentName {
    pub(crate) run: u64,
    pub(crate) segment: u32,
}

impl SegmentName {
    pub(crate) fn file(self) -> String {
        format!("{:016x}-{:08x}.flight", self.run, self.segment)
    }

    fn of(name: &str) -> Option<SegmentName> {
        let (run, segment) = name.strip_suffix(".flight")?.split_once('-')?;
        let found = SegmentName {
            run: u64::from_str_radix(run, 16).ok()?,
            segment: u32::from_str_radix(segment, 16).ok()?,
        };
        (found.file() == name).then_some(found)
    }
}

/// All segments of a folder, oldest first.
pub(crate) fn segments(folder: &DiskFolder) -> io::Result<Vec<SegmentName>> {
    let mut found: Vec<SegmentName> =
        folder.list()?.iter().filter_map(|name| SegmentName::of(name)).collect();
    found.sort_unstable();
    Ok(found)
}

/// Appends a frame with these bytes.
pub(crate) fn frame(bytes: &[u8], to: &mut Vec<u8>) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    to.extend_from_slice(&length.to_le_bytes());
    to.extend_from_slice(&checksum(bytes).to_le_bytes());
    to.extend_from_slice(bytes);
}

fn checksum(bytes: &[u8]) -> u32 {
    mainspring_journal::checksum(bytes)
}

/// Names the program that runs: another one may do other things with the same inputs.
pub(crate) fn build_id() -> io::Result<String> {
    // The file itself, also when another one has its name by now.
    let mut file = std::fs::File::open("/proc/self/exe")?;
    let mut digest = Sha256::new();
    let mut block = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut block)?;
        if count == 0 {
            break;
        }
        digest.update(&block[..count]);
    }
    let mut text = String::new();
    for byte in digest.finalize().iter().take(16) {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
