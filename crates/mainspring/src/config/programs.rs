//! The program behind a capability, and whether it is there.

use crate::config::file::{NativeFile, ProcessFile, Size, WasmFile, WasmLimitsFile};
use crate::config::problem::{Place, Source};
use crate::config::read;
use crate::config::scripts;
use crate::config::sources::Sources;
use crate::config::tree::Node;
use crate::natives::native_names;
use crate::settings::{GuestProgram, ProcessLimits, ProcessProgram, Program};
use crate::system::files::reason;
use crate::system::preopen::folder;
use mainspring_host::{CompileLimits, Folder, Limits as GuestLimits, NetworkPolicy};
use rustix::fs::{Access, access};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// How much of the first line of a script the operating system looks at.
const INTERPRETER_BYTES_MAX: u64 = 256;

/// The table `program` of a manifest; what is wrong with it is added to the problems.
pub(super) fn read(source: &Rc<Source>, manifest: &Node, sources: &mut Sources) -> Option<Program> {
    // That it is missing is told by whoever reads the manifest.
    let node = manifest.get("program")?;
    let mut reader = Reader { source, node, sources };
    let kinds = ["process", "wasm", "native"].into_iter().filter(|kind| node.get(kind).is_some());
    match kinds.collect::<Vec<_>>()[..] {
        ["process"] => reader.process(),
        ["wasm"] => reader.wasm(),
        ["native"] => reader.native(),
        _ => {
            reader.problem("", "a program is a table with one of `process`, `wasm` or `native`");
            None
        }
    }
}

struct Reader<'a> {
    source: &'a Rc<Source>,
    node: &'a Node,
    sources: &'a mut Sources,
}

impl Reader<'_> {
    /// A problem with the value of a key, or with the table as a whole.
    fn problem(&mut self, key: &str, message: impl Into<String>) {
        let span = self.node.get(key).map_or(&self.node.span, |node| &node.span);
        self.sources.problem(&Place { source: self.source.clone(), span: span.clone() }, message);
    }

    /// A problem with one element of a list.
    fn problem_in(&mut self, key: &str, at: usize, message: impl Into<String>) {
        let element = self.node.get(key).and_then(|node| node.elements().get(at));
        let span = element.map_or(&self.node.span, |node| &node.span);
        self.sources.problem(&Place { source: self.source.clone(), span: span.clone() }, message);
    }

    /// Something about one element of a list that is most likely not meant.
    fn warn_in(&mut self, key: &str, at: usize, message: impl Into<String>) {
        let element = self.node.get(key).and_then(|node| node.elements().get(at));
        let span = element.map_or(&self.node.span, |node| &node.span);
        self.sources.warn(&Place { source: self.source.clone(), span: span.clone() }, message);
    }

    fn process(&mut self) -> Option<Program> {
        let file: ProcessFile = read::read(self.node, self.source, &mut self.sources.problems)?;
        let folder = file.folder.map_or(self.source.folder().to_path_buf(), |it| self.source.beside(it));
        let before = self.sources.problems.len();
        if !folder.is_dir() {
            self.problem("folder", format!("there is no folder {}", folder.display()));
        }
        match file.process.first() {
            None => self.problem("process", "say which program to run"),
            Some(command) => {
                if let Err(message) = find_program(command, &folder) {
                    self.problem_in("process", 0, message);
                } else if let Some((at, message)) = scripts::missing(&file.process, &folder) {
                    self.warn_in("process", at, message);
                }
            }
        }
        let cpu_seconds = file.limits.cpu.map(|time| time.0.as_secs_f64().ceil() as u64);
        self.check_environment(&file.env);
        (self.sources.problems.len() == before).then(|| {
            Program::Process(ProcessProgram {
                command: file.process,
                folder,
                environment: file.env.into_iter().collect(),
                limits: ProcessLimits {
                    memory_bytes: file.limits.memory.map(|size| size.0),
                    cpu_seconds,
                    files: file.limits.files,
                    file_bytes: file.limits.file_size.map(|size| size.0),
                },
                grace: file.grace.0,
            })
        })
    }

    fn wasm(&mut self) -> Option<Program> {
        let file: WasmFile = read::read(self.node, self.source, &mut self.sources.problems)?;
        let before = self.sources.problems.len();
        let module = self.source.beside(&file.wasm);
        if let Err(message) = find_module(&module) {
            self.problem("wasm", message);
        }
        self.check_rules(&file);
        let folders = self.folders(&file.folders);
        self.check_environment(&file.env);
        (self.sources.problems.len() == before).then(|| {
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
                grace: file.grace.0,
            })
        })
    }

    fn native(&mut self) -> Option<Program> {
        let file: NativeFile = read::read(self.node, self.source, &mut self.sources.problems)?;
        if native_names().any(|name| name == file.native) {
            return Some(Program::Native(file.native));
        }
        let known: Vec<&str> = native_names().collect();
        let hint = read::suggest(&file.native, &known);
        self.problem("native", format!("no native capability is called {:?}; {hint}", file.native));
        None
    }

    fn check_rules(&mut self, file: &WasmFile) {
        let mut policy = NetworkPolicy::default();
        for (at, rule) in file.allow_connect.iter().enumerate() {
            if let Err(error) = policy.allow_connect(rule) {
                self.problem_in("allow_connect", at, error.to_string());
            }
        }
        for (at, rule) in file.allow_listen.iter().enumerate() {
            if let Err(error) = policy.allow_listen(rule) {
                self.problem_in("allow_listen", at, error.to_string());
            }
        }
    }

    fn folders(&mut self, texts: &[String]) -> Vec<Folder> {
        let mut folders = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            match folder(text) {
                Err(message) => self.problem_in("folders", at, message),
                Ok(folder) => {
                    let path = self.source.beside(&folder.path);
                    if !path.is_dir() {
                        self.problem_in("folders", at, format!("there is no folder {}", path.display()));
                    }
                    folders.push(Folder { path, ..folder });
                }
            }
        }
        folders
    }

    fn check_environment(&mut self, variables: &BTreeMap<String, String>) {
        for (name, value) in variables {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                self.problem("env", format!("{name:?} cannot be a variable of the environment"));
            }
        }
    }
}

