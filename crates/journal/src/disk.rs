//! A journal's folder on a real disk: private, locked, and reached by descriptor.

use crate::error::{Error, Result};
use crate::folder::{File, Folder};
use rustix::fs::{self, AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The file whose lock says that a process has the journal open.
const LOCK_FILE: &str = "lock";
/// Modes of the folder and of its files: nobody but the owner.
const FOLDER_MODE: Mode = Mode::RWXU;
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A journal's folder on disk.
///
/// The folder has mode 0700 and belongs to the user, no symbolic link is followed, and one process
/// at a time has it open.
#[derive(Debug)]
pub struct DiskFolder {
    descriptor: OwnedFd,
    path: String,
    /// Held for its lock; none for a reader beside the owner.
    lock: Option<OwnedFd>,
}

impl DiskFolder {
    /// Opens the folder as its only user, and makes it if it is not there (not its parents).
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NotPrivate`], or what the system says.
    pub fn open(path: &Path) -> Result<DiskFolder> {
        let shown = path.display().to_string();
        let bare = without_trailing_dots(path);
        match fs::mkdir(&bare, FOLDER_MODE) {
            Ok(()) => sync_parent(&bare).map_err(Error::io("flush the parent of", &shown))?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(Error::io("create", &shown)(errno.into())),
        }
        let mut folder = DiskFolder::open_to_read(path)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = fs::openat(&folder.descriptor, LOCK_FILE, flags, FILE_MODE)
            .map_err(|errno| Error::io("open the lock of", &shown)(errno.into()))?;
        match fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => folder.lock = Some(lock),
            Err(Errno::WOULDBLOCK) => return Err(Error::InUse { path: shown }),
            Err(errno) => return Err(Error::io("lock", &shown)(errno.into())),
        }
        Ok(folder)
    }

    /// Opens the folder beside whoever uses it, for a [`Reader`](crate::Reader).
    ///
    /// # Errors
    /// [`Error::NotPrivate`], or what the system says.
    pub fn open_to_read(path: &Path) -> Result<DiskFolder> {
        let shown = path.display().to_string();
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = fs::open(without_trailing_dots(path), flags, Mode::empty())
            .map_err(|errno| Error::io("open the folder", &shown)(errno.into()))?;
        let status = fs::fstat(&descriptor).map_err(|errno| Error::io("look at", &shown)(errno.into()))?;
        let own = rustix::process::geteuid().as_raw();
        if status.st_uid != own {
            let reason = format!("it belongs to user {}, and this is user {own}", status.st_uid);
            return Err(Error::NotPrivate { path: shown, reason });
        }
        if Mode::from_raw_mode(status.st_mode).intersects(Mode::RWXG | Mode::RWXO) {
            let reason = "others may enter it; run `chmod 700` on it".into();
            return Err(Error::NotPrivate { path: shown, reason });
        }
        Ok(DiskFolder { descriptor, path: shown, lock: None })
    }

    /// Another handle to the same folder, which shares its lock: for a thread that makes snapshots.
    ///
    /// # Errors
    /// What the system says.
    pub fn try_clone(&self) -> Result<DiskFolder> {
        let copy = |descriptor: &OwnedFd| descriptor.try_clone().map_err(Error::io("duplicate", &self.path));
        let lock = self.lock.as_ref().map(copy).transpose()?;
        Ok(DiskFolder { descriptor: copy(&self.descriptor)?, path: self.path.clone(), lock })
    }

    /// The folder's path, for people.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn open_with(&self, name: &str, flags: OFlags) -> io::Result<std::fs::File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = fs::openat(&self.descriptor, name, flags, FILE_MODE)?;
        let status = fs::fstat(&file)?;
        if fs::FileType::from_raw_mode(status.st_mode) != fs::FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        if status.st_uid != rustix::process::geteuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
        }
        Ok(file.into())
    }
}

/// The path without `/` and `/.` at its end: behind a link they have the system follow it, whatever
/// the flags say.
fn without_trailing_dots(path: &Path) -> PathBuf {
    path.components().collect()
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(parent)?.sync_all()
}

impl Folder for DiskFolder {
    type File = std::fs::File;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.descriptor)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy();
            if !matches!(&*name, "." | ".." | LOCK_FILE) {
                names.push(name.into_owned());
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<std::fs::File> {
        self.open_with(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    fn open(&self, name: &str) -> io::Result<std::fs::File> {
        // A reader beside the owner needs no right to write, and should not have it by mistake.
        let flags = if self.lock.is_some() { OFlags::RDWR } else { OFlags::RDONLY };
        self.open_with(name, flags)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.descriptor, from, &self.descriptor, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.descriptor, name, AtFlags::empty())?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.descriptor)?)
    }
}

impl File for std::fs::File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn settle(&self) -> io::Result<()> {
        self.sync_all()?;
        // Apple's systems have no such call: there a read may come from memory instead of the disk.
        #[cfg(not(target_vendor = "apple"))]
        fs::fadvise(self, 0, None, fs::Advice::DontNeed)?;
        Ok(())
    }
}
