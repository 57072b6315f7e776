//! What becomes of a command that a daemon before this one had accepted.

use crate::api::manifest::Redeliver;
use crate::facts::durable::Pending;

/// So many deliveries a command gets at least where it may be delivered again after a restart: one
/// that kills the daemon each time must not keep it from starting.
const DELIVERIES_MIN: u32 = 3;

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// No actor has seen it: back to its mailbox.
    Deliver,
    /// An actor has seen it, and may see it again.
    DeliverAgain,
    /// An actor had it when the daemon ended: 502, `started: yes`, a dead letter.
    Interrupted,
    /// As before, and it was delivered as often as it may be.
    GivenUp,
    /// No actor has seen it, and its capability wants nothing from before: 503, `started: no`.
    Discarded,
    /// Its deadline passed while no daemon ran: 504 and a dead letter.
    Overdue,
}

/// The fate of an unfinished command whose capability says `redeliver` and tries a request
/// `attempts` times.
pub(crate) fn fate_of(pending: &Pending, redeliver: Redeliver, attempts: u32, now_ms: u64) -> Fate {
    match (pending.attempts > 0, redeliver) {
        (true, Redeliver::Always) if pending.attempts >= attempts.max(DELIVERIES_MIN) => Fate::GivenUp,
        (true, Redeliver::IfNotStarted | Redeliver::Never) => Fate::Interrupted,
        (false, Redeliver::Never) => Fate::Discarded,
        _ if pending.deadline_ms <= now_ms => Fate::Overdue,
        (true, Redeliver::Always) => Fate::DeliverAgain,
        (false, _) => Fate::Deliver,
    }
}

/// How long it may still take: the time that no daemon ran counts, and a wall clock that was set
/// back gives no more than there was in the beginning.
pub(crate) fn time_left_ms(pending: &Pending, now_ms: u64) -> u64 {
    let whole = pending.deadline_ms.saturating_sub(pending.accepted_ms);
    pending.deadline_ms.saturating_sub(now_ms).min(whole)
}
