//! `cargo xtask sdk`: builds and tests the SDKs of `sdk/`, each by a script of its own, against the daemon that is built here.

use crate::command::{cargo, root, run, target_dir};
use crate::mcp;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// What every SDK has: it installs what it needs, tests everything, and ends with a line `N passed, M failed, K skipped`.
const SCRIPT: &str = "ci.sh";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Which ones, by their folder in sdk/; all of them if none is named.
    languages: Vec<String>,
}

pub(crate) fn run_sdks(arguments: &Arguments) -> Result<()> {
    let all = languages()?;
    if let Some(unknown) = arguments.languages.iter().find(|name| !all.contains(name)) {
        bail!("there is no SDK `{unknown}`; there are {}", all.join(", "));
    }
    run(&mut build())?;
    mcp::build(false)?;
    let chosen = if arguments.languages.is_empty() { &all } else { &arguments.languages };
    chosen.iter().try_for_each(|language| run(&mut test(language)?))
}

/// The SDKs that are there: the folders with a script.
pub(crate) fn languages() -> Result<Vec<String>> {
    let folder = root().join("sdk");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join(SCRIPT).is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// Builds the daemon as the tests of the workspace do, which is why nothing is left to be done after them: a test of the program needs the
/// program, and `cargo build` would leave out the features that tests ask for and compile half of the workspace a second time.
pub(crate) fn build() -> Command {
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-run", "--test", "check"]);
    command
}

/// Tests one SDK.
pub(crate) fn test(language: &str) -> Result<Command> {
    let target = absolute(target_dir());
    let folder = target.join("sdk").join(language);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut command = Command::new(root().join("sdk").join(language).join(SCRIPT));
    command.env("MAINSPRING", target.join("debug/mainspring")).env("SDK_TARGET", folder);
    Ok(command)
}

/// A target folder that is named by a relative path begins at the top of the repository, as cargo is run there.
fn absolute(folder: PathBuf) -> PathBuf {
    root().join(folder)
}
