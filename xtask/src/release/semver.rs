//! `cargo xtask semver`: whether what is public fits the version, by comparing it with a release.
//!
//! Before 1.0 a break needs a new minor version, an addition a new patch. `cargo-semver-checks`
//! reads the documentation of both as JSON; it does not read what code does.

use crate::command::{root, run};
use crate::machine::tools::Tool;
use crate::release::package;
use anyhow::{Result, bail};
use std::process::Command;

const SEMVER_CHECKS: Tool = Tool { name: "cargo-semver-checks", version: "0.51.0", features: "" };
/// How releases are tagged.
const TAGS: &str = "v*";

#[derive(clap::Args)]
pub(crate) struct SemverArguments {
    /// What to compare with [default: the last tagged release before this commit].
    #[arg(long, value_name = "REVISION")]
    baseline: Option<String>,
}

pub(crate) fn run_semver(arguments: &SemverArguments) -> Result<()> {
    let Some(baseline) = arguments.baseline.clone().or_else(last_release) else {
        println!("there is no release to compare with; `--baseline REVISION` names something else");
        return Ok(());
    };
    let libraries = package::libraries()?;
    if libraries.is_empty() {
        bail!("no library is published");
    }
    let mut command = Command::new(SEMVER_CHECKS.path()?);
    command.current_dir(root()).args(["semver-checks", "--baseline-rev", &baseline]);
    for name in libraries {
        command.args(["--package", &name]);
    }
    run(&mut command)
}

fn last_release() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--tags", "--abbrev=0", "--match", TAGS]).current_dir(root());
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|tag| !tag.is_empty())
}
