//! Mainspring's front door: what the program `mainspring` is made of, as a library.
//!
//! - [`client`]: a blocking client of the daemon, for the commands.
//! - [`cli`]: the command line, one file for each command.
//! - [`config`]: from `mainspring.toml`, manifests and flags to settings.
//! - [`daemon`]: clients and actors around the kernel, on one loop.
//! - [`protocol`]: the protocol, documented from the code itself.
//! - [`settings`]: what a daemon is to run, as plain values.
//! - [`socket_path`]: where the daemon's socket is.
//! - [`natives`]: the capabilities that are code of the daemon.
//! - [`CodeCache`]: compiled guests, kept between runs.

pub mod cli;
pub mod client;
mod compiler;
pub mod config;
pub mod daemon;
pub mod natives;
pub mod protocol;
pub mod settings;
mod system;
mod text;

pub use compiler::code_cache::{CACHED_PROGRAMS_MAX, CodeCache};
pub use system::socket_path;
