//! The same inputs again, and whether they come to the same effects.

use super::digest;
use super::reading::{Recorded, TapeError};
use crate::api::effect::Effect;
use crate::api::ids::Now;
use crate::api::input::Input;
use crate::kernel::Kernel;

/// Effects that are shown where a replay differs.
const SHOWN_MAX: usize = 16;

/// Runs a tape once more.
///
/// # Examples
///
/// ```
/// use mainspring_kernel::{Config, Input, Kernel, Now, Replay, TapeReader, TapeSink};
/// use std::sync::{Arc, Mutex};
///
/// #[derive(Debug, Default)]
/// struct Bytes(Arc<Mutex<Vec<u8>>>);
///
/// impl TapeSink for Bytes {
///     fn take(&mut self, record: &[u8]) {
///         self.0.lock().unwrap().extend_from_slice(record);
///     }
/// }
///
/// let bytes = Arc::new(Mutex::new(Vec::new()));
/// let mut kernel = Kernel::recorded(Config::default(), 7, Box::new(Bytes(Arc::clone(&bytes))));
/// kernel.apply(Input::Boot(Default::default()), Now::default());
/// kernel.turn(Now::default());
/// kernel.drain_effects(&mut Vec::new());
///
/// let mut replay = Replay::default();
/// for recorded in TapeReader::new(&bytes.lock().unwrap()) {
///     replay.take(recorded?)?;
/// }
/// assert_eq!(replay.inputs(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Replay {
    kernel: Option<Kernel>,
    now: Now,
    digest: u64,
    inputs: u64,
    effects: u64,
    buffer: Vec<Effect>,
}

/// Why a tape cannot be replayed, or where it differs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The first records are missing.
    #[error("the beginning is missing, and without it nothing can be replayed")]
    NoBeginning,
    /// Records in between are missing.
    #[error("{missing} records are missing after input {after}")]
    Gap {
        /// The last input before them.
        after: u64,
        /// How many.
        missing: u64,
    },
    /// The kernel wants other things done now.
    #[error("after input {after}, {was} effects became {is} others, or the same number with other bytes")]
    Differs {
        /// The last input.
        after: u64,
        /// When that was, in Unix milliseconds.
        unix_ms: u64,
        /// How many effects there were.
        was: u64,
        /// How many there are now.
        is: u64,
        /// The first of those that there are now.
        effects: Vec<String>,
    },
    /// A record cannot be read.
    #[error(transparent)]
    Unreadable(#[from] TapeError),
}

impl Replay {
    /// The next record.
    ///
    /// # Errors
    /// [`ReplayError`]; there is no going on after one.
    pub fn take(&mut self, recorded: Recorded) -> Result<(), ReplayError> {
        match recorded {
            Recorded::Begin { config, nonce } => {
                self.kernel = Some(Kernel::new(*config, nonce));
                self.digest = 0;
            }
            Recorded::Now(now) => self.now = now,
            Recorded::Input(input) => self.input(*input)?,
            Recorded::Effects { count, digest } => self.compare(count, digest)?,
            Recorded::Gap { missing } => return Err(ReplayError::Gap { after: self.inputs, missing }),
        }
        Ok(())
    }

    /// How many inputs there were so far.
    pub fn inputs(&self) -> u64 {
        self.inputs
    }

    /// How many effects were compared so far.
    pub fn effects(&self) -> u64 {
        self.effects
    }

    /// The time of the last input.
    pub fn now(&self) -> Now {
        self.now
    }

    fn input(&mut self, input: Input) -> Result<(), ReplayError> {
        let kernel = self.kernel.as_mut().ok_or(ReplayError::NoBeginning)?;
        kernel.apply(input, self.now);
        self.inputs += 1;
        Ok(())
    }

    fn compare(&mut self, count: u64, wanted: u64) -> Result<(), ReplayError> {
        let kernel = self.kernel.as_mut().ok_or(ReplayError::NoBeginning)?;
        self.buffer.clear();
        kernel.drain_effects(&mut self.buffer);
        self.digest = digest::of(self.digest, &self.buffer, &[]);
        self.effects += count;
        if self.buffer.len() as u64 == count && self.digest == wanted {
            return Ok(());
        }
        Err(ReplayError::Differs {
            after: self.inputs,
            unix_ms: self.now.unix_ms,
            was: count,
            is: self.buffer.len() as u64,
            effects: self.buffer.iter().take(SHOWN_MAX).map(|effect| format!("{effect:?}")).collect(),
        })
    }
}
