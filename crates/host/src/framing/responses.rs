//! Responses: frames that the host keeps until the guest reads them.

use crate::guest::context::GuestContext;
use crate::limits::Limit;
use crate::readiness::signal::Signal;
use mainspring_zcl::abi::ErrorCode;
use mainspring_zcl::sys_loop::Readiness;
use mainspring_zcl::{ErrorPayload, HEADER_BYTES, Header, STATUS_ERROR, STATUS_OK};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

/// Most bytes of unread responses per handle.
pub(crate) const RESPONSES_BYTES_MAX: usize = 64 * 1024;
/// Room that must be left before another request is taken: every response fits that a capability
/// did not announce to be longer, and every error.
pub(crate) const RESPONSE_BYTES_DEFAULT: usize = 256;
/// A response buffer larger than this is given back once it has been read.
const IDLE_BUFFER_BYTES: usize = 4 * 1024;
/// The longest message of an error; more is cut off.
const MESSAGE_BYTES_MAX: usize = 128;

/// Responses that the guest has not read.
#[derive(Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    read: usize,
}

impl Outbox {
    fn unread(&self) -> usize {
        self.bytes.len() - self.read
    }

    /// How much more it may hold, or why not `needed` bytes: a guest with something to read here is
    /// told to come back when it has; one that has used up its buffers elsewhere has run into its
    /// limit.
    pub(crate) fn room(&self, guest: &GuestContext, needed: usize) -> Result<usize, ErrorCode> {
        let budget = guest.buffer_room();
        let room = (RESPONSES_BYTES_MAX - self.unread().min(RESPONSES_BYTES_MAX)).min(budget);
        if room >= needed {
            return Ok(room);
        }
        if budget < needed {
            guest.refuse(Limit::BufferedBytes);
        }
        Err(if self.unread() > 0 { ErrorCode::Again } else { ErrorCode::OutOfMemory })
    }

    /// Appends bytes, for which there must be room.
    pub(crate) fn push(&mut self, guest: &GuestContext, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        guest.buffered(bytes.len());
    }

    /// Leaves `count` bytes to be filled in later. Says where.
    pub(crate) fn reserve(&mut self, guest: &GuestContext, count: usize) -> usize {
        let at = self.bytes.len();
        self.bytes.resize(at + count, 0);
        guest.buffered(count);
        at
    }

    pub(crate) fn fill(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn push_ok(&mut self, guest: &GuestContext, op: u16, rid: u32, payload: &[u8]) {
        let header = Header { op, rid, status: STATUS_OK, payload_len: payload.len() as u32 };
        self.push(guest, &header.encode());
        self.push(guest, payload);
    }

    pub(crate) fn push_error(&mut self, guest: &GuestContext, op: u16, rid: u32, trace: &str, message: &str) {
        let message = &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)];
        let error = ErrorPayload { trace, message, detail: "" };
        let header = Header { op, rid, status: STATUS_ERROR, payload_len: error.len() as u32 };
        self.push(guest, &header.encode());
        for text in [error.trace, error.message, error.detail] {
            self.push(guest, &(text.len() as u32).to_le_bytes());
            self.push(guest, text.as_bytes());
        }
    }

    /// `zi_read`.
    pub(crate) fn read(&mut self, guest: &GuestContext, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
        let unread = &self.bytes[self.read..];
        if unread.is_empty() {
            return Err(ErrorCode::Again);
        }
        let count = unread.len().min(buffer.len());
        buffer[..count].copy_from_slice(&unread[..count]);
        self.read += count;
        guest.unbuffered(count);
        if self.unread() == 0 {
            self.read = 0;
            self.bytes.clear();
            if self.bytes.capacity() > IDLE_BUFFER_BYTES {
                self.bytes = Vec::new();
            }
        } else if self.read >= RESPONSES_BYTES_MAX {
            // A guest that never quite catches up must not make the buffer grow.
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        Ok(count)
    }

    /// The handle is closed: what was not read is not held any more.
    pub(crate) fn close(&mut self, guest: &GuestContext) {
        guest.unbuffered(self.unread());
        *self = Outbox::default();
    }
}

/// What a [`Framed`](crate::Framed) handle has for its guest to read.
///
/// Its [`Service`](crate::Service) keeps it to say something unasked, and by that makes the handle
/// readable: a guest that waits in `POLL` is woken.
pub struct Responses {
    outbox: RefCell<Outbox>,
    signal: Rc<Signal>,
    guest: Weak<GuestContext>,
    closed: Cell<bool>,
}

impl Responses {
    pub(crate) fn new(guest: &Rc<GuestContext>) -> Rc<Responses> {
        Rc::new(Responses {
            outbox: RefCell::default(),
            signal: Signal::raised(Readiness::WRITABLE),
            guest: Rc::downgrade(guest),
            closed: Cell::new(false),
        })
    }

    pub(crate) fn signal(&self) -> &Rc<Signal> {
        &self.signal
    }

    /// Puts a frame there that answers a request, or tells something unasked. False if there is no
    /// room for it, or the handle is closed: a guest that does not read is to lose what it does not
    /// read, not to make the host hold it.
    pub fn send(&self, op: u16, rid: u32, payload: &[u8]) -> bool {
        let Some(guest) = self.guest.upgrade().filter(|_| !self.closed.get()) else { return false };
        let needed = HEADER_BYTES + payload.len();
        let mut outbox = self.outbox.borrow_mut();
        if outbox.room(&guest, needed).is_err() {
            return false;
        }
        outbox.push_ok(&guest, op, rid, payload);
        drop(outbox);
        self.signal.raise(Readiness::READABLE);
        true
    }

    /// Whether the guest has read everything.
    pub fn is_empty(&self) -> bool {
        self.outbox.borrow().unread() == 0
    }

    /// Room for a response of `needed` bytes; without it, the handle is not writable until the
    /// guest has read.
    pub(super) fn check_room(&self, guest: &GuestContext, needed: usize) -> Result<(), ErrorCode> {
        let room = self.outbox.borrow().room(guest, needed);
        if room.is_err() {
            self.signal.lower(Readiness::WRITABLE);
        }
        room.map(drop)
    }

    pub(super) fn push_ok(&self, guest: &GuestContext, op: u16, rid: u32, payload: &[u8]) {
        self.outbox.borrow_mut().push_ok(guest, op, rid, payload);
        self.signal.raise(Readiness::READABLE);
    }

    pub(super) fn push_error(&self, guest: &GuestContext, op: u16, rid: u32, trace: &str, message: &str) {
        self.outbox.borrow_mut().push_error(guest, op, rid, trace, message);
        self.signal.raise(Readiness::READABLE);
    }

    pub(super) fn read(&self, guest: &GuestContext, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
        let outcome = self.outbox.borrow_mut().read(guest, buffer);
        if self.is_empty() {
            self.signal.lower(Readiness::READABLE);
            self.signal.raise(Readiness::WRITABLE);
        }
        outcome
    }

    pub(super) fn close(&self, guest: &GuestContext) {
        self.closed.set(true);
        self.outbox.borrow_mut().close(guest);
    }
}

impl fmt::Debug for Responses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responses")
            .field("unread_bytes", &self.outbox.borrow().unread())
            .finish_non_exhaustive()
    }
}
