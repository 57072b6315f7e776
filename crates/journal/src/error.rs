//! What can go wrong with a journal.

use std::io;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused something. For a [`Journal`](crate::Journal) this is final.
    #[error("cannot {action} {file}: {source}")]
    Io {
        /// What was tried, as in "write to".
        action: &'static str,
        /// The file's name within the folder, or the folder's path.
        file: String,
        /// The system's words.
        source: io::Error,
    },
    /// Bytes that had been durable are missing or changed. Nothing has been changed on disk.
    #[error("{file} is damaged at offset {offset} (after record {number}): {reason}")]
    Damaged {
        /// The file's name within the folder.
        file: String,
        /// Where in the file, in bytes.
        offset: u64,
        /// The last record before the damage; 0 if there is none.
        number: u64,
        /// What is wrong there.
        reason: String,
    },
    /// The journal was written by a newer version of this crate.
    #[error("{file} has format {found}; this program reads formats up to {known}")]
    Newer {
        /// The file's name within the folder.
        file: String,
        /// The format on disk.
        found: u32,
        /// The newest format that this crate reads.
        known: u32,
    },
    /// Another process has the journal open.
    #[error("{path} is in use by another process")]
    InUse {
        /// The folder.
        path: String,
    },
    /// The folder, or a file in it, could be read or changed by somebody else.
    #[error("{path} is not private: {reason}")]
    NotPrivate {
        /// The folder or file.
        path: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A record is larger than a batch may be.
    #[error("a record of {bytes} bytes is too large; at most {most} fit")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The largest that fits.
        most: usize,
    },
    /// Bytes that were to be records of a batch are something else.
    #[error("these bytes are no records of a batch")]
    NoRecords,
    /// No room: the next segment could not be made. The journal is usable until its last segment is
    /// full.
    #[error("the disk is full: no room for another segment of {bytes} bytes")]
    Full {
        /// The size of a segment.
        bytes: u64,
    },
    /// An earlier write or flush failed, which is final.
    #[error("the journal has failed earlier: {reason}")]
    Failed {
        /// The first failure, in words.
        reason: String,
    },
    /// Whoever opened the journal cannot read a record that is whole.
    #[error("record {number} cannot be used: {reason}")]
    Refused {
        /// Its number; in a snapshot, its place in it.
        number: u64,
        /// Why, in words.
        reason: String,
    },
    /// A setting makes no sense.
    #[error("{what}")]
    Setting {
        /// Which, and what it must be.
        what: &'static str,
    },
}

impl Error {
    /// Names the action and the file of a failed system call.
    pub(crate) fn io<'a>(action: &'static str, file: &'a str) -> impl FnOnce(io::Error) -> Error + 'a {
        move |source| Error::Io { action, file: file.into(), source }
    }

    /// Whether the system said that the disk, or the user's share of it, is full.
    pub fn is_out_of_space(&self) -> bool {
        match self {
            Error::Full { .. } => true,
            Error::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}
