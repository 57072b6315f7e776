//! All clients, by number, and who is to be read and written next.

use crate::daemon::clients::client::ConnectedClient;
use crate::daemon::clients::gates::Gates;
use mainspring_kernel::ConnectionId;
use slab::Slab;
use std::collections::VecDeque;

/// Bits of a connection's number that count; the rest is its place in the table.
const SERIAL_BITS: u32 = 40;
/// Places in the table that such a number can name.
pub(super) const SLOTS_MAX: usize = 1 << (u64::BITS - 1 - SERIAL_BITS);
/// What the end of a client's input counts for among the bytes that are read per turn: it costs as
/// much time.
const END_BYTES: u64 = 1 << 10;
/// Buffers kept for the next writes, and how large all of them together may be.
const SPARE_BUFFERS_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 4 << 20;
/// How large one of them may be.
const SPARE_BUFFER_BYTES_MAX: usize = 256 << 10;

pub(super) struct ClientTable {
    pub(super) slots: Slab<ConnectedClient>,
    serial: u64,
    /// Where everybody's bytes are read to.
    pub(super) buffer: Box<[u8]>,
    pub(super) spare: SpareBuffers,
    /// Those with something to write, or to be closed.
    pub(super) dirty: VecDeque<usize>,
    /// Those with events to write and nothing else.
    pub(super) dirty_events: VecDeque<usize>,
    /// Bytes that were buffered since everybody was written to.
    pub(super) unflushed: usize,
    /// Bytes for clients that the kernel does not know any more.
    pub(super) closing_bytes: usize,
    /// Clients that it does not know any more, and others do not know of that yet.
    pub(super) gone: Vec<ConnectionId>,
    /// Those who have sent something, in the order in which they are to be read.
    pub(super) readable: VecDeque<ConnectionId>,
    /// Bytes that are held of lines without an end.
    pub(super) partial_bytes: usize,
    /// Inputs that have ended.
    pub(super) ends: u64,
    pub(super) gates: Gates,
    pub(super) counters: ClientCounters,
}

/// What the clients did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientCounters {
    /// Reads that brought something.
    pub(crate) reads: u64,
    /// Bytes that they brought.
    pub(crate) bytes_in: u64,
    /// Writes, whether or not they took everything.
    pub(crate) writes: u64,
    /// Bytes that were written, or thrown away because nobody was there any more.
    pub(crate) bytes_out: u64,
    /// Clients that were turned away.
    pub(crate) refused: u64,
}

impl ClientTable {
    pub(super) fn new(buffer_bytes: usize) -> ClientTable {
        ClientTable {
            slots: Slab::new(),
            serial: 0,
            buffer: vec![0; buffer_bytes].into_boxed_slice(),
            spare: SpareBuffers::default(),
            dirty: VecDeque::new(),
            dirty_events: VecDeque::new(),
            unflushed: 0,
            closing_bytes: 0,
            gone: Vec::new(),
            readable: VecDeque::new(),
            partial_bytes: 0,
            ends: 0,
            gates: Gates::default(),
            counters: ClientCounters::default(),
        }
    }

    /// The number of the next client that is inserted: its place, and a serial that tells it from
    /// those before it there.
    pub(super) fn next_id(&mut self) -> ConnectionId {
        self.serial += 1;
        let serial = self.serial & ((1 << SERIAL_BITS) - 1);
        ConnectionId((self.slots.vacant_key() as u64) << SERIAL_BITS | serial)
    }

    #[inline]
    pub(super) fn find(&mut self, id: ConnectionId) -> Option<&mut ConnectedClient> {
        self.slots.get_mut(slot_of(id)).filter(|client| client.id == id)
    }

    /// What has been read, with what the ends of inputs count for.
    pub(super) fn read_work(&self) -> u64 {
        self.counters.bytes_in + self.ends * END_BYTES
    }

    /// There is something to write to a client, or it is to be closed.
    pub(super) fn mark_dirty(&mut self, slot: usize) {
        if self.slots.get_mut(slot).is_some_and(ConnectedClient::mark_dirty) {
            self.dirty.push_back(slot);
        }
    }
}

/// Buffers that nobody writes to just now: as many as clients are written to in a turn, mostly.
#[derive(Default)]
pub(super) struct SpareBuffers {
    buffers: Vec<Vec<u8>>,
    /// How large all of them are together.
    bytes: usize,
}

impl SpareBuffers {
    /// A buffer for the next write, if there is one.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        let buffer = self.buffers.pop()?;
        self.bytes -= buffer.capacity();
        Some(buffer)
    }

    /// Keeps a buffer for the next write.
    #[inline]
    pub(super) fn keep(&mut self, buffer: Vec<u8>) {
        let is_of_use = (1..=SPARE_BUFFER_BYTES_MAX).contains(&buffer.capacity());
        let bytes = self.bytes + buffer.capacity();
        if is_of_use && bytes <= SPARE_BYTES_MAX && self.buffers.len() < SPARE_BUFFERS_MAX {
            self.bytes = bytes;
            self.buffers.push(buffer);
        }
    }
}

/// The place of a client in the table.
#[inline]
pub(super) fn slot_of(id: ConnectionId) -> usize {
    (id.0 >> SERIAL_BITS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many buffers of one size are kept.
    fn kept(count: usize, bytes: usize) -> usize {
        let mut spare = SpareBuffers::default();
        (0..count).for_each(|_| spare.keep(Vec::with_capacity(bytes)));
        std::iter::from_fn(|| spare.take()).inspect(|buffer| assert!(buffer.capacity() >= bytes)).count()
    }

    #[test]
    fn spare_buffers_are_bounded_one_by_one_and_together() {
        assert_eq!(kept(10, 0), 0);
        assert_eq!(kept(10, SPARE_BUFFER_BYTES_MAX + 1), 0);
        assert_eq!(kept(10, 1000), 10);
        assert_eq!(kept(1000, 1000), SPARE_BUFFERS_MAX);
        assert_eq!(kept(1000, SPARE_BUFFER_BYTES_MAX), SPARE_BYTES_MAX / SPARE_BUFFER_BYTES_MAX);
    }
}
