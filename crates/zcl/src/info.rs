//! `sys/info@v1`: the machine, its load, the time, and randomness.

use crate::wire::{Reader, Truncated, put};

/// Describes the machine.
pub const OP_INFO: u16 = 1;
/// Its load and memory.
pub const OP_STATS: u16 = 2;
/// The time: see [`TimeNow`].
pub const OP_TIME_NOW: u16 = 3;
/// Random bytes to seed a generator with: see [`RandomSeed`].
pub const OP_RANDOM_SEED: u16 = 4;

/// The trace of every error that `sys/info` reports.
pub const TRACE: &str = "sys.info";

/// The answer to [`OP_TIME_NOW`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeNow {
    /// Nanoseconds since 1970.
    pub realtime_ns: u64,
    /// Nanoseconds on the clock that `sys/loop` timers use.
    pub monotonic_ns: u64,
}

impl TimeNow {
    /// Bytes of the payload.
    pub const PAYLOAD_BYTES: usize = 20;

    /// Reads a payload.
    ///
    /// # Errors
    /// [`Truncated`] if the size or the version is wrong.
    pub fn decode(payload: &[u8]) -> Result<TimeNow, Truncated> {
        let mut reader = Reader::new(payload);
        let version = reader.u32()?;
        let time = TimeNow { realtime_ns: reader.u64()?, monotonic_ns: reader.u64()? };
        if version == 1 && reader.rest().is_empty() { Ok(time) } else { Err(Truncated) }
    }

    /// Writes the payload.
    pub const fn encode(&self) -> [u8; TimeNow::PAYLOAD_BYTES] {
        let bytes = put([0; TimeNow::PAYLOAD_BYTES], 0, 1u32.to_le_bytes());
        let bytes = put(bytes, 4, self.realtime_ns.to_le_bytes());
        put(bytes, 12, self.monotonic_ns.to_le_bytes())
    }
}

/// The answer to [`OP_RANDOM_SEED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RandomSeed(pub [u8; RandomSeed::SEED_BYTES]);

impl RandomSeed {
    /// Bytes of the seed.
    pub const SEED_BYTES: usize = 32;
    /// Bytes of the payload.
    pub const PAYLOAD_BYTES: usize = 8 + RandomSeed::SEED_BYTES;

    /// Reads a payload.
    ///
    /// # Errors
    /// [`Truncated`] if the size or the version is wrong.
    pub fn decode(payload: &[u8]) -> Result<RandomSeed, Truncated> {
        let mut reader = Reader::new(payload);
        let (version, length) = (reader.u32()?, reader.u32()?);
        let mut seed = [0; RandomSeed::SEED_BYTES];
        if version != 1 || length as usize != seed.len() || reader.rest().len() != seed.len() {
            return Err(Truncated);
        }
        seed.copy_from_slice(reader.rest());
        Ok(RandomSeed(seed))
    }

    /// Writes the payload.
    pub const fn encode(&self) -> [u8; RandomSeed::PAYLOAD_BYTES] {
        let bytes = put([0; RandomSeed::PAYLOAD_BYTES], 0, 1u32.to_le_bytes());
        let bytes = put(bytes, 4, (RandomSeed::SEED_BYTES as u32).to_le_bytes());
        put(bytes, 8, self.0)
    }
}
