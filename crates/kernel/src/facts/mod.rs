//! Facts on disk and the state that they fold into. Pure: nothing here knows a file. The kernel
//! records facts and takes a [`Durable`] up again; the daemon writes, reads and folds them.

mod answer;
mod codec;
mod durable;
mod records;
mod remembered;
mod resume;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

pub(crate) use answer::KeptAnswer;
pub use codec::{FACT_KINDS, FactError};
pub use durable::{Durable, DurableBounds};
pub(crate) use durable::{Pending, ScheduledMessage};
pub use records::{FactRecord, Records};
pub(crate) use remembered::Remembered;
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
    let mut mix = |word: u64| {
        // The high half is folded down, so that the last bytes of a word count as much as its
        // first.
        hash = (hash ^ word).wrapping_mul(PRIME);
        hash ^= hash >> 32;
    };
    mix(kind as u64);
    mix(data.len() as u64);
    type_name.bytes().for_each(|byte| mix(u64::from(byte)));
    let (words, rest) = data.as_bytes().as_chunks::<8>();
    words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
    if !rest.is_empty() {
        mix(rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    }
    hash
}
