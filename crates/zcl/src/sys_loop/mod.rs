//! `sys/loop@v1`: how a guest waits for everything at once.
//!
//! Five requests ([`Watch`], [`Unwatch`], [`TimerArm`], [`TimerCancel`], [`Poll`]), and the
//! response to a poll: a [`PollResponse`] with [`Event`]s. The other four are answered by an empty
//! payload.

mod readiness;
mod request;
mod response;

pub use readiness::Readiness;
pub use request::{BadRequest, Poll, Request, TimerArm, TimerCancel, Unwatch, Watch};
pub use response::{Event, MalformedResponse, PollResponse};

/// Registers interest in a handle.
pub const OP_WATCH: u16 = 1;
/// Removes a watch.
pub const OP_UNWATCH: u16 = 2;
/// Arms a timer.
pub const OP_TIMER_ARM: u16 = 3;
/// Cancels a timer.
pub const OP_TIMER_CANCEL: u16 = 4;
/// Waits for events.
pub const OP_POLL: u16 = 5;

/// The trace of every error that the loop reports.
pub const TRACE: &str = "sys.loop";

/// The longest payload of a request.
pub const REQUEST_PAYLOAD_BYTES_MAX: usize = TimerArm::PAYLOAD_BYTES;

/// A `timeout_ms` without end.
pub const TIMEOUT_FOREVER: u32 = u32::MAX;
