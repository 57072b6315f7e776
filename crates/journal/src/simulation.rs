//! A folder in memory that crashes, tears and fails as it is told.
//!
//! What is written is seen at once, and durable only after a flush. A power cut keeps any subset of
//! the sectors that were not flushed, and any number of the changes of names, oldest first. A
//! failed flush loses what it should have kept, though it can still be seen, as real systems do.
//!
//! # Examples
//!
//! ```
//! use mainspring_journal::{Journal, Options, simulation::SimFolder};
//!
//! let folder = SimFolder::default();
//! folder.crash_at(7);
//! let options = Options { segment_bytes: 64 << 10 };
//! assert!(Journal::open(folder.clone(), options, &mut |_| ()).is_err());
//! folder.cut_power(&mut || false);
//! assert!(Journal::open(folder, options, &mut |_| ()).is_ok());
//! ```

use crate::folder::{File, Folder};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a disk writes as a whole, in bytes.
const SECTOR: usize = 512;

/// A folder in memory. Clones are the same folder.
#[derive(Clone, Debug, Default)]
pub struct SimFolder(Arc<Mutex<State>>);

/// An open file of a [`SimFolder`].
#[derive(Clone, Debug)]
pub struct SimFile {
    folder: SimFolder,
    inode: usize,
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Changes of names that are not durable yet.
    pending: Vec<NameChange>,
    operations: u64,
    crash_at: Option<u64>,
    crashed: bool,
    faults: BTreeMap<u64, io::ErrorKind>,
    read_fault: Option<(String, u64)>,
    capacity: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors that were written and not flushed.
    unflushed: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Set(String, usize),
    Rename(String, String),
    Remove(String),
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            NameChange::Set(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            NameChange::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
            NameChange::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

impl Inode {
    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.seen.len() < end {
            self.seen.resize(end, 0);
        }
        self.seen[offset..end].copy_from_slice(bytes);
        self.unflushed.extend(offset / SECTOR..end.div_ceil(SECTOR));
    }

    fn flush(&mut self) {
        // What an earlier failed flush lost stays lost.
        let sectors = std::mem::take(&mut self.unflushed);
        for sector in sectors {
            self.keep(sector);
        }
        if self.durable.len() < self.seen.len() {
            self.durable.resize(self.seen.len(), 0);
        }
    }

    fn keep(&mut self, sector: usize) {
        let start = sector * SECTOR;
        let end = (start + SECTOR).min(self.seen.len());
        if self.durable.len() < end {
            self.durable.resize(end, 0);
        }
        self.durable[start..end].copy_from_slice(&self.seen[start..end]);
    }

    fn cut_power(&mut self, survives: &mut dyn FnMut() -> bool) {
        for sector in std::mem::take(&mut self.unflushed) {
            if survives() {
                self.keep(sector);
            }
        }
        self.seen.clone_from(&self.durable);
    }
}

/// Whether an operation happens, fails, or happens in part before everything ends.
enum Step {
    Go,
    Fail(io::Error),
    Crash,
}

fn crash() -> io::Error {
    io::Error::other("the machine has crashed")
}

impl State {
    fn step(&mut self) -> Step {
        if self.crashed {
            return Step::Fail(crash());
        }
        self.operations += 1;
        if self.crash_at == Some(self.operations) {
            self.crashed = true;
            return Step::Crash;
        }
        match self.faults.get(&self.operations) {
            Some(kind) => Step::Fail((*kind).into()),
            None => Step::Go,
        }
    }

    /// An operation that happens, fails, or is cut off by a crash: a change of names is then not
    /// durable.
    fn change(&mut self, change: NameChange) -> io::Result<()> {
        let result = match self.step() {
            Step::Go => Ok(()),
            Step::Fail(error) => return Err(error),
            Step::Crash => Err(crash()),
        };
        change.apply(&mut self.names);
        self.pending.push(change);
        result
    }

    fn used(&self) -> u64 {
        self.names.values().map(|inode| self.inodes[*inode].seen.len() as u64).sum()
    }
}

impl SimFolder {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many operations that change something there have been.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Crashes at an operation, counted from the first one: it may have happened in part, and every
    /// later one fails.
    pub fn crash_at(&self, operation: u64) {
        self.state().crash_at = Some(operation);
    }

    /// Lets an operation fail.
    pub fn fail_at(&self, operation: u64, kind: io::ErrorKind) {
        self.state().faults.insert(operation, kind);
    }

    /// Lets reads of a file fail from an offset on.
    pub fn fail_reads(&self, name: &str, offset: u64) {
        self.state().read_fault = Some((name.into(), offset));
    }

