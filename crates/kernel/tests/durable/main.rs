//! What survives the process, in virtual time: the facts that a kernel records, what rests on them,
//! and what the next run makes of them. The clauses are those of `docs/contracts/journal.md`.

#[path = "../rfc/support.rs"]
mod support;

mod bus;
mod cursors;
mod failures;
mod holding;
mod random;
mod restarts;
mod schedules;
