//! `[program]` with `process`: a child process.

use crate::config::checks::{programs, scripts};
use crate::config::keys::GRACE_DEFAULT;
use crate::config::keys::program::check_environment;
use crate::config::report::TableReport;
use crate::settings::{ProcessLimits, ProcessProgram, Program};
use mainspring_kernel::keys;
use mainspring_kernel::keys::{Bytes, Time};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

keys! {
    /// A child process that reads messages on its standard input and writes messages on its
    /// standard output, one JSON object a line.
    pub(in crate::config) struct ProcessFile {
        /// The program and its arguments, as a list. A name without `/` is looked up in `PATH`; a
        /// relative path begins at `folder`.
        process: Vec<String>;
        /// The folder that it runs in. Absent: that of the manifest.
        folder: Option<PathBuf> = None;
        /// Variables of its environment besides those of the daemon.
        env: BTreeMap<String, String> = BTreeMap::new();
        /// How long it may take to end once its input has ended; then it is told (SIGTERM), and as
        /// long again later killed.
        grace: Duration as Time = GRACE_DEFAULT;
        /// What the operating system lets it use.
        limits: ProcessLimitsFile = ProcessLimitsFile::default();
    }
}

keys! {
    /// What the operating system lets a child process use. What is absent is as for the daemon
    /// itself.
    pub(in crate::config) struct ProcessLimitsFile {
        /// Address space.
        memory: Option<u64> as Option<Bytes> = None;
        /// CPU time in all, in whole seconds.
        cpu: Option<Duration> as Option<Time> = None;
        /// Open files.
        files: Option<u64> = None;
        /// The largest file that it may write.
        file_size: Option<u64> as Option<Bytes> = None;
    }
}

/// The program, if it is sound and there.
pub(super) fn read(table: &mut TableReport<'_>) -> Option<Program> {
    let file: ProcessFile = table.read()?;
    check(table, "process", file, false)
}

/// The same of a command that is named by `key`.
pub(super) fn check(
    table: &mut TableReport<'_>,
    key: &'static str,
    file: ProcessFile,
    is_mcp_server: bool,
) -> Option<Program> {
    let source = table.source().clone();
    let folder = file.folder.map_or(source.folder().to_path_buf(), |folder| source.beside(folder));
    let before = table.problem_count();
    if !folder.is_dir() {
        table.problem("folder", format!("there is no folder {}", folder.display()));
    }
    match file.process.first() {
        None => table.problem(key, "say which program to run"),
        Some(command) => {
            if let Err(message) = programs::find_program(command, &folder) {
                table.problem_in(key, 0, message);
            } else if let Some((at, message)) = scripts::missing(&file.process, &folder) {
                table.warn_in(key, at, message);
            }
        }
    }
    check_environment(table, &file.env);
    (table.problem_count() == before).then(|| {
        Program::Process(ProcessProgram {
            command: file.process,
            is_mcp_server,
            folder,
            environment: file.env.into_iter().collect(),
            limits: limits(&file.limits),
            grace: file.grace,
        })
    })
}

fn limits(file: &ProcessLimitsFile) -> ProcessLimits {
    ProcessLimits {
        memory_bytes: file.memory,
        cpu_seconds: file.cpu.map(|time| time.as_secs_f64().ceil() as u64),
        files: file.files,
        file_bytes: file.file_size,
    }
}