    /// Bounds what all files together may take.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// A power cut, and the machine started again. `survives` says of each sector that was not
    /// flushed, and of each change of names until it says no, whether it reached the disk.
    pub fn cut_power(&self, survives: &mut dyn FnMut() -> bool) {
        let mut state = self.state();
        for inode in &mut state.inodes {
            inode.cut_power(survives);
        }
        for change in std::mem::take(&mut state.pending) {
            if !survives() {
                break;
            }
            change.apply(&mut state.durable_names);
        }
        state.names = state.durable_names.clone();
        state.forget_faults();
    }

    /// The process was killed and started again: whatever was written can still be seen.
    pub fn restart(&self) {
        self.state().forget_faults();
    }

    /// Another folder with the same content, all of it durable.
    pub fn copy(&self) -> SimFolder {
        let copy = SimFolder::default();
        for (name, bytes) in self.files() {
            copy.put(&name, bytes);
        }
        copy
    }

    /// Every file, by name, with what can be seen of it.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        state.names.iter().map(|(name, inode)| (name.clone(), state.inodes[*inode].seen.clone())).collect()
    }

    /// Puts a file there, or another content into it, durably.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        let inode = state.inodes.len();
        state.inodes.push(Inode { seen: bytes.clone(), durable: bytes, unflushed: BTreeSet::new() });
        state.names.insert(name.into(), inode);
        state.durable_names.insert(name.into(), inode);
    }

    /// Takes a file away, durably.
    pub fn take(&self, name: &str) -> Option<Vec<u8>> {
        let mut state = self.state();
        state.durable_names.remove(name);
        let inode = state.names.remove(name)?;
        Some(state.inodes[inode].seen.clone())
    }
}

impl State {
    fn forget_faults(&mut self) {
        self.crashed = false;
        self.crash_at = None;
        self.faults.clear();
        self.operations = 0;
    }
}

impl Folder for SimFolder {
    type File = SimFile;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<SimFile> {
        let mut state = self.state();
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = state.inodes.len();
        state.inodes.push(Inode::default());
        state.change(NameChange::Set(name.into(), inode))?;
        Ok(SimFile { folder: self.clone(), inode })
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let state = self.state();
        let inode = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(SimFile { folder: self.clone(), inode })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.state().change(NameChange::Rename(from.into(), to.into()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        if !state.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change(NameChange::Remove(name.into()))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        match state.step() {
            Step::Go => {}
            Step::Fail(error) => return Err(error),
            Step::Crash => return Err(crash()),
        }
        let mut names = std::mem::take(&mut state.durable_names);
        for change in std::mem::take(&mut state.pending) {
            change.apply(&mut names);
        }
        state.durable_names = names;
        Ok(())
    }
}

impl SimFile {
    fn is_unreadable(&self, state: &State, end: u64) -> bool {
        state
            .read_fault
            .as_ref()
            .is_some_and(|(name, from)| state.names.get(name) == Some(&self.inode) && end > *from)
    }
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.folder.state().inodes[self.inode].seen.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.folder.state();
        let (start, end) = (offset as usize, offset as usize + buffer.len());
        if self.is_unreadable(&state, end as u64) {
            return Err(io::Error::other("input/output error"));
        }
        let bytes = state.inodes[self.inode].seen.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.folder.state();
        let (result, written) = match state.step() {
            Step::Go => (Ok(()), bytes.len()),
            Step::Fail(error) if state.crashed => return Err(error),
            Step::Fail(error) => (Err(error), bytes.len() / 2),
            Step::Crash => (Err(crash()), bytes.len()),
        };
        let grown = (offset + bytes.len() as u64).saturating_sub(state.inodes[self.inode].seen.len() as u64);
        if state.capacity.is_some_and(|capacity| state.used() + grown > capacity) && grown > 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.inodes[self.inode].write(&bytes[..written], offset as usize);
        result
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.folder.state();
        match state.step() {
            Step::Go => state.inodes[self.inode].flush(),
            Step::Fail(error) => {
                // The system gives up on these sectors, and goes on showing them.
                state.inodes[self.inode].unflushed.clear();
                return Err(error);
            }
            Step::Crash => return Err(crash()),
        }
        Ok(())
    }

    fn settle(&self) -> io::Result<()> {
        self.sync()?;
        let mut state = self.folder.state();
        let inode = &mut state.inodes[self.inode];
        inode.seen.clone_from(&inode.durable);
        Ok(())
    }
}
