//! For models and for programs: the bridge to the Model Context Protocol, types for other languages.

pub(in crate::cli) mod codegen;
pub(in crate::cli) mod helper;
mod install;
pub(in crate::cli) mod mcp;
