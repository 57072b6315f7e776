//! Whether a program is there.

use crate::system::files::reason;
use rustix::fs::{Access, access};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How much of the first line of a script the operating system looks at.
const INTERPRETER_BYTES_MAX: u64 = 256;

/// Whether a program is there and may be run.
pub(in crate::config) fn find_program(command: &str, folder: &Path) -> Result<(), String> {
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
#[cfg(feature = "guests")]
pub(in crate::config) fn find_module(path: &Path) -> Result<(), String> {
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
