//! Mainspring and the Model Context Protocol.
//!
//! - [`Bridge`] settings and [`serve`]: a process between a daemon and a model's client. Every
//!   command and query of the capabilities is a tool, with schemas and hints from the catalogue; on
//!   standard streams or by HTTP, in both eras of the protocol.
//! - [`adapter`]: the other way round, an MCP server as a capability; and its manifest.
//!
//! The bridge talks to the daemon like any client and gives up at once what it does not need, so a
//! model can do what the bridge was started for and nothing else.

pub mod adapter;
mod bridge;
mod catalogue;
mod error;
mod http;
mod schema;
mod settings;

pub use bridge::{Bridge, Document};
pub use error::McpError;
pub use http::HttpListener;
pub use settings::{ManifestSettings, Settings};

/// Serves a model's client until it goes, or until SIGTERM or SIGINT.
///
/// # Errors
/// There is no daemon, it refuses what the bridge is to give up, or the address cannot be used.
pub fn serve(bridge: Bridge) -> Result<(), McpError> {
    let runtime = runtime()?;
    let ended = runtime.block_on(bridge::run(bridge));
    // A read of standard input that is still waiting must not keep the process.
    runtime.shutdown_background();
    ended
}

fn runtime() -> Result<tokio::runtime::Runtime, McpError> {
    let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
    made.map_err(|error| McpError::System(format!("no runtime: {error}")))
}
