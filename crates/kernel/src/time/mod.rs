//! Messages for later, and the wheel that every deadline is in. Any part puts deadlines into the
//! wheel (it is in [`Out`](crate::out::Out)); only the turn takes out what is due. No part of the
//! kernel reads a clock.

pub(crate) mod schedules;
pub mod wheel;

use crate::api::ids::{ActorRef, CapabilityId};
use crate::requests::RequestKey;
use crate::time::schedules::ScheduleId;

/// What is done at a deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    /// The request has timed out.
    Timeout(RequestKey),
    /// The pause between two attempts is over.
    Retry(RequestKey),
    /// A restart or probe of this capability.
    Restart(CapabilityId),
    /// The actor kept an overdue request for too long.
    Hang(ActorRef),
    /// An incarnation that is to end took too long.
    Retire(ActorRef),
    /// A scheduled message is due.
    Schedule(ScheduleId),
    /// Records have gathered for long enough: the end of the turn writes them.
    Tap,
    /// The boot took too long.
    Boot,
    /// The drain took too long.
    Drain,
    /// The shutdown takes a while: the operator is told what it waits for.
    StillEnding,
    /// The flush took too long.
    Flush,
}
