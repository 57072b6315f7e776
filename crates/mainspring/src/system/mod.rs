//! What the operating system gives and demands: files and what goes wrong with them, who owns a
//! folder, which signals a process lets through, where the socket is. Every room of this crate may
//! use these; nothing here knows the daemon or its messages.

pub(crate) mod file_stamp;
pub(crate) mod files;
#[cfg(feature = "guests")]
pub(crate) mod preopen;
pub(crate) mod process_stats;
pub(crate) mod signal_mask;
pub mod socket_path;
pub(crate) mod trust;
