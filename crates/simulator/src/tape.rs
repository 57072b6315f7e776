//! The tape of a kernel, kept in memory, and the promise that it replays to the same effects.

use crate::world::{Checked, Violation};
use mainspring_kernel::{Config, Kernel, Replay, TapeReader, TapeSink};
use std::sync::{Arc, Mutex, PoisonError};

/// A tape in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryTape(Arc<Mutex<Vec<u8>>>);

impl TapeSink for MemoryTape {
    fn take(&mut self, record: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(record);
    }
}

impl MemoryTape {
    /// A kernel and its tape, or none if nobody wants one.
    pub(crate) fn kernel(config: Config, nonce: u64, is_wanted: bool) -> (Kernel, Option<MemoryTape>) {
        if !is_wanted {
            return (Kernel::new(config, nonce), None);
        }
        let tape = MemoryTape::default();
        (Kernel::recorded(config, nonce, Box::new(tape.clone())), Some(tape))
    }

    /// Runs it once more: the same inputs come to the same effects, byte for byte.
    pub(crate) fn check(&self) -> Checked {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut replay = Replay::default();
        for recorded in TapeReader::new(&bytes) {
            let taken = recorded.map_err(Into::into).and_then(|recorded| replay.take(recorded));
            taken.map_err(|error| Violation(format!("the tape does not replay: {error}; {error:?}")))?;
        }
        Ok(())
    }
}
