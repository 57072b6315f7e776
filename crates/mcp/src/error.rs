//! Why the bridge does not run.

/// Why the bridge or the adapter does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The daemon cannot be had, or refuses something.
    #[error(transparent)]
    Daemon(#[from] mainspring_client::Error),
    /// The daemon cannot be made to take rights away.
    #[error("the daemon does not let the bridge give up rights ({0}); it is too old for `mainspring mcp`")]
    Unrestricted(mainspring_client::Error),
    /// The address for HTTP cannot be used.
    #[error("{address}: {reason}")]
    Address {
        /// What was asked for.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The MCP server that is to be a capability does not work.
    #[error("the MCP server {command}: {reason}")]
    Server {
        /// Its command line.
        command: String,
        /// What happened.
        reason: String,
    },
    /// What was said on a stream makes no sense, or the stream failed.
    #[error("{0}")]
    Stream(String),
    /// A file cannot be read or written, or holds something else.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The operating system refuses something.
    #[error("{0}")]
    System(String),
}
