//! What tells one state of a file from another.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file as it was at one time. Two stamps of a path differ when the file was changed, replaced or
/// given other rights in between.
///
/// A change within the resolution of the file system's clock that leaves the size as it was is not
/// seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    path: PathBuf,
    device: u64,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// The stamp of what is there now.
    pub(crate) fn of(path: &Path) -> io::Result<FileStamp> {
        Ok(FileStamp::from_metadata(path, &std::fs::metadata(path)?))
    }

    /// The stamp of a regular file; nothing for whatever else is there.
    pub(crate) fn of_regular(path: &Path) -> Option<FileStamp> {
        let about = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
        Some(FileStamp::from_metadata(path, &about))
    }

    fn from_metadata(path: &Path, about: &Metadata) -> FileStamp {
        FileStamp {
            path: path.to_path_buf(),
            device: about.dev(),
            inode: about.ino(),
            bytes: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        }
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_changed_or_replaced_has_another_stamp_and_one_that_is_read_has_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, "one").expect("a file");
        let before = FileStamp::of(&path).expect("a stamp");
        std::fs::read(&path).expect("a file");
        assert_eq!(FileStamp::of(&path).expect("a stamp"), before);
        std::fs::write(&other, "two").expect("a file");
        std::fs::rename(&other, &path).expect("a file");
        let replaced = FileStamp::of(&path).expect("a stamp");
        assert_ne!(replaced, before);
        std::fs::write(&path, "three").expect("a file");
        assert_ne!(FileStamp::of(&path).expect("a stamp"), replaced);
        assert_eq!(FileStamp::of_regular(folder.path()), None);
    }
}
