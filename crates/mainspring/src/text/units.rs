//! Sizes and durations as people write them.

#[cfg(feature = "guests")]
pub(crate) use mainspring_kernel::keys::parse_bytes as bytes;
pub(crate) use mainspring_kernel::keys::{parse_duration as duration, show_bytes, show_duration};
