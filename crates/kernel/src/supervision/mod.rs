//! Actors: mailboxes, faults, restarts with a budget, and how a running capability passes to its next manifest or program. The mailbox
//! belongs to the supervisor and outlives the actor.

pub(crate) mod actors;
pub(crate) mod candidate;
pub(crate) mod last_words;
pub(crate) mod reload;
pub(crate) mod succession;
pub(crate) mod supervise;
