//! Facts on disk and the state that they fold into. Pure: nothing here knows a file. The kernel
//! records facts and takes a [`Durable`] up again; the daemon writes, reads and folds them.

mod codec;
mod durable;
mod resume;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

pub use codec::{FACT_KINDS, FactError};
pub use durable::{Durable, DurableBounds};
pub(crate) use durable::{Pending, Remembered, ScheduledMessage};
pub(crate) use resume::{Fate, fate_of, time_left_ms};

use mainspring_message::{Envelope, Kind};

/// A hash of what a message asks: the same for a repetition, in every build. Only a client's own
/// requests are compared by it.
pub fn fingerprint(message: &Envelope) -> u64 {
    fingerprint_of(message.kind(), message.type_name(), message.data())
}

fn fingerprint_of(kind: Kind, type_name: &str, data: &str) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let words = data.as_bytes().chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let head = [kind as u64, data.len() as u64];
    let name = type_name.bytes().map(u64::from);
    for word in head.into_iter().chain(name).chain(words) {
        // The high half is folded down, so that the last bytes of a word count as much as its
        // first.
        hash = (hash ^ word).wrapping_mul(PRIME);
        hash ^= hash >> 32;
    }
    hash
}
