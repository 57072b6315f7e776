//! An open handle: requests in, replies and changes out.

use crate::capability::{Access, KeyValue};
use crate::store::{Store, StoreError, Watcher};
use crate::wire::{
    self, OP_CHANGED, OP_DELETE, OP_GET, OP_PUT, OP_WATCH, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, TRACE,
};
use mainspring_host::{GuestContext, Limit, PerGuest, Reply, Responses, Service};
use mainspring_zcl::{Frame, Header, Reader};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// One open handle of one guest.
pub(crate) struct KeyValueHandle {
    store: Rc<Store>,
    own: Rc<PerGuest<KeyValue>>,
    responses: Rc<Responses>,
    watches: RefCell<Vec<Rc<PrefixWatch>>>,
}

impl KeyValueHandle {
    pub(crate) fn new(
        store: Rc<Store>,
        own: Rc<PerGuest<KeyValue>>,
        responses: &Rc<Responses>,
    ) -> KeyValueHandle {
        KeyValueHandle { store, own, responses: responses.clone(), watches: RefCell::default() }
    }

    fn get(&self, key: &str) -> Reply {
        let found = self.store.versioned(key);
        Ok(found.map_or_else(Vec::new, |found| wire::encode_revised(found.revision, &found.value)))
    }

    fn put(&self, guest: &GuestContext, key: &str, value: &[u8]) -> Reply {
        self.check_writable()?;
        match self.store.put(key, value) {
            Ok(revision) => Ok(revision.to_le_bytes().to_vec()),
            Err(error) => {
                if error == StoreError::Full {
                    guest.refuse(Limit::Capability);
                }
                Err(error.message().into())
            }
        }
    }

    fn delete(&self, key: &str) -> Reply {
        self.check_writable()?;
        match self.store.delete(key) {
            Some(revision) => Ok(revision.to_le_bytes().to_vec()),
            None => Err("no such key".into()),
        }
    }

    fn check_writable(&self) -> Result<(), &'static str> {
        match self.own.config.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err("the store is read-only"),
        }
    }

    fn watch(&self, guest: &GuestContext, rid: u32, prefix: &str) -> Reply {
        let watches = &self.own.state.watches;
        if watches.get() >= self.own.config.watches_max {
            guest.refuse(Limit::Capability);
            return Err("too many watches".into());
        }
        watches.set(watches.get() + 1);
        let watch = Rc::new(PrefixWatch {
            rid,
            prefix: prefix.into(),
            responses: self.responses.clone(),
            untold: RefCell::default(),
            overflowed: Cell::new(false),
            changes_max: self.own.config.changes_max,
        });
        let watcher: Rc<dyn Watcher> = watch.clone();
        let watcher: Weak<dyn Watcher> = Rc::downgrade(&watcher);
        self.store.watch(watcher);
        self.watches.borrow_mut().push(watch);
        Ok(Vec::new())
    }
}

impl Service for KeyValueHandle {
    const TRACE: &'static str = TRACE;
    const REQUEST_BYTES_MAX: usize = REQUEST_BYTES_MAX;
    const REPLY_BYTES_MAX: usize = REPLY_BYTES_MAX;

    fn check(header: &Header) -> Result<(), &'static str> {
        match header {
            Header { status: 1.., .. } => Err("status must be 0"),
            Header { op: OP_GET..=OP_WATCH, .. } => Ok(()),
            _ => Err("unknown op"),
        }
    }

    fn call(&self, guest: &GuestContext, request: &Frame<'_>) -> Reply {
        let mut reader = Reader::new(request.payload);
        let key = reader.string().ok().and_then(|key| std::str::from_utf8(key).ok());
        let key = key.ok_or("the payload begins with no string, or with one that is not UTF-8")?;
        let value = if request.op == OP_PUT { reader.string().ok() } else { Some(&[][..]) };
        let value = value.ok_or("the payload has no value")?;
        if !reader.rest().is_empty() {
            return Err("the payload is longer than what it announces".into());
        }
        match request.op {
            OP_GET => self.get(key),
            OP_PUT => self.put(guest, key, value),
            OP_DELETE => self.delete(key),
            _ => self.watch(guest, request.rid, key),
        }
    }

    /// There is room again for what could not be told.
    fn drained(&self, _guest: &GuestContext) {
        for watch in self.watches.borrow().iter() {
            watch.tell_untold(&self.store);
        }
    }

    fn close(&self, _guest: &GuestContext) {
        let ended = std::mem::take(&mut *self.watches.borrow_mut()).len();
        let watches = &self.own.state.watches;
        watches.set(watches.get() - ended);
    }
}

/// A guest's wish to be told of changes to the keys that begin with a prefix.
struct PrefixWatch {
    rid: u32,
    prefix: String,
    responses: Rc<Responses>,
    /// Changes for which there was no room, and their revisions: one per key, so that a key that
    /// changes often costs no more than one that changes once.
    untold: RefCell<BTreeMap<String, u64>>,
    /// There were more of them than are remembered.
    overflowed: Cell<bool>,
    changes_max: usize,
}

impl Watcher for PrefixWatch {
    fn changed(&self, key: &str, revision: u64) {
        if !key.starts_with(&self.prefix) || self.overflowed.get() {
            return;
        }
        let mut untold = self.untold.borrow_mut();
        // Nothing overtakes what could not be told before.
        if untold.is_empty() && self.tell(key, revision) {
            return;
        }
        untold.insert(key.into(), revision);
        if untold.len() > self.changes_max {
            untold.clear();
            self.overflowed.set(true);
        }
    }
}

impl PrefixWatch {
    fn tell(&self, key: &str, revision: u64) -> bool {
        self.responses.send(OP_CHANGED, self.rid, &wire::encode_revised(revision, key.as_bytes()))
    }

    fn tell_untold(&self, store: &Store) {
        if self.overflowed.get() && self.tell("", store.revision()) {
            self.overflowed.set(false);
        }
        let mut untold = self.untold.borrow_mut();
        while let Some(change) = untold.first_entry() {
            if !self.tell(change.key(), *change.get()) {
                return;
            }
            change.remove();
        }
    }
}
