//! The handle table: numbers that a guest holds, and what they stand for.

use crate::capabilities::sys_loop::Loop;
use crate::handles::resource::Resource;
use mainspring_zcl::abi::{ErrorCode, FIRST_FREE_HANDLE};
use std::collections::VecDeque;
use std::rc::Rc;

/// What a handle stands for. Only the loop can suspend its guest, so only the loop is told apart.
#[derive(Clone)]
pub(crate) enum HandleEntry {
    Loop(Rc<Loop>),
    Resource(Rc<dyn Resource>),
}

impl HandleEntry {
    pub(crate) fn resource(&self) -> &dyn Resource {
        match self {
            HandleEntry::Loop(entry) => &**entry,
            HandleEntry::Resource(entry) => &**entry,
        }
    }
}

/// Handles that there is room for from the start, beside the standard streams.
const HANDLES_EXPECTED: usize = 5;

/// Open handles by number. Closed numbers are used again, the one that has been closed longest
/// first, so a guest that uses a stale number is most likely told so.
pub(crate) struct Table {
    entries: Vec<Option<HandleEntry>>,
    free: VecDeque<u32>,
    open: usize,
    handles_max: usize,
}

impl Table {
    pub(crate) fn new(handles_max: usize) -> Table {
        let reserved = FIRST_FREE_HANDLE as usize;
        // Nearly every guest opens a loop handle, and many a few more.
        let mut entries = Vec::with_capacity(reserved + HANDLES_EXPECTED);
        entries.resize(reserved, None);
        Table {
            entries,
            free: VecDeque::new(),
            open: 0,
            handles_max: handles_max.max(reserved).min(i32::MAX as usize),
        }
    }

    pub(crate) fn open_count(&self) -> usize {
        self.open
    }

    /// Whether another handle may be opened.
    pub(crate) fn has_room(&self) -> bool {
        self.open < self.handles_max
    }

    /// Puts something at one of the standard numbers.
    pub(crate) fn place(&mut self, number: usize, entry: HandleEntry) {
        if self.entries[number].replace(entry).is_none() {
            self.open += 1;
        }
    }

    /// Opens a handle; `None` if the limit is reached.
    pub(crate) fn insert(&mut self, entry: HandleEntry) -> Option<u32> {
        if !self.has_room() {
            return None;
        }
        self.open += 1;
        if let Some(number) = self.free.pop_front() {
            self.entries[number as usize] = Some(entry);
            return Some(number);
        }
        self.entries.push(Some(entry));
        Some(self.entries.len() as u32 - 1)
    }

    /// What a handle stands for.
    ///
    /// # Errors
    /// [`ErrorCode::NoSys`] if it is not open.
    pub(crate) fn get(&self, number: i32) -> Result<HandleEntry, ErrorCode> {
        let slot = usize::try_from(number).ok().and_then(|number| self.entries.get(number));
        slot.and_then(Clone::clone).ok_or(ErrorCode::NoSys)
    }

    /// Closes a handle.
    ///
    /// # Errors
    /// [`ErrorCode::Closed`] if it was closed before; [`ErrorCode::NoSys`] if it was never open.
    pub(crate) fn remove(&mut self, number: i32) -> Result<HandleEntry, ErrorCode> {
        let index = usize::try_from(number).map_err(|_| ErrorCode::NoSys)?;
        let slot = self.entries.get_mut(index).ok_or(ErrorCode::NoSys)?;
        let entry = slot.take().ok_or(ErrorCode::Closed)?;
        self.open -= 1;
        if number >= FIRST_FREE_HANDLE {
            self.free.push_back(index as u32);
        }
        Ok(entry)
    }

    /// Closes everything.
    pub(crate) fn clear(&mut self) -> Vec<Option<HandleEntry>> {
        self.open = 0;
        self.free.clear();
        std::mem::take(&mut self.entries)
    }
}
