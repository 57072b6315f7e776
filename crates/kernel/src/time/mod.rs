//! Messages for later, and the wheel that every deadline is in. The turn takes what is due; no part of the kernel reads a clock.

pub(crate) mod schedules;
pub mod wheel;
