//! `[program]` with `mcp`: a server of the Model Context Protocol.

use crate::config::keys::GRACE_DEFAULT;
use crate::config::keys::process::{self, ProcessFile, ProcessLimitsFile};
use crate::config::report::TableReport;
use crate::settings::Program;
use mainspring_kernel::keys;
use mainspring_kernel::keys::Time;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

keys! {
    /// A server of the Model Context Protocol on its standard streams, whose tools are the commands
    /// and queries of the capability. `mainspring new capability NAME --mcp COMMAND` asks it what
    /// it offers and writes the manifest.
    pub(in crate::config) struct McpFile {
        /// The server and its arguments, as a list. A name without `/` is looked up in `PATH`; a
        /// relative path begins at `folder`.
        mcp: Vec<String>;
        /// The folder that it runs in. Absent: that of the manifest.
        folder: Option<PathBuf> = None;
        /// Variables of its environment besides those of the daemon.
        env: BTreeMap<String, String> = BTreeMap::new();
        /// How long it may take to end once its input has ended; then it is told (SIGTERM), and as
        /// long again later killed.
        grace: Duration as Time = GRACE_DEFAULT;
        /// What the operating system lets it use, and the process that translates for it.
        limits: ProcessLimitsFile = ProcessLimitsFile::default();
    }
}

/// The program, if it is sound and there.
pub(super) fn read(table: &mut TableReport<'_>) -> Option<Program> {
    let McpFile { mcp, folder, env, grace, limits } = table.read()?;
    process::check(table, "mcp", ProcessFile { process: mcp, folder, env, grace, limits }, true)
}
