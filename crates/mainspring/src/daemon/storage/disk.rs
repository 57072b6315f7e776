//! The journal's folder as the daemon opens it. In builds with debug assertions, tests can make its
//! disk slow or bad.

use mainspring_journal::{DiskFolder, File, Folder, Result};
use std::io;
use std::path::Path;

/// A folder on disk.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: DiskFolder,
    faults: Faults,
}

/// An open file of it.
#[derive(Debug)]
pub(crate) struct DiskFile {
    file: std::fs::File,
    faults: Faults,
}

impl Disk {
    pub(super) fn open(path: &Path) -> Result<Disk> {
        Ok(Disk { folder: DiskFolder::open(path)?, faults: Faults::from_environment() })
    }

    fn file(&self, file: std::fs::File) -> DiskFile {
        DiskFile { file, faults: self.faults.clone() }
    }
}

impl Folder for Disk {
    type File = DiskFile;

    fn list(&self) -> io::Result<Vec<String>> {
        self.folder.list()
    }

    fn create(&self, name: &str) -> io::Result<DiskFile> {
        Ok(self.file(self.folder.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<DiskFile> {
        Ok(self.file(self.folder.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.folder.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.folder.sync()
    }
}

impl File for DiskFile {
    fn len(&self) -> io::Result<u64> {
        File::len(&self.file)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        File::read_at(&self.file, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        File::write_at(&self.file, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.faults.before_flush()?;
        File::sync(&self.file)
    }

    fn settle(&self) -> io::Result<()> {
        self.file.settle()
    }
}

/// What tests do to the disk of a daemon that they started: see `tests/daemon/durable`.
#[cfg(debug_assertions)]
#[derive(Clone, Debug, Default)]
struct Faults {
    /// How long a flush takes at least.
    delay: std::time::Duration,
    /// How many flushes succeed before one fails.
    good: Option<std::sync::Arc<std::sync::atomic::AtomicI64>>,
}

#[cfg(debug_assertions)]
impl Faults {
    fn from_environment() -> Faults {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<i64>().ok());
        let delay = number("MAINSPRING_TEST_FLUSH_MS").and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
        let good = number("MAINSPRING_TEST_FLUSHES_GOOD");
        Faults {
            delay: std::time::Duration::from_millis(delay),
            good: good.map(|count| std::sync::Arc::new(count.into())),
        }
    }

    fn before_flush(&self) -> io::Result<()> {
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        let left = |good: &std::sync::Arc<std::sync::atomic::AtomicI64>| {
            good.fetch_sub(1, std::sync::atomic::Ordering::Relaxed)
        };
        match self.good.as_ref().map(left) {
            Some(..=0) => Err(io::Error::other("Input/output error (made by a test)")),
            _ => Ok(()),
        }
    }
}

/// Nothing in a release.
#[cfg(not(debug_assertions))]
#[derive(Clone, Debug, Default)]
struct Faults;

#[cfg(not(debug_assertions))]
impl Faults {
    fn from_environment() -> Faults {
        Faults
    }

    fn before_flush(&self) -> io::Result<()> {
        Ok(())
    }
}
