//! The daemon under test, with its shipped defaults.

use crate::peers;
use crate::process::{Address, Server};
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts the daemon with nothing but its defaults: `Memory.Set` is its own.
pub(crate) fn native(folder: &Path) -> Result<(Server, Address), String> {
    native_with(folder, "native", &[])
}

/// The same under another name, with further words on its command line.
pub(crate) fn native_with(folder: &Path, name: &str, more: &[&str]) -> Result<(Server, Address), String> {
    let words = [&["--no-config"], more].concat();
    start(folder, name, &words)
}

/// Starts the daemon with a capability that runs as a child process.
pub(crate) fn with_process(folder: &Path) -> Result<(Server, Address), String> {
    with_process_and(folder, "process", &[])
}

/// The same under another name, with further words on its command line.
pub(crate) fn with_process_and(
    folder: &Path,
    name: &str,
    more: &[&str],
) -> Result<(Server, Address), String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = format!("process = [{:?}, \"program\"]", this.display().to_string());
    with_capability(folder, name, &program, more)
}

/// Starts the daemon with a capability that runs as a guest.
pub(crate) fn with_guest(folder: &Path) -> Result<(Server, Address), String> {
    let guest = peers::guest()?;
    with_capability(folder, "guest", &format!("wasm = {:?}", guest.display().to_string()), &[])
}

fn with_capability(
    folder: &Path,
    name: &str,
    program: &str,
    more: &[&str],
) -> Result<(Server, Address), String> {
    let manifest = folder.join(format!("{name}.capability.toml"));
    let config = folder.join(format!("{name}.toml"));
    // The same schema as that of Memory.Set. The mailbox takes the deepest load of the suite at
    // once.
    let text = format!(
        r#"id = "bench"
description = "Answers each request with its own data."
limits = {{ concurrency = 256, mailbox_messages = 32768, mailbox_bytes = "64MiB" }}

[inbound.properties]
kind = {{ const = "command" }}
type = {{ const = "Bench.Set" }}

[inbound.properties.data]
type = "object"
properties = {{ key = {{ type = "string", minLength = 1, maxLength = 512 }}, value = {{}} }}
required = ["key", "value"]
additionalProperties = false

[program]
{program}
"#
    );
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    write(&manifest, &text)?;
    write(&config, &format!("manifests = [{:?}]\n", manifest.display().to_string()))?;
    let config = config.display().to_string();
    start(folder, name, &[&["--config", &config], more].concat())
}

pub(crate) fn start(folder: &Path, name: &str, words: &[&str]) -> Result<(Server, Address), String> {
    let socket = folder.join(format!("{name}.sock")).display().to_string();
    let address = Address::Unix(socket.clone());
    let mut command = Command::new(peers::mainspring()?);
    command.arg("up").args(words).args(["--log-level", "warn", "--socket", &socket]);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    let server = Server::start(&mut command, &address)?;
    Ok((server, address))
}
