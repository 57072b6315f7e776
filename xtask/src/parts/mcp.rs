//! `cargo xtask mcp`: the program that speaks the Model Context Protocol, a workspace of its own.

use crate::command::{cargo, root, run, target_dir};
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The name of the program.
const PROGRAM: &str = "mainspring-mcp";

#[derive(clap::Args)]
pub(crate) struct McpArguments {
    /// Optimised, beside target/release/mainspring.
    #[arg(long)]
    pub(crate) release: bool,
}

pub(crate) fn run_mcp(arguments: &McpArguments) -> Result<()> {
    build(arguments.release).map(drop)
}

/// Builds it, and puts it where `mainspring` of the same profile finds it.
pub(crate) fn build(release: bool) -> Result<PathBuf> {
    let mut command = mcp_cargo("build");
    command.arg("--quiet");
    if release {
        command.arg("--release");
    }
    run(&mut command)?;
    let profile = if release { "release" } else { "debug" };
    let made = root().join(folder()).join(profile).join(PROGRAM);
    let place = root().join(target_dir()).join(profile);
    fs::create_dir_all(&place).with_context(|| format!("cannot create {}", place.display()))?;
    let beside = place.join(PROGRAM);
    // One that runs cannot be written to, but it can be replaced.
    let _ = fs::remove_file(&beside);
    fs::copy(&made, &beside)
        .with_context(|| format!("cannot copy {} to {}", made.display(), beside.display()))?;
    Ok(beside)
}

/// Cargo in that workspace, with a folder of its own.
pub(crate) fn mcp_cargo(subcommand: &str) -> Command {
    let mut command = cargo();
    command.arg(subcommand).arg("--manifest-path").arg(root().join("crates/mcp/Cargo.toml"));
    if subcommand != "fmt" {
        command.arg("--target-dir").arg(folder());
    }
    command
}

fn folder() -> PathBuf {
    target_dir().join("mcp")
}