fn guest_limits(file: &WasmLimitsFile) -> GuestLimits {
    let shipped = GuestLimits::default();
    let bytes = |size: Option<Size>, otherwise| {
        size.map_or(otherwise, |size| usize::try_from(size.0).unwrap_or(usize::MAX))
    };
    GuestLimits {
        memory_bytes: bytes(file.memory, shipped.memory_bytes),
        cpu_total: file.cpu.map(|time| time.0),
        cpu_slice: file.cpu_slice.map_or(shipped.cpu_slice, |time| time.0),
        handles: file.handles.unwrap_or(shipped.handles),
        watches: file.watches.unwrap_or(shipped.watches),
        timers: file.timers.unwrap_or(shipped.timers),
        buffered_bytes: bytes(file.buffered, shipped.buffered_bytes),
        bandwidth_bytes_per_s: file.bandwidth.map(|size| size.0),
        ..shipped
    }
}

fn compile_limits(file: &WasmLimitsFile) -> CompileLimits {
    let shipped = CompileLimits::default();
    CompileLimits {
        bytes: file.module.map_or(shipped.bytes, |size| size.0),
        function_bytes: file.function.map_or(shipped.function_bytes, |size| size.0),
        cpu_time: file.compile_time.map_or(shipped.cpu_time, |time| time.0),
        memory_bytes: file.compile_memory.map_or(shipped.memory_bytes, |size| size.0),
    }
}

/// Whether a program is there and may be run.
fn find_program(command: &str, folder: &Path) -> Result<(), String> {
    if command.is_empty() {
        return Err("say which program to run".into());
    }
    if command.contains('/') {
        let path = folder.join(command);
        return match std::fs::metadata(&path) {
            Err(error) => Err(format!("{}: {}", path.display(), reason(&error))),
            Ok(metadata) if metadata.is_dir() => Err(format!("{} is a folder", path.display())),
            Ok(_) if access(&path, Access::EXEC_OK).is_err() => {
                Err(format!("{0} may not be run; `chmod +x {0}`", path.display()))
            }
            Ok(_) => find_interpreter(&path, folder),
        };
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |path: PathBuf| path.is_file() && access(&path, Access::EXEC_OK).is_ok();
    if std::env::split_paths(&paths).any(|path| is_there(path.join(command))) {
        return Ok(());
    }
    if folder.join(command).is_file() {
        return Err(format!(
            "no program {command:?} is in PATH; for the file beside the manifest write \"./{command}\""
        ));
    }
    match command.split_once(' ') {
        Some(_) => Err(format!("no program {command:?} is in PATH; each argument is an element of the list")),
        None => Err(format!("no program {command:?} is in PATH")),
    }
}

/// Whether the program is there that the first line of a script names: what is no script has none.
fn find_interpreter(path: &Path, folder: &Path) -> Result<(), String> {
    let mut line = Vec::new();
    // A program that may be run but not read is none of our business.
    let Ok(file) = std::fs::File::open(path) else { return Ok(()) };
    let _ = file.take(INTERPRETER_BYTES_MAX).read_to_end(&mut line);
    let Some(line) = line.strip_prefix(b"#!") else { return Ok(()) };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_start();
    let name = line.split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
    let name = OsStr::from_bytes(name);
    match access(folder.join(name), Access::EXEC_OK) {
        Ok(()) => Ok(()),
        Err(_) => Err(format!("{}: its first line names {name:?}, which is not there", path.display())),
    }
}

/// Whether a module or component is there.
fn find_module(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("{shown}: {}", reason(&error));
    // Opening anything else might wait for ever.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(format!("{shown} is not a file"));
    }
    let mut file = std::fs::File::open(path).map_err(unreadable)?;
    let mut header = [0; 4];
    match file.read_exact(&mut header) {
        Ok(()) if header == *b"\0asm" => Ok(()),
        _ => Err(format!(
            "{shown} is not WebAssembly: it begins with neither a module's nor a component's header"
        )),
    }
}
