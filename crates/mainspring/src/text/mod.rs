//! Text that people write and read: sizes and durations, messages without metadata, and text of
//! others made safe to print. Every room of this crate may use these; they know nothing but text.

pub(crate) mod columns;
pub(crate) mod local_time;
pub(crate) mod printable;
pub(crate) mod short_message;
pub(crate) mod units;
