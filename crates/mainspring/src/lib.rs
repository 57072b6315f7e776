//! What the program `mainspring` is made of, as a library.
//!
//! - [`client`]: a blocking client of the daemon, for the commands.
//! - [`cli`]: the command line, one file for each command.
//! - [`config`]: from `mainspring.toml`, manifests and flags to settings.
//! - [`daemon`]: clients and actors around the kernel, on one loop.
//! - [`protocol`]: the protocol, documented from the code itself.
//! - [`settings`]: what a daemon is to run, as plain values.
//! - [`socket_path`]: where the daemon's socket is.
//! - [`natives`]: the capabilities that are code of the daemon.
//! - `CodeCache`: compiled guests, kept between runs.
//!
//! Without the feature `guests` (on by default) there is no WebAssembly in it, and it is built in a
//! fraction of the time.

// What guests alone use stands with what it is like, in every room.
#![cfg_attr(not(feature = "guests"), allow(dead_code))]

pub mod cli;
pub mod client;
#[cfg(feature = "guests")]
mod compiler;
pub mod config;
pub mod daemon;
mod flight;
pub mod natives;
pub mod protocol;
pub mod settings;
mod system;
mod text;

#[cfg(feature = "guests")]
pub use compiler::code_cache::{CACHED_PROGRAMS_MAX, CodeCache};
pub use system::socket_path;
