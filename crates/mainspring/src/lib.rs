//! Mainspring's front door: what the program `mainspring` is made of, as a library.
//!
//! - [`cli`]: the command line, one file for each command.
//! - [`settings`]: what a daemon is to run, as plain values.
//! - [`CodeCache`]: compiled guests, kept between runs.

pub mod cli;
mod code_cache;
pub mod settings;

pub use code_cache::{CACHED_PROGRAMS_MAX, CodeCache};
