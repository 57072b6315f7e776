//! A journal: numbered records on disk that survive a crash, a power cut and an upgrade, or say in
//! words that they did not.
//!
//! A journal lives in a folder of its own. Records are appended in *batches*; one batch is one
//! write and one flush, however many records it carries. What a batch holds is *durable* when
//! [`Journal::write`] has returned its last number, and not before. Batches fill *segments* of a
//! fixed size; a *snapshot* stands for all records up to a number, so that older segments can be
//! deleted.
//!
//! The crate has no thread and no runtime: a thread of the caller's owns the [`Journal`], while the
//! caller's event loop fills the next [`Batch`]. It knows nothing of what the records mean. The
//! file system is behind the small traits [`Folder`] and [`File`], so that a simulated one (feature
//! `simulation`) can crash at every operation.
//!
//! # Examples
//!
//! ```
//! use mainspring_journal::{Batch, DiskFolder, Journal, Options};
//!
//! # let place = tempfile::tempdir().unwrap();
//! let folder = DiskFolder::open(&place.path().join("journal"))?;
//! let (mut journal, opened) = Journal::open(folder, Options::default(), &mut |restored| {
//!     println!("{restored:?}");
//! })?;
//!
//! let mut batch = Batch::new(opened.next);
//! batch.push(1, 1, &[b"hello, ", b"world"])?;
//! let durable = journal.write(&mut batch, 0)?;
//! assert_eq!(durable, opened.next);
//! // Whoever waited for it can be told now. Then:
//! journal.prepare()?;
//! journal.close(0)?;
//! # Ok::<(), mainspring_journal::Error>(())
//! ```
//!
//! # What is promised
//!
//! - A batch is there as a whole or not at all. Its checksum covers every byte of it up to the
//!   page's end, and is seeded with the journal's identity and its place, so that a stale, moved or
//!   foreign batch never counts.
//! - A batch that a crash tore is cut off at the next start, and [`Opened::cut`] tells. It is torn
//!   if nothing proves that it had been durable: no valid batch follows it. Any other damage is
//!   [`Error::Damaged`], with file, offset and number, and nothing on disk is changed.
//! - A failed write or flush is final: every later call fails. What was written then may or may not
//!   be there at the next start.
//! - Numbers grow and are never used twice, not even those of a batch that was cut off.
//! - A page that holds durable bytes is never written again.

mod batch;
mod disk;
mod error;
mod folder;
mod journal;
mod reader;
mod recovery;
mod salvage;
mod scan;
mod segment;
#[cfg(feature = "simulation")]
pub mod simulation;
mod snapshot;

pub use batch::{Batch, RECORD_BYTES_MAX, Record};
pub use disk::DiskFolder;
pub use error::{Error, Result};
pub use folder::{File, Folder};
pub use journal::{Deleted, Journal, OldSegments, Opened, Options, Restored, Space};
pub use reader::{Checked, Reader, SegmentInfo, check, list_segments};
pub use salvage::{Found, Salvaged, salvage};
pub use scan::Cut;
pub use snapshot::{SnapshotWriter, read_snapshot, snapshot_bytes};

/// The checksum that batches have (CRC32C), for whoever keeps other files beside a journal.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}
