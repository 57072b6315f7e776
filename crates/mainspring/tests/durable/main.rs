//! The real program with a journal: killed, on slow, full and failing disks, and with damaged
//! files. The clauses are those of `docs/contracts/journal.md`.

#[allow(dead_code, reason = "the tests of the daemon use the rest")]
#[path = "../daemon/support.rs"]
mod support;

mod commands;
mod disks;
mod flight;
mod golden;
mod kills;
mod place;
mod restarts;
