//! Sizes and durations as people write them.

pub(crate) use mainspring_kernel::keys::{
    parse_bytes as bytes, parse_duration as duration, show_bytes, show_duration,
};
