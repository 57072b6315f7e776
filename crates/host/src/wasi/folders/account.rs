//! The account of one guest.

use crate::guest::stats::SharedRefusals;
use crate::limits::Limit;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an entry of a folder counts for, whatever it is: about what it takes on most file systems.
/// So the number of entries is bounded as well.
pub(super) const ENTRY_BYTES: u64 = 4096;

/// What tells one file from another.
pub(super) type FileId = u64;

/// How much a guest has added to its folders. Streams of files have a share in it, and may be
/// dropped on other threads.
#[derive(Clone)]
pub(in crate::wasi) struct Account(Option<Arc<Mutex<Usage>>>);

struct Usage {
    limit: u64,
    used: u64,
    /// Files that the guest has open, by its own numbers.
    open: HashMap<u32, FileId>,
    files: HashMap<FileId, OpenFile>,
    /// Streams of files, numbered.
    streams: u64,
    open_streams: HashMap<u64, FileId>,
    /// How often a file was made shorter: a size that was remembered before is not to be trusted.
    shortened: u64,
    refusals: SharedRefusals,
}

#[derive(Default)]
struct OpenFile {
    openers: u32,
    /// What is given back when the last of them closes it.
    removed_bytes: u64,
}

/// There is no room.
pub(super) struct Full;

impl Account {
    /// An account with a limit, or none at all.
    pub(in crate::wasi) fn new(limit: Option<u64>, refusals: SharedRefusals) -> Account {
        let usage = |limit| Usage {
            limit,
            used: 0,
            open: HashMap::new(),
            files: HashMap::new(),
            streams: 0,
            open_streams: HashMap::new(),
            shortened: 0,
            refusals,
        };
        Account(limit.map(|limit| Arc::new(Mutex::new(usage(limit)))))
    }

    /// Whether there is anything to keep an account of.
    pub(super) fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    fn usage(&self) -> Option<MutexGuard<'_, Usage>> {
        let usage = self.0.as_ref()?;
        Some(usage.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes room, and says whether there was; a refusal is not counted yet, as there may be
    /// another way.
    pub(super) fn try_take(&self, bytes: u64) -> bool {
        let Some(mut usage) = self.usage() else { return true };
        let used = usage.used.saturating_add(bytes);
        if bytes > 0 && used > usage.limit {
            return false;
        }
        usage.used = used;
        true
    }

    /// Takes room; a refusal is counted.
    pub(super) fn take(&self, bytes: u64) -> Result<(), Full> {
        if self.try_take(bytes) { Ok(()) } else { Err(self.refuse()) }
    }

    /// Counts a refusal.
    pub(super) fn refuse(&self) -> Full {
        if let Some(usage) = self.usage() {
            usage.refusals.count(Limit::FolderBytes);
        }
        Full
    }

    pub(super) fn give_back(&self, bytes: u64) {
        if let Some(mut usage) = self.usage() {
            usage.used = usage.used.saturating_sub(bytes);
        }
    }

    /// A file was made shorter by so much.
    pub(super) fn shortened(&self, bytes: u64) {
        if let Some(mut usage) = self.usage() {
            usage.used = usage.used.saturating_sub(bytes);
            usage.shortened += 1;
        }
    }

    /// How often a file was made shorter.
    pub(super) fn times_shortened(&self) -> u64 {
        self.usage().map_or(0, |usage| usage.shortened)
    }

    /// The guest has a file open under one of its numbers, which may have been another's.
    pub(super) fn opened(&self, number: u32, file: FileId) {
        self.closed(number);
        if let Some(mut usage) = self.usage() {
            usage.open.insert(number, file);
            usage.files.entry(file).or_default().openers += 1;
        }
    }

    pub(super) fn closed(&self, number: u32) {
        if let Some(mut usage) = self.usage()
            && let Some(file) = usage.open.remove(&number)
        {
            usage.close(file);
        }
    }

    /// What was open under one number is open under another.
    pub(super) fn renumbered(&self, from: u32, to: u32) {
        self.closed(to);
        if let Some(mut usage) = self.usage()
            && let Some(file) = usage.open.remove(&from)
        {
            usage.open.insert(to, file);
        }
    }

    /// Closes whatever is not open any more, as `is_open` knows.
    pub(super) fn close_unless(&self, mut is_open: impl FnMut(u32) -> bool) {
        let numbers: Vec<u32> =
            self.usage().map_or_else(Vec::new, |usage| usage.open.keys().copied().collect());
        for number in numbers.into_iter().filter(|number| !is_open(*number)) {
            self.closed(number);
        }
    }

    /// An entry is gone, and with it so many bytes of a file's content, once nobody has it open.
    pub(super) fn removed(&self, file: FileId, content: u64) {
        let Some(mut usage) = self.usage() else { return };
        usage.used = usage.used.saturating_sub(ENTRY_BYTES);
        match usage.files.get_mut(&file) {
            Some(open) => open.removed_bytes += content,
            None => usage.used = usage.used.saturating_sub(content),
        }
    }

    /// A stream keeps the file that is open under a number open, until what is returned is dropped.
    pub(super) fn stream_of(&self, number: u32) -> OpenStream {
        let key = self.usage().and_then(|mut usage| {
            let file = usage.open.get(&number).copied()?;
            usage.files.entry(file).or_default().openers += 1;
            usage.streams += 1;
            let key = usage.streams;
            usage.open_streams.insert(key, file);
            Some(key)
        });
        OpenStream { account: self.clone(), key }
    }
}

impl Usage {
    fn close(&mut self, file: FileId) {
        let Some(open) = self.files.get_mut(&file) else { return };
        open.openers -= 1;
        if open.openers == 0 {
            let freed = open.removed_bytes;
            self.files.remove(&file);
            self.used = self.used.saturating_sub(freed);
        }
    }
}

/// A stream that keeps a file open.
pub(super) struct OpenStream {
    pub(super) account: Account,
    key: Option<u64>,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if let Some(key) = self.key
            && let Some(mut usage) = self.account.usage()
            && let Some(file) = usage.open_streams.remove(&key)
        {
            usage.close(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::stats::Counters;

    fn account(limit: u64) -> Account {
        Account::new(Some(limit), SharedRefusals::new(&Counters::default(), &Arc::default(), &None))
    }

    fn used(account: &Account) -> u64 {
        account.usage().unwrap().used
    }

    #[test]
    fn room_is_taken_up_to_the_limit_and_given_back() {
        let account = account(100);
        assert!(account.try_take(60) && !account.try_take(41) && account.try_take(40));
        assert!(account.try_take(0), "what needs no room always has it");
        account.give_back(1);
        assert!(account.take(1).is_ok() && account.take(1).is_err());
    }

    #[test]
    fn a_file_that_is_removed_while_it_is_open_takes_its_place_until_it_is_closed() {
        let account = account(1 << 20);
        assert!(account.try_take(ENTRY_BYTES + 5000));
        account.opened(4, 77);
        account.opened(5, 77);
        let stream = account.stream_of(5);
        account.removed(77, 5000);
        assert_eq!(used(&account), 5000);
        account.closed(4);
        account.renumbered(5, 9);
        account.closed(5);
        assert_eq!(used(&account), 5000);
        account.close_unless(|number| number != 9);
        assert_eq!(used(&account), 5000);
        drop(stream);
        assert_eq!(used(&account), 0);
    }

    #[test]
    fn without_a_limit_nothing_is_counted() {
        let account = Account::new(None, SharedRefusals::new(&Counters::default(), &Arc::default(), &None));
        assert!(!account.is_limited() && account.try_take(u64::MAX));
    }
}
