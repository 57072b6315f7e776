//! Mainspring's front door: what the program `mainspring` is made of, as a library.
//!
//! - [`client`]: a blocking client of the daemon, for the commands.
//! - [`cli`]: the command line, one file for each command.
//! - [`config`]: from `mainspring.toml`, manifests and flags to settings.
//! - [`daemon`]: clients and actors around the kernel, on one loop.
//! - [`protocol`]: the protocol, documented from the code itself.
//! - [`settings`]: what a daemon is to run, as plain values.
//! - [`socket_path`]: where the daemon's socket is.
//! - [`native`]: what the capabilities say about themselves that are code of the daemon.
//! - [`CodeCache`]: compiled guests, kept between runs.

pub mod cli;
pub mod client;
mod code_cache;
mod compiler;
pub mod config;
pub mod daemon;
mod files;
pub mod native;
mod preopen;
mod printable;
pub mod protocol;
pub mod settings;
mod short_message;
mod signal_mask;
pub mod socket_path;
mod trust;
mod units;

pub use code_cache::{CACHED_PROGRAMS_MAX, CodeCache};
