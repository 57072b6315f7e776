//! What the daemon tells and is told by whoever operates it: the log, the summary of its start, the
//! service manager, signals, a new reading of its configuration, the limits of the process.
//! Messages of clients do not pass here.

pub(super) mod capability_lines;
pub(super) mod limits;
pub(super) mod log;
pub(super) mod notify;
pub(super) mod reload;
pub(super) mod report;
pub(super) mod signals;
pub(super) mod throttle;
pub(super) mod vitals;
pub(super) mod watch;
