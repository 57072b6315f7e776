//! Power cuts: one kernel after the other on the same journal, on a disk that tears, loses names
//! and keeps what it likes of what was not flushed.
//!
//! One ledger goes over all runs: each command has one outcome, nobody is told of what a cut takes
//! back, `started: no` is never wrong, and whoever reads durable events by a cursor misses none. At
//! every start the facts of the snapshot and the rest come to what all facts come to.

mod daemon;
mod disk;
mod story;

use crate::random::Random;
use crate::world::Violation;
use story::PowerStory;

/// What a simulation with power cuts consisted of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerReport {
    /// Power cuts, those in the middle of a write among them.
    pub cuts: u64,
    /// Cuts in the middle of an operation of the disk.
    pub torn: u64,
    /// Facts that were on disk in the end, counted over all runs.
    pub facts: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Commands whose outcome was told.
    pub told: u64,
    /// Durable events that a subscriber got.
    pub events: u64,
    /// A digest of all that left the daemons.
    pub digest: u64,
}

/// Simulates one seed for so many steps, with power cuts.
///
/// # Errors
///
/// When a promise is broken.
pub fn simulate_power(seed: u64, steps: u64) -> Result<PowerReport, Violation> {
    let mut story = PowerStory::new(Random::new(seed ^ 0x5057_5f43_5554_5321))?;
    for step in 0..steps {
        story.step().map_err(|violation| Violation(format!("step {step}: {}", violation.0)))?;
    }
    story.end()
}
