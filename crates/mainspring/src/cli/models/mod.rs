//! For models and for programs: the bridge to the Model Context Protocol, types for other
//! languages.
//!
//! `mcp` starts the bridge, which is a program of its own (`crates/mcp`), and `helper` finds it;
//! `install` writes it into the configuration of a client. `codegen` makes modules from what
//! `Syscall.Describe` says. Nothing outside of `cli/` touches them.

pub(in crate::cli) mod codegen;
pub(in crate::cli) mod helper;
mod install;
pub(in crate::cli) mod mcp;
