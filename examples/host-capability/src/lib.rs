//! An example of a capability that is not the host's own: `store/kv@v1`, a small key-value store
//! that guests share and wait for.
//!
//! It uses everything that a capability can have: a [configuration](KeyValueConfig) per guest, with
//! limits of its own; state per guest; messages in frames; and a handle that becomes readable when
//! there is news, so that `sys/loop` can wait for it. Copy it to begin one of your own.
#![doc = include_str!("../README.md")]

mod capability;
mod handle;
mod store;
pub mod wire;

pub use capability::{Access, KeyValue, KeyValueConfig};
pub use store::{Store, StoreError, StoreLimits};
