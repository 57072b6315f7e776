//! The store: values, its bounds, and who wants to know of changes.

use crate::wire::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::{Rc, Weak};

/// What a store may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Keys. 10,000.
    pub keys: usize,
    /// Bytes of keys and values together. 1 MiB.
    pub bytes: usize,
}

impl Default for StoreLimits {
    fn default() -> StoreLimits {
        StoreLimits { keys: 10_000, bytes: 1 << 20 }
    }
}

/// Why a value was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The key is empty or longer than 256 bytes.
    Key,
    /// The value is longer than 16 KiB.
    Value,
    /// The store holds as much as it may.
    Full,
}

impl StoreError {
    /// The same in words.
    pub fn message(self) -> &'static str {
        match self {
            StoreError::Key => "a key has 1 to 256 bytes",
            StoreError::Value => "a value has at most 16384 bytes",
            StoreError::Full => "the store is full",
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for StoreError {}

/// A value, and when it was last changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Versioned {
    pub(crate) revision: u64,
    pub(crate) value: Vec<u8>,
}

/// Who is told of changes. It must not change the store.
pub(crate) trait Watcher {
    fn changed(&self, key: &str, revision: u64);
}

/// A key-value store for the guests of one reactor. Whoever holds it can read and write; guests
/// that watch are woken.
#[derive(Default)]
pub struct Store {
    values: RefCell<BTreeMap<String, Versioned>>,
    bytes: Cell<usize>,
    revision: Cell<u64>,
    limits: StoreLimits,
    watchers: RefCell<Vec<Weak<dyn Watcher>>>,
}

impl Store {
    /// An empty store.
    pub fn new(limits: StoreLimits) -> Rc<Store> {
        Rc::new(Store { limits, ..Store::default() })
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.versioned(key).map(|versioned| versioned.value)
    }

    pub(crate) fn versioned(&self, key: &str) -> Option<Versioned> {
        self.values.borrow().get(key).cloned()
    }

    /// Writes a value, and tells the guests that watch its key. Returns the new revision.
    ///
    /// # Errors
    /// [`StoreError`]; nothing has changed then.
    pub fn put(&self, key: &str, value: &[u8]) -> Result<u64, StoreError> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(StoreError::Key);
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(StoreError::Value);
        }
        let mut values = self.values.borrow_mut();
        let before = values.get(key).map(|versioned| key.len() + versioned.value.len());
        let bytes = self.bytes.get() - before.unwrap_or(0) + key.len() + value.len();
        if bytes > self.limits.bytes || (before.is_none() && values.len() >= self.limits.keys) {
            return Err(StoreError::Full);
        }
        self.bytes.set(bytes);
        let revision = self.next_revision();
        values.insert(key.into(), Versioned { revision, value: value.into() });
        drop(values);
        self.tell(key, revision);
        Ok(revision)
    }

    /// Deletes a value, and tells the guests that watch its key. Returns the new revision, or
    /// `None` if there was nothing to delete.
    pub fn delete(&self, key: &str) -> Option<u64> {
        let removed = self.values.borrow_mut().remove(key)?;
        self.bytes.set(self.bytes.get() - key.len() - removed.value.len());
        let revision = self.next_revision();
        self.tell(key, revision);
        Some(revision)
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision.get()
    }

    fn next_revision(&self) -> u64 {
        self.revision.set(self.revision.get() + 1);
        self.revision.get()
    }

    pub(crate) fn watch(&self, watcher: Weak<dyn Watcher>) {
        let mut watchers = self.watchers.borrow_mut();
        // Those of guests that have ended.
        watchers.retain(|watcher| watcher.strong_count() > 0);
        watchers.push(watcher);
    }

    fn tell(&self, key: &str, revision: u64) {
        let watchers: Vec<_> = self.watchers.borrow().iter().filter_map(Weak::upgrade).collect();
        watchers.iter().for_each(|watcher| watcher.changed(key, revision));
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("keys", &self.values.borrow().len())
            .field("revision", &self.revision.get())
            .finish_non_exhaustive()
    }
}
