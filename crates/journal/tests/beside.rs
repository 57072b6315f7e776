//! Looking at a journal beside whoever writes it: whatever is written, and whenever, no damage is
//! seen that is not there.

mod support;

use mainspring_journal::simulation::{SimFile, SimFolder};
use mainspring_journal::{Batch, Error, File, Folder, Journal, Options, Reader, check, read_snapshot};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use support::snapshot;

/// Sizes of segments.
const SMALL: u64 = 64 << 10;
const LARGE: u64 = 2 << 20;

/// A folder that lets its owner go on before some of a reader's calls.
struct Beside {
    folder: SimFolder,
    owner: Rc<Owner>,
}

/// A file of it.
struct FileBeside {
    file: SimFile,
    owner: Rc<Owner>,
}

/// Whoever writes the journal.
struct Owner {
    journal: RefCell<Journal<SimFolder>>,
    batch: RefCell<Batch>,
    /// How many calls a reader has made.
    calls: Cell<u64>,
    /// Before which call the owner goes on, and how far.
    at: u64,
    batches: usize,
    record_bytes: usize,
}

impl Owner {
    fn before_call(&self) {
        self.calls.set(self.calls.get() + 1);
        if self.calls.get() == self.at {
            (0..self.batches).for_each(|_| self.write());
        }
    }

    /// Writes a batch. What is full becomes a snapshot, and goes.
    fn write(&self) {
        let (mut journal, mut batch) = (self.journal.borrow_mut(), self.batch.borrow_mut());
        let sealed = journal.sealed_up_to();
        batch.push(1, 1, &[&vec![7; self.record_bytes]]).unwrap();
        journal.write(&mut batch, 1).unwrap();
        if journal.sealed_up_to() != sealed {
            snapshot(journal.folder(), &[], journal.sealed_up_to().unwrap()).unwrap();
            journal.forget(u64::MAX).unwrap();
        }
    }
}

impl Folder for Beside {
    type File = FileBeside;

    fn list(&self) -> io::Result<Vec<String>> {
        self.owner.before_call();
        self.folder.list()
    }

    fn create(&self, _: &str) -> io::Result<FileBeside> {
        unreachable!("a reader makes no file")
    }

    fn open(&self, name: &str) -> io::Result<FileBeside> {
        self.owner.before_call();
        Ok(FileBeside { file: self.folder.open(name)?, owner: Rc::clone(&self.owner) })
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        unreachable!("a reader names no file")
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        unreachable!("a reader deletes no file")
    }

    fn sync(&self) -> io::Result<()> {
        unreachable!("a reader flushes no folder")
    }
}

impl File for FileBeside {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.owner.before_call();
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        unreachable!("a reader writes nothing")
    }

    fn sync(&self) -> io::Result<()> {
        unreachable!("a reader flushes nothing")
    }

    fn settle(&self) -> io::Result<()> {
        self.file.settle()
    }
}

/// A journal of a few segments that take a few batches each, whose owner goes on by so many batches
/// before a reader's call.
fn journal(segment_bytes: u64, at: u64, batches: usize) -> Beside {
    let folder = SimFolder::default();
    let (journal, opened) = Journal::open(folder.clone(), Options { segment_bytes }, &mut |_| ()).unwrap();
    let (journal, batch) = (RefCell::new(journal), RefCell::new(Batch::new(opened.next)));
    let record_bytes = segment_bytes as usize / 8;
    let owner = Owner { journal, batch, calls: Cell::new(0), at, batches, record_bytes };
    (0..17).for_each(|_| owner.write());
    Beside { folder, owner: Rc::new(owner) }
}

/// Looks at a journal whose owner goes on before the first call, before the second, and so on. A
/// small segment is read at once, a large one in pieces.
fn at_every_call(look: impl Fn(&Beside, &str)) {
    for (segment_bytes, batches) in [(SMALL, 1), (SMALL, 2), (SMALL, 5), (SMALL, 40), (LARGE, 2), (LARGE, 9)]
    {
        for at in 1.. {
            let beside = journal(segment_bytes, at, batches);
            look(&beside, &format!("{batches} batches of {segment_bytes} bytes before call {at}"));
            if beside.owner.calls.get() < at {
                assert!(at > 5, "only {at} calls");
                break;
            }
        }
    }
}

#[test]
fn j6_2_a_check_beside_a_busy_owner_told_of_damage_that_was_not_there() {
    at_every_call(|beside, context| {
        let checked = check(beside, &mut |_, _| ()).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert!(checked.records > 0 && checked.torn.is_none(), "{context}: {checked:?}");
        read_snapshot(beside, &mut |_| ()).unwrap_or_else(|error| panic!("{context}: {error}"));
    });
}

#[test]
fn j6_2_a_reader_beside_a_busy_owner_sees_no_damage_and_misses_no_record() {
    at_every_call(|beside, context| {
        for reads in [Reader::read, Reader::poll] {
            let mut reader = Reader::open(beside, 1).unwrap_or_else(|error| panic!("{context}: {error}"));
            let mut numbers = Vec::new();
            let ended = loop {
                match reads(&mut reader, &mut |record, _| numbers.push(record.number)) {
                    Ok(true) => {}
                    ended => break ended,
                }
            };
            assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{context}: {numbers:?}");
            match ended {
                Ok(_) => assert_eq!(numbers.last(), Some(&reader.reached()), "{context}"),
                // What it had not read yet was deleted.
                Err(Error::Io { source, .. }) => assert_eq!(source.kind(), io::ErrorKind::NotFound),
                Err(error) => panic!("{context}: {error}"),
            }
        }
    });
}
