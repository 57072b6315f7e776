//! The capability: its name, what a guest is given of it, what is kept per guest, and opening it.

use crate::handle::KeyValueHandle;
use crate::store::Store;
use crate::wire::KEY_BYTES_MAX;
use mainspring_host::{Capability, CapabilityId, ErrorCode, Framed, Limits, Opened, Opening};
use std::cell::Cell;
use std::rc::Rc;

/// The capability. All that is configured is configured per guest, so it has no fields; a
/// capability with settings for the whole host has them here.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyValue;

/// What a guest may do with its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Read and watch.
    #[default]
    ReadOnly,
    /// Write as well.
    ReadWrite,
}

/// What one guest is given. By default nothing: it cannot open the capability.
#[derive(Clone, Debug)]
pub struct KeyValueConfig {
    /// The store. Guests that are given the same one share it.
    pub store: Option<Rc<Store>>,
    /// What the guest may do with it.
    pub access: Access,
    /// Watches over all of its handles. 16.
    pub watches_max: usize,
    /// Changed keys that one watch remembers while the guest does not read; beyond, it is told to
    /// read all again. 1,024.
    pub changes_max: usize,
}

impl Default for KeyValueConfig {
    fn default() -> KeyValueConfig {
        KeyValueConfig { store: None, access: Access::ReadOnly, watches_max: 16, changes_max: 1024 }
    }
}

impl KeyValueConfig {
    /// A guest that reads.
    pub fn read_only(store: &Rc<Store>) -> KeyValueConfig {
        KeyValueConfig { store: Some(store.clone()), ..KeyValueConfig::default() }
    }

    /// A guest that reads and writes.
    pub fn read_write(store: &Rc<Store>) -> KeyValueConfig {
        KeyValueConfig { access: Access::ReadWrite, ..KeyValueConfig::read_only(store) }
    }
}

/// What is kept for one guest, whatever its number of handles.
#[derive(Debug, Default)]
pub struct KeyValueState {
    /// Its watches.
    pub(crate) watches: Cell<usize>,
}

impl Capability for KeyValue {
    const ID: CapabilityId = CapabilityId::new("store", "kv", 1);
    type Config = KeyValueConfig;
    type State = KeyValueState;

    fn configure(&self, config: &KeyValueConfig, limits: &Limits) -> Result<(), String> {
        if config.changes_max == 0 {
            return Err("changes_max must be at least 1".into());
        }
        // What is remembered for the guest is held for it, and so bounded as everything of that
        // kind.
        let held = config.watches_max.saturating_mul(config.changes_max).saturating_mul(KEY_BYTES_MAX);
        if held > limits.buffered_bytes.saturating_mul(16) {
            return Err(format!(
                "{} watches of {} changes may hold {held} bytes, which is more than 16 times the \
                 guest's limit of {} buffered bytes",
                config.watches_max, config.changes_max, limits.buffered_bytes
            ));
        }
        Ok(())
    }

    fn open(&self, opening: Opening<'_, '_>) -> Result<Opened, ErrorCode> {
        opening.no_params()?;
        let own = opening.guest.own(self);
        let store = own.config.store.clone().ok_or(ErrorCode::Denied)?;
        Ok(Framed::open(opening.guest, |responses| KeyValueHandle::new(store, own, responses)))
    }
}
