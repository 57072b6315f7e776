//! `mainspring-mcp`: the program that speaks the Model Context Protocol, beside this one.
//!
//! It is a program of its own because of what it is made of: a runtime and a library that the
//! daemon has no use for. What it is told goes through a file in memory, so that no token is seen
//! in a list of processes.

use crate::cli::support::target::Failure;
use rustix::fs::MemfdFlags;
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The name of the program.
const PROGRAM: &str = "mainspring-mcp";
/// The variable that names it, where it is neither beside this program nor in `PATH`.
const PROGRAM_VARIABLE: &str = "MAINSPRING_MCP";

/// The program: where a variable says, beside this one, or by `PATH`.
fn program() -> PathBuf {
    if let Some(path) = std::env::var_os(PROGRAM_VARIABLE).filter(|path| !path.is_empty()) {
        return path.into();
    }
    // Of a program that was replaced meanwhile, the name says so after a space.
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join(PROGRAM)));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PROGRAM.into())
}

fn missing(error: &std::io::Error) -> Failure {
    Failure::Refused(match error.kind() {
        std::io::ErrorKind::NotFound => format!(
            "there is no {PROGRAM} beside this program, nor in PATH. Archives and packages have it; from source, `cargo install --locked --path crates/mcp` \
             installs it, or `cargo xtask mcp --release` puts it beside target/release/mainspring ({PROGRAM_VARIABLE} names another)"
        ),
        _ => format!("{PROGRAM} cannot be started: {error}"),
    })
}

/// Goes on as that program, with these settings.
pub(in crate::cli) fn become_with(command: &str, settings: &Value) -> Failure {
    match settings_file(settings) {
        Ok((file, path)) => {
            let error = Command::new(program()).args([command, &path]).exec();
            drop(file);
            missing(&error)
        }
        Err(failure) => failure,
    }
}

/// Goes on as that program, with these words.
pub(in crate::cli) fn become_words(command: &str, words: &[String]) -> Failure {
    missing(&Command::new(program()).arg(command).args(words).exec())
}

/// Runs that program with these settings, and reads what it prints.
pub(in crate::cli) fn ask(command: &str, settings: &Value) -> Result<Value, Failure> {
    let (file, path) = settings_file(settings)?;
    let output = Command::new(program())
        .args([command, &path])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| missing(&error))?;
    drop(file);
    if !output.status.success() {
        // It has said why.
        return Err(Failure::Told);
    }
    serde_json::from_slice(&output.stdout).map_err(|error| {
        Failure::Refused(format!("{PROGRAM} printed something else than it should: {error}"))
    })
}

/// A file in memory that the other program inherits, and its name there.
fn settings_file(settings: &Value) -> Result<(File, String), Failure> {
    let failed = |error: std::io::Error| Failure::Refused(format!("no memory for settings: {error}"));
    let memory =
        rustix::fs::memfd_create("settings", MemfdFlags::empty()).map_err(|errno| failed(errno.into()))?;
    let mut file = File::from(memory);
    file.write_all(settings.to_string().as_bytes()).map_err(failed)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok((file, path))
}
