//! `[program]` with `wasm`: a guest.

use crate::config::checks::programs::find_module;
use crate::config::keys::GRACE_DEFAULT;
use crate::config::keys::program::check_environment;
use crate::config::report::TableReport;
use crate::settings::{GuestProgram, Program};
use crate::system::preopen::folder;
use mainspring_host::{CompileLimits, Folder, Limits as GuestLimits, NetworkPolicy};
use mainspring_kernel::keys;
use mainspring_kernel::keys::{Bytes, Time};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

keys! {
    /// A WebAssembly module or component that speaks lines on its standard streams, in a sandbox:
    /// it reaches nothing that is not listed here.
    pub(in crate::config) struct WasmFile {
        /// The path of the module or component.
        wasm: PathBuf;
        /// Its arguments.
        arguments: Vec<String> = Vec::new();
        /// Its environment.
        env: BTreeMap<String, String> = BTreeMap::new();
        /// Where it may connect: rules such as `db.example.com:5432`, `10.0.0.0/8:*` or
        /// `loopback:80`.
        allow_connect: Vec<String> = Vec::new();
        /// Where it may listen: rules for addresses.
        allow_listen: Vec<String> = Vec::new();
        /// Whether it may use WASI's sockets too, under the same rules.
        wasi_sockets: bool = false;
        /// Folders that are opened to it, as `HOST`, `HOST::GUEST` or `HOST::GUEST:ro`.
        folders: Vec<String> = Vec::new();
        /// How long it may take to end once its input has ended: it is interrupted after half of
        /// that time and killed after all of it.
        grace: Duration as Time = GRACE_DEFAULT;
        /// What it may use.
        limits: WasmLimitsFile = WasmLimitsFile::default();
    }
}

keys! {
    /// What a guest may use at most.
    pub(in crate::config) struct WasmLimitsFile {
        /// Memory.
        memory: usize as Bytes = shipped().memory_bytes;
        /// CPU time in all; then it is ended. Absent: without limit.
        cpu: Option<Duration> as Option<Time> = shipped().cpu_total;
        /// CPU time before others get a turn.
        cpu_slice: Duration as Time = shipped().cpu_slice;
        /// Open handles.
        handles: usize = shipped().handles;
        /// Watches.
        watches: usize = shipped().watches;
        /// Armed timers.
        timers: usize = shipped().timers;
        /// Bytes that are held for it.
        buffered: usize as Bytes = shipped().buffered_bytes;
        /// Bytes per second over the network. Absent: without limit.
        bandwidth: Option<u64> as Option<Bytes> = shipped().bandwidth_bytes_per_s;
        /// Bytes that it may add to the folders that it may write to.
        folder: u64 as Bytes = shipped().folder_bytes.unwrap_or(u64::MAX);
        /// The size of the module or component.
        module: u64 as Bytes = compile_shipped().bytes;
        /// The size of its largest function.
        function: u64 as Bytes = compile_shipped().function_bytes;
        /// CPU time that compiling it may take.
        compile_time: Duration as Time = compile_shipped().cpu_time;
        /// Memory that compiling it may take.
        compile_memory: u64 as Bytes = compile_shipped().memory_bytes;
    }
}

fn shipped() -> GuestLimits {
    GuestLimits::default()
}

fn compile_shipped() -> CompileLimits {
    CompileLimits::default()
}

/// The program, if it is sound and there.
pub(super) fn read(table: &mut TableReport<'_>) -> Option<Program> {
    let file: WasmFile = table.read()?;
    let before = table.problem_count();
    let module = table.source().beside(&file.wasm);
    if let Err(message) = find_module(&module) {
        table.problem("wasm", message);
    }
    check_rules(table, &file);
    let folders = folders(table, &file.folders);
    check_environment(table, &file.env);
    (table.problem_count() == before).then(|| {
        Program::Guest(GuestProgram {
            module,
            arguments: file.arguments,
            environment: file.env.into_iter().collect(),
            allow_connect: file.allow_connect,
            allow_listen: file.allow_listen,
            wasi_sockets: file.wasi_sockets,
            folders,
            limits: guest_limits(&file.limits),
            compile: compile_limits(&file.limits),
            grace: file.grace,
        })
    })
}

fn check_rules(table: &mut TableReport<'_>, file: &WasmFile) {
    let mut policy = NetworkPolicy::default();
    for (at, rule) in file.allow_connect.iter().enumerate() {
        if let Err(error) = policy.allow_connect(rule) {
            table.problem_in("allow_connect", at, error.to_string());
        }
    }
    for (at, rule) in file.allow_listen.iter().enumerate() {
        if let Err(error) = policy.allow_listen(rule) {
            table.problem_in("allow_listen", at, error.to_string());
        }
    }
}

fn folders(table: &mut TableReport<'_>, texts: &[String]) -> Vec<Folder> {
    let mut folders = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        match folder(text) {
            Err(message) => table.problem_in("folders", at, message),
            Ok(folder) => {
                let path = table.source().beside(&folder.path);
                if !path.is_dir() {
                    table.problem_in("folders", at, format!("there is no folder {}", path.display()));
                }
                folders.push(Folder { path, ..folder });
            }
        }
    }
    folders
}

fn guest_limits(file: &WasmLimitsFile) -> GuestLimits {
    GuestLimits {
        memory_bytes: file.memory,
        cpu_total: file.cpu,
        cpu_slice: file.cpu_slice,
        handles: file.handles,
        watches: file.watches,
        timers: file.timers,
        buffered_bytes: file.buffered,
        bandwidth_bytes_per_s: file.bandwidth,
        folder_bytes: Some(file.folder),
        ..shipped()
    }
}

fn compile_limits(file: &WasmLimitsFile) -> CompileLimits {
    CompileLimits {
        bytes: file.module,
        function_bytes: file.function,
        cpu_time: file.compile_time,
        memory_bytes: file.compile_memory,
    }
}
