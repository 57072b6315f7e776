//! Counted work: how much a turn does, without a clock.
//!
//! One unit is about a nanosecond of a usual machine, so that whoever drives the kernel knows when
//! it is worth looking at the clock. What can be a lot is cut where the count says so and goes on
//! in the next turn, and the count is the same in every run of the same inputs.

/// What a turn costs that serves one small message.
pub(crate) const TURN: u64 = 1_000;
/// What the end of a request costs.
pub(crate) const COMPLETION: u64 = 500;
/// What a timer costs.
pub(crate) const TIMER: u64 = 500;
/// What it costs to look at one of many things that stand in a row.
pub(crate) const LOOK: u64 = 50;
/// What it costs to describe one thing in an answer, besides its bytes.
pub(crate) const ITEM: u64 = 3_000;
/// Bytes that are copied on their way in or out for one unit.
pub(crate) const BYTES_PER_WORK: u64 = 4;

/// Each part of a turn ends when it has done so much, whatever is left.
pub(crate) const PART_MAX: u64 = 200_000;
/// A built-in that has more to do than this goes on in another turn.
pub(crate) const SLICE_MAX: u64 = 100_000;
/// While clients have something to be served, so many turns lie between two slices of built-ins.
pub(crate) const TURNS_BETWEEN_SLICES: u64 = 128;
/// Subscribers that get an event in one turn.
pub(crate) const FAN_OUT_MAX: usize = 512;
/// The same while clients have something to be served, one message of theirs after each slice.
pub(crate) const FAN_OUT_SHARED_MAX: usize = 128;
