//! To be written.

pub mod wheel;
