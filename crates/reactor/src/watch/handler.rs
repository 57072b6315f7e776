//! The callback of a watcher, at an address that stays put while it runs.

use crate::Event;
use std::ptr::NonNull;

/// What the loop calls when a descriptor is ready. Returns how many user callbacks ran.
pub(crate) trait Handler {
    fn ready(&mut self, event: &Event<'_>) -> u32;
}

/// An owned handler that may be moved, but not dropped, while it is being called.
///
/// A `Box` may not be moved while a reference to its content is in use. This may: a running
/// callback can have its own watcher replaced or removed, which moves the handler out of the table,
/// and the table itself may grow.
pub(crate) struct HandlerBox(NonNull<dyn Handler>);

impl HandlerBox {
    pub(crate) fn new(handler: Box<dyn Handler>) -> HandlerBox {
        HandlerBox(NonNull::from(Box::leak(handler)))
    }

    /// Where the handler lives until this is dropped.
    #[inline]
    pub(crate) fn address(&self) -> NonNull<dyn Handler> {
        self.0
    }
}

impl Drop for HandlerBox {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::leak` in `new`, this is its only owner, and whoever
        // calls the handler keeps this alive meanwhile (`FdTable::begin`).
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
